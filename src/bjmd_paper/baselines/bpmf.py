"""Bayesian probabilistic matrix factorisation (Salakhutdinov and Mnih 2008), sources side by side.

    X = WH + noise,     noise ~ N(0, s2),     w_i ~ N(m_w, L_w^-1),     h_j ~ N(m_h, L_h^-1)

with a normal-Wishart prior on each mean and precision and, because here the noise is not known, an
inverse gamma prior on s2.  A Gibbs sampler draws means and precisions, W, H and s2 in turn, for
data of unit mean square.  Only the product WH is determined, so the result has the singular vectors
of the mean of WH over the draws; memberships are signed.
"""

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.errors import whole_number
from bjmd.inference.registry import Method
from bjmd.model import Priors
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines.bnmf import MIXED, split_r_hat

BETA0 = 2.0
"""How many observations the prior of the means is worth, as in the paper."""


def fit(
    sources: Sources, n_components: int, *, seed: int, burn_in: int = 100, n_draws: int = 200
) -> Decomposition:
    """Discard `burn_in` sweeps from random factors and average the next `n_draws`.

    The trace is minus the log likelihood of every draw, and the objective its mean.
    """
    from sklearn.utils.extmath import svd_flip

    whole_number("burn_in", burn_in, least=0)
    whole_number("n_draws", n_draws, least=4)
    rng = np.random.default_rng(seed)
    (x,) = sources.data
    unit = np.sqrt(x.squared_norm / np.prod(x.shape)) or 1.0
    x = x / unit
    wt, h = (rng.standard_normal((n_components, n)) / np.sqrt(n_components) for n in x.shape)
    s2 = 1.0
    product = np.zeros(x.shape)
    variances = []
    trace = []
    for sweep in range(burn_in + n_draws):
        wt = draw_factor(h @ h.T / s2, x.times_memberships(h) / s2, draw_prior(wt, rng), rng)
        gram = wt @ wt.T
        projection = x.times_components(wt)
        h = draw_factor(gram / s2, projection / s2, draw_prior(h, rng), rng)
        rss = residual_sum_of_squares(x.squared_norm, gram, projection, h)
        s2 = (Priors.b0 + rss / 2) / rng.standard_gamma(Priors.a0 + product.size / 2)
        variances.append(unit**2 * s2)
        trace.append(0.5 * (rss / s2 + product.size * np.log(2 * np.pi * variances[-1])))
        if sweep >= burn_in:
            product += wt.T @ h / n_draws
    left, sizes, right = np.linalg.svd(product, full_matrices=False)
    left, right = svd_flip(left, right)  # LAPACK may choose either sign
    r_hat = split_r_hat(np.array(variances[burn_in:]))
    return Decomposition(
        components=unit * left[:, :n_components] * sizes[:n_components],
        memberships=[np.ascontiguousarray(right[:n_components])],
        noise=np.sqrt([np.mean(variances[burn_in:])]),
        objective=float(np.mean(trace[burn_in:])),
        trace=np.array(trace),
        converged=bool(r_hat < MIXED),
        reason=f"took {burn_in} + {n_draws} sweeps; split R-hat of the noise {r_hat:.3f}",
    )


METHOD = Method("bpmf", "BPMF", fit, objective="minus the log likelihood", concatenate=True)


def draw_prior(factor, rng):
    """Mean and precision of the columns of a factor (K x n), given them."""
    from scipy.stats import wishart  # slow to import

    size, n = factor.shape
    mean = factor.mean(axis=1)
    off = factor - mean[:, None]
    inverse_scale = np.eye(size) + off @ off.T + BETA0 * n / (BETA0 + n) * np.outer(mean, mean)
    scale = np.linalg.inv(inverse_scale)
    precision = np.atleast_2d(wishart.rvs(size + n, (scale + scale.T) / 2, random_state=rng))
    root = np.linalg.cholesky((BETA0 + n) * precision)
    step = np.linalg.solve(root.T, rng.standard_normal(size))
    return n * mean / (BETA0 + n) + step, precision


def draw_factor(precision, linear, prior, rng):
    """Columns of a factor, each N(P^-1 b_j, P^-1) with the P and the b_j of the data and prior."""
    prior_mean, prior_precision = prior
    root = np.linalg.cholesky(precision + prior_precision)
    b = linear + (prior_precision @ prior_mean)[:, None]
    whitened = np.linalg.solve(root, b) + rng.standard_normal(linear.shape)
    return np.linalg.solve(root.T, whitened)
