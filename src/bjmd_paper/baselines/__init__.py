"""The methods that BJMD is compared with, and the paper's ADVI: one file per method."""
