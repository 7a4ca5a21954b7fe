"""MAP-BJMD: the mode of the posterior by block coordinate descent (docs/derivation.md, 3).

One sweep updates W, every H^(c), and every s2_c, each with the others fixed, and costs two products
with the data: X H' for W and W'X for H, which also gives the residual.  The objective never rises,
except with the printed update of W.  With the Laplace prior, sweeps are extrapolated (loop.py), and
what raised the objective is undone.

Three forms of the prior on W, each a ridge with weights rho for the next W:

laplace       the Laplace prior itself.  |w| <= (w^2/|w_old| + |w_old|)/2 gives 1/rho = lambda
              |w_old|: a majorisation, so the objective falls.
hierarchical  the paper's: w ~ N(0, z), z ~ Exponential(mean lambda), minimised over Z too, and
              1/rho = z.  Its objective is unbounded below as w and z go to 0 together, hence the
              floor on z.  An entry that comes near 0 stays there; `hold` keeps Z at its start,
              lambda^2, until W has taken shape.
printed       the same with the update of W as the paper prints it, 1/rho = sqrt(z), which is not
              what its objective gives (docs/derivation.md, 3.3).  The objective may rise.

Missing entries are filled in with WH before every sweep (data/view.py): they are unknowns at their
best values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bjmd.data.sources import Sources
from bjmd.data.view import View, centre
from bjmd.errors import InputError, one_of, true_or_false, whole_number
from bjmd.inference import loop
from bjmd.inference.loop import exponentials, logarithms
from bjmd.inference.offsets import NoOffset, Offset
from bjmd.inference.offsets import in_unit as offsets_in_unit
from bjmd.inference.offsets import wanted as offsets_wanted
from bjmd.inference.registry import Method
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors, dirichlet_terms, laplace_terms, noise_terms
from bjmd.numerics import simplex
from bjmd.numerics.rows import ridge_rows
from bjmd.results.decomposition import Decomposition, FittedModel

Z_FLOOR = 1e-8
"""The smallest z, as a multiple of lambda; keeps the hierarchical objective bounded below."""

SWEEP_TOLERANCE = 1e-6
"""Optimality of the columns in a sweep; warm starts make it far better in later sweeps."""

PLAIN_SWEEPS = 5
"""Sweeps before extrapolation begins: early ones are no guide to later ones."""

FLAT = 1.0
"""alpha0 that favours no memberships."""

LEARNING_WAITS = 8
"""Sweeps before the scales of the components are learned: early ones would keep them near zero."""

LEAST_SCALE = 0.2
"""The smallest of them, in the unit of the data: below it, single cells lose half of their
components.
"""

LEAST_LEFT = 0.36
"""The share of a membership that extrapolation leaves at least."""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    prior: Literal["laplace", "hierarchical", "printed"] = "laplace",
    hold: int = 0,
    priors: Literal["data", "paper"] = "data",
    offsets: bool | None = None,
    alpha0: float | Sequence[float] | None = None,
    lambda_: float | str | None = None,
    a0: float = Priors.a0,
    b0: float | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 1000,
    momentum: bool = True,
    watch: loop.Watch | None = None,
    course: loop.Course | None = None,
) -> Decomposition:
    """Fit from one random start.

    priors="data" measures the data in their own unit and from their own origin, and stops when the
    objective changes by at most `tol` nats per entry in a sweep; priors="paper" takes the paper's
    fixed priors and stops when the relative change is at most `tol`.  With momentum three such
    changes in a row are needed, since two may be small by chance where momentum turns round;
    momentum=False has plain sweeps, as in the paper, and so do the other two forms of the prior.
    These hold Z for the first `hold` sweeps, which the paper does not.

    With priors="data", unless they are given, lambda_ is learned for every component, alpha0 is 1
    (flat), and two or more sources have an offset each for every feature.
    """
    if alpha0 is None:
        alpha0 = FLAT if priors == "data" else Priors.alpha0
    constants = Priors.of(priors, alpha0, lambda_, a0, b0)
    if constants.learns_alpha or np.any(np.less(constants.alpha0, 1)):
        raise InputError(
            f"alpha0 is {alpha0!r}, but MAP needs numbers of at least 1, because below 1 the "
            "Dirichlet has no mode inside the simplex; use values of at least 1, or cavi-bjmd"
        )
    with_offsets = offsets_wanted(offsets, priors, sources)
    if whole_number("hold", hold, least=0) and prior == "laplace":
        raise InputError(f"hold is {hold}, but prior='laplace' has no Z to hold; leave hold out")
    momentum = true_or_false("momentum", momentum) and prior == "laplace"
    unit, origin = centre(sources) if priors == "data" else (1.0, 0.0)
    constants = constants.in_unit(unit)
    learns = constants.learns_lambda and prior == "laplace"
    form = PRIORS_OF_W[one_of("prior", prior, PRIORS_OF_W)](constants.lambda_)
    if learns:
        form = _LearnedLaplace(np.full((n_components, 1), constants.lambda_))
    rng = np.random.default_rng(seed)
    algorithm = PosteriorMode(
        sources, n_components, constants, form, rng, with_offsets, unit, origin, hold
    )
    per_entry = sum(sources.n_observed) if priors == "data" else None
    return loop.run(
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        wait=max(hold, LEARNING_WAITS if learns else 0),
        per_entry=per_entry,
        momentum_from=PLAIN_SWEEPS if momentum else None,
        patience=3 if momentum else 1,
        monotone=form.descends,
        course=course,
    )


METHOD = Method("map-bjmd", "MAP-BJMD", fit, infers_bjmd=True, missing=True, streams=True)
POOLED = replace(METHOD, name="map-catbjmd", label="MAP-catBJMD", concatenate=True)


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next."""

    memberships: list[np.ndarray]
    columns: list[simplex.Solution | None]
    """The memberships with their slacks, to start the next solution from."""
    noise_variances: list[float]
    inverse_ridge: np.ndarray
    """1 / rho, K x M."""
    form: Any
    """The prior of W."""
    offsets: list[Any]
    """q(o) of every source; their means are the modes."""
    wt: np.ndarray | None
    """W', which follows from the rest."""
    n_sweeps: int

    def vector(self):
        """What momentum moves: memberships, offsets, and the logarithms of noise and ridge."""
        positive = logarithms([np.array(self.noise_variances), self.inverse_ridge])
        return np.concatenate(
            [
                *(h.ravel() for h in self.memberships),
                *(offset.moved for offset in self.offsets),
                positive,
            ]
        )

    def at(self, vector):
        """A copy elsewhere, whose memberships keep LEAST_LEFT of themselves and sum to one."""
        n = len(self.memberships)
        sizes = [part.size for part in (*self.memberships, *(o.moved for o in self.offsets))]
        *pieces, positive = np.split(vector, np.cumsum(sizes))
        memberships = [
            np.maximum(x.reshape(h.shape), LEAST_LEFT * h)
            for x, h in zip(pieces[:n], self.memberships, strict=True)
        ]
        offsets = [o.with_mean(mean) for o, mean in zip(self.offsets, pieces[n:], strict=True)]
        for h in memberships:
            h /= h.sum(axis=0)
        noise, ridge = exponentials(positive, [(len(memberships),), self.inverse_ridge.shape])
        return replace(
            self,
            memberships=memberships,
            noise_variances=list(noise),
            inverse_ridge=ridge,
            offsets=offsets,
        )


class PosteriorMode:
    """Block coordinate descent on the negative log joint (loop.Algorithm)."""

    def __init__(
        self, sources, n_components, priors, form, rng, offsets=False, unit=1.0, origin=0.0, hold=0
    ):
        self.priors = priors
        self.with_offsets = offsets
        self.form = form
        self.rng = rng
        self.unit = unit
        self.origin = origin
        self.hold = hold
        self.alpha0 = priors.dirichlet(n_components)
        self.n_entries = sources.n_observed
        self.views = [View(x, unit, origin) for x in sources.data]
        # the norms of data in their own unit are known already
        known = unit == 1 and not np.any(origin)
        self.observed_norms = (
            sources.squared_norms if known else [v.squares_of_rows().sum() for v in self.views]
        )
        self.filled_norms = [0.0] * len(self.views)
        if any(sources.n_missing):  # before anything is fitted, with the means of the features
            ones = [np.ones((1, view.shape[1])) for view in self.views]
            self.fill(_feature_means(self.views)[None], ones)

    def fill(self, wt, memberships):
        """Set the missing entries to the fit."""
        self.filled_norms = [
            view.fill(wt, h) for view, h in zip(self.views, memberships, strict=True)
        ]

    def prepare(self, state):
        """Move the views to the offsets of a state, and fill in missing entries at its fit."""
        if state.wt is None:
            return  # nothing is fitted yet
        if self.with_offsets:
            for view, offset in zip(self.views, state.offsets, strict=True):
                view.move(offset.mean)
            self.observed_norms = [view.squares_of_rows().sum() for view in self.views]
        self.fill(state.wt, state.memberships)

    def start(self):
        n_components = len(self.alpha0)
        n_features = self.views[0].shape[0]
        offset = Offset.start(n_features) if self.with_offsets else NoOffset()
        return State(
            memberships=[
                random_memberships(n_components, view.shape[1], self.rng) for view in self.views
            ],
            columns=[None] * len(self.views),
            noise_variances=[
                self.noise_variance(self.norm(c), n) for c, n in enumerate(self.n_entries)
            ],
            inverse_ridge=np.full(
                (n_components, n_features), self.priors.lambda_**self.form.start_power
            ),
            form=self.form,
            offsets=[offset] * len(self.views),
            wt=None,
            n_sweeps=0,
        )

    def sweep(self, state):
        n_sweeps = state.n_sweeps + 1
        self.prepare(state)
        wt = update_components(
            self.views, state.memberships, state.noise_variances, state.inverse_ridge
        )
        form = state.form.updated(wt) if n_sweeps > LEARNING_WAITS else state.form
        inverse_ridge = form.inverse_ridge(wt) if n_sweeps > self.hold else state.inverse_ridge
        objective = form.penalty(wt, inverse_ridge)

        gram = wt @ wt.T
        columns = []
        offsets = []
        noise_variances = []
        for c, view in enumerate(self.views):
            projection = view.times_components(wt)
            alpha = state.noise_variances[c] * (self.alpha0 - 1)
            solution = simplex.minimise(
                gram, projection, alpha, start=state.columns[c], tol=SWEEP_TOLERANCE
            )
            rss = view.residual_sum_of_squares(wt, solution.h, self.norm(c), gram, projection)
            offset = state.offsets[c]
            rss += np.sum(view.counts_of_rows() * offset.variance)
            offset, change = offset.updated(
                view, wt, solution.h, 1.0, 1.0, 1 / state.noise_variances[c]
            )
            rss = max(rss + change, 0.0)
            variance = self.noise_variance(rss, self.n_entries[c])
            objective += noise_terms(rss, variance, self.n_entries[c], self.priors)
            objective += dirichlet_terms(solution.h, self.alpha0) - offset.elbo()
            columns.append(solution)
            offsets.append(offset)
            noise_variances.append(variance)
        memberships = [solution.h for solution in columns]
        after = State(
            memberships, columns, noise_variances, inverse_ridge, form, offsets, wt, n_sweeps
        )
        return after, self.in_unit(objective)

    def norm(self, c):
        """||Z||^2 with missing entries as they are filled in."""
        return self.observed_norms[c] + self.filled_norms[c]

    def in_unit(self, objective):
        """The objective in the unit of the data, where every density is 1 / unit of that here."""
        return objective + sum(self.n_entries) * np.log(self.unit)

    def noise_variance(self, rss, n_entries):
        """s2_c at its mode."""
        return (2 * self.priors.b0 + rss) / (2 * self.priors.a0 + n_entries + 2)

    def memberships(self, state):
        return state.memberships

    def finish(self, state):
        components = self.unit * state.wt.T + np.reshape(self.origin, (-1, 1))
        learned: dict[str, Any] = offsets_in_unit(state.offsets, self.unit)
        if state.form.is_learned:
            learned["component_scales"] = self.unit * state.form.lambda_.ravel()
        model = FittedModel(
            alpha0=np.array([self.alpha0] * len(self.views)),
            noise_prior=np.array([self.priors.a0, self.unit**2 * self.priors.b0]),
            **learned,
        )
        noise = self.unit * np.sqrt(state.noise_variances)
        return loop.Estimates(
            np.ascontiguousarray(components), state.memberships, noise, model=model
        )


def _feature_means(views):
    """The mean of every feature over all observed entries: the first guess at missing ones."""
    return sum(view.sums_of_rows() for view in views) / sum(view.counts_of_rows() for view in views)


class _Laplace:
    descends = True
    """Whether no update of W raises the objective."""
    is_learned = False
    start_power = 2
    """1 / rho is lambda to this power at the start."""

    def __init__(self, lambda_):
        self.lambda_ = lambda_

    def updated(self, wt):
        return self

    def inverse_ridge(self, wt):
        """1 / ridge weight = lambda |w|."""
        return self.lambda_ * np.abs(wt)

    def penalty(self, wt, _):
        return laplace_terms(wt, self.lambda_)


class _LearnedLaplace(_Laplace):
    """A scale for every component, K x 1, at its mode; the floor keeps the objective bounded."""

    is_learned = True

    def updated(self, wt):
        scales = np.abs(wt).mean(axis=1, keepdims=True)
        return _LearnedLaplace(np.maximum(scales, LEAST_SCALE))

    def penalty(self, wt, _):
        return (np.abs(wt) / self.lambda_ + np.log(2 * self.lambda_)).sum()


class _Hierarchical(_Laplace):
    def inverse_ridge(self, wt):
        """z = (sqrt(lambda^2 + 8 lambda w^2) - lambda) / 4, the minimiser over z >= floor."""
        # written without the difference of two nearly equal numbers
        root = np.sqrt(self.lambda_**2 + 8 * self.lambda_ * wt**2)
        z = 2 * self.lambda_ * wt**2 / (root + self.lambda_)
        return np.maximum(z, Z_FLOOR * self.lambda_)

    def penalty(self, wt, z):
        return (z / self.lambda_ + 0.5 * np.log(z) + 0.5 * wt**2 / z).sum()


class _Printed(_Hierarchical):
    """Z as it should be, and W with the printed ridge: 1 / rho = sqrt(z)."""

    descends = False
    start_power = 1

    def inverse_ridge(self, wt):
        return np.sqrt(super().inverse_ridge(wt))

    def penalty(self, wt, root_z):
        return super().penalty(wt, root_z**2)


PRIORS_OF_W = {"laplace": _Laplace, "hierarchical": _Hierarchical, "printed": _Printed}


def update_components(views, memberships, noise_variances, inverse_ridge):
    """W': w_i = (P + diag rho_i)^-1 r_i, P = sum_c H H' / s2_c, r_i = sum_c H x_i / s2_c."""
    precision = sum(h @ h.T / s2 for h, s2 in zip(memberships, noise_variances, strict=True))
    linear = sum(
        view.times_memberships(h) / s2
        for view, h, s2 in zip(views, memberships, noise_variances, strict=True)
    )
    return ridge_rows(precision, linear, inverse_ridge)
