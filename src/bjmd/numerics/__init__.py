"""What the algorithms are made of: many small problems solved at once, in compiled code."""
