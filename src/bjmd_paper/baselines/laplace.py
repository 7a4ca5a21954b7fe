"""JMD, and GLAD when there is one source: variational inference by Laplace approximations.

The model is that of model.py without a prior on the noise: s2_c is a parameter.  q(W, H) is a
product over rows w_i and columns h_j.  Each factor is the Gaussian at the mode of the expected log
joint, with the inverse negative Hessian there as its covariance (docs/derivation.md, 7).

Columns.  h = softmax(eta), and q is Gaussian in eta.  With G = E[W'W], b = E[W]'x, A = sum_k
alpha0_k, the expected log joint as a density of eta (whose Jacobian turns the Dirichlet's alpha0 -
1 into alpha0) is

    f(eta) = (b'h - h'Gh / 2) / s2 + sum_k alpha0_k ln h_k.

It is concave in h, so its one mode is that of the interior-point solver with alpha = s2 alpha0, and
there

    Lambda = J G J / s2 + diag(alpha0) + A hh' - h alpha0' - alpha0 h',     J = diag(h) - hh',

positive definite but for the direction 1, along which the softmax is constant.  Lambda + 11' is
inverted instead: J removes what that adds, and det(Lambda + 11') is K times the determinant off
that direction.  The moments linearise the softmax and expand ln h to second order:

    E[h] = h,   Cov[h] = V = J Lambda^-1 J,   E[sum_k alpha0_k ln h_k] = sum_k alpha0_k ln h_k - A tr(Lambda^-1 J) / 2.

Rows.  |w| is smoothed to r(w) = sqrt(w^2 + eps^2), eps = smoothing * lambda.  With P = sum_c E[H
H'] / s2_c and y = sum_c x_i E[H]' / s2_c,

    f(w) = y'w - w'Pw / 2 - sum_k r(w_k) / lambda,     S^-1 = P + diag(eps^2 / r(w)^3) / lambda,

    E[sum_k r(w_k)] = sum_k r(w_k) + S_kk eps^2 / r(w_k)^3 / 2.

Noise.  s2_c = E||X - WH||^2 / (M N_c), where E||X - WH||^2 = ||X||^2 - 2 <E[W]'X, E[H]> + <G,
E[HH']>.

The objective is the negative ELBO with these moments.  It is an approximation, so it may rise
between sweeps, and where it turns it hardly changes: hence the stopping rule asks for two small
changes in a row.

Sweeps creep, so they have momentum in ln h as long as the objective falls
(bjmd/inference/momentum.py).  Where a plain sweep raises it, or momentum gains little, plain sweeps
go on from there until the stopping rule holds for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bjmd.checks import positive_number
from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.inference import loop
from bjmd.inference.momentum import exponentials, logarithms
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors
from bjmd.numerics import simplex
from bjmd.numerics.lanes import LANES, cholesky, compiled, invert_factor, load, solve, store
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import Normal, Posterior

NOISE_FLOOR = 1e-12
"""The smallest s2_c, as a share of the source's mean square; nothing else bounds it where the fit
is perfect.
"""
ROW_TOLERANCE = 1e-12
"""A row is at its mode when the Newton step promises to raise f by less than this share of 1 + y'w.
"""
FAIR_PART = 0.1
"""The part of its promise, the slope of f along it, that a step must keep, or it is halved."""
MAX_ROW_STEPS = 100
MAX_HALVINGS = 30


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    alpha0: float | Sequence[float] = Priors.alpha0,
    lambda_: float = Priors.lambda_,
    smoothing: float = 0.1,
    tol: float = 1e-5,
    max_sweeps: int = 1000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from one random start; stop when the approximate ELBO changes by at most `tol` of itself
    twice in a row.
    """
    positive_number("smoothing", smoothing)
    algorithm = LaplaceApproximation(
        sources, Priors(alpha0, lambda_), n_components, smoothing, seed
    )
    sweep_on = partial(
        loop.run,
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        objective="approximate ELBO",
        patience=2,
    )
    course = loop.Course()
    approach = sweep_on(momentum_from=1, course=course)
    if len(approach.trace) == max_sweeps:
        return approach
    n = len(approach.trace) - bool(
        course.end
    )  # the rise that ended it is the first of the plain sweeps
    course = loop.Course(course.best, course.best, trace=course.trace[:n], undone=course.undone[:n])
    result = sweep_on(course=course, monotone=False)
    watched = {
        name: np.concatenate([approach.history[name][:n], later])
        for name, later in result.history.items()
    }
    result.history = watched | {"undone": np.array(course.undone)}
    return result


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next."""

    memberships: list[np.ndarray]
    spreads: list[np.ndarray]
    """sum_j V_j of every source."""
    columns: list[simplex.Solution | None]
    """The memberships with their slacks, to start the next solution from."""
    noise_variances: np.ndarray
    wt: np.ndarray
    """The modes of the rows of W, K x M."""
    deviations: list[np.ndarray]
    """Standard deviations of W' and of the memberships of every source."""

    def vector(self):
        return logarithms(self.memberships)

    def at(self, vector):
        columns = exponentials(vector, [h.shape for h in self.memberships])
        return replace(self, memberships=[h / h.sum(axis=0) for h in columns])


class LaplaceApproximation:
    """Rows, columns and noise in turn (loop.Algorithm)."""

    def __init__(self, sources, priors, n_components, smoothing, seed):
        self.sources = sources
        self.lambda_ = priors.lambda_
        self.seed = seed
        self.alpha0 = priors.dirichlet(n_components)
        self.eps = smoothing * priors.lambda_
        self.mean_squares = _mean_squares(sources)

    def start(self):
        n_components = len(self.alpha0)
        rng = np.random.default_rng(self.seed)
        return State(
            memberships=[random_memberships(n_components, n, rng) for n in self.sources.n_samples],
            spreads=[np.zeros((n_components, n_components)) for _ in self.sources.n_samples],
            columns=[None] * len(self.sources),
            noise_variances=self.mean_squares,
            wt=np.zeros((n_components, self.sources.n_features)),
            deviations=[],
        )

    def sweep(self, state):
        sources = self.sources
        s2 = state.noise_variances
        precision = sum(
            (h @ h.T + v) / s for h, v, s in zip(state.memberships, state.spreads, s2, strict=True)
        )
        linear = sum(
            x.times_memberships(h) / s
            for x, h, s in zip(sources.data, state.memberships, s2, strict=True)
        )
        wt = state.wt.copy()
        row_spread, deviation, objective = approximate_rows(
            precision, linear, wt, self.lambda_, self.eps
        )

        gram = wt @ wt.T + row_spread
        columns = []
        spreads = []
        deviations = [deviation]
        variances = np.empty(len(sources))
        for c, x in enumerate(sources.data):
            projection = x.times_components(wt)
            solution = simplex.minimise(
                gram, projection, s2[c] * self.alpha0, start=state.columns[c]
            )
            spread, deviation, terms = approximate_columns(gram / s2[c], self.alpha0, solution.h)
            rss = residual_sum_of_squares(sources.squared_norms[c], gram, projection, solution.h)
            rss += np.vdot(gram, spread)
            n_entries = sources.n_features * sources.n_samples[c]
            variances[c] = max(rss / n_entries, NOISE_FLOOR * self.mean_squares[c])
            objective += 0.5 * (rss / variances[c] + n_entries * np.log(variances[c])) + terms
            columns.append(solution)
            spreads.append(spread)
            deviations.append(deviation)
        memberships = [solution.h for solution in columns]
        return State(memberships, spreads, columns, variances, wt, deviations), objective

    def memberships(self, state):
        return state.memberships

    def finish(self, state):
        of_components, *of_memberships = state.deviations
        components = np.ascontiguousarray(state.wt.T)
        posterior = Posterior(
            components=Normal(components, np.ascontiguousarray(of_components.T)),
            memberships=[
                Normal(h, sd) for h, sd in zip(state.memberships, of_memberships, strict=True)
            ],
            noise=None,
        )
        return loop.Found(components, state.memberships, np.sqrt(state.noise_variances), posterior)


def _mean_squares(sources):
    mean_squares = np.array(sources.squared_norms) / (
        sources.n_features * np.array(sources.n_samples)
    )
    for name, value in zip(sources.names, mean_squares, strict=True):
        if value == 0:
            raise InputError(
                f"source {name!r} is zero everywhere, so its noise cannot be estimated; leave it out"
            )
    return mean_squares


def approximate_rows(precision, linear, wt, lambda_, eps):
    """q(w_i) for every row: overwrites wt (K x M), where the search starts, by the modes.

    Returns sum_i S_i, the standard deviations (K x M), and what the rows put into the negative
    ELBO.
    """
    spread, deviation, terms, failed = _approximate_rows(precision, linear, wt, lambda_, eps)
    if failed:
        raise FitError(
            f"{failed} of {wt.shape[1]} rows of W did not reach their mode in {MAX_ROW_STEPS} Newton steps; "
            "rescale the data or the priors"
        )
    return spread, deviation, terms


@compiled
def _approximate_rows(precision, linear, wt, lambda_, eps):
    """Newton's method in every row, a lane each, then the moments at the mode; also counts rows
    that missed it.
    """
    size, n_rows = linear.shape
    spread = np.zeros_like(precision)
    deviation = np.empty_like(wt)
    lanes = min(LANES, n_rows)
    w = np.empty((size, lanes))
    y = np.empty((size, lanes))
    matrix = np.empty((size, size, lanes))
    terms = 0.0
    failed = 0
    for first in range(0, n_rows, lanes):
        load(wt, first, w)
        n_block = load(linear, first, y)
        failed += min(_climb_rows(precision, y, w, lambda_, eps, matrix), n_block)
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
def _climb_rows(precision, y, w, lambda_, eps, matrix):
    """Newton steps that take every lane of w to its mode; returns how many lanes did not get there.

    Newton's method on f alone leaps across the corner at 0 time and again.  So the slope u = w/r of the smoothed |w| is
    an unknown of its own, in [-1, 1]: Newton's step for  y - P w - u/lambda = 0,  r u = w  is

        (P + diag(1 - u w/r) / (lambda r)) dw = gradient of f,      du = w/r - u + (1 - u w/r) dw / r,

    which is Newton's step on f once u has settled, and leads uphill before.  f is strictly concave,
    so halving dw until it raises f by a fair part of what it promises is safeguard enough.
    """
    size, lanes = w.shape
    u = w / np.sqrt(w * w + eps * eps)
    promise = np.empty(lanes)
    gain = np.empty(lanes)
    left = lanes
    for _ in range(MAX_ROW_STEPS):
        r = np.sqrt(w * w + eps * eps)
        gradient = y - w / (lambda_ * r)
        curvature = (1.0 - u * w / r) / (lambda_ * r)
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
                scale += abs(y[k, lane] * w[k, lane])
            if not promise[lane] <= ROW_TOLERANCE * scale:
                left += 1
        u = np.minimum(np.maximum(w / r + lambda_ * curvature * step, -1.0), 1.0)
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
            rise = d * (2.0 * w[k, lane] + d) / (after + before)  # r(w + d) - r(w)
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

    Returns sum_j V_j, the standard deviations (K x N), and what the columns' prior and entropy put
    into the negative ELBO; their likelihood is part of the source's E||X - WH||^2.
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
        # With S the inverse and t = Sh:  V_kp = h_k h_p (S_kp - t_k - t_p + h't),  tr(S J) = sum_k
        # h_k (S_kk - t_k)
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
