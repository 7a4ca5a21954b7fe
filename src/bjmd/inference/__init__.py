"""BJMD's algorithms, and those of the models it grew from: one file each."""
