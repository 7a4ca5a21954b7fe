"""One file a data set; each ends in a `bjmd.Sources`."""
