"""Bayesian joint matrix decomposition: shared patterns in several data sources, each with its own noise."""

__version__ = "0.1.0"
