"""Closed-form variational BJMD: coordinate ascent on an exact ELBO (docs/derivation.md, 4).

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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, psi

from bjmd.data.missing import CompletedSources
from bjmd.data.products import components_times_data, data_times_memberships
from bjmd.data.sources import Sources
from bjmd.fits import loop
from bjmd.fits.decomposition import Decomposition
from bjmd.fits.posterior import DirichletColumns, InverseGamma, NormalRows, Posterior
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors
from bjmd.numerics import dirichlet
from bjmd.numerics.lanes import LANES, cholesky, compiled, invert_factor, load, store, whiten

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
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    alpha0: float | Sequence[float] = Priors.alpha0,
    lambda_: float = Priors.lambda_,
    a0: float = Priors.a0,
    b0: float = Priors.b0,
    tol: float = 1e-6,
    max_sweeps: int = 2000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from one random start; stop when the ELBO's relative change in a sweep is at most `tol`.

    The objective and the trace are minus the ELBO.
    """
    algorithm = ClosedForm(sources, n_components, Priors(alpha0, lambda_, a0, b0), np.random.default_rng(seed))
    return loop.run(
        algorithm, tol=tol, max_sweeps=max_sweeps, watch=watch, objective="ELBO", momentum_from=PLAIN_SWEEPS
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
    rows: "GaussianRows | None" = None
    """q(W), which follows from the rest; None before the first sweep."""

    def memberships(self):
        """E[h] of every column, by source."""
        return [dirichlet.mean(g) for g in self.columns]

    def vector(self):
        """All positive parameters as logarithms in one vector."""
        return np.log(np.concatenate([*(g.ravel() for g in self.columns), self.ridge.ravel(), self.rates]))

    def at(self, vector):
        """A copy with other parameters, in the form of `vector`."""
        parts = [*self.columns, self.ridge, self.rates]
        pieces = np.split(np.exp(vector), np.cumsum([part.size for part in parts])[:-1])
        *columns, ridge, rates = (piece.reshape(part.shape) for piece, part in zip(pieces, parts, strict=True))
        return State(columns, ridge, rates, self.rows)


class ClosedForm:
    """Coordinate ascent on the ELBO (loop.Algorithm)."""

    def __init__(self, sources, n_components, priors, rng):
        self.sources, self.priors, self.rng = CompletedSources(sources), priors, rng
        self.alpha0 = priors.dirichlet(n_components)
        self.shapes = priors.a0 + 0.5 * np.array(sources.n_observed)
        """A_c = a0 + (number of observed entries) / 2."""

    def start(self):
        sources, n_components = self.sources, len(self.alpha0)
        return State(
            columns=[
                self.alpha0[:, None] + START_STRENGTH * random_memberships(n_components, n, self.rng)
                for n in sources.n_samples
            ],
            ridge=np.full((n_components, sources.n_features), 1 / self.priors.lambda_**2),
            rates=np.array([self.priors.b0 + 0.5 * norm for norm in sources.squared_norms]),
        )

    def sweep(self, state):
        if state.rows is not None:
            self.sources.fill(state.rows.mean, state.memberships())
        state = self.update_rows(state)
        state, elbo = self.update_columns(state, tol=COLUMN_TOLERANCE, max_steps=COLUMN_STEPS)
        ridge = 1 / (self.priors.lambda_ * np.sqrt(state.rows.second_moment))
        return replace(state, ridge=ridge), -elbo

    def update_rows(self, state):
        """q(W)."""
        precisions = self.shapes / state.rates
        rows = GaussianRows(
            precision=sum(t * dirichlet.second_moment(g) for t, g in zip(precisions, state.columns, strict=True)),
            linear=sum(
                t * data_times_memberships(x, dirichlet.mean(g))
                for t, x, g in zip(precisions, self.sources.matrices, state.columns, strict=True)
            ),
            ridge=state.ridge,
        )
        return replace(state, rows=rows)

    def update_columns(self, state, *, tol, max_steps):
        """q(H) and then the noise, with q(W) as it is; and the ELBO at the end of it."""
        sources, rows = self.sources, state.rows
        precisions = self.shapes / state.rates
        elbo = rows.elbo(self.priors.lambda_)
        gram = rows.mean @ rows.mean.T + rows.covariance_sum
        columns, rates = [], np.empty(len(sources))
        for c, x in enumerate(sources.matrices):
            projection = components_times_data(rows.mean, x)
            best = dirichlet.maximise(
                gram, projection, precisions[c], self.alpha0, state.columns[c], tol=tol, max_steps=max_steps
            )
            columns.append(best.g)
            # E||X - WH||^2 = ||X||^2 - 2 explained; f holds t times it, at the old t
            explained = np.vdot(projection, dirichlet.mean(best.g))
            explained -= 0.5 * np.vdot(gram, dirichlet.second_moment(best.g))
            rates[c] = self.priors.b0 + max(0.5 * sources.squared_norms[c] - explained, 0.0)
            normalisers = len(best.value) * dirichlet.log_normaliser(self.alpha0)
            elbo += best.value.sum() - precisions[c] * explained + normalisers
            elbo += noise_elbo(self.shapes[c], rates[c], sources.n_observed[c], self.priors)
        return replace(state, columns=columns, rates=rates), elbo

    def settle(self, state):
        """Take every column to its optimum with q(W) fixed; the state and the ELBO there."""
        for _ in range(SETTLING_ROUNDS):
            before = state.memberships()
            self.sources.fill(state.rows.mean, before)
            state, elbo = self.update_columns(state, tol=SETTLED_TOLERANCE, max_steps=SETTLING_STEPS)
            moved = max(np.abs(m - was).max() for m, was in zip(state.memberships(), before, strict=True))
            if moved <= SETTLED:
                break
        return state, elbo

    def memberships(self, state):
        return state.memberships()

    def finish(self, state):
        state, elbo = self.settle(state)
        mean, ridge = (np.ascontiguousarray(part.T) for part in (state.rows.mean, state.rows.ridge))
        return loop.Found(
            components=mean,
            memberships=state.memberships(),
            noise=np.sqrt(state.rates / self.shapes),
            posterior=Posterior(
                components=NormalRows(mean, state.rows.precision, ridge),
                memberships=[DirichletColumns(g) for g in state.columns],
                noise=InverseGamma(self.shapes, state.rates),
            ),
            objective=-elbo,
        )


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
        load(ridge, first, root)
        n_block = load(linear, first, x)
        for lane in range(lanes):
            kept[lane] = 1.0 if lane < n_block else 0.0
        for k in range(size):
            for lane in range(lanes):
                root[k, lane] = 1.0 / np.sqrt(root[k, lane])
                x[k, lane] *= root[k, lane]
        whiten(precision, root, matrix)
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
            for lane in range(lanes):
                root[k, lane] += x[k, lane] * x[k, lane]
        store(x, mean, first)
        store(root, second_moment, first)
        for k in range(size):
            for p in range(k + 1):
                for i in range(k, size):
                    for lane in range(lanes):
                        sums[k, p, lane] += kept[lane] * matrix[i, k, lane] * matrix[i, p, lane]
    for k in range(size):
        for p in range(k + 1):
            covariance_sum[k, p] = covariance_sum[p, k] = sums[k, p].sum()
    return total
