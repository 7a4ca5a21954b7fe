"""Closed-form variational BJMD: coordinate ascent on an exact ELBO (NOTES 3).

The posterior is approximated by independent factors

    q(w_i) = N(mu_i, S_i) for every row of W,   q(h_j) = Dirichlet(g_j) for every column,   q(s2_c) = IG(A_c, B_c),

and the Laplace prior is replaced by its variational bound  -|w|/lambda >= -(nu w^2 + 1/(lambda^2 nu)) / 2, tight at
nu = 1 / (lambda sqrt(E[w^2])).  Then every expectation is analytic.  With t_c = A_c / B_c, one sweep is

    W:      P = sum_c t_c sum_j E[h_j h_j'],   S_i = (P + diag nu_i)^-1,   mu_i = S_i sum_c t_c sum_j x_ij E[h_j]
    nu:     nu_ik = 1 / (lambda sqrt(mu_ik^2 + S_i,kk))
    H:      Newton steps on every column (dirichlet.py), with G = sum_i (mu_i mu_i' + S_i)
    noise:  A_c = a0 + (number of observed entries) / 2,   B_c = b0 + E||X - WH||^2 / 2

No update lowers the ELBO.  A sweep costs the two products X E[H]' and E[W]'X and small K x K work.  Between sweeps
the state is extrapolated (momentum.py) with a safeguard that keeps the ELBO from falling.  Missing entries are
filled in with E[W]E[H] before every sweep (missing.py).  At the end every column is taken to its optimum for the W and
the noise that are returned, so that a sample has the same memberships whether it was part of the fit or is added later
(projection.py).
"""

import time
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from bjmd.checks import positive_number, whole_number
from bjmd.data.missing import CompletedSources
from bjmd.data.products import components_times_data, data_times_memberships
from bjmd.errors import FitError, InputError
from bjmd.fits.decomposition import Decomposition
from bjmd.inference.momentum import Momentum
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors
from bjmd.numerics import dirichlet
from bjmd.numerics.lanes import LANES, cholesky, compiled, invert_factor
from bjmd.paper.metric import auc_during_a_fit

START_STRENGTH = 20.0
"""How many samples' worth of belief the first, random memberships get."""
COLUMN_STEPS = 1
COLUMN_TOLERANCE = 1e-4
"""Newton steps that a column may take in a sweep, and the gain in nats below which it takes none."""
PLAIN_SWEEPS = 10
"""Sweeps before extrapolation begins: early ones are no guide to later ones."""
SETTLING_ROUNDS, SETTLING_STEPS, SETTLED_TOLERANCE, SETTLED = 100, 100, 1e-10, 1e-6
"""In the end: rounds of columns and noise, Newton steps and gain as above, and the move that ends the rounds."""


def fit(
    sources,
    n_components,
    *,
    seed,
    alpha0=1.1,
    lambda_=1.0,
    a0=0.01,
    b0=0.01,
    tol=1e-6,
    max_sweeps=2000,
    history=False,
):
    """Fit from one random start; stop when the ELBO's relative change in a sweep is at most `tol`.

    The objective and the trace are minus the ELBO.  With history=True, for data with labels, the AUC of every source
    is kept after every sweep.
    """
    started = time.perf_counter()
    sources.require_components(n_components)
    priors = Priors(alpha0, lambda_, a0, b0)
    alpha0 = priors.dirichlet(n_components)
    positive_number("tol", tol)
    whole_number("max_sweeps", max_sweeps, least=1)
    if history and sources.labels is None:
        raise InputError("history=True keeps the AUC after every sweep, but these sources have no labels; leave it out")

    sources = CompletedSources(sources)
    rng = np.random.default_rng(seed)
    state = State(
        columns=[
            alpha0[:, None] + START_STRENGTH * random_memberships(n_components, n, rng) for n in sources.n_samples
        ],
        ridge=np.full((n_components, sources.n_features), 1 / lambda_**2),
        rates=np.array([b0 + 0.5 * norm for norm in sources.squared_norms]),
    )
    momentum = Momentum()
    trace, aucs, best = [], [], None
    extrapolated, small_changes = False, 0
    converged, reason = False, f"stopped at max_sweeps = {max_sweeps}"
    for sweep in range(1, max_sweeps + 1):
        if best:
            sources.fill(best[1].mean, state.memberships())
        after, posterior, elbo = update(sources, state, priors)
        if not np.isfinite(elbo):
            raise FitError(f"the ELBO became {elbo} in sweep {sweep}; rescale the data or the priors")
        if trace and elbo < -trace[-1]:
            trace.append(trace[-1])
            aucs += aucs[-1:]
            if not extrapolated:  # a plain sweep falls by rounding only, and would do so for ever
                converged, reason = True, f"the ELBO changes by rounding only in sweep {sweep}"
                break
            # the extrapolation went too far: go on from the last good state instead
            state, extrapolated = State.from_vector(momentum.undo(), state), False
            continue
        best = after, posterior
        trace.append(-elbo)
        if history:
            aucs.append(auc_during_a_fit(after.memberships(), sources.labels))
        # an extrapolated sweep may gain little by chance, but hardly twice in a row
        small = sweep > 1 and trace[-2] - trace[-1] <= tol * abs(trace[-2])
        small_changes = small_changes + 1 if small else 0
        if small and (not extrapolated or small_changes == 2):
            converged, reason = True, f"relative change of the ELBO at most tol = {tol:g} in sweep {sweep}"
            break
        extrapolated = sweep >= PLAIN_SWEEPS
        state = State.from_vector(momentum.beyond(after.vector()), after) if extrapolated else after

    after, posterior = best
    after, elbo = settle(sources, after, posterior, priors)
    trace[-1] = min(trace[-1], -elbo)
    if history:
        aucs[-1] = auc_during_a_fit(after.memberships(), sources.labels)
    return Decomposition(
        components=np.ascontiguousarray(posterior.mean.T),
        memberships=after.memberships(),
        noise=np.sqrt(after.rates / _shapes(sources, priors)),
        objective=trace[-1],
        trace=np.array(trace),
        converged=converged,
        reason=reason,
        seconds=time.perf_counter() - started,
        history={"auc": np.array(aucs)} if history else {},
        posterior={
            "components_precision": posterior.precision,
            "components_ridge": np.ascontiguousarray(posterior.ridge.T),
            "noise_shape": _shapes(sources, priors),
            "noise_rate": after.rates,
            **{f"dirichlet_{c}": g for c, g in enumerate(after.columns)},
        },
    )


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next: q(W) follows from it."""

    columns: list[np.ndarray]
    """Dirichlet parameters g of each source, K x N_c."""
    ridge: np.ndarray
    """nu, K x M."""
    rates: np.ndarray
    """B_c of each source."""

    def memberships(self):
        """E[h] of every column, by source."""
        return [dirichlet.mean(g) for g in self.columns]

    def vector(self):
        """All positive parameters as logarithms in one vector."""
        return np.log(np.concatenate([*(g.ravel() for g in self.columns), self.ridge.ravel(), self.rates]))

    @classmethod
    def from_vector(cls, vector, like):
        """The inverse of `vector`, in the shapes of another state."""
        parts = [*like.columns, like.ridge, like.rates]
        pieces = np.split(np.exp(vector), np.cumsum([part.size for part in parts])[:-1])
        *columns, ridge, rates = (piece.reshape(part.shape) for piece, part in zip(pieces, parts, strict=True))
        return cls(columns, ridge, rates)


def update(sources, state, priors):
    """One sweep: the next state, q(W), and the ELBO at the end of it."""
    precisions = _shapes(sources, priors) / state.rates
    components = GaussianRows(
        precision=sum(t * dirichlet.second_moment(g) for t, g in zip(precisions, state.columns, strict=True)),
        linear=sum(
            t * data_times_memberships(x, dirichlet.mean(g))
            for t, x, g in zip(precisions, sources.matrices, state.columns, strict=True)
        ),
        ridge=state.ridge,
    )
    columns, rates, elbo = update_columns(
        sources, components, state, priors, tol=COLUMN_TOLERANCE, max_steps=COLUMN_STEPS
    )
    ridge = 1 / (priors.lambda_ * np.sqrt(components.second_moment))
    return State(columns, ridge, rates), components, elbo


def update_columns(sources, components, state, priors, *, tol, max_steps):
    """The second half of a sweep: q(H) and then the noise, with q(W) as given; and the ELBO at the end of it."""
    alpha0 = priors.dirichlet(len(state.ridge))
    shapes = _shapes(sources, priors)
    precisions = shapes / state.rates
    elbo = components.elbo(priors.lambda_)
    gram = components.mean @ components.mean.T + components.covariance_sum
    columns, rates = [], np.empty(len(sources))
    for c, x in enumerate(sources.matrices):
        projection = components_times_data(components.mean, x)
        best = dirichlet.maximise(
            gram, projection, precisions[c], alpha0, state.columns[c], tol=tol, max_steps=max_steps
        )
        columns.append(best.g)
        # E||X - WH||^2 = ||X||^2 - 2 explained; f holds t times it, at the old t
        explained = np.vdot(projection, dirichlet.mean(best.g)) - 0.5 * np.vdot(gram, dirichlet.second_moment(best.g))
        rates[c] = priors.b0 + max(0.5 * sources.squared_norms[c] - explained, 0.0)
        elbo += best.value.sum() - precisions[c] * explained + len(best.value) * dirichlet.log_normaliser(alpha0)
        elbo += noise_elbo(shapes[c], rates[c], sources.n_observed[c], priors)
    return columns, rates, elbo


def settle(sources, state, components, priors):
    """Take every column to its optimum with q(W) fixed; the state and the ELBO there."""
    for _ in range(SETTLING_ROUNDS):
        before = state.memberships()
        sources.fill(components.mean, before)
        columns, rates, elbo = update_columns(
            sources, components, state, priors, tol=SETTLED_TOLERANCE, max_steps=SETTLING_STEPS
        )
        state = State(columns, state.ridge, rates)
        moved = max(np.abs(dirichlet.mean(g) - m).max() for g, m in zip(columns, before, strict=True))
        if moved <= SETTLED:
            break
    return state, elbo


def _shapes(sources, priors):
    """A_c = a0 + (number of observed entries) / 2."""
    return priors.a0 + 0.5 * np.array(sources.n_observed)


def noise_elbo(shape, rate, n_entries, priors):
    """What one source's likelihood (at E||X - WH||^2 = 2 (rate - b0)) and q(s2) add to the ELBO.

    E[ln N] + E[ln IG(s2; a0, b0)] + entropy of IG(A, B), with E[1/s2] = A/B and E[ln s2] = ln B - psi(A).
    """
    log_variance = np.log(rate) - psi(shape)
    likelihood = -0.5 * n_entries * (np.log(2 * np.pi) + log_variance) - shape / rate * (rate - priors.b0)
    prior = priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
    prior -= (priors.a0 + 1) * log_variance + priors.b0 * shape / rate
    entropy = shape + np.log(rate) + gammaln(shape) - (1 + shape) * psi(shape)
    return likelihood + prior + entropy


class GaussianRows:
    """q(W): S_i = (P + diag nu_i)^-1 and mu_i = S_i r_i for every row i of W; arrays are K x M."""

    def __init__(self, precision, linear, ridge):
        size = len(precision)
        self.precision, self.ridge = precision, ridge
        self.mean, self.second_moment = np.empty_like(linear), np.empty_like(linear)
        self.covariance_sum = np.zeros((size, size))
        self.log_determinant = _gaussian_rows(
            precision, linear, ridge, self.mean, self.second_moment, self.covariance_sum
        )

    def elbo(self, lambda_):
        """E[ln prior bound] at its best nu, -sqrt(E[w^2])/lambda - ln(2 lambda) an entry, plus the entropy of q(W)."""
        prior = -np.sqrt(self.second_moment).sum() / lambda_ - self.mean.size * np.log(2 * lambda_)
        return prior + 0.5 * (self.log_determinant + self.mean.size * (1 + np.log(2 * np.pi)))


@compiled
def _gaussian_rows(precision, linear, ridge, mean, second_moment, covariance_sum):
    """Fill mean, E[w^2] and sum_i S_i, rows in lanes; returns sum_i ln det S_i.

    With D = diag(nu_i^-1/2) it is S_i = D (I + D P D)^-1 D, which stays well conditioned as nu grows.
    """
    size, n_rows = linear.shape
    lanes = min(LANES, n_rows)
    matrix = np.empty((size, size, lanes))
    root, whitened, x = np.empty((size, lanes)), np.empty((size, lanes)), np.empty((size, lanes))
    kept = np.empty(lanes)  # 1, or 0 for the copies that fill up the last block
    sums = np.zeros((size, size, lanes))
    total = 0.0
    for first in range(0, n_rows, lanes):
        n_block = min(lanes, n_rows - first)
        for lane in range(lanes):
            kept[lane] = 1.0 if lane < n_block else 0.0
        for k in range(size):
            for lane in range(lanes):
                row = first + min(lane, n_block - 1)
                root[k, lane] = 1.0 / np.sqrt(ridge[k, row])
                x[k, lane] = root[k, lane] * linear[k, row]
        for k in range(size):
            for p in range(k + 1):
                for lane in range(lanes):
                    matrix[k, p, lane] = root[k, lane] * precision[k, p] * root[p, lane]
            for lane in range(lanes):
                matrix[k, k, lane] += 1.0
        cholesky(matrix)
        invert_factor(matrix)
        for k in range(size):
            for lane in range(lanes):
                whitened[k, lane] = 0.0
                total += 2.0 * kept[lane] * np.log(root[k, lane] * matrix[k, k, lane])
            for p in range(k + 1):
                for lane in range(lanes):
                    whitened[k, lane] += matrix[k, p, lane] * x[p, lane]
                    matrix[k, p, lane] *= root[p, lane]  # from here on L^-1 D, whose square is S_i
        for k in range(size):
            for lane in range(lanes):
                x[k, lane] = 0.0
                root[k, lane] = 0.0  # from here on the variance
            for i in range(k, size):
                for lane in range(lanes):
                    x[k, lane] += matrix[i, k, lane] * whitened[i, lane]
                    root[k, lane] += matrix[i, k, lane] * matrix[i, k, lane]
            for lane in range(n_block):
                mean[k, first + lane] = x[k, lane]
                second_moment[k, first + lane] = x[k, lane] * x[k, lane] + root[k, lane]
        for k in range(size):
            for p in range(k + 1):
                for i in range(k, size):
                    for lane in range(lanes):
                        sums[k, p, lane] += kept[lane] * matrix[i, k, lane] * matrix[i, p, lane]
    for k in range(size):
        for p in range(k + 1):
            covariance_sum[k, p] = covariance_sum[p, k] = sums[k, p].sum()
    return total
