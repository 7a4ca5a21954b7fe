"""The data: real/ has a folder for every real data set, synthetic.py draws the paper's data."""
