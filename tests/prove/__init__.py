"""Long proofs of what docs/trust.md promises: `make prove`, or `make prove SCALE=0.01` for less.

Each file makes cases from whole numbers, so that a case can be repeated: `python tests/prove fits
--only 1234`.  What goes wrong in a case is a sentence.  test_properties.py runs a small, fixed
share of the same cases in `make test`.
"""
