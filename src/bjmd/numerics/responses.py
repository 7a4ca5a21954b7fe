"""How the Dirichlet columns of a fit respond to a pull, for analysis/intervals.py.

docs/derivation.md, 4.4 and 4.11, has the formulas.  Columns are the first axis of every matrix.
"""

import numpy as np

from bjmd.numerics import moments
from bjmd.numerics.lanes import compiled, gamma_functions

FLATTEST = 1e-3
"""The least curvature of a column in ln g; a column that has not settled could have none."""


def curvatures(g, t, alpha, gram, gaps):
    """-f'' in ln g of every column of g (K x N), N x K x K, and <G_j, Cov[h_j]> of each.

    f = E[ln p(x_j, h_j)] - E[ln q(h_j)] is the objective of a column at its maximum, where f' = 0
    expresses the linear term by the others, so that no data are needed.  G_j is `gram` less the
    packed column of `gaps`, which has no rows where nothing is missing.
    """
    grams = gram - moments.unpack(gaps.T, len(g)) if len(gaps) else gram
    s = g.sum(axis=0)
    functions = np.empty((4, len(g) + 1, len(s)))
    _gamma_functions(np.vstack([g, s]), functions)
    (*psi1, psi1_s), (*psi2, psi2_s) = functions[2:]
    g, psi1, psi2 = (np.stack(rows, axis=1) for rows in (g, psi1, psi2))
    s, t, psi1_s, psi2_s = (numbers[:, None] for numbers in (s, t, psi1_s, psi2_s))
    diagonal = np.diagonal(grams, axis1=-2, axis2=-1)
    product = (grams @ g[:, :, None])[:, :, 0]
    explained = (g / s * (diagonal - product / s)).sum(axis=1) / (s[:, 0] + 1)

    slope = psi1_s * (alpha.sum() - s) - psi1 * (alpha - g)  # t L', since f' = 0
    linear = t * (2 * product + diagonal) / (2 * s * (s + 1))
    cross = slope / s - linear / (s + 1)
    quadratic = (g * (product + diagonal)).sum(axis=1, keepdims=True)
    level = t * quadratic * (s**-3.0 - (s + 1) ** -3.0) - psi1_s - (s - alpha.sum()) * psi2_s
    level -= 2 * (g * (slope + linear)).sum(axis=1, keepdims=True) / s**2
    bend = (t / (s * (s + 1)))[:, :, None] * grams + cross[:, :, None] + cross[:, None]
    bend += level[:, :, None]
    places = np.arange(g.shape[1])
    bend[:, places, places] += psi1 + (g - alpha) * psi2
    return g[:, :, None] * bend * g[:, None], explained


def covariances(curvature, m):
    """J A^-1 J of every column, J = diag(m) - mm', given A and m (N x K); the eigenvalues of A are
    at least FLATTEST.
    """
    try:
        root = np.linalg.inv(np.linalg.cholesky(curvature)).transpose(0, 2, 1)
    except np.linalg.LinAlgError:
        root = np.full_like(curvature, np.inf)
    flat = ~((root**2).sum(axis=(1, 2)) * FLATTEST < 1)  # by the trace of A^-1
    if flat.any():
        values, vectors = np.linalg.eigh(curvature[flat])
        root[flat] = vectors / np.sqrt(np.maximum(values, FLATTEST))[:, None]
    root = m[:, :, None] * (root - m[:, None] @ root)
    return root @ root.transpose(0, 2, 1)


@compiled
def _gamma_functions(x, out):
    gamma_functions(x, out)
