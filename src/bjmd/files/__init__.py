"""People's files become sources (readers, tables), and fits become files (outputs)."""
