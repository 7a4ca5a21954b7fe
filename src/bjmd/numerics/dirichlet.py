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
from typing import NamedTuple

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


def second_moment(g, weights):
    """sum_j E[h_j h_j'] = sum_j (s m m' + diag m) / (s + 1), with a weight per column or 1.0."""
    size, n_columns = g.shape

    def part(first, last):
        s = g[:, first:last].sum(axis=0)
        m = g[:, first:last] / s
        weighted = m * weights[first:last] if isinstance(weights, np.ndarray) else m
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


class Block(NamedTuple):
    """The problems of some columns, a lane each."""

    gram: np.ndarray
    """G, K x K, which all columns share."""
    gap: np.ndarray
    """What each lane's own G lacks, packed; no rows where nothing is missing."""
    linear: np.ndarray
    """b."""
    precision: np.ndarray
    """t."""
    alpha0: np.ndarray


class Place(NamedTuple):
    """A g in every lane, and what is known there."""

    point: np.ndarray
    """g, and s in the last row."""
    functions: np.ndarray
    """ln Gamma, psi, psi' and psi'' of these."""
    state: np.ndarray
    """2Gg + d, then b.g, then Q."""
    f: np.ndarray


@part
def _empty_place(size, lanes):
    return Place(
        np.empty((size + 1, lanes)),
        np.empty((4, size + 1, lanes)),
        np.empty((size + 2, lanes)),
        np.empty(lanes),
    )


@compiled
def _maximise(
    begin, end, gram, gaps, linear, precisions, alpha0, g, value, explained, log_sum, tol, max_steps
):
    """Overwrites g, value, explained and log_sum of the columns from `begin` to `end`, by block.

    Every lane takes a step from `here` to `there`, and halves it where f falls.
    """
    size, n_columns = linear.shape
    lanes = min(LANES, n_columns)
    precision = np.empty((1, lanes))
    gap = np.empty((len(gaps), lanes))
    block = Block(gram, gap, np.empty((size, lanes)), precision[0], alpha0)
    here = _empty_place(size, lanes)
    there = _empty_place(size, lanes)
    gradient = np.empty((size, lanes))
    direction = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    step = np.empty(lanes)
    finished = np.empty(lanes, dtype=np.bool_)
    for first in range(begin, end, lanes):
        load(g, first, there.point[:size])
        load(gaps, first, gap)
        load(precisions, first, precision)
        n_block = load(linear, first, block.linear)
        for lane in range(lanes):
            step[lane] = 0.0
            finished[lane] = False
        n_steps = n_halvings = 0
        # each function is called in one place only: the compiler takes its time for every copy
        while True:
            _evaluate(block, there)
            n_halvings += 1
            if not _halve(here, there, n_halvings, step, finished):
                left = here
                here = there
                there = left  # from here on a place to write to
                if n_steps == max_steps:
                    break
                _newton_direction(block, here, gradient, matrix, direction)
                if _all_finish(here, gradient, direction, tol, step, finished):
                    break
                n_steps += 1
                n_halvings = 0
            for k in range(size):
                for lane in range(lanes):
                    there.point[k, lane] = here.point[k, lane] * np.exp(
                        step[lane] * direction[k, lane]
                    )
        for lane in range(n_block):
            value[first + lane] = here.f[lane]
            explained[first + lane] = _explained(here, lane)
            log_sum[first + lane] = -size * here.functions[1, size, lane]
            for k in range(size):
                log_sum[first + lane] += here.functions[1, k, lane]
        store(here.point[:size], g, first)


@part
def _evaluate(block, place):
    """Fill what follows from the g of a place."""
    point = place.point
    functions = place.functions
    state = place.state
    f = place.f
    size, lanes = block.linear.shape
    total_alpha0 = block.alpha0.sum()
    s = point[size]
    along = state[size]
    quadratic = state[size + 1]
    for lane in range(lanes):
        s[lane] = 0.0
        along[lane] = 0.0
    for k in range(size):
        for lane in range(lanes):
            s[lane] += point[k, lane]
            along[lane] += block.linear[k, lane] * point[k, lane]
    gamma_functions(point, functions)
    for lane in range(lanes):
        f[lane] = (s[lane] - total_alpha0) * functions[1, size, lane] - functions[0, size, lane]
        quadratic[lane] = 0.0
    for k in range(size):
        for lane in range(lanes):
            state[k, lane] = 0.0
        for p in range(size):
            weight = block.gram[k, p]
            for lane in range(lanes):
                state[k, lane] += weight * point[p, lane]
        if len(block.gap):
            for p in range(size):
                for lane in range(lanes):
                    state[k, lane] -= block.gap[packed(k, p), lane] * point[p, lane]
        for lane in range(lanes):
            d = _gram(block, k, k, lane)
            quadratic[lane] += point[k, lane] * (state[k, lane] + d)
            state[k, lane] = 2.0 * state[k, lane] + d
            own = (block.alpha0[k] - point[k, lane]) * functions[1, k, lane]
            f[lane] += own + functions[0, k, lane]
    for lane in range(lanes):
        f[lane] += block.precision[lane] * _explained(place, lane)


@part
def _explained(place, lane):
    """L(g) of one lane, from s, b.g and Q."""
    s = place.point[-1, lane]
    along = place.state[-2, lane]
    quadratic = place.state[-1, lane]
    return (along - 0.5 * quadratic / (s + 1.0)) / s


@part
def _gram(block, k, p, lane):
    """G_kp of one lane."""
    entry = block.gram[k, p]
    return entry - block.gap[packed(k, p), lane] if len(block.gap) else entry


@part
def _halve(here, there, n_halvings, step, finished):
    """Halve the steps that lowered f, the last time to nothing; whether there were any."""
    fell = False
    for lane in range(len(step)):
        if step[lane] > 0.0 and not there.f[lane] >= here.f[lane]:
            step[lane] *= 0.5
            fell = True
            if n_halvings == MAX_HALVINGS:
                # rounding is all that is left; evaluate once more where we were
                step[lane] = 0.0
                finished[lane] = True
    return fell


@part
def _newton_direction(block, place, gradient, matrix, direction):
    """gradient = f'(g), and direction = the step in ln g (docs/derivation.md, 4.5)."""
    size, lanes = gradient.shape
    pivots = np.empty(lanes)
    _gradient(block, place, gradient)
    for attempt in range(2):
        _curvature(block, place, gradient, matrix)
        if attempt == 1:
            _natural_curvature(block, place, pivots, matrix)
        pivots = cholesky(matrix)
        concave = True
        for lane in range(lanes):
            concave &= pivots[lane] > LEAST_PIVOT
        if concave:
            break
    for k in range(size):
        for lane in range(lanes):
            direction[k, lane] = place.point[k, lane] * gradient[k, lane]
    solve(matrix, direction)


@part
def _gradient(block, place, out):
    """out = f'(g)."""
    alpha0 = block.alpha0
    precision = block.precision
    point = place.point
    functions = place.functions
    state = place.state
    size, lanes = out.shape
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
            explained = block.linear[k, lane] - 0.5 * state[k, lane] / (s + 1.0)
            own = precision[lane] * explained / s
            out[k, lane] = common[lane] + own + functions[2, k, lane] * (alpha0[k] - point[k, lane])


@part
def _curvature(block, place, gradient, matrix):
    """matrix = -f'' in ln g, that is diag(g) (-f'') diag(g) - diag(g f'); lower triangle."""
    alpha0 = block.alpha0
    precision = block.precision
    point = place.point
    functions = place.functions
    state = place.state
    size, lanes = gradient.shape
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
            slope = e1 * state[k, lane] + block.linear[k, lane] / (s * s)
            chi[k, lane] = precision[lane] * slope
    for k in range(size):
        for p in range(k + 1):
            weight = block.gram[k, p]
            for lane in range(lanes):
                bend = of_gram[lane] * weight + chi[k, lane] + chi[p, lane] + chi_0[lane]
                matrix[k, p, lane] = bend * point[k, lane] * point[p, lane]
            if len(block.gap):
                for lane in range(lanes):
                    bend = of_gram[lane] * block.gap[packed(k, p), lane]
                    matrix[k, p, lane] -= bend * point[k, lane] * point[p, lane]
        for lane in range(lanes):
            own = functions[2, k, lane] + (point[k, lane] - alpha0[k]) * functions[3, k, lane]
            matrix[k, k, lane] += point[k, lane] * (own * point[k, lane] - gradient[k, lane])


@part
def _natural_curvature(block, place, pivots, matrix):
    """In lanes whose pivots are too small, the natural curvature in ln g: Fisher information plus
    2 t e (I - 1m') G (I - m1').
    """
    point = place.point
    functions = place.functions
    state = place.state
    size = len(block.gram)
    for lane in range(len(pivots)):
        if not pivots[lane] > LEAST_PIVOT:
            s = point[size, lane]
            weight = block.precision[lane] / (s * (s + 1.0))
            quadratic = 0.0
            for k in range(size):
                product = 0.5 * (state[k, lane] - _gram(block, k, k, lane))
                quadratic += product * point[k, lane] / (s * s)
            for k in range(size):
                v_k = 0.5 * (state[k, lane] - _gram(block, k, k, lane)) / s
                for p in range(k + 1):
                    v_p = 0.5 * (state[p, lane] - _gram(block, p, p, lane)) / s
                    entry = _gram(block, k, p, lane)
                    bend = weight * (entry - v_k - v_p + quadratic) - functions[2, size, lane]
                    matrix[k, p, lane] = bend * point[k, lane] * point[p, lane]
                matrix[k, k, lane] += functions[2, k, lane] * point[k, lane] ** 2


@part
def _all_finish(place, gradient, direction, tol, step, finished):
    """Give every lane the length that LONGEST allows, or none if the quadratic model promises a
    gain (f' . step) / 2 of at most `tol`; whether that ends all of them.
    """
    size, lanes = gradient.shape
    gain = np.empty(lanes)
    for lane in range(lanes):
        gain[lane] = 0.0
        step[lane] = LONGEST
    for k in range(size):
        for lane in range(lanes):
            gain[lane] += 0.5 * place.point[k, lane] * gradient[k, lane] * direction[k, lane]
            step[lane] = max(step[lane], abs(direction[k, lane]))
    n_finished = 0
    for lane in range(lanes):
        step[lane] = LONGEST / step[lane]
        finished[lane] |= gain[lane] <= tol
        if finished[lane]:
            step[lane] = 0.0
            n_finished += 1
    return n_finished == lanes
