"""A source as a sweep sees it: in the unit and from the origin of the data, with missing entries
left out.

    z_ij = (x_ij - origin_i) / unit - shift_i         and 0 where x_ij is missing

Neither unit nor origin nor shift is applied to the data; products are corrected for them,

    (X - m1')H' = XH' - m (H1)',      W'(X - m1') = W'X - (W'm) 1',

so sparse data stay sparse and sources larger than memory stay where they are.  Only a source in
memory with missing entries is copied, and its missing entries are set to whatever makes z zero.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data import products
from bjmd.data.sources import missing_entries
from bjmd.data.streamed import Streamed
from bjmd.model import residual_sum_of_squares
from bjmd.numerics import moments
from bjmd.numerics.moments import Places

CANCELS = 1e-6
CANCELS_SINGLE = 1e-3
BLOCK = 2**20
"""The share of its parts below which a residual is computed entry by entry, and the numbers in a
block of it.
"""

SINGLE_FROM = 2**20
FAR = 4
"""The entries from which on float32 data are multiplied in float32, for in few the rounding does
not average out; and how many units from zero an origin is at which they are moved there first.
"""

ROUNDING = 1e-28
"""The share of ||X||^2 around the means below which data are constant but for the rounding of their
means.
"""


class View:
    """One source; `shift` may change between sweeps (`move`), and so may the matrix if it is not
    constant.
    """

    def __init__(self, x, n_missing, unit=1.0, origin=None, constant=True):
        self.shape = x.shape
        self.n_observed = x.shape[0] * x.shape[1] - n_missing
        self.unit = unit
        self.origin = origin
        self.shift = None
        self.constant = constant
        self.matrix: Any = x
        self.missing: Any = None  # a boolean matrix, sparse where the data are
        self._places: Any = None
        self._at: Any = None
        self._filled: Any = (
            None  # what a streamed source has at its missing entries, which count as 0 in it
        )
        if n_missing:
            self.missing = missing_entries(x)
            if isinstance(x, Streamed):
                self._filled = self.missing.astype(float)
                self._values = self._filled.data
                self._at = slice(None)
            elif scipy.sparse.issparse(x):
                data = x.data.astype(float)
                self.matrix = scipy.sparse.csc_array((data, x.indices, x.indptr), shape=x.shape)
                self._values = self.matrix.data
                self._at = np.flatnonzero(np.isnan(data))
            else:
                # without an origin nothing is known of cancellation, so products and what is filled
                # in are float64
                self.matrix = self._values = np.where(
                    self.missing, 0.0, x if origin is not None else x.astype(float)
                )
                self._places = self._at = np.nonzero(self.missing)
            if self._places is None:
                columns = np.repeat(np.arange(x.shape[1]), np.diff(self.missing.indptr))
                self._places = self.missing.indices.astype(np.int64), columns
        self._known: dict[str, np.ndarray] = {}
        self.move(None)

    @cached_property
    def by_row(self):
        return Places.of(self.missing)

    @cached_property
    def by_column(self):
        return Places.of(self.missing.T)

    def move(self, shift):
        """Set the shift, in units of z."""
        self.shift = shift
        self.base: np.ndarray | None = self.origin  # in units of x
        if shift is not None:
            self.base = (
                self.unit * shift if self.origin is None else self.origin + self.unit * shift
            )
        # what is taken off before a product, and what after it
        self._near = None
        self._rest = self.base
        single = isinstance(self.matrix, np.ndarray) and self.matrix.dtype == np.float32
        if single and self.base is not None and self.matrix.size >= SINGLE_FROM:
            far = np.abs(self.base).max() > FAR * self.unit
            self._near = (
                self.base.astype(np.float32)[:, None] if far else np.zeros((1, 1), dtype=np.float32)
            )
            self._rest = self.base - self._near[:, 0]
        if self.missing is not None:
            self._values[self._at] = 0.0 if self.base is None else self.base[self._places[0]]

    def fill(self, wt, h):
        """Set every missing z_ij to w_i'h_j, given W' (K x M) and H (K x N); the sum of their
        squares.

        A point estimate takes missing entries for unknowns: at their best values they add nothing
        to its objective.
        """
        if self.missing is None:
            return 0.0
        base = np.zeros(self.shape[0]) if self.base is None else self.base
        filled, total = self._at_missing(wt, h, self.unit, base)
        self._values[self._at] = filled
        return total

    def _at_missing(self, wt, h, unit, base):
        """base_i + unit w_i'h_j at every missing entry, and the sum of (w_i'h_j)^2."""
        w = np.ascontiguousarray(wt.T)
        h = np.ascontiguousarray(h.T)
        filled = np.empty(len(self._places[0]))
        return filled, moments.fill(w, h, unit, base, *self._places, filled)

    def credit_at_missing(self, wt, h):
        """sum_ij h_kj w_ik w_i'h_j over the missing entries, for every k."""
        if self.missing is None:
            return 0.0
        values, _ = self._at_missing(wt, h, 1.0, np.zeros(self.shape[0]))
        fit = scipy.sparse.csc_array((values, self._places), shape=self.shape)
        return np.einsum("ki,ik->k", wt, fit @ h.T)

    def times_memberships(self, h):
        """(Z H')': K x M."""
        product = products.data_times_memberships(self.matrix, h, self._near)
        if self._filled is not None:
            product += products.data_times_memberships(self._filled, h)
        if self._rest is not None:
            product -= np.outer(h.sum(axis=1), self._rest)
        if self.unit != 1:
            product /= self.unit
        return product

    def times_components(self, wt):
        """W'Z, given W' (K x M): K x N."""
        product = products.components_times_data(wt, self.matrix, self._near)
        if self._filled is not None:
            product += products.components_times_data(wt, self._filled)
        if self._rest is not None:
            product -= (wt @ self._rest)[:, None]
        if self.unit != 1:
            product /= self.unit
        return product

    def residual_sum_of_squares(self, wt, h, squared_norm, gram, projection):
        """||Z - WH||^2 from its parts (model.py), or entry by entry where their difference would be
        mostly rounding.
        """
        rss = residual_sum_of_squares(squared_norm, gram, projection, h)
        least = CANCELS_SINGLE if self._near is not None else CANCELS
        parts = squared_norm + np.vdot(
            np.abs(gram), h @ h.T
        )  # a source that is its own origin has no norm, but these
        if rss > least * parts or isinstance(self.matrix, Streamed):
            return rss
        base = 0.0 if self.base is None else self.base[:, None]
        rss = 0.0
        width = max(1, BLOCK // self.shape[0])
        for first in range(0, self.shape[1], width):
            x = self.matrix[:, first : first + width]
            x = x.toarray() if scipy.sparse.issparse(x) else x
            rss += np.sum(((x - base) / self.unit - wt.T @ h[:, first : first + width]) ** 2)
        return rss

    def sums_of_rows(self, weights=None):
        """sum_j q_j z_ij."""
        if weights is not None:
            return self.times_memberships(weights[None])[0]
        sums = self._once("sums", lambda: self._unshifted(self._sums))
        return sums if self.shift is None else sums - self.counts_of_rows() * self.shift

    def _sums(self):
        if not isinstance(self.matrix, Streamed):
            return self.times_memberships(np.ones((1, self.shape[1])))[0]
        return (
            self.matrix.sums_of_rows()
            - self.counts_of_rows() * (0.0 if self.base is None else self.base)
        ) / self.unit

    def squares_of_rows(self, weights=None):
        """sum_j q_j z_ij^2."""
        if weights is not None:
            return self._squares(None, weights)[0]
        squares = self._once(
            "squares", lambda: self._unshifted(lambda: self._squares(None, None)[0])
        )
        if self.shift is None:
            return squares
        sums = self.sums_of_rows() + self.counts_of_rows() * self.shift
        return squares - 2 * self.shift * sums + self.counts_of_rows() * self.shift**2

    def squares_of_columns(self, weights=None):
        """sum_i phi_i z_ij^2; not of a streamed source, which nothing asks for."""
        if isinstance(self.matrix, Streamed):
            raise TypeError(
                "the squares of the columns of a streamed source were asked for, which are not computed"
            )
        if weights is None and self.shift is None:
            return self._once("columns", lambda: self._squares(None, None)[1])
        return self._squares(weights, None)[1]

    def _once(self, name, compute):
        """What does not change while the matrix stays as it is."""
        if not self.constant:
            return compute()
        if name not in self._known:
            self._known[name] = compute()
        return self._known[name]

    def _unshifted(self, compute):
        """Something as it would be without the shift."""
        shift = self.shift
        if shift is None:
            return compute()
        self.move(None)
        result = compute()
        self.move(shift)
        return result

    def _squares(self, of_rows, of_columns):
        of_rows = np.ones(self.shape[0]) if of_rows is None else of_rows
        of_columns = np.ones(self.shape[1]) if of_columns is None else of_columns
        base = np.zeros(self.shape[0]) if self.base is None else np.ascontiguousarray(self.base)
        x = self.matrix
        columns = np.zeros(self.shape[1])
        if isinstance(x, Streamed):
            rows = x.squares_of_rows(base)
        elif scipy.sparse.issparse(x):
            # sum over the stored entries of (x - base)^2 - base^2, and base^2 for all
            stored = x.tocsc()
            rows, columns = moments.stored_squares(
                stored.data, stored.indices, stored.indptr, base, of_rows, of_columns
            )
            rows = rows + base**2 * of_columns.sum()
            columns = columns + base**2 @ of_rows
        else:
            rows, columns = moments.weighted_squares(x, base, of_rows, of_columns)
        return rows / self.unit**2, columns / self.unit**2

    def counts_of_rows(self, weights=None):
        """sum_j q_j over the observed entries of every row."""
        if weights is None and self.missing is not None:
            return self._once(
                "counts", lambda: self.shape[1] - self.missing.sum(axis=1).astype(float)
            )
        total = float(self.shape[1]) if weights is None else weights.sum()
        if self.missing is None:
            return np.full(self.shape[0], total)
        return total - self.missing @ weights

    def observed(self):
        """1 where an entry is observed, else 0, features x samples."""
        return np.ones(self.shape) if self.missing is None else np.ones(self.shape) - self.missing

    def counts_of_columns(self):
        """The number of observed entries of every column."""
        if self.missing is None:
            return np.full(self.shape[1], float(self.shape[0]))
        return self.shape[0] - self.missing.sum(axis=0).astype(float)


def centre(sources, robust=False):
    """The unit and the origin of the data: a number, and one number a feature.

    The origin is the mean of every feature over all samples, a source counting by the inverse of
    its variance; the unit is the root of the mean square around it.  `robust` takes medians
    instead, which wild entries do not move.
    """
    if robust:
        origin = np.nanmedian(everything := np.hstack(sources.matrices, dtype=float), axis=1)
        spread = np.nanmedian(np.abs(everything - origin[:, None]))
        return float(1.4826 * spread) or 1.0, origin

    def views(origin=None):
        return [
            View(x, n, origin=origin)
            for x, n in zip(sources.matrices, sources.n_missing, strict=True)
        ]

    def mean(chosen, weights):
        total = sum(w * view.sums_of_rows() for w, view in zip(weights, chosen, strict=True))
        count = sum(w * view.counts_of_rows() for w, view in zip(weights, chosen, strict=True))
        return np.divide(total, count, out=np.zeros_like(total), where=count > 0)

    plain = views()
    spreads = []
    for c, view in enumerate(plain):
        around = views(mean([view], [1.0]))[c]
        spreads.append(max(around.squares_of_rows().sum() / view.n_observed, np.finfo(float).tiny))
    origin = mean(plain, min(spreads) / np.array(spreads))
    total = sum(view.squares_of_rows().sum() for view in views(origin))
    constant = not total > ROUNDING * sum(sources.squared_norms)
    return 1.0 if constant else float(np.sqrt(total / sum(sources.n_observed))), origin
