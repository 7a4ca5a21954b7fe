"""The rows of W: one K x K system each, in lanes.

`gaussian_rows` gives q(W) of the closed form (docs/derivation.md, 4.3), `ridge_rows` the best W of
MAP (3.1).  Both use that with D = diag(rho^-1/2)

    (P + diag rho)^-1 = D (I + D P D)^-1 D,

which stays well conditioned as rho grows.  MAP needs no covariances, so its rows are solved without
an inverse, in a third of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bjmd.numerics import moments, threads
from bjmd.numerics.lanes import (
    LANES,
    cholesky,
    compiled,
    invert_factor,
    load,
    packed,
    part,
    solve,
    store,
)


@dataclass(frozen=True)
class GaussianRows:
    """q(W): rows w_i ~ N(mu_i, S_i) with S_i = (phi_i (P - gap_i) + diag rho_i)^-1."""

    mean: np.ndarray
    """mu, K x M."""
    second_moment: np.ndarray
    """E[w_ik^2], K x M."""
    moments: np.ndarray
    """E[w_i w_i'] of every row, packed; no rows where all S_i have the same P."""
    log_determinant: float
    """sum_i ln det S_i."""
    covariance_sum: np.ndarray
    """sum_i phi_i S_i."""
    precision: np.ndarray
    """P."""
    ridge: np.ndarray
    """rho, K x M."""
    weights: Any
    """phi, or 1.0."""
    gaps: Any
    """gap_i of every row, packed, M x K(K+1)/2, or 0.0."""

    def row_precision(self):
        """phi_i (P - gap_i) of every row, M x K x K, or P where it is the same for all."""
        if not len(self.moments):
            return self.precision
        gap = moments.unpack(self.gaps, len(self.precision)) if np.ndim(self.gaps) else 0.0
        each = np.broadcast_to(self.precision, (self.mean.shape[1], *self.precision.shape)) - gap
        return np.reshape(self.weights, (-1, 1, 1)) * each

    def entropy(self):
        return 0.5 * (self.log_determinant + self.mean.size * (1 + np.log(2 * np.pi)))


def gaussian_rows(precision, linear, ridge, weights=1.0, gaps=0.0):
    """The best q(W): S_i as in `GaussianRows` and mu_i = S_i r_i, given r (`linear`, K x M)."""
    size, n_rows = linear.shape
    n_moments = n_rows if np.ndim(weights) or np.ndim(gaps) else 0
    phi = np.ones((1, n_moments)) * weights
    gap = np.ascontiguousarray(np.transpose(gaps)) if np.ndim(gaps) else np.zeros((0, n_rows))
    mean = np.empty_like(linear)
    second_moment = np.empty_like(linear)
    row_moments = np.empty((n_moments, size * (size + 1) // 2))
    shared = precision, linear, 1 / np.sqrt(ridge), phi, gap, mean, second_moment, row_moments
    blocks = threads.each(
        lambda *ends: _gaussian_rows(*ends, *shared), threads.parts(n_rows, n_rows * size**3, LANES)
    )
    return GaussianRows(
        mean,
        second_moment,
        row_moments,
        sum(logs for logs, _ in blocks),
        sum(covariances for _, covariances in blocks),
        precision,
        ridge,
        weights,
        gaps,
    )


def ridge_rows(precision, linear, inverse_ridge):
    """w_i = (P + diag rho_i)^-1 r_i for every row i, K x M, given 1 / rho, which may be 0."""
    size, n_rows = linear.shape
    wt = np.empty_like(linear)
    shared = precision, linear, np.sqrt(inverse_ridge), wt
    threads.each(
        lambda *ends: _ridge_rows(*ends, *shared),
        threads.parts(n_rows, n_rows * size**3 / 2, LANES),
    )
    return wt


@compiled
def _ridge_rows(begin, end, precision, linear, roots, out):
    """Overwrite the rows of `out` from `begin` to `end`."""
    size, n_rows = linear.shape
    lanes = min(LANES, n_rows)
    matrix = np.empty((size, size, lanes))
    root = np.empty((size, lanes))
    x = np.empty((size, lanes))
    weight = np.ones(lanes)
    gap = np.empty((0, lanes))
    for first in range(begin, end, lanes):
        load(roots, first, root)
        load(linear, first, x)
        factor(precision, weight, gap, root, x, matrix)
        solve(matrix, x)
        for k in range(size):
            for lane in range(lanes):
                x[k, lane] *= root[k, lane]
        store(x, out, first)


@compiled
def _gaussian_rows(
    begin, end, precision, linear, roots, phi, gaps, mean, second_moment, row_moments
):
    """Fill mean and E[w^2] of the rows from `begin` to `end`, and E[ww'] where rows differ in P.

    With LL' = I + D phi (P - gap) D and V = L^-1 D, S = V'V and mu = V' (V r).  Returns the sums of
    ln det S_i and of phi_i S_i.
    """
    size, n_rows = linear.shape
    lanes = min(LANES, n_rows)
    root = np.empty((size, lanes))
    x = np.empty((size, lanes))
    whitened = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    weight = np.ones((1, lanes))
    gap = np.empty((len(gaps), lanes))
    kept = np.empty(lanes)  # 1, or 0 for the copies that fill up the last block
    sums = np.zeros((size, size, lanes))
    log_determinant = 0.0
    for first in range(begin, end, lanes):
        load(roots, first, root)
        n_block = load(linear, first, x)
        for lane in range(lanes):
            kept[lane] = 1.0 if lane < n_block else 0.0
        if phi.shape[1]:
            load(phi, first, weight)
            load(gaps, first, gap)
        factor(precision, weight[0], gap, root, x, matrix)
        invert_factor(matrix)
        log_determinant = _whiten(matrix, root, x, kept, whitened, log_determinant)
        _mean_and_square(matrix, whitened, x, root)
        store(x, mean, first)
        store(root, second_moment, first)
        if phi.shape[1]:
            _add_weighted_covariances(matrix, weight[0], kept, sums, x, row_moments[first:])
        else:
            _add_covariances(matrix, kept, sums)
    covariance_sum = np.empty((size, size))
    for k in range(size):
        for p in range(k + 1):
            covariance_sum[k, p] = 0.0
            for lane in range(lanes):
                covariance_sum[k, p] += sums[k, p, lane]
            covariance_sum[p, k] = covariance_sum[k, p]
    return log_determinant, covariance_sum


@part
def factor(precision, weight, gap, root, x, matrix):
    """x = D r and matrix = L, where LL' = I + D phi (P - gap) D, in every lane; D = diag(root)."""
    size, lanes = root.shape
    for k in range(size):
        for p in range(k + 1):
            for lane in range(lanes):
                entry = precision[k, p] - gap[packed(k, p), lane] if len(gap) else precision[k, p]
                matrix[k, p, lane] = root[k, lane] * weight[lane] * entry * root[p, lane]
        for lane in range(lanes):
            matrix[k, k, lane] += 1.0
            x[k, lane] *= root[k, lane]
    cholesky(matrix)


@part
def _whiten(matrix, root, x, kept, whitened, log_determinant):
    """From L^-1 and D r to V and V r; returns ln det S of all lanes, added to what it was."""
    size, lanes = root.shape
    for k in range(size):
        for lane in range(lanes):
            whitened[k, lane] = 0.0
            log_determinant += 2.0 * kept[lane] * np.log(root[k, lane] * matrix[k, k, lane])
        for p in range(k + 1):
            for lane in range(lanes):
                whitened[k, lane] += matrix[k, p, lane] * x[p, lane]
                matrix[k, p, lane] *= root[p, lane]
    return log_determinant


@part
def _mean_and_square(matrix, whitened, mean, square):
    """mean = V' (V r), and square = E[w^2] = diag V'V + mean^2, in every lane."""
    size, lanes = mean.shape
    for k in range(size):
        for lane in range(lanes):
            mean[k, lane] = 0.0
            square[k, lane] = 0.0
        for i in range(k, size):
            for lane in range(lanes):
                mean[k, lane] += matrix[i, k, lane] * whitened[i, lane]
                square[k, lane] += matrix[i, k, lane] * matrix[i, k, lane]
        for lane in range(lanes):
            square[k, lane] += mean[k, lane] * mean[k, lane]


@part
def _add_covariances(matrix, kept, sums):
    """sums += S = V'V of every lane (lower triangle)."""
    size, _, lanes = matrix.shape
    for k in range(size):
        for p in range(k + 1):
            for i in range(k, size):
                for lane in range(lanes):
                    sums[k, p, lane] += kept[lane] * matrix[i, k, lane] * matrix[i, p, lane]


@part
def _add_weighted_covariances(matrix, weight, kept, sums, mean, row_moments):
    """sums += phi S, and row_moments = S + mu mu', packed."""
    size, _, lanes = matrix.shape
    covariance = np.empty(lanes)
    for k in range(size):
        for p in range(k + 1):
            for lane in range(lanes):
                covariance[lane] = 0.0
            for i in range(k, size):
                for lane in range(lanes):
                    covariance[lane] += matrix[i, k, lane] * matrix[i, p, lane]
            for lane in range(lanes):
                sums[k, p, lane] += kept[lane] * weight[lane] * covariance[lane]
            for lane in range(min(lanes, len(row_moments))):
                row_moments[lane, packed(k, p)] = covariance[lane] + mean[k, lane] * mean[p, lane]
