"""Second moments of many rows or columns, packed, and what is summed over single entries of the data.

A symmetric K x K matrix is packed as its K(K+1)/2 entries on and below the diagonal (lanes.packed).  Sums over missing
entries go through lists of places: those of row i are places[starts[i] : starts[i + 1]].
"""

import numpy as np

from bjmd.numerics.lanes import compiled


def pack(matrix):
    """The packed form of one symmetric matrix."""
    return matrix[np.tril_indices(len(matrix))]


def pack_doubled(matrix):
    """The same with entries off the diagonal doubled: <A, B> = pack_doubled(A) @ pack(B)."""
    return doubled(pack(matrix), len(matrix))


def doubled(vectors, size):
    """Packed matrices with the entries off the diagonal doubled."""
    k, p = np.tril_indices(size)
    return vectors * np.where(k == p, 1.0, 2.0)


def unpack(vectors, size):
    """Packed rows as K x K matrices."""
    k, p = np.tril_indices(size)
    out = np.empty((*vectors.shape[:-1], size, size))
    out[..., k, p] = out[..., p, k] = vectors
    return out


def places(present):
    """(starts, places) of the true entries of every row of a boolean matrix."""
    counts = present.sum(axis=1)
    return np.concatenate([[0], np.cumsum(counts)]), np.nonzero(present)[1]


@compiled
def column_moments(g):
    """E[h h'] = (s m m' + diag m) / (s + 1) of every Dirichlet column, N x K(K+1)/2."""
    size, n_columns = g.shape
    out = np.empty((n_columns, size * (size + 1) // 2))
    for j in range(n_columns):
        s = 0.0
        for k in range(size):
            s += g[k, j]
        of_square, of_diagonal = 1.0 / (s * (s + 1.0)), 1.0 / (s * (s + 1.0))
        place = 0
        for k in range(size):
            for p in range(k + 1):
                out[j, place] = of_square * g[k, j] * g[p, j]
                place += 1
            out[j, place - 1] += of_diagonal * g[k, j]
    return out


@compiled
def sums_over_places(starts, places, vectors, weights):
    """out[i] = sum of weights[j] vectors[j] over the places j of row i."""
    n_rows, width = len(starts) - 1, vectors.shape[1]
    out = np.zeros((n_rows, width))
    for i in range(n_rows):
        for place in range(starts[i], starts[i + 1]):
            j = places[place]
            for p in range(width):
                out[i, p] += weights[j] * vectors[j, p]
    return out


@compiled
def fill(w, h, scale, base, rows, columns, out):
    """out[i, j] = base_i + scale w_i'h_j at the given places; returns the sum of (w_i'h_j)^2."""
    total = 0.0
    for place in range(len(rows)):
        i, j = rows[place], columns[place]
        value = 0.0
        for k in range(w.shape[1]):
            value += w[i, k] * h[j, k]
        out[i, j] = base[i] + scale * value
        total += value * value
    return total


@compiled
def weighted_squares(z, shift, of_rows, of_columns, rows, columns):
    """Add q_j (z_ij - shift_i)^2 to rows[i] and phi_i (z_ij - shift_i)^2 to columns[j]; NaN counts as nothing."""
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            difference = z[i, j] - shift[i]
            square = difference * difference
            if square == square:
                rows[i] += of_columns[j] * square
                columns[j] += of_rows[i] * square


@compiled
def downweighted(x, fit, precision, of_rows, of_columns, nu, z, spread_of_rows, spread_of_columns):
    """Student's t by pseudo-data: v = 1 / (1 + w r^2 / nu), r = x - fit, w = precision phi_i u_j, and z = fit + v r.

    Overwrites z, adds u_j v (1 - v) r^2 to spread_of_rows and phi_i v (1 - v) r^2 to spread_of_columns; NaN becomes the
    fit.  Returns the sums of v, of ln(1 + w r^2 / nu) and the number of entries.
    """
    total, logarithms, count = 0.0, 0.0, 0
    product, in_product = 1.0, 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            r = x[i, j] - fit[i, j]
            if r != r:
                z[i, j] = fit[i, j]
                continue
            share = precision * of_rows[i] * of_columns[j] * r * r / nu
            v = 1.0 / (1.0 + share)
            z[i, j] = fit[i, j] + v * r
            spread = v * (1.0 - v) * r * r
            spread_of_rows[i] += of_columns[j] * spread
            spread_of_columns[j] += of_rows[i] * spread
            total += v
            count += 1
            product *= 1.0 + share  # a logarithm of eight factors at once
            in_product += 1
            if in_product == 8 or product > 1e100:
                logarithms += np.log(product)
                product, in_product = 1.0, 0
    return total, logarithms + np.log(product), count
