"""MAP-BJMD: the mode of the posterior by block coordinate descent (NOTES 1 and 2.3 to 2.7).

One sweep updates W, every H^(c), and every s2_c, each with the others fixed, and costs two products with the data:
X H' for W and W'X for H, which also gives the residual.  The objective never rises.

Two forms of the prior on W:

laplace       the Laplace prior itself.  |w| <= (w^2/|w_old| + |w_old|)/2 turns it into a ridge with weight
              1/(lambda |w_old|) for the next W: a majorisation, so the objective of section 1 falls.
hierarchical  the paper's: w ~ N(0, z), z ~ Exponential(mean lambda), minimised over Z too; ridge weight 1/z.  Its
              objective is unbounded below as w and z go to 0 together, hence the floor on z.  An entry that comes near
              0 stays there, so Z waits until W has taken shape.

Missing entries are filled in with WH before every sweep (missing.py).
"""

import time

import numpy as np

from bjmd.checks import one_of, positive_number, whole_number
from bjmd.data.missing import CompletedSources
from bjmd.data.products import components_times_data, data_times_memberships
from bjmd.errors import FitError
from bjmd.fits.decomposition import Decomposition
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors, dirichlet_terms, laplace_terms, noise_terms, residual_sum_of_squares
from bjmd.numerics.lanes import LANES, cholesky, compiled, solve
from bjmd.numerics.simplex import minimise

Z_FLOOR = 1e-8
"""The smallest z, as a multiple of lambda; keeps the hierarchical objective bounded below."""

Z_WAITS = 5
"""Sweeps for which z stays at lambda^2.  On Yale B this lowers the objective much, and gives nearly the paper's noise:
.1095 and .1772 (printed: .1106, .1790), where Z from the first sweep on gives .1192 and .1897."""

SWEEP_TOLERANCE = 1e-6
"""Optimality of the columns in a sweep; warm starts make it far better in the end than it is at first."""


def fit(
    sources,
    n_components,
    *,
    seed,
    prior="laplace",
    alpha0=1.1,
    lambda_=1.0,
    a0=0.01,
    b0=0.01,
    tol=1e-5,
    max_sweeps=1000,
):
    """Fit from one random start; stop when the objective's relative change in a sweep is at most `tol`."""
    started = time.perf_counter()
    sources.require_components(n_components)
    priors = Priors(alpha0, lambda_, a0, b0)
    alpha0 = priors.dirichlet(n_components)
    form = _prior_form(prior, lambda_)
    positive_number("tol", tol)
    whole_number("max_sweeps", max_sweeps, least=1)
    n_entries = sources.n_observed
    sources = CompletedSources(sources)

    rng = np.random.default_rng(seed)
    memberships = [random_memberships(n_components, n, rng) for n in sources.n_samples]
    columns = [None] * len(sources)
    noise_variances = [
        (2 * b0 + norm) / (2 * a0 + entries + 2) for norm, entries in zip(sources.squared_norms, n_entries, strict=True)
    ]
    ridge_variance = np.full((n_components, sources.n_features), lambda_**2)
    wt = np.empty((n_components, sources.n_features))

    trace = []
    converged, reason = False, f"stopped at max_sweeps = {max_sweeps}"
    for sweep in range(1, max_sweeps + 1):
        if sweep > 1:
            sources.fill(wt, memberships)
        update_components(sources, memberships, noise_variances, ridge_variance, wt)
        if sweep > form.waits:
            ridge_variance = form.ridge_variance(wt)
        objective = form.penalty(wt, ridge_variance)

        gram = wt @ wt.T
        for c, x in enumerate(sources.matrices):
            projection = components_times_data(wt, x)
            alpha = noise_variances[c] * (alpha0 - 1)
            columns[c] = minimise(gram, projection, alpha, start=columns[c], tol=SWEEP_TOLERANCE)
            rss = residual_sum_of_squares(sources.squared_norms[c], gram, projection, columns[c].h)
            noise_variances[c] = (2 * b0 + rss) / (2 * a0 + n_entries[c] + 2)
            objective += noise_terms(rss, noise_variances[c], n_entries[c], priors)
            objective += dirichlet_terms(columns[c].h, alpha0)
        memberships = [solution.h for solution in columns]

        if not np.isfinite(objective):
            raise FitError(f"the objective became {objective} in sweep {sweep}; rescale the data or the priors")
        trace.append(objective)
        if sweep > form.waits + 1 and abs(trace[-2] - objective) <= tol * abs(trace[-2]):
            converged, reason = True, f"relative change of the objective at most tol = {tol:g} in sweep {sweep}"
            break

    return Decomposition(
        components=np.ascontiguousarray(wt.T),
        memberships=memberships,
        noise=np.sqrt(noise_variances),
        objective=trace[-1],
        trace=np.array(trace),
        converged=converged,
        reason=reason,
        seconds=time.perf_counter() - started,
    )


class _Laplace:
    waits = 0

    def __init__(self, lambda_):
        self.lambda_ = lambda_

    def ridge_variance(self, wt):
        """1 / ridge weight = lambda |w|."""
        return self.lambda_ * np.abs(wt)

    def penalty(self, wt, _):
        return laplace_terms(wt, self.lambda_)


class _Hierarchical:
    waits = Z_WAITS

    def __init__(self, lambda_):
        self.lambda_ = lambda_

    def ridge_variance(self, wt):
        """z = (sqrt(lambda^2 + 8 lambda w^2) - lambda) / 4, the minimiser over z >= floor."""
        # written without the difference of two nearly equal numbers
        root = np.sqrt(self.lambda_**2 + 8 * self.lambda_ * wt**2)
        z = 2 * self.lambda_ * wt**2 / (root + self.lambda_)
        return np.maximum(z, Z_FLOOR * self.lambda_)

    def penalty(self, wt, z):
        return (z / self.lambda_ + 0.5 * np.log(z) + 0.5 * wt**2 / z).sum()


def _prior_form(prior, lambda_):
    forms = {"laplace": _Laplace, "hierarchical": _Hierarchical}
    return forms[one_of("prior", prior, forms)](lambda_)


def update_components(sources, memberships, noise_variances, ridge_variance, wt):
    """w_i = (sum_c x_i H^(c)'/s2_c) (sum_c H^(c)H^(c)'/s2_c + diag(1/v_i))^-1 for every row i; overwrites wt."""
    precision = sum(h @ h.T / s2 for h, s2 in zip(memberships, noise_variances, strict=True))
    linear = sum(
        data_times_memberships(x, h) / s2
        for x, h, s2 in zip(sources.matrices, memberships, noise_variances, strict=True)
    )
    _ridge_rows(precision, linear, ridge_variance, wt)


@compiled
def _ridge_rows(precision, linear, variance, out):
    """Solve (P + diag(1/v_i)) w_i = r_i for every row i of W, a lane each.

    With D = diag(sqrt(v_i)) it is w = D (I + D P D)^-1 D r, which stays well conditioned as v goes to 0.
    """
    size, n_rows = linear.shape
    lanes = min(LANES, n_rows)
    matrix = np.empty((size, size, lanes))
    root = np.empty((size, lanes))
    x = np.empty((size, lanes))
    for first in range(0, n_rows, lanes):
        n_block = min(lanes, n_rows - first)
        for k in range(size):
            for lane in range(lanes):
                row = first + min(lane, n_block - 1)
                root[k, lane] = np.sqrt(variance[k, row])
                x[k, lane] = root[k, lane] * linear[k, row]
        for k in range(size):
            for p in range(k + 1):
                for lane in range(lanes):
                    matrix[k, p, lane] = root[k, lane] * precision[k, p] * root[p, lane]
            for lane in range(lanes):
                matrix[k, k, lane] += 1.0
        cholesky(matrix)
        solve(matrix, x)
        for k in range(size):
            for lane in range(n_block):
                out[k, first + lane] = root[k, lane] * x[k, lane]
