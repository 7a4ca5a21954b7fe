"""Laplace approximations of many rows or columns at once: modes and covariances, in lanes.

docs/derivation.md, 7, derives both.  Rows have a Laplace prior smoothed at zero, and columns a
Dirichlet prior seen through the softmax.
"""

import numpy as np

from bjmd.numerics.lanes import LANES, cholesky, compiled, invert_factor, load, solve, store

ROW_TOLERANCE = 1e-12
"""A row is at its mode when a step promises to raise f by less than this share of 1 + r'w."""
FAIR_PART = 0.1
"""The part of its promise, the slope of f along it, that a step must keep, or it is halved."""
MAX_ROW_STEPS = 100
MAX_HALVINGS = 30


@compiled
def approximate_rows(precision, linear, wt, lambda_, eps):
    """Newton's method in every row, a lane each, then the moments at the mode; also counts rows
    that missed it.
    """
    size, n_rows = linear.shape
    spread = np.zeros_like(precision)
    deviation = np.empty_like(wt)
    lanes = min(LANES, n_rows)
    w = np.empty((size, lanes))
    r = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    terms = 0.0
    failed = 0
    for first in range(0, n_rows, lanes):
        load(wt, first, w)
        n_block = load(linear, first, r)
        failed += min(_climb_rows(precision, r, w, lambda_, eps, matrix), n_block)
        square = w * w + eps * eps
        curvature = eps * eps / (lambda_ * square * np.sqrt(square))
        _add_to_diagonal(precision, curvature, matrix)
        cholesky(matrix)
        store(w, wt, first)
        for k in range(size):
            for lane in range(n_block):
                terms += np.sqrt(w[k, lane] ** 2 + eps**2) / lambda_ - np.log(matrix[k, k, lane])
        _invert(matrix)
        for k in range(size):
            for lane in range(n_block):
                deviation[k, first + lane] = np.sqrt(matrix[k, k, lane])
                terms += 0.5 * matrix[k, k, lane] * curvature[k, lane]
            for p in range(k + 1):
                for lane in range(n_block):
                    spread[k, p] += matrix[k, p, lane]
    _mirror(spread)
    return spread, deviation, terms, failed


@compiled
def _climb_rows(precision, r, w, lambda_, eps, matrix):
    """Newton steps that take every lane of w to its mode; returns how many lanes did not get there.

    The slope w/|w|_eps is an unknown of its own, in [-1, 1] (docs/derivation.md, 7): Newton's
    method on f alone would leap across the corner at 0 again and again.
    """
    size, lanes = w.shape
    slope = w / np.sqrt(w * w + eps * eps)
    promise = np.empty(lanes)
    gain = np.empty(lanes)
    left = lanes
    for _ in range(MAX_ROW_STEPS):
        smooth = np.sqrt(w * w + eps * eps)
        gradient = r - w / (lambda_ * smooth)
        curvature = (1.0 - slope * w / smooth) / (lambda_ * smooth)
        for k in range(size):
            for p in range(size):
                for lane in range(lanes):
                    gradient[k, lane] -= precision[k, p] * w[p, lane]
        step = gradient.copy()
        _add_to_diagonal(precision, curvature, matrix)
        cholesky(matrix)
        solve(matrix, step)
        left = 0
        for lane in range(lanes):
            promise[lane] = 0.0
            scale = 1.0
            for k in range(size):
                promise[lane] += gradient[k, lane] * step[k, lane]
                scale += abs(r[k, lane] * w[k, lane])
            if not promise[lane] <= ROW_TOLERANCE * scale:
                left += 1
        slope = np.minimum(np.maximum(w / smooth + lambda_ * curvature * step, -1.0), 1.0)
        for _ in range(MAX_HALVINGS):
            _gain(precision, gradient, w, step, lambda_, eps, gain)
            short = False
            for lane in range(lanes):
                if not gain[lane] >= FAIR_PART * promise[lane]:
                    short = True
                    promise[lane] *= 0.5
                    for k in range(size):
                        step[k, lane] *= 0.5
            if not short:
                break
        w += step
        if left == 0:
            break
    return left


@compiled
def _gain(precision, gradient, w, step, lambda_, eps, out):
    """f(w + step) - f(w) in every lane, through differences so that it keeps its sign near the
    mode.
    """
    size, lanes = w.shape
    out[:] = 0.0
    for k in range(size):
        for lane in range(lanes):
            d = step[k, lane]
            before = np.sqrt(w[k, lane] ** 2 + eps**2)
            after = np.sqrt((w[k, lane] + d) ** 2 + eps**2)
            rise = d * (2.0 * w[k, lane] + d) / (after + before)  # |w + d|_eps - |w|_eps
            out[lane] += d * gradient[k, lane] - (rise - d * w[k, lane] / before) / lambda_
        for p in range(size):
            for lane in range(lanes):
                out[lane] -= 0.5 * step[k, lane] * precision[k, p] * step[p, lane]


@compiled
def _add_to_diagonal(shared, diagonal, out):
    """out = shared + diag(diagonal) in every lane (lower triangle)."""
    for k in range(len(diagonal)):
        for p in range(k + 1):
            out[k, p] = shared[k, p]
        out[k, k] += diagonal[k]


@compiled
def approximate_columns(scaled_gram, alpha0, h):
    """q(h_j) for every column, a lane each, given its mode h (K x N) and G / s2.

    Returns sum_j Cov[h_j], the standard deviations (K x N), and what the columns' prior and entropy
    put into the negative ELBO; their likelihood is part of the source's E||X - WH||^2.
    """
    size, n_columns = h.shape
    spread = np.zeros_like(scaled_gram)
    deviation = np.empty_like(h)
    lanes = min(LANES, n_columns)
    total = alpha0.sum()
    block = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    gram_h = np.empty((size, lanes))
    through = np.empty((size, lanes))
    inner = np.empty(lanes)
    moved = np.empty(lanes)
    terms = 0.0
    for first in range(0, n_columns, lanes):
        n_block = load(h, first, block)
        inner[:] = 0.0  # h'Gh / s2
        for k in range(size):
            gram_h[k] = 0.0
            for p in range(size):
                for lane in range(lanes):
                    gram_h[k, lane] += scaled_gram[k, p] * block[p, lane]
            for lane in range(lanes):
                inner[lane] += block[k, lane] * gram_h[k, lane]
        for k in range(size):
            for p in range(k + 1):
                for lane in range(lanes):
                    # (J G J)_kp = h_k h_p (G_kp - (Gh)_k - (Gh)_p + h'Gh)
                    bend = (
                        scaled_gram[k, p] - gram_h[k, lane] - gram_h[p, lane] + inner[lane] + total
                    )
                    matrix[k, p, lane] = (
                        block[k, lane] * block[p, lane] * bend
                        - block[k, lane] * alpha0[p]
                        - alpha0[k] * block[p, lane]
                        + 1.0
                    )
            matrix[k, k] += alpha0[k]
        cholesky(matrix)
        for k in range(size):
            for lane in range(n_block):
                terms -= alpha0[k] * np.log(block[k, lane]) + np.log(matrix[k, k, lane])
        _invert(matrix)
        # With `matrix` the inverse and `through` = its product with h:
        # Cov_kp = h_k h_p (matrix_kp - through_k - through_p + h'through)
        # tr(matrix J) = sum_k h_k (matrix_kk - through_k)
        inner[:] = 0.0
        for k in range(size):
            through[k] = 0.0
            for p in range(size):
                row = max(k, p)
                column = min(k, p)
                for lane in range(lanes):
                    through[k, lane] += matrix[row, column, lane] * block[p, lane]
            for lane in range(lanes):
                inner[lane] += block[k, lane] * through[k, lane]
        for k in range(size):
            for p in range(k + 1):
                for lane in range(lanes):
                    bend = matrix[k, p, lane] - through[k, lane] - through[p, lane] + inner[lane]
                    moved[lane] = block[k, lane] * block[p, lane] * bend
                for lane in range(n_block):
                    spread[k, p] += moved[lane]
            for lane in range(n_block):
                deviation[k, first + lane] = np.sqrt(max(moved[lane], 0.0))
                terms += 0.5 * total * block[k, lane] * (matrix[k, k, lane] - through[k, lane])
    _mirror(spread)
    return spread, deviation, terms


@compiled
def _invert(factor):
    """Overwrite the lower triangle that `cholesky` left by that of the inverse matrix."""
    size = factor.shape[0]
    lanes = factor.shape[2]
    invert_factor(factor)
    entry = np.empty(lanes)
    for k in range(size):
        for p in range(k + 1):  # (k, k) last, for the others need it
            entry[:] = 0.0
            for i in range(k, size):
                for lane in range(lanes):
                    entry[lane] += factor[i, k, lane] * factor[i, p, lane]
            factor[k, p] = entry


@compiled
def _mirror(matrix):
    """Copy the lower triangle to the upper one."""
    for k in range(len(matrix)):
        for p in range(k):
            matrix[p, k] = matrix[k, p]
