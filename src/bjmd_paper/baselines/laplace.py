"""JMD, and GLAD when there is one source: variational inference by Laplace approximations.

The model is that of model.py without a prior on the noise: s2_c is a parameter.  q(W, H) is a
product over rows w_i and columns h_j.  Each factor is the Gaussian at the mode of the expected log
joint, with the inverse negative Hessian there as its covariance (docs/derivation.md, 7, and
bjmd/numerics/laplace.py).

The objective is the negative ELBO with these moments.  It is an approximation, so it may rise
between sweeps, and it hardly changes where it turns.  The stopping rule therefore needs two small
changes in a row.  Sweeps have no momentum: on 3Sources it raises the ELBO and lowers the AUC.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError, positive_number
from bjmd.inference import loop
from bjmd.inference.registry import Method
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors
from bjmd.numerics import laplace, simplex
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import Normal, Posterior

NOISE_FLOOR = 1e-12
"""The smallest s2_c as a share of the source's mean square; it would be 0 for a perfect fit."""


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
    """Fit from one random start.

    Stops when the relative change of the approximate ELBO is at most `tol` twice in a row.
    """
    positive_number("smoothing", smoothing)
    algorithm = LaplaceApproximation(
        sources, Priors(alpha0, lambda_), n_components, smoothing, seed
    )
    return loop.run(
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        objective="approximate ELBO",
        patience=2,
        monotone=False,
    )


JMD = Method("jmd", "JMD", fit, objective="minus the approximate ELBO", streams=True)
GLAD = replace(JMD, name="glad", label="GLAD", concatenate=True)


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
        row_spread, deviation, objective, n_failed = laplace.approximate_rows(
            precision, linear, wt, self.lambda_, self.eps
        )
        if n_failed:
            raise FitError(
                f"{n_failed} of {wt.shape[1]} rows of W did not reach their mode in "
                f"{laplace.MAX_ROW_STEPS} Newton steps; rescale the data or the priors"
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
            spread, deviation, terms = laplace.approximate_columns(
                gram / s2[c], self.alpha0, solution.h
            )
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
        return loop.Estimates(
            components, state.memberships, np.sqrt(state.noise_variances), posterior
        )


def _mean_squares(sources):
    mean_squares = np.array(sources.squared_norms) / (
        sources.n_features * np.array(sources.n_samples)
    )
    for name, value in zip(sources.names, mean_squares, strict=True):
        if value == 0:
            raise InputError(
                f"source {name!r} is zero everywhere, so its noise cannot be estimated; "
                "leave it out"
            )
    return mean_squares
