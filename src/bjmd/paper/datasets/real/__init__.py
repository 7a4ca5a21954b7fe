"""The real data sets, a file each.  A file here that defines DATASET is all it takes to add one; see docs/data.md."""
