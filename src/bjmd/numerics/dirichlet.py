"""The membership subproblem of the closed form: the best Dirichlet for every column, as a batch.

For a column x with q(h) = Dirichlet(g), s = sum g, precision t = E[1/s2], G = E[W'W], d = diag G
and b = E[W]'x, the part of the ELBO that g enters is

    f(g) = t L(g) + sum_k (alpha0_k - g_k) (psi(g_k) - psi(s)) + ln Beta(g)
    L(g) = b.g / s - Q e(s),      Q = g'Gg + d.g,   e(s) = 1 / (2 s (s + 1)).

Columns may have a precision each and, where entries are missing, a G each: the shared one less the
column's own gap (moments.py).  docs/derivation.md, 4.4 and 4.5, has the derivatives and Newton's
step in ln g, and `column_step` in tests/oracle.py does the same for one column in plain NumPy.  A
step that does not raise f is halved, and given up when it is tiny, so f never falls.

`curvatures` and `covariances` say how columns at their best respond to a pull, for intervals
(analysis/intervals.py; docs/derivation.md, 4.4 and 4.11).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bjmd.numerics import moments, threads
from bjmd.numerics.lanes import (
    LANES,
    cholesky,
    compiled,
    gamma_functions,
    load,
    packed,
    part,
    solve,
    store,
)

LONGEST = 2.0
"""The most by which one step may change any ln g_k."""
MAX_HALVINGS = 8
LEAST_PIVOT = 1e-10
"""Of a curvature that is taken for positive definite, relative to its diagonal."""
FLATTEST = 1e-3
"""The least curvature of a column in ln g; a column that has not settled could have none."""


@dataclass(frozen=True)
class Solution:
    """Dirichlet parameters g of every column, f(g) and L(g)."""

    g: np.ndarray
    value: np.ndarray
    explained: np.ndarray
    log_sum: np.ndarray
    """sum_k E[ln h_k] of every column."""


def maximise(gram, linear, precision, alpha0, start, *, tol, max_steps, gaps=None):
    """Raise f for every column of `linear` (K x N) from `start` until a step promises at most `tol`
    nats.

    precision is a number, or one per column; gaps, if any, are what each column's G lacks, packed,
    K(K+1)/2 x N.
    """
    g = start.copy()
    size, n_columns = g.shape
    value = np.empty(n_columns)
    explained = np.empty(n_columns)
    log_sum = np.empty(n_columns)
    precision = np.full((1, n_columns), precision, dtype=float)
    gaps = np.empty((0, n_columns)) if gaps is None else gaps
    # with one component f is constant: steps would follow its rounding, and momentum would follow
    # them to infinity
    steps = max_steps if size > 1 else 0
    shared = (
        np.ascontiguousarray(gram),
        gaps,
        linear,
        precision,
        alpha0,
        g,
        value,
        explained,
        log_sum,
        tol,
        steps,
    )
    ranges = threads.parts(n_columns, n_columns * size * (size**2 + 20 * size), LANES)
    threads.each(lambda *ends: _maximise(*ends, *shared), ranges)
    return Solution(g, value, explained, log_sum)


def mean(g):
    """E[h] of every column."""
    return g / g.sum(axis=0)


def move(g, before):
    """The largest difference between the E[h] of two sets of columns."""
    ranges = threads.parts(g.shape[1], 4 * g.size)
    return max(
        threads.each(lambda a, b: np.abs(mean(g[:, a:b]) - mean(before[:, a:b])).max(), ranges)
    )


def second_moment(g, weights=1.0):
    """sum_j E[h_j h_j'] = sum_j (s m m' + diag m) / (s + 1), with a weight per column or 1.0."""
    size, n_columns = g.shape

    def part(first, last):
        s = g[:, first:last].sum(axis=0)
        m = g[:, first:last] / s
        weighted = m * weights[first:last] if np.ndim(weights) else m
        return (weighted * (s / (s + 1))) @ m.T + np.diag((weighted / (s + 1)).sum(axis=1))

    return sum(threads.each(part, threads.parts(n_columns, n_columns * size * (size + 30))))


def log_normaliser(alpha0):
    """ln Gamma(sum alpha0) - sum ln Gamma(alpha0): what f leaves out of a column's ELBO."""
    return gammaln(alpha0.sum()) - gammaln(alpha0).sum()


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
    chi = slope / s - linear / (s + 1)
    quadratic = (g * (product + diagonal)).sum(axis=1, keepdims=True)
    chi_0 = t * quadratic * (s**-3.0 - (s + 1) ** -3.0) - psi1_s - (s - alpha.sum()) * psi2_s
    chi_0 -= 2 * (g * (slope + linear)).sum(axis=1, keepdims=True) / s**2
    bend = (t / (s * (s + 1)))[:, :, None] * grams + chi[:, :, None] + chi[:, None]
    bend += chi_0[:, :, None]
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


@compiled
def _maximise(
    begin, end, gram, gaps, linear, precisions, alpha0, g, value, explained, log_sum, tol, max_steps
):
    """Overwrites g, value, explained and log_sum of the columns from `begin` to `end`, by block."""
    size, n_columns = linear.shape
    lanes = min(LANES, n_columns)
    b = np.empty((size, lanes))
    gap = np.empty((len(gaps), lanes))
    precision = np.empty((1, lanes))
    # The last row of `point` is s; functions[i] has ln Gamma and its derivatives there, state has
    # 2Gg + d, b.g and Q.
    point = np.empty((size + 1, lanes))
    functions = np.empty((4, size + 1, lanes))
    state = np.empty((size + 2, lanes))
    trial = np.empty((size + 1, lanes))
    trial_functions = np.empty((4, size + 1, lanes))
    trial_state = np.empty((size + 2, lanes))
    gradient = np.empty((size, lanes))
    direction = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    f = np.empty(lanes)
    f_trial = np.empty(lanes)
    gain = np.empty(lanes)
    step = np.empty(lanes)
    pivots = np.empty(lanes)
    finished = np.empty(lanes, dtype=np.bool_)
    for first in range(begin, end, lanes):
        load(g, first, trial[:size])
        load(gaps, first, gap)
        load(precisions, first, precision)
        n_block = load(linear, first, b)
        for lane in range(lanes):
            step[lane] = 0.0
            finished[lane] = False
        n_steps = n_halvings = 0
        # each function is called in one place only: the compiler takes its time for every copy
        while True:
            _sum_up(b, trial, trial_state)
            gamma_functions(trial, trial_functions)
            _evaluate(gram, gap, precision[0], alpha0, trial, trial_functions, trial_state, f_trial)
            fell = False
            for lane in range(lanes):
                if step[lane] > 0.0 and not f_trial[lane] >= f[lane]:
                    step[lane] *= 0.5
                    fell = True
                    if n_halvings == MAX_HALVINGS - 1:
                        # rounding is all that is left; evaluate once more where we were
                        step[lane] = 0.0
                        finished[lane] = True
            n_halvings += 1
            if not fell:
                point, trial = trial, point
                functions, trial_functions = trial_functions, functions
                state, trial_state = trial_state, state
                f, f_trial = f_trial, f
                if n_steps == max_steps:
                    break
                _gradient(b, precision[0], alpha0, point, functions, state, gradient)
                for attempt in range(2):
                    _curvature(
                        gram,
                        gap,
                        b,
                        precision[0],
                        alpha0,
                        point,
                        functions,
                        state,
                        gradient,
                        matrix,
                    )
                    if attempt == 1:
                        _natural_curvature(
                            gram, gap, precision[0], point, functions, state, pivots, matrix
                        )
                    pivots = cholesky(matrix)
                    concave = True
                    for lane in range(lanes):
                        concave &= pivots[lane] > LEAST_PIVOT
                    if concave:
                        break
                for k in range(size):
                    for lane in range(lanes):
                        direction[k, lane] = point[k, lane] * gradient[k, lane]
                solve(matrix, direction)
                _measure(point, gradient, direction, gain, step)
                n_finished = 0
                for lane in range(lanes):
                    finished[lane] |= gain[lane] <= tol
                    if finished[lane]:
                        step[lane] = 0.0
                        n_finished += 1
                if n_finished == lanes:
                    break
                n_steps += 1
                n_halvings = 0
            for k in range(size):
                for lane in range(lanes):
                    trial[k, lane] = point[k, lane] * np.exp(step[lane] * direction[k, lane])
        for lane in range(n_block):
            value[first + lane] = f[lane]
            explained[first + lane] = _explained(point, state, lane)
            log_sum[first + lane] = -size * functions[1, size, lane]
            for k in range(size):
                log_sum[first + lane] += functions[1, k, lane]
        store(point[:size], g, first)


@part
def _sum_up(b, point, state):
    """Fills s and b.g."""
    size, lanes = b.shape
    s = point[size]
    along = state[size]
    for lane in range(lanes):
        s[lane] = 0.0
        along[lane] = 0.0
    for k in range(size):
        for lane in range(lanes):
            s[lane] += point[k, lane]
            along[lane] += b[k, lane] * point[k, lane]


@part
def _evaluate(gram, gap, precision, alpha0, point, functions, state, f):
    """f in every lane; fills what is left of the state: 2Gg + d and Q."""
    size = len(gram)
    lanes = len(f)
    total_alpha0 = alpha0.sum()
    s = point[size]
    quadratic = state[size + 1]
    for lane in range(lanes):
        f[lane] = (s[lane] - total_alpha0) * functions[1, size, lane] - functions[0, size, lane]
        quadratic[lane] = 0.0
    for k in range(size):
        for lane in range(lanes):
            state[k, lane] = 0.0
        for p in range(size):
            weight = gram[k, p]
            for lane in range(lanes):
                state[k, lane] += weight * point[p, lane]
        if len(gap):
            for p in range(size):
                for lane in range(lanes):
                    state[k, lane] -= gap[packed(k, p), lane] * point[p, lane]
        for lane in range(lanes):
            d = _diagonal(gram, gap, k, lane)
            quadratic[lane] += point[k, lane] * (state[k, lane] + d)
            state[k, lane] = 2.0 * state[k, lane] + d
            f[lane] += (alpha0[k] - point[k, lane]) * functions[1, k, lane] + functions[0, k, lane]
    for lane in range(lanes):
        f[lane] += precision[lane] * _explained(point, state, lane)


@part
def _explained(point, state, lane):
    """L(g) of one lane, from s, b.g and Q."""
    s = point[-1, lane]
    along = state[-2, lane]
    quadratic = state[-1, lane]
    return (along - 0.5 * quadratic / (s + 1.0)) / s


@part
def _diagonal(gram, gap, k, lane):
    """G_kk of one lane."""
    return gram[k, k] - gap[packed(k, k), lane] if len(gap) else gram[k, k]


@part
def _gradient(b, precision, alpha0, point, functions, state, out):
    """out = f'(g)."""
    size, lanes = b.shape
    total_alpha0 = alpha0.sum()
    common = np.empty(lanes)  # the entries of f' that all k share
    for lane in range(lanes):
        s = point[size, lane]
        of_linear = -state[size, lane] / (s * s)
        of_quadratic = (
            -state[size + 1, lane] * (2.0 * s + 1.0) / (2.0 * s * s * (s + 1.0) * (s + 1.0))
        )
        common[lane] = precision[lane] * (of_linear - of_quadratic) - functions[2, size, lane] * (
            total_alpha0 - s
        )
    for k in range(size):
        for lane in range(lanes):
            s = point[size, lane]
            own = precision[lane] * (b[k, lane] - 0.5 * state[k, lane] / (s + 1.0)) / s
            out[k, lane] = common[lane] + own + functions[2, k, lane] * (alpha0[k] - point[k, lane])


@part
def _curvature(gram, gap, b, precision, alpha0, point, functions, state, gradient, matrix):
    """matrix = -f'' in ln g, that is diag(g) (-f'') diag(g) - diag(g f'); lower triangle."""
    size, lanes = b.shape
    total_alpha0 = alpha0.sum()
    of_gram = np.empty(lanes)
    chi_0 = np.empty(lanes)
    chi = np.empty((size, lanes))
    for lane in range(lanes):
        s = point[size, lane]
        a2 = 2.0 / (s * s * s)  # (1/s)''
        e2 = 1.0 / (s * s * s) - 1.0 / ((s + 1.0) * (s + 1.0) * (s + 1.0))
        of_gram[lane] = precision[lane] / (s * (s + 1.0))
        chi_0[lane] = precision[lane] * (state[size + 1, lane] * e2 - state[size, lane] * a2)
        chi_0[lane] -= functions[2, size, lane] + (s - total_alpha0) * functions[3, size, lane]
    for k in range(size):
        for lane in range(lanes):
            s = point[size, lane]
            e1 = -(2.0 * s + 1.0) / (2.0 * s * s * (s + 1.0) * (s + 1.0))
            chi[k, lane] = precision[lane] * (e1 * state[k, lane] + b[k, lane] / (s * s))
    for k in range(size):
        for p in range(k + 1):
            weight = gram[k, p]
            for lane in range(lanes):
                bend = of_gram[lane] * weight + chi[k, lane] + chi[p, lane] + chi_0[lane]
                matrix[k, p, lane] = bend * point[k, lane] * point[p, lane]
            if len(gap):
                for lane in range(lanes):
                    matrix[k, p, lane] -= (
                        of_gram[lane] * gap[packed(k, p), lane] * point[k, lane] * point[p, lane]
                    )
        for lane in range(lanes):
            own = functions[2, k, lane] + (point[k, lane] - alpha0[k]) * functions[3, k, lane]
            matrix[k, k, lane] += point[k, lane] * (own * point[k, lane] - gradient[k, lane])


@part
def _natural_curvature(gram, gap, precision, point, functions, state, pivots, matrix):
    """In lanes whose pivots are too small, the natural curvature in ln g: Fisher information plus
    2 t e (I - 1m') G (I - m1').
    """
    size = gram.shape[0]
    lanes = point.shape[1]
    for lane in range(lanes):
        if not pivots[lane] > LEAST_PIVOT:
            s = point[size, lane]
            weight = precision[lane] / (s * (s + 1.0))
            quadratic = 0.0
            for k in range(size):
                quadratic += (
                    0.5
                    * (state[k, lane] - _diagonal(gram, gap, k, lane))
                    * point[k, lane]
                    / (s * s)
                )
            for k in range(size):
                v_k = 0.5 * (state[k, lane] - _diagonal(gram, gap, k, lane)) / s
                for p in range(k + 1):
                    v_p = 0.5 * (state[p, lane] - _diagonal(gram, gap, p, lane)) / s
                    entry = gram[k, p] - gap[packed(k, p), lane] if len(gap) else gram[k, p]
                    bend = weight * (entry - v_k - v_p + quadratic) - functions[2, size, lane]
                    matrix[k, p, lane] = bend * point[k, lane] * point[p, lane]
                matrix[k, k, lane] += functions[2, k, lane] * point[k, lane] ** 2


@part
def _measure(point, gradient, direction, gain, step):
    """The gain (f' . step) / 2 that the quadratic model promises, and the step length that LONGEST
    allows.
    """
    size, lanes = gradient.shape
    for lane in range(lanes):
        gain[lane] = 0.0
        step[lane] = LONGEST
    for k in range(size):
        for lane in range(lanes):
            gain[lane] += 0.5 * point[k, lane] * gradient[k, lane] * direction[k, lane]
            step[lane] = max(step[lane], abs(direction[k, lane]))
    for lane in range(lanes):
        step[lane] = LONGEST / step[lane]
