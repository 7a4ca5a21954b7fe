"""A source as a sweep sees it: in the unit and from the origin of the data, with missing entries
left out.

    z_ij = (x_ij - origin_i) / unit - shift_i         and 0 where x_ij is missing

Neither unit nor origin nor shift is applied to the data; products are corrected for them,

    (X - o1')H' = XH' - o (H1)',      W'(X - o1') = W'X - (W'o) 1',

so sparse data stay sparse and sources larger than memory stay where they are.  Only a source in
memory with missing entries is copied, and its missing entries are set to whatever makes z zero.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bjmd.data.matrix import as_matrix, cut, residual_sum_of_squares
from bjmd.numerics import moments
from bjmd.numerics.moments import Places

CANCELS = 1e-6
BLOCK = 2**20
"""The share of its parts below which a residual is computed entry by entry, and the numbers in a
block of it.
"""

ROUNDING = 1e-28
"""The share of ||X||^2 around the means below which the data are constant up to rounding."""

UNIT_OF_CONSTANTS = 1e-6
"""The unit of data that are constant, over their root mean square: far above rounding."""

NORMAL_OVER_MEDIAN = 1.4826
"""The sd of a normal distribution over the median of its absolute values."""


class View:
    """One source; `shift` may change between sweeps (`move`), and so may the matrix if it is not
    constant.
    """

    def __init__(self, x, unit=1.0, origin=0.0, constant=True):
        data = as_matrix(x)
        self.shape = data.shape
        self.unit = unit
        self.origin = np.zeros(data.shape[0]) + origin
        self.constant = constant
        self.missing = data.missing  # a boolean CSC matrix or None
        self.matrix = data.fillable()
        self._data = data
        self.move(0.0)

    @cached_property
    def by_row(self):
        return Places.of(self.missing)

    @cached_property
    def by_column(self):
        return Places.of(self.missing.T)

    def move(self, shift):
        """Set the shift, in units of z."""
        self.shift = shift
        self.base = self.origin + self.unit * shift  # in units of x
        self.is_plain = self.unit == 1 and not self.base.any()
        if self.missing is not None:
            self.matrix.fill(self.base[self._data.places[0]])

    def fill(self, wt, h):
        """Set every missing z_ij to w_i'h_j, given W' (K x M) and H (K x N); the sum of their
        squares.

        A point estimate takes missing entries for unknowns: at their best values they add nothing
        to its objective.
        """
        if self.missing is None:
            return 0.0
        w, h = (np.ascontiguousarray(factor.T) for factor in (wt, h))
        filled = np.empty(self._data.n_missing)
        total = moments.fill(w, h, self.unit, self.base, *self._data.places, filled)
        self.matrix.fill(filled)
        return total

    def times_memberships(self, h):
        """(Z H')': K x M."""
        product = self.matrix.times_memberships(h)
        if not self.is_plain:
            product -= h.sum(axis=1)[:, None] * self.base
            product /= self.unit
        return product

    def times_components(self, wt):
        """W'Z, given W' (K x M): K x N."""
        product = self.matrix.times_components(wt)
        if not self.is_plain:
            product -= (wt @ self.base)[:, None]
            product /= self.unit
        return product

    def residual_sum_of_squares(self, wt, h, squared_norm, gram, projection):
        """||Z - WH||^2 from its parts, or entry by entry where their difference would be mostly
        rounding.
        """
        rss = residual_sum_of_squares(squared_norm, gram, projection, h)
        # a source that is its own origin has no norm, but these
        parts = squared_norm + np.vdot(np.abs(gram), h @ h.T)
        if rss > CANCELS * parts or not self.matrix.in_memory:
            return rss
        rss = 0.0
        for part in cut(self.shape[1], self.shape[0], BLOCK):
            z = (self.matrix.columns(part) - self.base[:, None]) / self.unit
            rss += np.sum((z - wt.T @ h[:, part]) ** 2)
        return rss

    def sums_of_rows(self, weights=1.0):
        """sum_j u_j z_ij."""
        if isinstance(weights, np.ndarray) or not self.constant:
            return self.times_memberships(np.ones((1, self.shape[1])) * weights)[0]
        return self.counts_of_rows() * (self._data.means_of_rows - self.base) / self.unit

    def squares_of_rows(self, weights=1.0):
        """sum_j u_j z_ij^2."""
        if isinstance(weights, np.ndarray) or not self.constant:
            return self._squares(1.0, weights)[0]
        return self._data.squares_around(self.base) / self.unit**2

    @cached_property
    def _squares_of_columns(self):
        """sum_i z_ij^2 with no shift."""
        return self._data.squares(self.origin, *map(np.ones, self.shape))[1] / self.unit**2

    def squares_of_columns(self, weights=1.0):
        """sum_i phi_i z_ij^2."""
        if isinstance(weights, np.ndarray) or not self.constant:
            return self._squares(weights, 1.0)[1]
        squares = self._squares_of_columns
        if not np.any(self.shift):
            return squares
        along = self.times_components(self.shift[None])[0]  # sum_i shift_i z_ij
        return squares - 2 * along - self.counts_of_columns(self.shift**2)

    def _squares(self, of_rows, of_columns):
        of_rows = np.ones(self.shape[0]) * of_rows
        of_columns = np.ones(self.shape[1]) * of_columns
        data = self._data if self.constant else self.matrix
        rows, columns = data.squares(self.base, of_rows, of_columns)
        return rows / self.unit**2, columns / self.unit**2

    def counts_of_rows(self, weights=1.0):
        """sum_j u_j over the observed entries of every row."""
        if not isinstance(weights, np.ndarray):
            return self._data.counts_of_rows
        total = np.full(self.shape[0], weights.sum())
        return total if self.missing is None else total - self.missing @ weights

    def counts_of_columns(self, weights=1.0):
        """sum_i phi_i over the observed entries of every column."""
        if not isinstance(weights, np.ndarray):
            return self._data.counts_of_columns
        total = np.full(self.shape[1], weights.sum())
        return total if self.missing is None else total - weights @ self.missing


def centre(sources, robust=False):
    """The unit and the origin of the data: a number, and one number a feature.

    The origin is the mean of every feature over all samples, a source counting by the inverse of
    its variance; the unit is the root of the mean square around it.  `robust` takes medians
    instead, which outliers do not move, and of the distances from the origin only those that are
    not zero: most are, where most entries are zeros.
    """
    if robust:
        everything = np.hstack([x.columns(slice(None)) for x in sources.data])
        origin = np.nanmedian(everything, axis=1)
        distances = np.abs(everything - origin[:, None])
        positive = distances[distances > 0]
        unit = NORMAL_OVER_MEDIAN * np.median(positive) if len(positive) else 0.0
    else:
        origin = _weighted_means(sources)
        total = sum(x.squares_around(origin).sum() for x in sources.data)
        is_constant = total <= ROUNDING * sum(sources.squared_norms)
        unit = 0.0 if is_constant else np.sqrt(total / sum(sources.n_observed))
    size = np.sqrt(sum(sources.squared_norms) / sum(sources.n_observed))
    return float(unit or UNIT_OF_CONSTANTS * size or 1.0), origin


def _weighted_means(sources):
    """The mean of every feature, a source counting by the inverse of its variance.

    The squares of a source around its own means lack one degree of freedom for every feature,
    which is filled in by the variance of all sources together: a single sample has no variance of
    its own, and samples that are all the same know less than they seem to.
    """
    counts = [x.counts_of_rows for x in sources.data]
    sums = [n * x.means_of_rows for x, n in zip(sources.data, counts, strict=True)]
    n_means = [np.count_nonzero(n) for n in counts]
    squares = [x.squares_around(x.means_of_rows).sum() for x in sources.data]
    freedom = sum(sources.n_observed) - sum(n_means)
    pooled = sum(squares) / max(freedom, 1)
    variances = np.add(squares, np.multiply(n_means, pooled)) / sources.n_observed
    weights = pooled / variances if pooled > 0 else np.ones(len(sources))
    return (weights @ np.array(sums)) / (weights @ np.array(counts))
