"""Memberships of new samples in the components of a fit, which stay as they are.

    # features x samples, NaN where an entry is missing
    projection = project(result, matrix, source=0)
    projection.memberships, projection.noise, projection.dirichlet

Each sample solves the column problem of the method that made the fit, a Dirichlet (dirichlet.py)
or, for MAP, a point on the simplex (simplex.py): a training sample, given its source, gets back the
memberships that it had in the fit.  New samples take over the weights of the features, and of their
source the noise, the offsets, the Dirichlet and the degrees of freedom (docs/model.md).  Missing
entries take their terms out of G and b (moments.py).  Entries (robust noise) and samples (noise by
sample) that have weights are weighed anew until nothing moves.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bjmd.data.matrix import Extent, as_matrix
from bjmd.data.sources import Sources
from bjmd.data.view import View
from bjmd.errors import FitError, InputError, positive_number
from bjmd.inference import registry
from bjmd.inference.noise import Equal, Gammas, NormalEntries, PresentFit, RobustEntries
from bjmd.numerics import dirichlet, moments, simplex, threads
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition, FittedModel

COLUMN_TOLERANCE = 1e-16  #: the gain in nats at which a Dirichlet column is done
COLUMN_STEPS = 1000  #: the most Newton steps of a column
SETTLED = 1e-9  #: the change of memberships in a round that counts as none
NOISE_SETTLED = 1e-8  #: the same for the noise variance, relative to it
ROUNDS = 100_000  #: the most rounds
FAR_OUTSIDE = 10  #: times the range of the data of a fit
MANY_NUMBERS = 20  #: entries that are not whole by chance


@dataclass(frozen=True)
class Projection:
    """What is inferred about new samples."""

    memberships: np.ndarray  #: K x samples
    noise: float  #: the noise sd they were inferred with
    dirichlet: np.ndarray | None  #: the parameters of their Dirichlets, None after MAP


def project(
    result: Decomposition,
    matrix,
    *,
    source: int | None = None,
    noise: float | None = None,
    any_scale: bool = False,
) -> Projection:
    """Memberships of the columns of `matrix` (features x samples, dense or sparse) under a fit's W.

    source is the number of the training source that the samples belong with: they take over all
    that the fit knows of it.  noise is their noise sd, if it is another.  With neither, the noise
    is estimated from the new samples, together with their memberships, and they have no offsets.
    Samples that look as if they were on another scale than the data of the fit are refused, unless
    any_scale is true.
    """
    with threads.blas_on_one_thread():  # the same bits whatever else the machine does
        problem, columns, noise = _solved(result, matrix, source, noise, any_scale)
    return Projection(_finite(problem.mean(columns)), noise, columns if result.posterior else None)


def log_evidence(
    result: Decomposition,
    matrix,
    *,
    source: int | None = None,
    noise: float | None = None,
    any_scale: bool = False,
) -> np.ndarray:
    """A lower bound on ln p(x_j) of every new sample, its memberships integrated out.

    It is the sample's ELBO, E[ln p(x_j, h, u, v)] - E[ln q(h, u, v)] at the best q, with W and the
    offsets as the fit has them (their posterior, or the point estimate of MAP) and the noise as in
    `project`; u is the precision of the sample and v those of its entries, where the fit has them.
    """
    with threads.blas_on_one_thread():
        problem, columns, sd = _solved(result, matrix, source, noise, any_scale, kind=_Dirichlets)
        return _finite(problem.bound(columns, sd))


def impute(
    result: Decomposition,
    matrix,
    *,
    source: int | None = None,
    noise: float | None = None,
    any_scale: bool = False,
):
    """The new samples with missing entries filled in, and the sd of every entry.

    A missing entry becomes its posterior mean; its variance is that of w_i h_j, of the offset and
    of the noise, with the precision of its sample integrated out.  After a robust fit with at most
    2 degrees of freedom it is infinite. Observed entries stay as they are, with standard deviation
    0.  After a MAP fit, which has no posterior, the second is None.
    """
    with threads.blas_on_one_thread():
        problem, columns, sd = _solved(result, matrix, source, noise, any_scale)
        memberships = _finite(problem.mean(columns))
        x = as_matrix(matrix).columns(slice(None))
        missing = np.isnan(x)
        shift, shift_variance = predictive.offsets(result, source)
        if not result.posterior:
            return np.where(missing, result.components @ memberships + shift, x), None
        mean, variance = predictive.product_moments(result, columns)
        excess = problem.entries.excess_variance * problem.sample.mean_inverse
        variance += shift_variance
        variance += sd**2 / np.reshape(problem.phi, (-1, 1)) * excess
    return np.where(missing, mean + shift, x), np.where(missing, np.sqrt(variance), 0)


def _finite(values):
    """The same, one column a new sample, if all are numbers."""
    bad = np.flatnonzero(
        ~np.isfinite(values).all(axis=0) if values.ndim == 2 else ~np.isfinite(values)
    )
    if len(bad):
        raise InputError(
            f"new sample {bad[0]} (counted from 0) cannot be placed in floating point: its entries "
            "are too far from those of the fit; check its unit"
        )
    return values


def _solved(result, matrix, source, noise, any_scale, kind=None):
    """The column problem, its solution, and the noise sd: given, of the source, or estimated."""
    if kind is None:
        kind = _Dirichlets if result.posterior else _Points
    x = _new_samples(matrix, len(result.components))
    if not any_scale:
        _require_same_scale(x, _known(result).data_extent)
    problem = kind(result, x, source)
    if noise is not None:
        noise = positive_number("noise", noise)
    elif source is not None and result.noise is not None:
        noise = float(result.noise[source])
    return problem, *problem.solve(noise)


def _known(result: Decomposition) -> FittedModel:
    """What the fit knows of the model; refused where it has none."""
    if result.model is None:
        able = registry.names_with("infers_bjmd")
        raise InputError(
            f"method {result.method!r} has no way to place new samples; fit with one of {able}"
        )
    return result.model


def _new_samples(matrix, n_features):
    """The new samples in memory, if they can be placed; features may be missing in all of them."""
    x = as_matrix(matrix, "new samples")
    if not x.in_memory:
        x = as_matrix(x.columns(slice(None)))
    if x.shape[0] != n_features:
        raise InputError(
            f"the new samples have {x.shape[0]} features but the fit has {n_features}; give the "
            "features of the fit in its order, NaN for those not measured (rows are features)"
        )
    empty = np.flatnonzero(x.counts_of_columns == 0)
    if len(empty):
        raise InputError(f"new sample {empty[0]} (counted from 0) has no observed entry; remove it")
    Sources([x.fillable()], names=["new samples"])  # refuses infinite entries
    return x


def _require_same_scale(x, data_extent):
    """Refuse entries far outside those of the fit, and counts in place of logarithms."""
    if data_extent is None:  # a fit by an earlier version
        return
    least, largest, is_whole = data_extent
    fitted = Extent(least, largest, bool(is_whole))
    width = fitted.largest - fitted.least or abs(fitted.largest)
    new = x.extent
    is_far = max(new.largest - fitted.largest, fitted.least - new.least) > FAR_OUTSIDE * width
    n_numbers = np.count_nonzero(x.values) - x.n_missing
    is_other = new.is_whole != fitted.is_whole and n_numbers > MANY_NUMBERS
    if is_far or is_other:
        raise InputError(
            f"the new samples are {new}, but the data of the fit were {fitted}; prepare them as "
            "those were, in the same unit and with the same logarithms, or allow any scale "
            "(--any-scale, in Python any_scale=True)"
        )


def _of_source(values, source):
    """The entry of a source, or the mean over the sources where none is named."""
    return values.mean(axis=0) if source is None else values[source]


class _Columns:
    """The columns of new samples, one problem each: what both kinds share."""

    def __init__(self, result, x, source):
        # memberships sum to 1, so any origin will do; with the mean of W little is lost
        self.origin = result.components.mean(axis=1)
        self.w = result.components - self.origin[:, None]
        model = _known(result)
        self.phi = 1.0 if model.feature_precision is None else model.feature_precision
        offset, offset_variance = predictive.offsets(result, source)
        shift = self.origin + offset.ravel()
        self.view = View(x, origin=shift)
        self.alpha0 = _of_source(model.alpha0, source)
        self.a0, self.b0 = model.noise_prior
        weights = np.ones(len(self.w)) * self.phi
        second = self.second_moments(result)
        self.gram = moments.unpack(weights @ second, result.n_components)
        self.wt = np.ascontiguousarray((self.w * weights[:, None]).T)
        self.gaps = np.empty((0, x.shape[1]))
        if self.view.missing is not None:
            self.gaps = np.ascontiguousarray(
                moments.sums_over(self.view.by_column, second, weights).T
            )
        # of every column, weighted by phi
        self.offset_variance = self.view.counts_of_columns(weights * offset_variance.ravel())
        self.sample: Any = Equal()
        if model.sample_shape is not None:
            counts = self.view.counts_of_columns()
            self.sample = Gammas.at(_of_source(model.sample_shape, source), counts, counts)
        self.entries: Any = NormalEntries(x.squared_norm)
        if model.degrees_of_freedom is not None:
            if x.is_sparse:
                raise InputError(
                    "a robust fit weighs every single entry; give the new samples as a dense matrix"
                )
            nu = _of_source(model.degrees_of_freedom, source)
            values = x.columns(slice(None)) - shift[:, None]
            self.view = View(values.copy(), constant=False)
            self.entries = RobustEntries(values, x.squared_norm, nu)

    def second_moments(self, result):
        """w_i w_i', or its expectation, of every row, packed."""
        k, p = np.tril_indices(result.n_components)
        return self.w[:, k] * self.w[:, p]

    def solve(self: Any, noise):
        """The best columns and the noise sd, which is updated every round if none is given."""
        view = self.view
        estimated = noise is None
        counts = view.counts_of_columns()
        columns = self.start(view.shape[1])
        linear = view.times_components(self.wt)
        squares = view.squares_of_columns(self.phi)
        if estimated:
            variance = self.noise_variance(squares.sum(), counts.sum())
        else:
            variance = (noise / self.entries.scale) ** 2
        weighs = self.entries.is_learned or self.sample.is_learned
        for _ in range(ROUNDS):
            before = self.mean(columns)
            if self.entries.is_learned:
                linear, squares, _ = self.weighed(columns, variance)
            columns = self.columns(linear, self.sample.mean / variance, columns)
            if not estimated and not weighs:
                return columns, float(noise)
            errors = squares + self.offset_variance
            errors -= 2 * moments.explained(
                linear, self.gram, self.gaps, self.mean(columns), self.share(columns)
            )
            errors = np.maximum(errors, 0.0)
            self.sample = self.sample.given(errors / variance)
            previous = variance
            if estimated:
                u = np.full(len(errors), self.sample.mean)
                variance = self.noise_variance(u @ errors, counts.sum())
            moved = np.abs(self.mean(columns) - before).max()
            if moved <= SETTLED and abs(variance - previous) <= NOISE_SETTLED * previous:
                return columns, float(self.entries.scale * np.sqrt(previous))
        raise FitError(
            f"the new samples did not settle in {ROUNDS} rounds; leave out those with few entries"
        )

    def weighed(self, columns, variance):
        """b and phi-weighted squares of every column, and their entries at their weights."""
        weights = 1 / variance, self.phi, self.sample.mean
        entries = self.entries.weighted(self.view, PresentFit(0.0, self.w.T, columns, *weights))
        squares = entries.squares_by_sample(self.view, self.phi)
        return self.view.times_components(self.wt), squares, entries


class _Dirichlets(_Columns):
    """The column problem of the variational methods; columns are the parameters g.

    It also serves ADVI, whose own has no closed form.
    """

    mean = staticmethod(dirichlet.mean)

    @staticmethod
    def share(g):
        s = g.sum(axis=0)
        return s / (s + 1)

    def second_moments(self, result):
        packed = super().second_moments(result)
        if result.posterior:
            k, p = np.tril_indices(result.n_components)
            for rows in predictive.blocks(len(packed), result.n_components**2):
                packed[rows] += result.posterior.components.covariance(rows)[:, k, p]
        return packed

    def start(self, n_samples):
        """The prior."""
        return np.repeat(self.alpha0[:, None], n_samples, axis=1)

    def columns(self, linear, precision, start):
        return self._maximise(linear, precision, start).g

    def _maximise(self, linear, precision, start):
        options = {"tol": COLUMN_TOLERANCE, "max_steps": COLUMN_STEPS, "gaps": self.gaps}
        return dirichlet.maximise(
            self.gram, np.ascontiguousarray(linear), precision, self.alpha0, start, **options
        )

    def bound(self, columns, noise):
        """The ELBO of every column, after `solve`."""
        counts = self.view.counts_of_columns()
        variance = (noise / self.entries.scale) ** 2
        u = self.sample.mean
        linear, squares, entries = self.weighed(columns, variance)
        best = self._maximise(linear, u / variance, columns)
        value = best.value + dirichlet.log_normaliser(self.alpha0)
        value -= 0.5 * u * (squares + self.offset_variance) / variance
        value -= 0.5 * counts * np.log(2 * np.pi * variance)
        value += 0.5 * self.view.counts_of_columns(np.full(len(self.w), np.log(self.phi)))
        return value + self.sample.elbo_of_each() + entries.elbo_by_sample()

    def noise_variance(self, rss, n_observed):
        """B / A = 1 / E[1/s2]."""
        return (self.b0 + 0.5 * rss) / (self.a0 + 0.5 * n_observed)


class _Points(_Columns):
    """The column problem of MAP; columns are memberships h."""

    @staticmethod
    def mean(h):
        return h

    @staticmethod
    def share(h):
        return 1.0

    def start(self, n_samples):
        return np.full((len(self.gram), n_samples), 1 / len(self.gram))

    def columns(self, linear, precision, start):
        alpha = (self.alpha0 - 1) / precision
        if self.view.missing is None:
            return simplex.minimise(self.gram, linear, alpha).h
        # by sample, exactly: G less what its missing entries take out
        grams = self.gram - moments.unpack(self.gaps.T, len(self.gram))
        return np.hstack(
            [simplex.minimise(gram, linear[:, [j]], alpha).h for j, gram in enumerate(grams)]
        )

    def noise_variance(self, rss, n_observed):
        """The mode."""
        return (2 * self.b0 + rss) / (2 * self.a0 + n_observed + 2)
