"""Which component of one run is which component of another: components come out in a random order."""

import numpy as np
from scipy.sparse import csr_array

ALIKE = 0.9
"""Correlation of memberships from which on two components are called the same."""


def match(result, reference):
    """(partner, similarity) for every component of `reference`: its partner in `result` and how
    alike the two are.

    Alike is the correlation of the memberships over the samples of all sources; the pairs are those
    of the largest sum.  Memberships are compared, not patterns: they have no offset that all
    components share and that would make any two of them look alike.
    """
    from scipy.sparse.csgraph import (
        min_weight_full_bipartite_matching,
    )  # imported in a third of scipy.optimize's time

    similarity = _correlations(np.hstack(reference.memberships), np.hstack(result.memberships))
    rows, partner = min_weight_full_bipartite_matching(
        csr_array(3 - similarity)
    )  # where no weight may be zero
    return partner, similarity[rows, partner]


def similarities(results):
    """How alike every component of the first result is to its partner in each other result: runs x
    components.
    """
    first, *others = results
    return np.array([match(other, first)[1] for other in others]).reshape(
        len(others), first.n_components
    )


def _correlations(a, b):
    """Correlation of every row of a with every row of b; two constant rows count as alike, one as
    unlike any other.
    """
    a, constant_a = _standardised(a)
    b, constant_b = _standardised(b)
    return np.clip(a @ b.T, -1, 1) + np.outer(constant_a, constant_b)


def _standardised(rows):
    centred = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    constant = norms <= 1e-9 * np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(constant, 0.0, centred / np.where(constant, 1.0, norms)), constant.ravel()
