"""The membership subproblem of MAP: one convex problem on the simplex per column, as a batch.

    minimise  F(h) = 1/2 h'Gh - b'h - sum_k alpha_k ln h_k     subject to  sum_k h_k = 1, h > 0

G = W'W is shared by all columns of a source, b = W'x is the column's own, alpha_k = s2_c (alpha0_k
- 1) >= 0; with alpha = 0 it is the plain quadratic programme on the simplex.  With a slack y and a
multiplier xi for the sum, the optimality conditions are

    G h - b - xi 1 - y = 0,      h_k y_k = alpha_k,      1'h = 1,      h, y > 0.

docs/derivation.md, 3.4, derives the Newton step on them, which needs one K x K factorisation.
"""

from dataclasses import dataclass

import numpy as np

from bjmd.numerics import threads
from bjmd.numerics.lanes import LANES, cholesky, compiled, load, part, solve

CENTERING = 0.1
"""How far one step aims to shrink the mean of h_k y_k while that is still above alpha."""
BOUNDARY = 0.99
"""The share of the largest step that keeps h and y positive (the paper's eta)."""
MAX_STEPS = 100
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Solution:
    """Columns on the simplex with the slack that proves them optimal.

    residual is, for each column, the largest violation of the three conditions above, relative to
    the largest entry of G, b and alpha that the column sees.
    """

    h: np.ndarray
    slack: np.ndarray
    residual: np.ndarray


def minimise(gram, linear, alpha, start=None, *, tol=TOLERANCE):
    """Solve the problem for every column of `linear` (K x N), beginning at an earlier Solution if
    one is given.

    Then a column whose objective would end above its start keeps the start: rounding cannot make a
    sweep rise.
    """
    gram = np.ascontiguousarray(gram, dtype=float)
    linear = np.ascontiguousarray(linear, dtype=float)
    size, n_columns = linear.shape
    alpha = np.broadcast_to(np.asarray(alpha, dtype=float), (size,))
    # Far below any tolerance, this keeps repeated warm starts of a plain quadratic programme off
    # the boundary.
    gram_scale = np.abs(gram).max()
    alpha = np.maximum(alpha, 1e-13 * gram_scale)
    if start is None:
        h, slack = _centre(gram, linear, alpha)
    else:
        h = start.h.copy()
        slack = start.slack.copy()
    residual = np.empty(n_columns)
    before = h if start is None else start.h
    scale = max(gram_scale, alpha.max())
    shared = gram, linear, alpha, before, h, slack, residual, tol, scale
    ranges = threads.parts(n_columns, 2 * n_columns * size**3, LANES)
    threads.each(lambda *ends: _minimise(*ends, *shared), ranges)
    stuck = np.flatnonzero(residual > tol)
    if start is not None and len(stuck):
        # near a face of the simplex, where another problem left it: begin anew
        again = minimise(gram, linear[:, stuck], alpha, tol=tol)
        h[:, stuck] = again.h
        slack[:, stuck] = again.slack
        residual[stuck] = again.residual
        _keep_what_did_not_fall(0, n_columns, gram, linear, alpha, before, h)
    return Solution(h, slack, residual)


def _centre(gram, linear, alpha):
    """The middle of the simplex, with a slack of the size of the gradient there."""
    size, n_columns = linear.shape
    h = np.full((size, n_columns), 1.0 / size)
    gradient = gram.sum(axis=1)[:, None] / size - linear
    spread = gradient.max(axis=0) - gradient.min(axis=0)
    scale = max(np.abs(gram).max(), np.finfo(float).tiny)
    slack = np.broadcast_to(np.maximum(spread, 1e-3 * scale), h.shape) + size * alpha[:, None]
    return h, np.ascontiguousarray(slack)


@compiled
def _minimise(begin, end, gram, linear, alpha, before, h, slack, residual, tol, scale):
    """Newton steps on the columns from `begin` to `end` that still need one; overwrites h, slack
    and residual.

    A column that would rise goes back to `before`, if that is not h itself.
    """
    size, n_columns = linear.shape
    n_active = end - begin
    active = np.empty(n_active, dtype=np.int64)
    for i in range(n_active):
        active[i] = begin + i
    lanes = min(LANES, n_columns)
    block_h = np.empty((size, lanes))
    block_y = np.empty((size, lanes))
    block_b = np.empty((size, lanes))
    gradient = np.empty((size, lanes))
    target = np.empty((size, lanes))
    dh = np.empty((size, lanes))
    ones = np.empty((size, lanes))
    dy = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    column = np.empty(lanes, dtype=np.int64)
    block_residual = np.empty(lanes)
    for step in range(MAX_STEPS + 1):
        n_left = 0
        for first in range(0, n_active, lanes):
            n_block = min(lanes, n_active - first)
            for lane in range(lanes):
                # The last block is filled up with copies of its last column, whose results are not
                # written back.
                column[lane] = active[first + min(lane, n_block - 1)]
            for k in range(size):
                for lane in range(lanes):
                    block_h[k, lane] = h[k, column[lane]]
                    block_y[k, lane] = slack[k, column[lane]]
                    block_b[k, lane] = linear[k, column[lane]]
            _quadratic_gradient(gram, block_b, block_h, gradient)
            _residual(gradient, block_b, alpha, block_h, block_y, scale, block_residual)
            worst = 0.0
            for lane in range(n_block):
                residual[column[lane]] = block_residual[lane]
                worst = max(worst, block_residual[lane])
            if worst <= tol or step == MAX_STEPS:
                continue
            _newton_system(gram, gradient, alpha, block_h, block_y, matrix, target, dh, ones)
            cholesky(matrix)
            solve(matrix, dh)
            solve(matrix, ones)
            _newton_step(block_h, block_y, target, dh, ones, dy)
            for lane in range(n_block):
                if block_residual[lane] > tol:
                    for k in range(size):
                        h[k, column[lane]] = block_h[k, lane]
                        slack[k, column[lane]] = block_y[k, lane]
                    active[n_left] = column[lane]
                    n_left += 1
        if n_left == 0:
            break
        n_active = n_left
    if before is not h:
        _keep_what_did_not_fall(begin, end, gram, linear, alpha, before, h)


@part
def _quadratic_gradient(gram, b, h, out):
    """out = G h - b for a block of columns."""
    size, lanes = h.shape
    for k in range(size):
        for lane in range(lanes):
            out[k, lane] = -b[k, lane]
        for p in range(size):
            weight = gram[k, p]
            for lane in range(lanes):
                out[k, lane] += weight * h[p, lane]


@part
def _residual(gradient, b, alpha, h, y, gram_scale, out):
    """The largest violation of the optimality conditions in each lane, relative to the problem's
    scale.
    """
    size, lanes = h.shape
    xi = np.empty(lanes)
    total = np.empty(lanes)
    scale = np.empty(lanes)
    for lane in range(lanes):
        xi[lane] = total[lane] = 0.0
        scale[lane] = gram_scale
    for k in range(size):
        for lane in range(lanes):
            xi[lane] += h[k, lane] * (gradient[k, lane] - y[k, lane])
            total[lane] += h[k, lane]
            scale[lane] = max(scale[lane], abs(b[k, lane]))
    for lane in range(lanes):
        xi[lane] /= total[lane]
        out[lane] = abs(total[lane] - 1.0)
        scale[lane] = 1.0 / max(scale[lane], 1e-300)
    for k in range(size):
        for lane in range(lanes):
            dual = abs(gradient[k, lane] - xi[lane] - y[k, lane])
            complementary = abs(h[k, lane] * y[k, lane] - alpha[k])
            out[lane] = max(out[lane], max(dual, complementary) * scale[lane])


@part
def _newton_system(gram, gradient, alpha, h, y, matrix, target, dh, ones):
    """Fills A, the targets t, and the two right-hand sides of Newton's step in every lane."""
    size, lanes = h.shape
    gap = np.empty(lanes)
    for lane in range(lanes):
        gap[lane] = 0.0
    for k in range(size):
        for lane in range(lanes):
            gap[lane] += h[k, lane] * y[k, lane]
    for k in range(size):
        for lane in range(lanes):
            target[k, lane] = max(alpha[k], CENTERING * gap[lane] / size)
            dh[k, lane] = target[k, lane] / h[k, lane] - gradient[k, lane]
            ones[k, lane] = 1.0
        for p in range(k + 1):
            for lane in range(lanes):
                matrix[k, p, lane] = gram[k, p]
        for lane in range(lanes):
            matrix[k, k, lane] += y[k, lane] / h[k, lane]


@part
def _newton_step(h, y, target, dh, ones, dy):
    """One primal-dual Newton step in every lane, from the solutions for both right-hand sides;
    overwrites h and y.
    """
    size, lanes = h.shape
    short = np.empty(lanes)
    reach = np.empty(lanes)
    step = np.empty(lanes)
    total = np.empty(lanes)
    for lane in range(lanes):
        short[lane] = 1.0  # what the sum lacks, first before and then after the step along dh alone
        reach[lane] = total[lane] = 0.0
        step[lane] = 1.0 / BOUNDARY
    for k in range(size):
        for lane in range(lanes):
            short[lane] -= h[k, lane] + dh[k, lane]
            reach[lane] += ones[k, lane]
    for k in range(size):
        for lane in range(lanes):
            dh[k, lane] += short[lane] / reach[lane] * ones[k, lane]
            dy[k, lane] = (target[k, lane] - y[k, lane] * dh[k, lane]) / h[k, lane] - y[k, lane]
            # -v/dv over dv < 0 is where v would reach zero
            if h[k, lane] + step[lane] * dh[k, lane] < 0.0:
                step[lane] = -h[k, lane] / dh[k, lane]
            if y[k, lane] + step[lane] * dy[k, lane] < 0.0:
                step[lane] = -y[k, lane] / dy[k, lane]
    for k in range(size):
        for lane in range(lanes):
            h[k, lane] += BOUNDARY * step[lane] * dh[k, lane]
            y[k, lane] += BOUNDARY * step[lane] * dy[k, lane]
            total[lane] += h[k, lane]
    for k in range(size):
        for lane in range(lanes):
            # the sum is right up to cancellation in dh, which grows with b / G
            h[k, lane] /= total[lane]


@compiled
def _keep_what_did_not_fall(begin, end, gram, linear, alpha, before, after):
    """Put a column of `before` back where F(after) > F(before), comparing through the
    difference of the two.
    """
    size, n_columns = linear.shape
    lanes = min(LANES, n_columns)
    b = np.empty((size, lanes))
    old = np.empty((size, lanes))
    new = np.empty((size, lanes))
    middle = np.empty((size, lanes))
    slope = np.empty((size, lanes))
    change = np.empty(lanes)
    for first in range(begin, end, lanes):
        n_block = min(lanes, end - first)
        load(linear, first, b)
        load(before, first, old)
        load(after, first, new)
        for k in range(size):
            for lane in range(lanes):
                middle[k, lane] = 0.5 * (old[k, lane] + new[k, lane])
        _quadratic_gradient(gram, b, middle, slope)
        for lane in range(lanes):
            change[lane] = 0.0
        for k in range(size):
            for lane in range(lanes):
                log_ratio = np.log(new[k, lane] / old[k, lane])
                change[lane] += (
                    slope[k, lane] * (new[k, lane] - old[k, lane]) - alpha[k] * log_ratio
                )
        for lane in range(n_block):
            if not change[lane] <= 0.0:
                for k in range(size):
                    after[k, first + lane] = old[k, lane]
