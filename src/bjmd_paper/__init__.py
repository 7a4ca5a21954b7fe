"""All that serves the reproduction of the paper, and nothing else; nothing outside imports it."""
