"""One folder for every real data set: its facts in dataset.toml, its functions in __init__.py."""
