"""What goes in: the sources, their products with the factors, missing entries, alignment and
preparation.
"""
