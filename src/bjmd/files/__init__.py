"""People's files become sources, and fits become files."""
