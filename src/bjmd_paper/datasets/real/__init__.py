"""The real data sets, a folder or a file each.  A module here that defines DATASET adds one; see
docs/data.md.
"""
