"""Second moments of many rows or columns, packed, and what is summed over single entries of the
data.

A symmetric K x K matrix is packed as its K(K+1)/2 entries on and below the diagonal (lanes.packed).
Sums over missing entries go through lists of places: those of row i are columns[starts[i] :
starts[i + 1]].
"""

from typing import Any, NamedTuple

import numpy as np

from bjmd.numerics import threads
from bjmd.numerics.lanes import compiled


def pack(matrix):
    """The packed form of symmetric matrices, one or many."""
    return matrix[..., *np.tril_indices(matrix.shape[-1])]


def doubled(vectors, size):
    """Packed matrices with the entries off the diagonal doubled: <A, B> = doubled(A) . B."""
    k, p = np.tril_indices(size)
    return vectors * np.where(k == p, 1.0, 2.0)


def unpack(vectors, size):
    """Packed rows as K x K matrices."""
    k, p = np.tril_indices(size)
    out = np.empty((*vectors.shape[:-1], size, size))
    out[..., k, p] = out[..., p, k] = vectors
    return out


class Places(NamedTuple):
    """Where the true entries of every row of a sparse boolean matrix are."""

    starts: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, present):
        rows = present.tocsr()
        return cls(rows.indptr.astype(np.int64), rows.indices.astype(np.int64))


@compiled
def column_moments(g):
    """E[h h'] = (g g' + diag g) / (s (s + 1)) of every Dirichlet column, packed, N x K(K+1)/2."""
    size, n_columns = g.shape
    out = np.empty((n_columns, size * (size + 1) // 2))
    for j in range(n_columns):
        s = 0.0
        for k in range(size):
            s += g[k, j]
        weight = 1.0 / (s * (s + 1.0))
        place = 0
        for k in range(size):
            for p in range(k + 1):
                out[j, place] = weight * g[k, j] * g[p, j]
                place += 1
            out[j, place - 1] += weight * g[k, j]
    return out


def explained(linear, gram, gaps, m, share):
    """b_j.m_j - <G - gap_j, E[h_j h_j']> / 2 of every column, where E[hh'] = share mm' + (1 -
    share) diag m.

    share is s / (s + 1) for a Dirichlet and 1 for a point.  linear and m are K x N, gaps packed,
    K(K+1)/2 x N, or empty.
    """
    quadratic = share * (m * (gram @ m)).sum(axis=0) + (1 - share) * (np.diag(gram) @ m)
    if len(gaps):
        k, p = np.tril_indices(len(m))
        second = share * m[k] * m[p]
        second[k == p] += (1 - share) * m
        quadratic -= (second * doubled(gaps.T, len(m)).T).sum(axis=0)
    return (linear * m).sum(axis=0) - 0.5 * quadratic


def sums_over(places: Places, vectors: np.ndarray, weights: Any = 1.0) -> np.ndarray:
    """out[i] = sum of weights[j] vectors[j] over the places j of row i; weights may be 1.0."""
    weighted = vectors * weights[:, None] if np.ndim(weights) else vectors
    return _sums_over(places.starts, places.columns, weighted)


@compiled
def _sums_over(starts, places, vectors):
    n_rows = len(starts) - 1
    width = vectors.shape[1]
    out = np.zeros((n_rows, width))
    for i in range(n_rows):
        total = out[i]
        first = starts[i]
        last = starts[i + 1]
        whole = first + (last - first) // 8 * 8
        # eight at a time, so that sums are loaded and stored an eighth as often
        for place in range(first, whole, 8):
            a = vectors[places[place]]
            b = vectors[places[place + 1]]
            c = vectors[places[place + 2]]
            d = vectors[places[place + 3]]
            e = vectors[places[place + 4]]
            f = vectors[places[place + 5]]
            g = vectors[places[place + 6]]
            h = vectors[places[place + 7]]
            for p in range(width):
                total[p] += ((a[p] + b[p]) + (c[p] + d[p])) + ((e[p] + f[p]) + (g[p] + h[p]))
        for place in range(whole, last):
            a = vectors[places[place]]
            for p in range(width):
                total[p] += a[p]
    return out


@compiled
def fill(w, h, scale, base, rows, columns, out):
    """out = base_i + scale w_i'h_j at the given places; returns the sum of (w_i'h_j)^2."""
    total = 0.0
    for place in range(len(rows)):
        i = rows[place]
        j = columns[place]
        value = 0.0
        for k in range(w.shape[1]):
            value += w[i, k] * h[j, k]
        out[place] = base[i] + scale * value
        total += value * value
    return total


def weighted_squares(z, shift, of_rows, of_columns):
    """sum_j u_j (z_ij - shift_i)^2 of every row and sum_i phi_i (z_ij - shift_i)^2 of every column.

    NaN counts as nothing.
    """
    columns = np.zeros(z.shape[1])
    ranges = threads.parts(z.shape[1], 4 * z.size, 8)
    shared = z, shift, of_rows, of_columns, columns
    return sum(threads.each(lambda *ends: _weighted_squares(*ends, *shared), ranges)), columns


@compiled
def _weighted_squares(begin, end, z, shift, of_rows, of_columns, columns):
    """The rows' sums over the columns from `begin` to `end`; adds to those columns."""
    rows = np.empty(len(z))
    for i in range(len(z)):
        rows[i] = 0.0
        for j in range(begin, end):
            difference = z[i, j] - shift[i]
            square = difference * difference
            if square == square:
                rows[i] += of_columns[j] * square
                columns[j] += of_rows[i] * square
    return rows


def stored_squares(data, indices, starts, shift, of_rows, of_columns):
    """The same sums of (z_ij - shift_i)^2 - shift_i^2 over the stored entries of a CSC matrix."""
    columns = np.empty(len(of_columns))
    shared = data, indices, starts, shift, of_rows, of_columns, columns
    ranges = threads.parts(len(columns), 4 * len(data))
    return sum(threads.each(lambda *ends: _stored_squares(*ends, *shared), ranges)), columns


@compiled
def _stored_squares(begin, end, data, indices, starts, shift, of_rows, of_columns, columns):
    rows = np.zeros(len(of_rows))
    for j in range(begin, end):
        total = 0.0
        for place in range(starts[j], starts[j + 1]):
            i = indices[place]
            square = data[place] * (data[place] - 2.0 * shift[i])
            rows[i] += of_columns[j] * square
            total += of_rows[i] * square
        columns[j] = total
    return rows


@compiled
def downweighted(x, shift, fit, precision, of_rows, of_columns, nu, z, spread_of_rows, columns):
    """Student's t by pseudo-data: z = fit + v delta, v = 1/(1 + p delta^2/(nu + 1)), with delta = x
    - shift - fit and p = precision phi_i u_j (docs/model.md, 3).

    Overwrites z, adds u_j v (1 - v) delta^2 to spread_of_rows (if it has room), and to the rows of
    `columns` phi_i (z^2 + v (1 - v) delta^2), v, and ln(1 + p delta^2 / (nu + 1)).  Where x is NaN,
    z becomes 0 and nothing is added.
    """
    n_rows, n_columns = x.shape
    product = np.ones(n_columns)  # a logarithm of many factors at once
    spread = np.empty(n_columns)
    for i in range(n_rows):
        weight = precision * of_rows[i] / (nu + 1.0)
        for j in range(n_columns):
            delta = x[i, j] - shift[i] - fit[i, j]
            known = delta == delta
            delta = delta if known else 0.0
            share = weight * of_columns[j] * delta * delta
            v = 1.0 / (1.0 + share)
            value = fit[i, j] + v * delta if known else 0.0
            z[i, j] = value
            spread[j] = v * (1.0 - v) * delta * delta
            columns[0, j] += of_rows[i] * (value * value + spread[j])
            columns[1, j] += v if known else 0.0
            product[j] *= 1.0 + share
        if len(spread_of_rows):
            for j in range(n_columns):
                spread_of_rows[i] += of_columns[j] * spread[j]
        if i % 4 == 3:
            for j in range(n_columns):
                if product[j] > 1e75:
                    columns[2, j] += np.log(product[j])
                    product[j] = 1.0
    for j in range(n_columns):
        columns[2, j] += np.log(product[j])
