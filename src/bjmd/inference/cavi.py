"""Closed-form variational BJMD: coordinate ascent on the ELBO (docs/derivation.md, 4).

The posterior is approximated by independent factors

    q(w_i) = N(mu_i, S_i) for every row of W,   q(h_j) = Dirichlet(g_j) for every column,
    q(s2_c) = inverse gamma(A_c, B_c),

and the Laplace prior by its bound  -|w|/lambda >= -(rho w^2 + 1/(lambda^2 rho)) / 2, tightest at
rho = 1 / (lambda sqrt(E[w^2])).  With t_c = A_c / B_c, one sweep of the paper's model is

    W      P = sum_c t_c sum_j E[h_j h_j'],   S_i = (P + diag rho_i)^-1,
           mu_i = S_i sum_c t_c sum_j x_ij E[h_j]
    rho    rho_ik = 1 / (lambda sqrt(mu_ik^2 + S_i,kk))
    H      a Newton step on every column (numerics/dirichlet.py), with G = sum_i (mu_i mu_i' + S_i)
    noise  A_c = a0 + n_c / 2,   B_c = b0 + E||X - WH||^2 / 2,   n_c the number of observed entries

No update lowers the ELBO.  tests/oracle.py has this sweep in plain NumPy, to be read first.

What goes beyond the paper (docs/model.md) is a set of objects that are always there, neutral ones
for the paper: weights phi_i of features, u_j of samples and v_ij of entries multiply the precision
(noise.py), offsets shift the sources (offsets.py), and priors may be learned (priors.py).  Missing
entries take their terms out of P and G, and the data are seen in their own unit and from their own
origin (data/view.py).

Between sweeps the state is extrapolated (loop.py) with a safeguard that keeps the ELBO from
falling.  At the end every column is taken to its optimum for the W and the noise that are returned,
so that a sample has the same memberships whether it was part of the fit or is added later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln, psi

from bjmd.data.sources import Sources
from bjmd.data.view import centre
from bjmd.errors import InputError
from bjmd.inference import loop
from bjmd.inference import noise as noise_models
from bjmd.inference.loop import exponentials, logarithms
from bjmd.inference.noise import Equal, Gammas, PresentFit
from bjmd.inference.offsets import NoOffset, Offset
from bjmd.inference.offsets import in_unit as offsets_in_unit
from bjmd.inference.offsets import wanted as offsets_wanted
from bjmd.inference.priors import DirichletBySource, FixedDirichlet, Laplace, SharedDirichlet
from bjmd.inference.registry import Method
from bjmd.inference.starts import clustered_memberships, random_memberships
from bjmd.model import BY_SOURCE, LEARNED, Priors
from bjmd.numerics import dirichlet, moments
from bjmd.numerics.rows import GaussianRows, gaussian_rows
from bjmd.results.decomposition import Decomposition, FittedModel
from bjmd.results.posterior import DirichletColumns, InverseGamma, NormalRows, Posterior

START_STRENGTH = 20.0
"""How many samples' worth of belief the first memberships get."""
COLUMN_STEPS = 1
COLUMN_TOLERANCE = 1e-4
"""Newton steps of a column in a sweep, and the gain in nats below which it takes none."""
PLAIN_SWEEPS = 10
PLAIN_SWEEPS_OF_DATA = 3
"""Sweeps before extrapolation begins, because early ones are no guide to later ones: with the
paper's priors, and with those of the data.
"""
LEARNING_WAITS = 2
LEARNING_WAITS_BY_SOURCE = 4
"""Sweeps before priors are learned: components that are still near zero would keep their scale
there, and a Dirichlet of each source, which can let go of a component for good, would do so.
"""
SETTLING_ROUNDS = 100
SETTLING_STEPS = 100
SETTLED_TOLERANCE = 1e-10
SETTLED = 1e-6
SETTLED_WEIGHTS = 1e-7
"""In the end: rounds of columns and noise, Newton steps and gain as above, and the largest move of
a membership that ends the rounds; a smaller one with weights or a learned Dirichlet, whose rounds
take smaller steps.
"""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    priors: Literal["data", "paper"] = "data",
    noise: str = "source",
    offsets: bool | None = None,
    alpha0: float | Sequence[float] | str | None = None,
    lambda_: float | str | None = None,
    a0: float = Priors.a0,
    b0: float | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 2000,
    watch: loop.Watch | None = None,
    course: loop.Course | None = None,
) -> Decomposition:
    """Fit from one random start; the objective and the trace are minus the ELBO.

    priors="data" measures the data in their own unit and from their own origin, and stops when the
    ELBO changes by at most `tol` nats per entry in a sweep; priors="paper" takes the paper's fixed
    priors and stops when the relative change is at most `tol`.  noise is "source", "feature",
    "sample", "robust", or several of the last three joined by +.  With offsets, every source has an
    offset for each feature.  With priors="data" and two or more sources that is the default.
    There alpha0 and lambda_ are "learned" by default: one concentration of the memberships, and a
    scale for every component.  alpha0="by-source" learns a Dirichlet for every source.
    """
    prior = Priors.of(priors, alpha0, lambda_, a0, b0)
    factors = noise_models.parsed(noise)
    with_offsets = offsets_wanted(offsets, priors, sources)
    _require_able(sources, factors)
    unit, origin = centre(sources, robust="robust" in factors) if priors == "data" else (1.0, 0.0)
    rng = np.random.default_rng(seed)
    algorithm = ClosedForm(
        sources,
        n_components,
        prior.in_unit(unit),
        rng,
        factors,
        with_offsets,
        unit,
        origin,
        clustered=priors == "data",
    )
    return loop.run(
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        objective="ELBO",
        wait=algorithm.waits,
        momentum_from=PLAIN_SWEEPS if priors == "paper" else PLAIN_SWEEPS_OF_DATA,
        per_entry=sum(sources.n_observed) if priors == "data" else None,
        course=course,
    )


METHOD = Method(
    "cavi-bjmd",
    "VI-BJMD (closed form)",
    fit,
    objective="minus the ELBO",
    infers_bjmd=True,
    variational=True,
    missing=True,
    streams=True,
)
POOLED = replace(METHOD, name="cavi-catbjmd", label="VI-catBJMD (closed form)", concatenate=True)


def _require_able(sources, factors):
    """Refuse what a sweep cannot do without the matrices themselves."""
    for name in sorted({"robust", "sample"} & {*factors}):
        sources.require_in_memory(f"noise='{name}'", instead=", or use another noise model")
    if "robust" in factors and any(sources.is_sparse):
        raise InputError(
            "noise='robust' weighs every entry, which would make sparse data dense; "
            "use noise='feature'"
        )


class State(NamedTuple):
    """What one sweep hands to the next.  Lists have an entry for every source."""

    columns: list[np.ndarray]
    """g, K x N_c."""
    ridge: np.ndarray
    """rho, K x M."""
    rates: np.ndarray
    """B_c."""
    rows: GaussianRows
    """q(W), which follows from the rest."""
    feature: Equal | Gammas
    """q(phi)."""
    sample: list[Any]
    """q(u)."""
    entries: list[Any]
    """The prior of v; q(v) follows from the rest."""
    offsets: list[Any]
    """q(o)."""
    laplace: Laplace
    """The prior of the components."""
    dirichlet: FixedDirichlet | SharedDirichlet | DirichletBySource
    """The prior of the memberships."""
    n_sweeps: int = 0

    def memberships(self):
        """E[h] of every column, by source."""
        return [dirichlet.mean(g) for g in self.columns]

    def vector(self):
        """What momentum moves: the logarithms of positive parameters, and the offsets."""
        offsets = (offset.moved for offset in self.offsets)
        return np.concatenate([logarithms(self._positive()), *offsets])

    def _positive(self):
        degrees = (entries.degrees for entries in self.entries)
        return [*self.columns, self.ridge, self.rates, self.dirichlet.moved, *degrees]

    def at(self, vector):
        """A copy with other parameters, in the form of `vector`."""
        n = len(self.columns)
        shapes = [part.shape for part in self._positive()]
        n_positive = sum(map(math.prod, shapes))
        moved = exponentials(vector[:n_positive], shapes)
        entries = [e.with_degrees(nu) for e, nu in zip(self.entries, moved[n + 3 :], strict=True)]
        means = vector[n_positive:].reshape(n, -1)
        offsets = [o.with_mean(mean) for o, mean in zip(self.offsets, means, strict=True)]
        return self._replace(
            columns=moved[:n],
            ridge=moved[n],
            rates=moved[n + 1],
            dirichlet=self.dirichlet.at(moved[n + 2]),
            entries=entries,
            offsets=offsets,
        )


class RowSums(NamedTuple):
    """What the rows of W see of one source."""

    precision: np.ndarray
    """sum_j u_j E[h_j h_j'] over all columns."""
    gaps: Any
    """The same over the missing entries of every row, packed; 0.0 where nothing is missing."""
    linear: np.ndarray
    """sum_j u_j z_ij E[h_j], K x M."""


class UpdatedSource(NamedTuple):
    """What a sweep finds for one source."""

    columns: dirichlet.Solution
    """q(H)."""
    sample: Any
    """q(u)."""
    offset: Any
    """q(o)."""
    rate: float
    """B_c."""
    entries: Any
    """The prior of v."""
    elbo: tuple[float, ...]
    """The terms that these add to the ELBO."""


class ClosedForm:
    """Coordinate ascent on the ELBO (loop.Algorithm)."""

    def __init__(
        self,
        sources,
        n_components,
        priors,
        rng,
        factors=(),
        offsets=False,
        unit=1.0,
        origin=0.0,
        clustered=False,
    ):
        self.priors = priors
        self.rng = rng
        self.clustered = clustered
        self.n_components = n_components
        self.factors = factors
        self.with_offsets = offsets
        self.unit = unit
        self.origin = np.reshape(origin, (-1, 1))
        self.n_observed = sources.n_observed
        self.shapes = priors.a0 + 0.5 * np.array(sources.n_observed)
        """A_c = a0 + (number of observed entries) / 2."""
        self.views, self.entries = noise_models.views_and_entries(sources, factors, unit, origin)
        self.waits = 0
        if priors.learns_alpha == BY_SOURCE:
            self.waits = LEARNING_WAITS_BY_SOURCE
        elif priors.learns_alpha or priors.learns_lambda:
            self.waits = LEARNING_WAITS
        rounds_creep = factors or priors.learns_alpha
        self.settled = SETTLED_WEIGHTS if rounds_creep else SETTLED

    def start(self):
        """Memberships by chance or by clusters (starts.py); the rest as if nothing were known."""
        priors = self.priors
        n_sources = len(self.views)
        n_features = self.views[0].shape[0]
        shape = self.n_components, n_features
        alpha0 = priors.dirichlet(self.n_components)
        feature: Any = Equal()
        if "feature" in self.factors:
            feature = Gammas.start(sum(view.counts_of_rows() for view in self.views))
        sample: list[Any] = [Equal()] * n_sources
        if "sample" in self.factors:
            sample = [Gammas.start(view.counts_of_columns()) for view in self.views]
        offset = Offset.start(n_features) if self.with_offsets else NoOffset()
        laplace = Laplace(priors.lambda_, priors.learns_lambda)
        prior: Any = FixedDirichlet(alpha0)
        if priors.learns_alpha == LEARNED:
            prior = SharedDirichlet(priors.alpha0, self.n_components)
        elif priors.learns_alpha:
            prior = DirichletBySource([alpha0] * n_sources)
        ridge = np.full(shape, 1 / priors.lambda_**2)
        state = State(
            columns=[np.tile(alpha0[:, None], view.shape[1]) for view in self.views],
            ridge=ridge,
            rates=np.array([priors.b0 + 0.5 * entries.squared_norm for entries in self.entries]),
            rows=gaussian_rows(np.zeros((self.n_components,) * 2), np.zeros(shape), ridge),
            feature=feature,
            sample=sample,
            entries=self.entries,
            offsets=[offset] * n_sources,
            laplace=laplace,
            dirichlet=prior,
        )
        memberships = self.first_memberships(state)
        return state._replace(columns=[alpha0[:, None] + START_STRENGTH * h for h in memberships])

    def first_memberships(self, state):
        if not self.clustered:
            n_samples = [view.shape[1] for view in self.views]
            return [random_memberships(self.n_components, n, self.rng) for n in n_samples]
        self.weigh_entries(state)  # with robust noise, outliers count for less
        return clustered_memberships(self.views, self.n_components, self.rng, self.with_offsets)

    def sweep(self, state):
        """The next state, and minus its ELBO."""
        entries = self.weigh_entries(state)
        sums = [self.row_sums(state, c) for c in range(len(self.views))]
        state, entries = self.update_feature(state, entries, sums)
        state = self.update_components(state, sums)
        state = self.update_ridge(state)
        state, elbo = self.update_sources(
            state, entries, tol=COLUMN_TOLERANCE, max_steps=COLUMN_STEPS
        )
        return state._replace(n_sweeps=state.n_sweeps + 1), self.objective(elbo)

    def objective(self, elbo):
        """Minus the ELBO in the unit of the data, where every density is 1 / unit of that here."""
        return -elbo + sum(self.n_observed) * np.log(self.unit)

    def precision(self, state, c):
        """t_c = E[1/s2_c]."""
        return self.shapes[c] / state.rates[c]

    # Entries.

    def weigh_entries(self, state):
        """q(v) of every source at the present fit, after which its view shows z_ij.

        A view is moved to the offsets or, with robust noise, filled with pseudo-data.
        """
        return [
            entries.weighted(view, self.present_fit(state, c))
            for c, (view, entries) in enumerate(zip(self.views, state.entries, strict=True))
        ]

    def present_fit(self, state, c):
        # before the first sweep, there is no fit: entries are weighed by their distance from 0
        precision = self.precision(state, c) if state.n_sweeps else 1.0
        return PresentFit(
            shift=state.offsets[c].mean,
            components=state.rows.mean,
            columns=state.columns[c],
            precision=precision,
            phi=state.feature.mean,
            u=state.sample[c].mean,
        )

    # Rows.

    def row_sums(self, state, c):
        """P and r of one source, but for t_c and phi_i (4.3)."""
        view = self.views[c]
        g = state.columns[c]
        u = state.sample[c].mean
        gaps: Any = 0.0
        if view.missing is not None:
            gaps = moments.sums_over(view.by_row, moments.column_moments(g), u)
        return RowSums(
            precision=dirichlet.second_moment(g, u),
            gaps=gaps,
            linear=view.times_memberships(dirichlet.mean(g) * u),
        )

    def update_feature(self, state, entries, sums):
        """q(phi), from the second sweep on; the sums over weighted entries follow it."""
        if not state.n_sweeps or not state.feature.is_learned:
            return state, entries
        feature = state.feature.updated(lambda: self.errors_of_rows(state, entries, sums))
        state = state._replace(feature=feature)
        return state, [
            weighted.reweighted(view, self.present_fit(state, c))
            for c, (view, weighted) in enumerate(zip(self.views, entries, strict=True))
        ]

    def errors_of_rows(self, state, entries, sums):
        """sum_c t_c sum_j u_j E[(z_ij - w_i'h_j)^2] of every feature."""
        rows = state.rows
        errors = 0.0
        for c, view in enumerate(self.views):
            u = state.sample[c].mean
            error = view.squares_of_rows(u) - 2 * (rows.mean * sums[c].linear).sum(axis=0)
            size = self.n_components
            error += rows.moments @ moments.doubled(sums[c].precision[np.tril_indices(size)], size)
            error -= (rows.moments * moments.doubled(sums[c].gaps, size)).sum(axis=1)
            error += view.counts_of_rows(u) * state.offsets[c].variance
            error += entries[c].spread_of_rows
            errors = errors + self.precision(state, c) * np.maximum(error, 0.0)
        return errors

    def update_components(self, state, sums):
        """q(W): S_i = (phi_i (P - gap_i) + diag rho_i)^-1, mu_i = S_i phi_i r_i (4.3)."""
        t = self.shapes / state.rates
        linear = sum(t_c * source.linear for t_c, source in zip(t, sums, strict=True))
        rows = gaussian_rows(
            precision=sum(t_c * source.precision for t_c, source in zip(t, sums, strict=True)),
            linear=linear * state.feature.mean,
            ridge=state.ridge,
            weights=state.feature.mean,
            gaps=sum(t_c * source.gaps for t_c, source in zip(t, sums, strict=True)),
        )
        return state._replace(rows=rows)

    def update_ridge(self, state):
        """rho (4.1), and before it the scales of the components where they are learned (4.12)."""
        laplace = state.laplace
        if state.n_sweeps >= self.waits:
            laplace = laplace.updated(state.rows)
        return state._replace(laplace=laplace, ridge=laplace.ridge(state.rows))

    # Sources.

    def update_sources(self, state, entries, *, tol, max_steps, settling=False):
        """H, the weights of samples, offsets, noise and learned priors, with q(W) as it is.

        When `settling`, offsets and priors stay as they are.  Returns the ELBO as well.
        """
        rows = state.rows
        weighted = state.feature.times(rows.mean)
        gram = weighted @ rows.mean.T + rows.covariance_sum
        elbo = state.laplace.elbo(rows) + rows.entropy()
        sources = [
            self.update_source(state, c, weighted_entries, weighted, gram, tol, max_steps, settling)
            for c, weighted_entries in enumerate(entries)
        ]
        for source in sources:
            for term in source.elbo:
                elbo += term
        elbo += state.feature.elbo()
        columns = [source.columns.g for source in sources]
        prior = state.dirichlet
        gain = 0.0
        if state.n_sweeps >= self.waits and not settling:
            prior, gain = prior.updated(columns, [source.columns.log_sum for source in sources])
        elbo += gain + prior.log_density()
        state = state._replace(
            columns=columns,
            sample=[source.sample for source in sources],
            offsets=[source.offset for source in sources],
            rates=np.array([source.rate for source in sources]),
            entries=[source.entries for source in sources],
            dirichlet=prior,
        )
        return state, elbo

    def update_source(self, state, c, entries, weighted, gram, tol, max_steps, settling):
        """q of H, u, o and s2 of one source, and the prior of v, in this order."""
        columns = self.update_columns(state, c, weighted, gram, tol, max_steps)
        errors = self.errors_of_columns(state, c, entries, columns)
        sample = state.sample[c].updated(lambda: self.precision(state, c) * errors.clip(min=0.0))
        offset, change = self.update_offset(state, c, columns, sample, settling)
        rate = self.update_rate(sample.weighted_sum(errors) + change)
        learned = entries.learned() if state.n_sweeps else state.entries[c]
        elbo = (
            sample.elbo(),
            offset.elbo(),
            self.columns_elbo(state, c, columns),
            noise_elbo(self.shapes[c], rate, self.n_observed[c], self.priors),
            entries.elbo(learned),
        )
        return UpdatedSource(columns, sample, offset, rate, learned, elbo)

    def update_columns(self, state, c, weighted, gram, tol, max_steps):
        """q(H): Newton steps on f(g), with b_j = sum_i phi_i mu_i z_ij and t_c u_j (4.4, 4.5)."""
        return dirichlet.maximise(
            gram,
            self.views[c].times_components(weighted),
            self.precision(state, c) * state.sample[c].mean,
            state.dirichlet.alpha(c),
            state.columns[c],
            tol=tol,
            max_steps=max_steps,
            gaps=self.column_gaps(state, c),
        )

    def errors_of_columns(self, state, c, entries, columns):
        """E||z_j - W h_j||^2, weighted by phi, of every sample or of all together (4.4)."""
        view = self.views[c]
        phi = state.feature.mean
        sample = state.sample[c]
        errors = entries.squares(view, phi, sample) - 2 * sample.gathered(columns.explained)
        return errors + state.offsets[c].spread(view, phi, sample)

    def update_offset(self, state, c, columns, sample, settling):
        """q(o) and tau, unless `settling`; and by how much that changes the errors (4.12)."""
        offset = state.offsets[c]
        if settling:
            return offset, 0.0
        t = self.precision(state, c)
        return offset.updated(
            self.views[c], state.rows.mean, columns.g, sample.mean, state.feature.mean, t
        )

    def update_rate(self, error):
        """q(s2): B_c = b0 + E||X - WH||^2 / 2 (4.6)."""
        return self.priors.b0 + max(0.5 * error, 0.0)

    def columns_elbo(self, state, c, columns):
        """sum_j f(g_j) - t u_j L(g_j), and the normalisers of the prior (4.7).

        f holds t u L(g) at the t and u before the sweep, in whose place noise_elbo has the errors.
        """
        sample = state.sample[c]
        explained = sample.weighted_sum(sample.gathered(columns.explained))
        value = columns.value.sum() - self.precision(state, c) * explained
        return value + len(columns.value) * dirichlet.log_normaliser(state.dirichlet.alpha(c))

    def column_gaps(self, state, c):
        """sum_i phi_i E[w_i w_i'] over the missing entries of every column, packed, by column."""
        view = self.views[c]
        if view.missing is None:
            return np.empty((0, view.shape[1]))
        gaps = moments.sums_over(view.by_column, state.rows.moments, state.feature.mean)
        return np.ascontiguousarray(gaps.T)

    # The end.

    def settle(self, state):
        """Take every column to its optimum with q(W) fixed; the state and the ELBO there."""
        for _ in range(SETTLING_ROUNDS):
            before = state.columns
            state, elbo = self.update_sources(
                state,
                self.weigh_entries(state),
                tol=SETTLED_TOLERANCE,
                max_steps=SETTLING_STEPS,
                settling=True,
            )
            moves = [dirichlet.move(g, old) for g, old in zip(state.columns, before, strict=True)]
            if max(moves) <= self.settled:
                break
        return state, elbo

    def memberships(self, state):
        return state.memberships()

    def finish(self, state):
        """The result, in the unit and from the origin of the data."""
        state, elbo = self.settle(state)
        unit = self.unit
        rows = state.rows
        mean = np.ascontiguousarray(unit * rows.mean.T + self.origin)
        scales = np.array([entries.scale for entries in state.entries])
        return loop.Estimates(
            components=mean,
            memberships=state.memberships(),
            noise=unit * np.sqrt(state.rates / self.shapes) * scales,
            posterior=Posterior(
                components=NormalRows(
                    mean,
                    precision=rows.row_precision() / unit**2,
                    ridge=np.ascontiguousarray(rows.ridge.T) / unit**2,
                ),
                memberships=[DirichletColumns(g) for g in state.columns],
                noise=InverseGamma(self.shapes, unit**2 * scales**2 * state.rates),
            ),
            model=self.fitted_model(state),
            objective=self.objective(elbo),
        )

    def fitted_model(self, state):
        """What was learned besides, in the unit of the data."""
        unit = self.unit
        learned: dict[str, Any] = offsets_in_unit(state.offsets, unit)
        if state.feature.is_learned:
            learned["feature_precision"] = state.feature.mean
        if state.sample[0].is_learned:
            learned["sample_precision"] = [q.mean for q in state.sample]
            learned["sample_shape"] = np.array([q.a for q in state.sample])
        if state.entries[0].is_learned:
            learned["degrees_of_freedom"] = np.concatenate([q.degrees for q in state.entries])
        if state.laplace.is_learned:
            learned["component_scales"] = unit * np.ravel(state.laplace.lambda_)
        return FittedModel(
            alpha0=np.array([state.dirichlet.alpha(c) for c in range(len(self.views))]),
            noise_prior=np.array([self.priors.a0, unit**2 * self.priors.b0]),
            **learned,
        )


def noise_elbo(shape, rate, n_entries, priors):
    """What one source's likelihood (at E||X - WH||^2 = 2 (rate - b0)) and q(s2) add to the ELBO.

    E[ln N] + E[ln IG(s2; a0, b0)] + entropy of IG(A, B), with E[1/s2] = A/B and
    E[ln s2] = ln B - psi(A).
    """
    log_variance = np.log(rate) - psi(shape)
    likelihood = -0.5 * n_entries * (np.log(2 * np.pi) + log_variance) - shape / rate * (
        rate - priors.b0
    )
    prior = priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
    prior -= (priors.a0 + 1) * log_variance + priors.b0 * shape / rate
    entropy = shape + np.log(rate) + gammaln(shape) - (1 + shape) * psi(shape)
    return likelihood + prior + entropy
