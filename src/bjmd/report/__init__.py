"""The figures, tables, text and page of one fit, in one style."""
