"""The data: real/ has a file for every real data set, synthetic.py draws the paper's synthetic
data.
"""
