"""New samples in the coordinates of a fit: W stays as it is, the memberships of every new sample are inferred.

The mathematics is in docs/derivation.md, 8.

    projection = project(result, matrix)                       # features x samples, NaN where an entry is missing
    projection.memberships, projection.noise, projection.dirichlet

Each sample's memberships solve the column problem of the method that made the fit: a Dirichlet (dirichlet.py) for the
variational methods, a point on the simplex (simplex.py) for MAP.  So a training sample, given its source's noise, gets
back the memberships that it had in the fit.

Missing entries are filled in with the mean mu_i m_j of the current memberships (missing.py) and the column is solved
again, until it stays where it is.  With C_j the sum of mu_i mu_i' over the missing entries of sample j, sums over the
observed ones give all that is needed, for K^2 numbers a sample and no M x N matrix:

    E[W]'x_j = sum mu_i x_ij + C_j m_j
    E||x_j - W h_j||^2 = sum x_ij^2 - 2 sum x_ij mu_i.m_j - m_j'C_j m_j + <G, E[h_j h_j']>
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from bjmd.checks import positive_number
from bjmd.data.products import components_times_data
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.fits import registry
from bjmd.model import Priors
from bjmd.numerics import dirichlet, simplex

COLUMN_TOLERANCE, COLUMN_STEPS = 1e-16, 1000
"""Gain in nats at which a Dirichlet column is done, and its most Newton steps; warm starts need one or two."""
SETTLED, NOISE_SETTLED, ROUNDS = 1e-9, 1e-8, 100_000
"""Changes in a round, of memberships and relative of the noise variance, that are taken as none; the most rounds."""
BLOCK = 2**22
"""Numbers in the largest temporary array."""


@dataclass(frozen=True)
class Projection:
    """Memberships of new samples, K x N, the noise sd they were inferred at, and their Dirichlet parameters.

    dirichlet is None after a MAP fit, which has no posterior.
    """

    memberships: np.ndarray
    noise: float
    dirichlet: np.ndarray | None


def project(result, matrix, *, noise=None):
    """Memberships of the columns of `matrix` (features x samples, dense or sparse) under a fit's W.

    noise is the noise sd of the new samples, for example that of the training source they belong with; then every
    sample is placed by itself.  With None it is estimated from the new samples, together with their memberships.
    """
    with threadpool_limits(1):  # the same bits whatever else the machine does
        problem = _Dirichlets(result) if result.posterior else _Points(result)
        columns, noise = _solve(problem, _NewSamples(result, matrix), noise)
    return Projection(problem.mean(columns), noise, columns if result.posterior else None)


def log_evidence(result, matrix, *, noise=None):
    """A lower bound on ln p(x_j) of every new sample with its memberships integrated out; missing entries left out.

    It is E[ln N(x_j; W h, s2)] + E[ln Dirichlet(h; alpha0)] - E[ln q(h)] at the best q(h) = Dirichlet(g), with W as
    the fit has it (its posterior, or the point estimate of MAP) and the noise sd as in `project`.
    """
    with threadpool_limits(1):
        problem, samples = _Dirichlets(result), _NewSamples(result, matrix)
        noise = _solve(problem, samples, None)[1] if noise is None else positive_number("noise", noise)
        value = problem.bound(problem.gram, samples.linear, noise**2)
        for j, gram in zip(np.flatnonzero(samples.incomplete), samples.observed_grams(result), strict=True):
            value[j] = problem.bound(gram, samples.linear[:, [j]], noise**2)[0]
        norms, counts = samples.observed()
        return value - 0.5 * (norms / noise**2 + counts * np.log(2 * np.pi * noise**2))


def impute(result, matrix, *, noise=None):
    """The new samples with missing entries filled in, and the standard deviation of every entry, features x samples.

    A missing entry becomes its posterior mean; its variance is that of w_i h_j plus the noise's.  Observed entries
    stay as they are, with standard deviation 0.  After a MAP fit, which has no posterior, the second is None.
    """
    projection = project(result, matrix, noise=noise)
    with threadpool_limits(1):
        x = np.array(matrix.toarray() if scipy.sparse.issparse(matrix) else matrix, dtype=float)
        missing = np.isnan(x)
        if projection.dirichlet is None:
            return np.where(missing, result.components @ projection.memberships, x), None
        mean, variance = product_moments(result, projection.dirichlet)
    return np.where(missing, mean, x), np.where(missing, np.sqrt(variance + projection.noise**2), 0)


def product_moments(result, g):
    """Mean and variance of every entry of W H, features x samples, for columns q(h_j) = Dirichlet(g_j).

    With s = sum g and m = g / s it is E[w_i h] = mu_i.m, and E[h'(mu_i mu_i' + S_i)h] - (mu_i.m)^2 is

        ((mu_i^2).m - (mu_i.m)^2) / (s + 1) + <S_i, E[hh']>.
    """
    s = g.sum(axis=0)
    m = g / s
    size = len(g)
    mean = result.components @ m
    variance = np.maximum((result.components**2) @ m - mean**2, 0) / (s + 1)
    second_moment = (s * m[:, None] * m + np.eye(size)[:, :, None] * m) / (s + 1)
    for rows in _blocks(len(mean), size**2):
        covariance = result.posterior.components.covariance(rows)
        variance[rows] += covariance.reshape(-1, size**2) @ second_moment.reshape(size**2, -1)
    return mean, variance


class _NewSamples:
    """What the column problems need of the data; `linear` and `squared_norm` are over the observed entries."""

    def __init__(self, result, matrix):
        wt = np.ascontiguousarray(result.components.T)
        missing = None
        if not scipy.sparse.issparse(matrix):
            matrix = np.asarray(matrix)
            if matrix.dtype.kind == "f" and np.isnan(matrix).any():
                missing = np.isnan(matrix)
                matrix = np.where(missing, 0, matrix)
        sources = Sources([matrix], names=["new samples"])
        if sources.n_features != wt.shape[1]:
            raise InputError(
                f"the new samples have {sources.n_features} features but the fit has {wt.shape[1]}; "
                "give the features of the fit in its order, NaN for those not measured (rows are features)"
            )
        self.matrix, self.missing = sources.matrices[0], missing
        self.squared_norm, self.linear = sources.squared_norms[0], components_times_data(wt, self.matrix)
        self.n_observed = self.matrix.shape[0] * self.matrix.shape[1]
        self.incomplete = np.zeros(self.matrix.shape[1], dtype=bool)
        """Which samples have missing entries."""
        if missing is not None:
            self._find_gaps(missing, result.components)

    def _find_gaps(self, missing, components):
        """C_j of every incomplete sample j, which is found at `_gap[_place[j]]`."""
        empty = np.flatnonzero(missing.all(axis=0))
        if len(empty):
            raise InputError(f"new sample {empty[0]} (counted from 0) has no observed entry; remove it")
        self.n_observed -= int(missing.sum())
        self.incomplete = missing.any(axis=0)
        self._place = np.cumsum(self.incomplete) - 1
        self._gap = _sums(missing[:, self.incomplete], lambda rows: _squares(components[rows]))

    def filled_in(self, which, m):
        """C_j m_j of the samples `which`, whose memberships are m: what their missing entries add to `linear`."""
        out, incomplete = np.zeros_like(m), self.incomplete[which]
        if incomplete.any():
            gap = self._gap[self._place[which[incomplete]]]
            out[:, incomplete] = np.einsum("jkl,lj->kj", gap, m[:, incomplete])
        return out

    def observed_grams(self, result):
        """sum of mu_i mu_i' + S_i over the observed entries of every incomplete sample, samples x K x K."""
        if self.missing is None:
            return []
        return _sums(~self.missing[:, self.incomplete], lambda rows: _second_moments(result, rows))

    def observed(self):
        """The squared norm and the number of the observed entries of every sample."""
        squares = self.matrix.multiply(self.matrix) if scipy.sparse.issparse(self.matrix) else self.matrix**2
        n_features, n_samples = self.matrix.shape
        n_missing = np.zeros(n_samples) if self.missing is None else self.missing.sum(axis=0)
        return np.asarray(squares.sum(axis=0)).ravel(), n_features - n_missing


def _squares(w):
    """w_i w_i' of some rows of W, rows x K x K."""
    return w[:, :, None] * w[:, None, :]


def _second_moments(result, rows):
    """E[w_i w_i'] = mu_i mu_i' + S_i of some rows of W, rows x K x K; a point estimate has no S_i."""
    squares = _squares(result.components[rows])
    return squares + result.posterior.components.covariance(rows) if result.posterior else squares


def _sums(chosen, moments):
    """For every column of `chosen` (features x samples, boolean) the sum of the K x K moments of its chosen rows."""
    n_features, n_samples = chosen.shape
    size = moments(slice(0, 1)).shape[-1]
    total = np.zeros((n_samples, size**2))
    for rows in _blocks(n_features, max(size**2, n_samples)):
        total += chosen[rows].T.astype(float) @ moments(rows).reshape(-1, size**2)
    return total.reshape(n_samples, size, size)


class _Dirichlets:
    """The column problem of the variational methods; columns are Dirichlet parameters g.

    ADVI's own family has no closed form, so its new samples get Dirichlets as well.
    """

    def __init__(self, result):
        self.priors = _priors(result)
        self.alpha0 = self.priors.dirichlet(result.n_components)
        every_row = np.ones((len(result.components), 1), dtype=bool)
        (self.gram,) = _sums(every_row, lambda rows: _second_moments(result, rows))

    mean = staticmethod(dirichlet.mean)
    second_moment = staticmethod(dirichlet.second_moment)

    def start(self, n_samples):
        """The prior; f has no other maximum than the one it is seen to lead to."""
        return np.repeat(self.alpha0[:, None], n_samples, axis=1)

    def solve(self, linear, noise_variance, start):
        return self._maximise(self.gram, linear, noise_variance, start).g

    def bound(self, gram, linear, noise_variance):
        """The ELBO of every column but for what does not depend on the memberships."""
        best = self._maximise(gram, linear, noise_variance, self.start(linear.shape[1]))
        return best.value + dirichlet.log_normaliser(self.alpha0)

    def _maximise(self, gram, linear, noise_variance, start):
        # picked columns may come in Fortran order, for which numba would compile everything once more
        linear, start = np.ascontiguousarray(linear), np.ascontiguousarray(start)
        options = {"tol": COLUMN_TOLERANCE, "max_steps": COLUMN_STEPS}
        return dirichlet.maximise(gram, linear, 1 / noise_variance, self.alpha0, start, **options)

    def noise_variance(self, rss, n_observed):
        """B / A = 1 / E[1/s2]."""
        return (self.priors.b0 + 0.5 * rss) / (self.priors.a0 + 0.5 * n_observed)


class _Points:
    """The column problem of MAP; columns are memberships h."""

    def __init__(self, result):
        self.priors = _priors(result)
        self.alpha0 = self.priors.dirichlet(result.n_components)
        self.gram = result.components.T @ result.components

    def start(self, n_samples):
        return np.full((len(self.gram), n_samples), 1 / len(self.gram))

    @staticmethod
    def mean(h):
        return h

    @staticmethod
    def second_moment(h):
        return h @ h.T

    def solve(self, linear, noise_variance, _):
        return simplex.minimise(self.gram, linear, noise_variance * (self.alpha0 - 1)).h

    def noise_variance(self, rss, n_observed):
        """The mode (docs/derivation.md, 3.5)."""
        return (2 * self.priors.b0 + rss) / (2 * self.priors.a0 + n_observed + 2)


def _priors(result):
    method = registry.get(result.method)
    if not method.infers_bjmd:
        able = ", ".join(other.name for other in registry.METHODS.values() if other.infers_bjmd)
        raise InputError(f"method {result.method!r} has no way to place new samples; fit with one of {able}")
    options = method.options() | result.options
    return Priors(**{name: options[name] for name in ("alpha0", "lambda_", "a0", "b0")})


def _solve(problem, samples, noise):
    """The best columns at a noise sd, and that sd; where none is given, its update follows every round of columns."""
    estimated = noise is None
    everyone = moving = np.arange(samples.linear.shape[1])
    columns = problem.start(len(everyone))
    if estimated:
        variance = problem.noise_variance(samples.squared_norm, samples.n_observed)
    else:
        variance = positive_number("noise", noise) ** 2
    for _ in range(ROUNDS):
        before = problem.mean(columns[:, moving])
        linear = samples.linear[:, moving] + samples.filled_in(moving, before)
        columns[:, moving] = problem.solve(linear, variance, columns[:, moving])
        moved = np.abs(problem.mean(columns[:, moving]) - before).max(axis=0)
        if not estimated:
            # a sample is done when it stays where it is, whatever the others do
            moving = moving[samples.incomplete[moving] & (moved > SETTLED)]
            if not len(moving):
                return columns, float(noise)
        else:
            m = problem.mean(columns)
            rss = samples.squared_norm - np.vdot(2 * samples.linear + samples.filled_in(everyone, m), m)
            rss += np.vdot(problem.gram, problem.second_moment(columns))
            previous, variance = variance, problem.noise_variance(max(rss, 0.0), samples.n_observed)
            if moved.max() <= SETTLED and abs(variance - previous) <= NOISE_SETTLED * previous:
                return columns, float(np.sqrt(previous))
    raise FitError(f"{len(moving)} new samples did not settle in {ROUNDS} rounds; leave out those with few entries")


def _blocks(count, width):
    """Slices of a range whose blocks, `width` numbers an entry, stay within BLOCK."""
    step = max(1, BLOCK // width)
    return [slice(first, min(first + step, count)) for first in range(0, count, step)]
