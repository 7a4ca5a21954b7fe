"""Which component of one run is which component of another: their order is random."""

import numpy as np

ALIKE = 0.9
"""The correlation of memberships from which two components count as the same."""


def match(result, reference):
    """The partner in `result` of every component of `reference`, and the correlation of the two.

    Memberships are correlated over the samples of all sources, and pairs have the largest sum of
    correlations.  Patterns would not do: an offset that all components share makes any two of them
    look alike.
    """
    from scipy.optimize import linear_sum_assignment  # which takes long to import

    correlation = _correlations(np.hstack(reference.memberships), np.hstack(result.memberships))
    rows, partner = linear_sum_assignment(correlation, maximize=True)
    return partner, correlation[rows, partner]


def similarities(results):
    """Correlations of the first result's components with their partners, other runs x K."""
    first, *others = results
    return np.array([match(other, first)[1] for other in others])


def _correlations(a, b):
    """Correlation of every row of a with every row of b; 1 for two constant rows, 0 for one."""
    rows = np.vstack([a, b])
    constant = np.ptp(rows, axis=1) <= 1e-9 * np.abs(rows).max(axis=1)
    either = constant[:, None] | constant
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(either, np.outer(constant, constant), np.corrcoef(rows))
    return correlation[: len(a), len(a) :]
