"""Closed-form variational BJMD: coordinate ascent on the ELBO (docs/derivation.md, 4, and
docs/model.md).

The posterior is approximated by independent factors

    q(w_i) = N(mu_i, S_i) for every row of W,   q(h_j) = Dirichlet(g_j) for every column,   q(s2_c) = IG(A_c, B_c),

and the Laplace prior is replaced by its variational bound  -|w|/lambda >= -(nu w^2 + 1/(lambda^2 nu)) / 2, tight at
nu = 1 / (lambda sqrt(E[w^2])).  Then every expectation is analytic.  With t_c = A_c / B_c, one sweep of the paper's
model is

    W:      P = sum_c t_c sum_j E[h_j h_j'],   S_i = (P + diag nu_i)^-1,   mu_i = S_i sum_c t_c sum_j x_ij E[h_j]
    nu:     nu_ik = 1 / (lambda sqrt(mu_ik^2 + S_i,kk))
    H:      Newton steps on every column (dirichlet.py), with G = sum_i (mu_i mu_i' + S_i)
    noise:  A_c = a0 + (number of observed entries) / 2,   B_c = b0 + E||X - WH||^2 / 2

No update lowers the ELBO.  A sweep costs the two products X E[H]' and E[W]'X and small K x K work.
Between sweeps the state is extrapolated (momentum.py) with a safeguard that keeps the ELBO from
falling.  At the end every column is taken to its optimum for the W and the noise that are returned,
so that a sample has the same memberships whether it was part of the fit or is added later
(projection.py).

What goes beyond the paper composes with that sweep: weights phi_i of the features and u_j of the
samples multiply the precision (noise.py), offsets shift the sources (offsets.py), missing entries
take their terms out of P and G (moments.py), and the data are seen in their own unit and from their
own origin (view.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, psi

from bjmd.checks import true_or_false
from bjmd.data.sources import Sources
from bjmd.data.view import View, centre
from bjmd.errors import InputError
from bjmd.inference import loop
from bjmd.inference import noise as noise_models
from bjmd.inference.momentum import exponentials, logarithms
from bjmd.inference.noise import Gammas, StudentT, Weighed
from bjmd.inference.offsets import Offsets
from bjmd.inference.registry import Method
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors, learned_dirichlet
from bjmd.numerics import dirichlet, moments
from bjmd.numerics.rows import GaussianRows
from bjmd.results.decomposition import Decomposition, FittedModel
from bjmd.results.posterior import DirichletColumns, InverseGamma, NormalRows, Posterior

START_STRENGTH = 20.0
"""How many samples' worth of belief the first, random memberships get."""
COLUMN_STEPS = 1
COLUMN_TOLERANCE = 1e-4
"""Newton steps that a column may take in a sweep, and the gain in nats below which it takes none.
"""
PLAIN_SWEEPS = 10
"""Sweeps before extrapolation begins: early ones are no guide to later ones."""
LEARNING_WAITS = 8
"""Sweeps before the Dirichlet and the scales of the components are learned: memberships that are
still random would pull the first away, and components that are still near zero would keep the
second there.
"""
SETTLING_ROUNDS = 100
SETTLING_STEPS = 100
SETTLED_TOLERANCE = 1e-10
SETTLED = 1e-6
SETTLED_WEIGHTS = 1e-7
"""In the end: rounds of columns and noise, Newton steps and gain as above, and the move that ends
the rounds, a smaller one where weights or the Dirichlet are learned, whose rounds take smaller
steps.
"""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    priors: Literal["data", "paper"] = "data",
    noise: str = "source",
    offsets: bool = False,
    alpha0: float | Sequence[float] | str = Priors.alpha0,
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
    ELBO changes by at most `tol` nats an entry in a sweep; priors="paper" takes the paper's fixed
    priors and stops when the relative change is at most `tol`.  noise is "source", "feature",
    "sample", "robust", or several of the last three joined by +; offsets=True gives every source an
    offset a feature.  alpha0 and lambda_ may be "learned".
    """
    prior = Priors.of(priors, alpha0, lambda_, a0, b0)
    factors = noise_models.parsed(noise)
    offsets = true_or_false("offsets", offsets)
    _require_able(sources, factors)
    unit, origin = centre(sources, robust="robust" in factors) if priors == "data" else (1.0, None)
    algorithm = ClosedForm(
        sources,
        n_components,
        prior.in_unit(unit),
        np.random.default_rng(seed),
        factors,
        offsets,
        unit,
        origin,
    )
    per_entry = sum(sources.n_observed) if priors == "data" else None
    return loop.run(
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        objective="ELBO",
        wait=LEARNING_WAITS if prior.learns_alpha or prior.learns_lambda else 0,
        momentum_from=PLAIN_SWEEPS,
        per_entry=per_entry,
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
            "noise='robust' weighs every entry, which would make sparse data dense; use noise='feature'"
        )


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next."""

    columns: list[np.ndarray]
    """Dirichlet parameters g of each source, K x N_c."""
    ridge: np.ndarray
    """nu, K x M."""
    rates: np.ndarray
    """B_c of each source."""
    rows: GaussianRows | None = None
    """q(W), which follows from the rest; None before the first sweep."""
    feature: Gammas | None = None
    sample: list[Gammas] | None = None
    nus: np.ndarray | None = None
    offsets: Offsets | None = None
    alphas: list[np.ndarray] | None = None
    """The learned Dirichlet of each source; None where it is fixed."""
    lambdas: np.ndarray | None = None
    """The learned scale of each component, K x 1; None where it is fixed."""
    n_sweeps: int = 0

    def memberships(self):
        """E[h] of every column, by source."""
        return [dirichlet.mean(g) for g in self.columns]

    def vector(self):
        """All positive parameters that momentum moves, as logarithms in one vector."""
        return logarithms(self._positive())

    def _positive(self):
        return [*self.columns, self.ridge, self.rates, *([] if self.nus is None else [self.nus])]

    def at(self, vector):
        """A copy with other parameters, in the form of `vector`."""
        moved = exponentials(vector, [part.shape for part in self._positive()])
        n = len(self.columns)
        nus = (
            None
            if self.nus is None
            else np.clip(moved[n + 2], noise_models.LEAST_NU, noise_models.MOST_NU)
        )
        return replace(self, columns=moved[:n], ridge=moved[n], rates=moved[n + 1], nus=nus)

    def phi(self):
        """E[phi_i] of every feature, or None for 1."""
        return None if self.feature is None else self.feature.mean

    def copy(self):
        """A copy whose parts by source can be overwritten."""
        own = {
            name: getattr(self, name)
            for name in ("columns", "rates", "sample", "nus", "offsets", "alphas")
        }
        return replace(
            self, **{name: part.copy() for name, part in own.items() if part is not None}
        )

    def u(self, c):
        """E[u_j] of every sample of a source, or None for 1."""
        return None if self.sample is None else self.sample[c].mean


class ClosedForm:
    """Coordinate ascent on the ELBO (loop.Algorithm)."""

    def __init__(
        self, sources, n_components, priors, rng, factors=(), offsets=False, unit=1.0, origin=None
    ):
        self.priors = priors
        self.rng = rng
        self.n_components = n_components
        self.unit = unit
        self.origin = origin
        self.n_observed = sources.n_observed
        self.shapes = priors.a0 + 0.5 * np.array(sources.n_observed)
        """A_c = a0 + (number of observed entries) / 2."""
        self.factors = factors
        self.with_offsets = offsets
        self.has_gaps = any(sources.n_missing)
        if "robust" in factors:
            base = 0.0 if origin is None else origin[:, None]
            self.standard = [(x.columns(slice(None)) - base) / unit for x in sources.data]
            self.views = [View(x.copy(), constant=False) for x in self.standard]
        else:
            self.views = [View(x, unit, origin) for x in sources.data]
        # the norms of complete data in their own unit are known already
        known = origin is None and unit == 1 and not self.has_gaps and not factors
        self.norms = (
            sources.squared_norms
            if known
            else [view.squares_of_rows().sum() for view in self.views]
        )

    def alpha(self, state, c):
        return self.priors.dirichlet(self.n_components) if state.alphas is None else state.alphas[c]

    def lambda_(self, state):
        return self.priors.lambda_ if state.lambdas is None else state.lambdas

    def start(self):
        n_features = self.views[0].shape[0]
        priors = self.priors
        alpha0 = priors.dirichlet(self.n_components)
        learned: dict[str, Any] = {}
        if "feature" in self.factors:
            learned["feature"] = Gammas.start(sum(view.counts_of_rows() for view in self.views))
        if "sample" in self.factors:
            learned["sample"] = [Gammas.start(view.counts_of_columns()) for view in self.views]
        if "robust" in self.factors:
            learned["nus"] = np.full(len(self.views), noise_models.FIRST_NU)
        if self.with_offsets:
            learned["offsets"] = Offsets.start(len(self.views), n_features)
        if priors.learns_alpha:
            learned["alphas"] = [alpha0] * len(self.views)
        if priors.learns_lambda:
            learned["lambdas"] = np.full((self.n_components, 1), priors.lambda_)
        drawn = [
            random_memberships(self.n_components, view.shape[1], self.rng) for view in self.views
        ]
        columns = [alpha0[:, None] + START_STRENGTH * h for h in drawn]
        ridge = np.full((self.n_components, n_features), 1 / priors.lambda_**2)
        return State(
            columns, ridge, np.array([priors.b0 + 0.5 * norm for norm in self.norms]), **learned
        )

    def sweep(self, state):
        seen = self.look(state)
        state = self.update_rows(state, seen)
        state, elbo = self.update_columns(state, seen, tol=COLUMN_TOLERANCE, max_steps=COLUMN_STEPS)
        ridge = 1 / (self.lambda_(state) * np.sqrt(state.rows.second_moment))
        return replace(state, ridge=ridge, n_sweeps=state.n_sweeps + 1), self.objective(elbo)

    def objective(self, elbo):
        """Minus the ELBO of the data in their own unit, in which every density is 1 / unit of that
        here.
        """
        return -elbo if self.unit == 1 else -elbo + sum(self.n_observed) * np.log(self.unit)

    def look(self, state):
        """Bring the views to the offsets of a state and, where entries are weighed, to its fit;
        q(v) by source.
        """
        seen: list[Weighed | None] = []
        for c, view in enumerate(self.views):
            shift = None if state.offsets is None else state.offsets.mean[c]
            if state.nus is None:
                seen.append(None)
                if shift is not None:
                    view.move(shift)
                continue
            # before there is a fit, by how far an entry is from the median of its feature
            precision = 1.0 if state.rows is None else self.shapes[c] / state.rates[c]
            weights = precision, state.phi(), state.u(c)
            fit = self.fitted(state, c)
            seen.append(
                noise_models.weigh(view, self.standard[c], shift, fit, *weights, state.nus[c])
            )
        return seen

    def fitted(self, state, c):
        """E[w_i h_j] of every entry of a source; before the first sweep 0, the origin."""
        if state.rows is None:
            return np.zeros(self.views[c].shape)
        return state.rows.mean.T @ dirichlet.mean(state.columns[c])

    def update_rows(self, state, seen):
        """q(W), and before it phi, whose errors need no more than the product that W needs."""
        sums = [dirichlet.second_moment(g, state.u(c)) for c, g in enumerate(state.columns)]
        h = [_weighted(dirichlet.mean(g), state.u(c)) for c, g in enumerate(state.columns)]
        products = [view.times_memberships(part) for view, part in zip(self.views, h, strict=True)]
        precisions = self.shapes / state.rates
        gaps = [self.row_gaps(state, c) for c in range(len(self.views))]
        if state.feature is not None and state.rows is not None:
            state = self.update_feature(state, seen, precisions, sums, products, gaps)
        phi = state.phi()
        linear = sum(t * product for t, product in zip(precisions, products, strict=True))
        rows = GaussianRows(
            precision=sum(t * s for t, s in zip(precisions, sums, strict=True)),
            linear=linear if phi is None else linear * phi,
            ridge=state.ridge,
            weights=1.0 if phi is None else phi,
            gaps=sum(t * gap for t, gap in zip(precisions, gaps, strict=True)),
        )
        state = replace(state, rows=rows)
        if state.lambdas is not None and state.n_sweeps >= LEARNING_WAITS:
            state = replace(state, lambdas=np.sqrt(rows.second_moment).mean(axis=1, keepdims=True))
        return state

    def row_gaps(self, state, c):
        """sum over the missing j of u_j E[h_j h_j'] for every row, packed; 0 where a source has
        none.
        """
        view = self.views[c]
        if view.missing is None:
            return 0.0
        return moments.sums_over(view.by_row, moments.column_moments(state.columns[c]), state.u(c))

    def update_feature(self, state, seen, precisions, sums, products, gaps):
        """q(phi) from R_ci = sum_j u_j E[(z_ij - w_i h_j)^2] of every source and feature."""
        rows = state.rows
        errors = 0.0
        counts = 0.0
        for c, view in enumerate(self.views):
            error = view.squares_of_rows(state.u(c)) - 2 * (rows.mean * products[c]).sum(axis=0)
            error += rows.moments @ moments.pack_doubled(sums[c])
            if view.missing is not None:
                error -= (rows.moments * moments.doubled(gaps[c], self.n_components)).sum(axis=1)
            if state.offsets is not None:
                error += view.counts_of_rows(state.u(c)) * state.offsets.variance[c]
            if seen[c] is not None:
                error += seen[c].spread_of_rows
            errors = errors + precisions[c] * np.maximum(error, 0.0)
            counts = counts + view.counts_of_rows()
        state = replace(state, feature=state.feature.updated(counts, errors))
        for c, weighed in enumerate(seen):  # its sums over columns are weighted by phi
            if weighed is not None:
                shift = 0.0 if state.offsets is None else state.offsets.mean[c][:, None]
                z = self.views[c].matrix.array
                fit = self.fitted(state, c)
                spread = np.nan_to_num((z - fit) * (self.standard[c] - shift - z))
                seen[c] = replace(weighed, squares_of_columns=state.phi() @ (z**2 + spread))
        return state

    def update_columns(self, state, seen, *, tol, max_steps):
        """All that belongs to the sources, with q(W) as it is; and the ELBO at the end of it."""
        state, rows, phi = state.copy(), state.rows, state.phi()
        weighted = _weighted(rows.mean, phi)
        gram = weighted @ rows.mean.T + rows.covariance_sum
        lambda_ = self.lambda_(state)
        if np.ndim(lambda_):
            elbo = -(np.sqrt(rows.second_moment) / lambda_ + np.log(2 * lambda_)).sum()
        else:
            elbo = -np.sqrt(rows.second_moment).sum() / lambda_
            elbo -= rows.mean.size * np.log(2 * lambda_)
        elbo += rows.entropy()
        for c, weighed in enumerate(seen):
            for term in self.update_source(state, c, weighed, weighted, gram, tol, max_steps):
                elbo += term
        if state.feature is not None:
            elbo += state.feature.elbo(sum(view.counts_of_rows() for view in self.views)).sum()
        return state, elbo

    def update_source(self, state, c, weighed, weighted, gram, tol, max_steps):
        """q(H) of a source, precisions of samples, offsets, noise and what is learned, in place;
        terms of the ELBO.
        """
        view = self.views[c]
        t = self.shapes[c] / state.rates[c]
        u = state.u(c)
        phi = state.phi()
        alpha = self.alpha(state, c)
        by_sample = state.sample is not None
        offsets = state.offsets
        terms = []
        projection = view.times_components(weighted)
        gaps = self.column_gaps(state, c)
        precision = t if u is None else t * u
        options = {"tol": tol, "max_steps": max_steps, "gaps": gaps}
        best = dirichlet.maximise(gram, projection, precision, alpha, state.columns[c], **options)
        state.columns[c] = g = best.g
        # E[(z_j - W h_j)^2] = squares_j - 2 explained_j, weighted by phi; f holds t u times it, at
        # the old t and u
        explained = best.explained if by_sample else best.explained.sum()
        inside = t * (u @ explained if by_sample else explained)
        errors = self.squares(view, c, weighed, phi, by_sample) - 2 * explained
        if offsets is not None:
            spread = _weighted(offsets.variance[c], phi)
            errors = errors + (
                self.observed_sum(view, spread) if by_sample else view.counts_of_rows() @ spread
            )
        if by_sample:
            counts = view.counts_of_columns()
            state.sample[c] = state.sample[c].updated(counts, t * np.maximum(errors, 0.0))
            u = state.u(c)
            errors = u @ errors
            terms.append(state.sample[c].elbo(counts).sum())
        if offsets is not None:
            errors += offsets.update(c, view, state.rows.mean, dirichlet.mean(g), u, phi, t)
            terms.append(offsets.elbo(c))
        state.rates[c] = self.priors.b0 + max(0.5 * errors, 0.0)
        if state.alphas is not None:
            value = dirichlet.prior_part(g, alpha)
            if state.n_sweeps >= LEARNING_WAITS:
                alpha = state.alphas[c] = learned_dirichlet(
                    dirichlet.mean_log(g), alpha, g.shape[1]
                )
            terms.append(
                dirichlet.prior_part(g, alpha) - value - alpha.sum()
            )  # the last is ln of its prior
        terms.append(best.value.sum() - inside + len(best.value) * dirichlet.log_normaliser(alpha))
        terms.append(noise_elbo(self.shapes[c], state.rates[c], self.n_observed[c], self.priors))
        if weighed is not None:
            state.nus[c] = weighed.q.learned() if state.n_sweeps > 0 else state.nus[c]
            terms.append(weighed.q.elbo(state.nus[c]))
        return terms

    def squares(self, view, c, weighed, phi, by_sample):
        """sum_i phi_i z_ij^2 of every sample, or of all together; of a robust fit, with what is
        left of its entries.
        """
        if weighed is not None:
            return weighed.squares_of_columns if by_sample else weighed.squares_of_columns.sum()
        if by_sample:
            return view.squares_of_columns(phi)
        return (
            self.norms[c]
            if phi is None and not np.any(view.shift)
            else _weighted(view.squares_of_rows(), phi).sum()
        )

    def observed_sum(self, view, of_rows):
        """The sum of a number a row over the observed entries of every column."""
        total = np.full(view.shape[1], of_rows.sum())
        return total if view.missing is None else total - of_rows @ view.missing

    def column_gaps(self, state, c):
        """sum over the missing i of phi_i E[w_i w_i'] for every column, packed, K(K+1)/2 x N; None
        where nothing is.
        """
        view = self.views[c]
        if view.missing is None:
            return None
        return np.ascontiguousarray(
            moments.sums_over(view.by_column, state.rows.moments, state.phi()).T
        )

    def settle(self, state):
        """Take every column to its optimum with q(W) fixed; the state and the ELBO there."""
        settled = SETTLED_WEIGHTS if self.factors or self.priors.learns_alpha else SETTLED
        for _ in range(SETTLING_ROUNDS):
            before = state.columns
            seen = self.look(state)
            state, elbo = self.update_columns(
                state, seen, tol=SETTLED_TOLERANCE, max_steps=SETTLING_STEPS
            )
            if (
                max(dirichlet.move(g, was) for g, was in zip(state.columns, before, strict=True))
                <= settled
            ):
                break
        return state, elbo

    def memberships(self, state):
        return state.memberships()

    def finish(self, state):
        state, elbo = self.settle(state)
        # back to the unit and the origin of the data, in which the density of every entry is 1 /
        # unit of that here
        unit = self.unit
        rows = state.rows
        origin = 0.0 if self.origin is None else self.origin[:, None]
        mean = np.ascontiguousarray(unit * rows.mean.T + origin)
        return loop.Found(
            components=mean,
            memberships=state.memberships(),
            noise=unit * np.sqrt(state.rates / self.shapes) * self.scales(state),
            posterior=Posterior(
                components=NormalRows(
                    mean,
                    rows.row_precision() / unit**2,
                    np.ascontiguousarray(rows.ridge.T) / unit**2,
                ),
                memberships=[DirichletColumns(g) for g in state.columns],
                noise=InverseGamma(self.shapes, unit**2 * self.scales(state) ** 2 * state.rates),
            ),
            model=self.fitted_model(state),
            objective=self.objective(elbo),
        )

    def scales(self, state):
        """The scale of the noise over that of a normal of the same precision, one a source."""
        return 1.0 if state.nus is None else np.array([StudentT(nu).scale for nu in state.nus])

    def fitted_model(self, state):
        """All else that is known, in the unit of the data."""
        sample = state.sample
        offsets = state.offsets
        scales = state.lambdas
        return FittedModel(
            alpha0=np.array([self.alpha(state, c) for c in range(len(self.views))]),
            noise_prior=np.array([self.priors.a0, self.unit**2 * self.priors.b0]),
            offsets=None if offsets is None else self.unit * offsets.mean,
            offsets_sd=None if offsets is None else self.unit * np.sqrt(offsets.variance),
            feature_precision=state.phi(),
            sample_precision=None if sample is None else [q.mean for q in sample],
            sample_shape=None if sample is None else np.array([q.a for q in sample]),
            degrees_of_freedom=state.nus,
            component_scales=None if scales is None else self.unit * scales.ravel(),
        )


def _weighted(rows, weights):
    return rows if weights is None else rows * weights


def noise_elbo(shape, rate, n_entries, priors):
    """What one source's likelihood (at E||X - WH||^2 = 2 (rate - b0)) and q(s2) add to the ELBO.

    E[ln N] + E[ln IG(s2; a0, b0)] + entropy of IG(A, B), with E[1/s2] = A/B and E[ln s2] = ln B -
    psi(A).
    """
    log_variance = np.log(rate) - psi(shape)
    likelihood = -0.5 * n_entries * (np.log(2 * np.pi) + log_variance) - shape / rate * (
        rate - priors.b0
    )
    prior = priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
    prior -= (priors.a0 + 1) * log_variance + priors.b0 * shape / rate
    entropy = shape + np.log(rate) + gammaln(shape) - (1 + shape) * psi(shape)
    return likelihood + prior + entropy
