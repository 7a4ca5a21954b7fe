"""How the Dirichlet columns of a fit respond to a pull: the kernels of analysis/intervals.py.

Columns are the last axis of every array, and symmetric K x K matrices are packed (lanes.packed).
docs/derivation.md, 4.4 and 4.11, has the formulas.
"""

import numpy as np

from bjmd.numerics.lanes import LANES, cholesky, compiled, gamma_functions, invert_factor, packed


@compiled
def curvatures(g, t, alpha, gram, gaps, out):
    """Fill `out` (packed) with -f'' in ln g of every column; return <G_j, Cov[h_j]> of each.

    f = E[ln p(x_j, h_j)] - E[ln q(h_j)] is the objective of a column at its maximum, where f' = 0
    expresses the linear term by the others, so that no data are needed.  G_j is `gram` less the
    column of `gaps`, which has no rows where nothing is missing.
    """
    size, n_columns = g.shape
    total = alpha.sum()
    explained = np.empty(n_columns)
    points = np.empty((size + 1, LANES))
    functions = np.empty((4, size + 1, LANES))
    product = np.empty((size, LANES))
    diagonal = np.empty((size, LANES))
    slope = np.empty((size, LANES))
    cross = np.empty((size, LANES))
    level = np.empty(LANES)
    quadratic = np.empty(LANES)
    inner = np.empty(LANES)
    grams = np.empty((len(gram), LANES))
    for first in range(0, n_columns, LANES):
        n_block = min(LANES, n_columns - first)
        for lane in range(LANES):
            points[size, lane] = 0.0
        for k in range(size):
            for lane in range(LANES):
                points[k, lane] = g[k, first + min(lane, n_block - 1)]
                points[size, lane] += points[k, lane]
        gamma_functions(points, functions)
        for place in range(len(gram)):
            for lane in range(LANES):
                grams[place, lane] = gram[place]
        for place in range(len(gaps)):
            for lane in range(n_block):
                grams[place, lane] -= gaps[place, first + lane]
        for lane in range(LANES):
            quadratic[lane] = 0.0
            inner[lane] = 0.0
        for k in range(size):
            for lane in range(LANES):
                product[k, lane] = 0.0
                diagonal[k, lane] = grams[packed(k, k), lane]
            for p in range(size):
                place = packed(k, p)
                for lane in range(LANES):
                    product[k, lane] += grams[place, lane] * points[p, lane]
        for lane in range(n_block):
            s = points[size, lane]
            variance = 0.0
            for k in range(size):
                variance += points[k, lane] / s * (diagonal[k, lane] - product[k, lane] / s)
            explained[first + lane] = variance / (s + 1.0)
        for k in range(size):
            for lane in range(n_block):
                s = points[size, lane]
                precision = t[first + lane]
                linear = 2.0 * product[k, lane] + diagonal[k, lane]
                slope[k, lane] = functions[2, size, lane] * (total - s) - functions[2, k, lane] * (
                    alpha[k] - points[k, lane]
                )
                cross[k, lane] = slope[k, lane] / s - precision * linear / (
                    2.0 * s * (s + 1.0) ** 2
                )
                quadratic[lane] += points[k, lane] * (product[k, lane] + diagonal[k, lane])
                inner[lane] += points[k, lane] * (
                    slope[k, lane] + precision * linear / (2.0 * s * (s + 1.0))
                )
        for lane in range(n_block):
            s = points[size, lane]
            level[lane] = (
                t[first + lane] * quadratic[lane] * (s**-3 - (s + 1.0) ** -3)
                - 2.0 * inner[lane] / s**2
                - functions[2, size, lane]
                - (s - total) * functions[3, size, lane]
            )
        for k in range(size):
            for p in range(k + 1):
                place = packed(k, p)
                for lane in range(n_block):
                    s = points[size, lane]
                    value = t[first + lane] / (s * (s + 1.0)) * grams[place, lane]
                    value += cross[k, lane] + cross[p, lane] + level[lane]
                    if k == p:
                        value += (
                            functions[2, k, lane]
                            + (points[k, lane] - alpha[k]) * functions[3, k, lane]
                        )
                    out[place, first + lane] = points[k, lane] * value * points[p, lane]
    return explained


@compiled
def covariances(curvature, m, flattest, out):
    """Fill `out` with J A^-1 J of every column, J = diag(m) - mm'; all are packed.

    Returns whether A^-1 is certain to have no eigenvalue above 1 / flattest, by its trace.  Where
    it is not, the column of `out` is not to be used.
    """
    size, n_columns = m.shape
    a = np.empty((size, size, LANES))
    shift = np.empty(LANES)
    trace = np.empty(LANES)
    steep = np.empty(n_columns, dtype=np.bool_)
    for first in range(0, n_columns, LANES):
        n_block = min(LANES, n_columns - first)
        for k in range(size):
            for p in range(k + 1):
                place = packed(k, p)
                for lane in range(LANES):
                    a[k, p, lane] = curvature[place, first + min(lane, n_block - 1)]
        smallest = cholesky(a)
        invert_factor(a)
        for lane in range(LANES):
            trace[lane] = 0.0
        for i in range(size):  # row i of L^-1 becomes row i of L^-1 J
            for lane in range(LANES):
                shift[lane] = 0.0
            for k in range(i + 1):
                for lane in range(n_block):
                    trace[lane] += a[i, k, lane] * a[i, k, lane]
                    shift[lane] += a[i, k, lane] * m[k, first + lane]
            for k in range(size):
                for lane in range(n_block):
                    value = a[i, k, lane] if k <= i else 0.0
                    a[i, k, lane] = m[k, first + lane] * (value - shift[lane])
        for lane in range(n_block):
            steep[first + lane] = smallest[lane] > 0.0 and trace[lane] * flattest < 1.0
        for k in range(size):
            for p in range(k + 1):
                place = packed(k, p)
                for lane in range(n_block):
                    out[place, first + lane] = 0.0
                for i in range(size):
                    for lane in range(n_block):
                        out[place, first + lane] += a[i, k, lane] * a[i, p, lane]
    return steep


@compiled
def add_sandwiches(covariance, inner, weights):
    """Add weight S P S to every packed S in place, with one symmetric P for all."""
    size = len(inner)
    n_columns = covariance.shape[1]
    half = np.empty((size, size, LANES))
    added = np.empty((len(covariance), LANES))
    for first in range(0, n_columns, LANES):
        n_block = min(LANES, n_columns - first)
        for k in range(size):
            for p in range(size):
                for lane in range(n_block):
                    half[k, p, lane] = 0.0
                for i in range(size):
                    place = packed(i, p)
                    for lane in range(n_block):
                        half[k, p, lane] += inner[k, i] * covariance[place, first + lane]
        for k in range(size):
            for p in range(k + 1):
                place = packed(k, p)
                for lane in range(n_block):
                    added[place, lane] = 0.0
                for i in range(size):
                    other = packed(k, i)
                    for lane in range(n_block):
                        added[place, lane] += covariance[other, first + lane] * half[i, p, lane]
        for place in range(len(covariance)):
            for lane in range(n_block):
                covariance[place, first + lane] += weights[first + lane] * added[place, lane]


@compiled
def traces_of_sandwiches(covariance, inner):
    """tr(S P S) of every column, both packed."""
    n_columns = covariance.shape[1]
    size = int(np.sqrt(2.0 * len(covariance)))
    out = np.zeros(n_columns)
    square = np.empty(LANES)
    for first in range(0, n_columns, LANES):
        n_block = min(LANES, n_columns - first)
        for k in range(size):
            for p in range(k + 1):
                for lane in range(n_block):
                    square[lane] = 0.0
                for i in range(size):
                    left = packed(k, i)
                    right = packed(i, p)
                    for lane in range(n_block):
                        square[lane] += (
                            covariance[left, first + lane] * covariance[right, first + lane]
                        )
                place = packed(k, p)
                twice = 1.0 if k == p else 2.0
                for lane in range(n_block):
                    out[first + lane] += twice * square[lane] * inner[place, first + lane]
    return out
