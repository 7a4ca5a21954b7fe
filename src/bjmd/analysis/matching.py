"""Which component of one run is which component of another: their order is random."""

import numpy as np
from scipy.sparse import csr_array

ALIKE = 0.9
"""The correlation of memberships from which two components count as the same."""


def match(result, reference):
    """The partner in `result` of every component of `reference`, and the correlation of the two.

    Memberships are correlated over the samples of all sources, and pairs have the largest sum of
    correlations.  Patterns would not do: an offset that all components share makes any two of them
    look alike.
    """
    # it imports in a third of the time of scipy.optimize
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    correlation = _correlations(np.hstack(reference.memberships), np.hstack(result.memberships))
    # 3 - correlation, because no weight may be zero
    rows, partner = min_weight_full_bipartite_matching(csr_array(3 - correlation))
    return partner, correlation[rows, partner]


def similarities(results):
    """Correlations of the first result's components with their partners, other runs x K."""
    first, *others = results
    return np.array([match(other, first)[1] for other in others])


def _correlations(a, b):
    """Correlation of every row of a with every row of b; 1 for two constant rows, 0 for one."""
    a, constant_a = _standardised(a)
    b, constant_b = _standardised(b)
    return np.clip(a @ b.T, -1, 1) + np.outer(constant_a, constant_b)


def _standardised(rows):
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    constant = norms <= 1e-9 * np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, norms)), constant.ravel()
