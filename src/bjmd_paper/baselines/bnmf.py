"""Bayesian NMF (Schmidt, Winther and Hansen 2009) on all sources side by side.

    X = WH + noise,     noise ~ N(0, s2),     s2 ~ IG(a0, b0)
    w_ik ~ Exponential(1),     h_kj ~ Exponential(1)

Given everything else, one entry of a factor has the density of a rectified Gaussian
(bjmd/numerics/nonnegative.py).  Rows of W are independent given H, and columns of H given W, so a
sweep needs each product with the data once.  Then

    s2 ~ IG(a0 + MN/2, b0 + RSS/2).

The Gibbs sampler starts near the solution of joint NMF, draws all these in turn, and then a scale s
of every component, for s w_k and h_k / s: the data do not determine it, and updates of single
entries hardly move it.  The result has the means after the burn-in.

The objective is the negative log joint up to constants,

    RSS / (2 s2) + (MN/2 + a0 + 1) ln s2 + b0 / s2 + sum w + sum h.

The trace has its value at every draw, and last its value at the posterior means.
"""

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.errors import FitError, whole_number
from bjmd.inference.registry import Method
from bjmd.model import Priors, noise_terms
from bjmd.numerics.nonnegative import draw_factor
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines import joint_nmf

START_TOLERANCE = 1e-5
"""Of joint NMF; chains that start from 1e-4 mix badly on Yale B (R-hat 2.3)."""
MIXED = 1.1
"""The chain has converged if the split R-hat of the noise is below this."""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    a0: float = Priors.a0,
    b0: float = Priors.b0,
    burn_in: int = 200,
    n_draws: int = 300,
) -> Decomposition:
    """Sample from near the solution of joint NMF; the mean of `n_draws` after `burn_in` sweeps."""
    priors = Priors(a0=a0, b0=b0)
    whole_number("burn_in", burn_in, least=0)
    whole_number("n_draws", n_draws, least=4)
    chain = Chain(sources, n_components, np.random.default_rng(seed), priors)
    chain.begin(joint_nmf.fit(sources, n_components, seed=seed, tol=START_TOLERANCE))
    return gibbs(chain, burn_in, n_draws)


METHOD = Method("bnmf", "BNMF", fit, concatenate=True, nonnegative=True)


def gibbs(chain, burn_in, n_draws):
    """The means of the chain after the burn-in."""
    trace = [chain.sweep() for _ in range(burn_in)]
    wt = np.zeros_like(chain.wt)
    h = np.zeros_like(chain.h)
    variances = []
    for _ in range(n_draws):
        trace.append(chain.sweep())
        wt += chain.wt / n_draws
        h += chain.h / n_draws
        variances.append(chain.s2)
    s2 = np.mean(variances)
    r_hat = split_r_hat(np.array(variances))
    of_joint = split_r_hat(np.array(trace[burn_in:]))
    rss = residual_sum_of_squares(chain.squared_norm, wt @ wt.T, chain.x.times_components(wt), h)
    trace.append(chain.objective(wt, h, s2, rss))
    return Decomposition(
        components=np.ascontiguousarray(wt.T),
        memberships=[h],
        noise=np.sqrt([s2]),
        objective=trace[-1],
        trace=np.array(trace),
        converged=bool(r_hat < MIXED),
        reason=(
            f"took {burn_in} + {n_draws} sweeps; split R-hat of the noise {r_hat:.3f}, mixed below "
            f"{MIXED}; of the log joint {of_joint:.3f}"
        ),
    )


class Chain:
    """W', H and s2, and the sweep that updates them."""

    def __init__(self, sources, n_components, rng, priors):
        (self.x,) = sources.data
        self.squared_norm = self.x.squared_norm
        self.rng = rng
        self.priors = priors
        n_features, n_samples = self.x.shape
        self.n_entries = n_features * n_samples
        # W and H share the mean of the data evenly
        scale = np.sqrt(self.x.raw.sum() / self.n_entries / n_components)
        self.wt = rng.exponential(scale, (n_components, n_features))
        self.h = rng.exponential(scale, (n_components, n_samples))
        self.s2 = (2 * priors.b0 + self.squared_norm) / (2 * priors.a0 + self.n_entries + 2)

    def begin(self, nmf):
        """Start from a solution of joint NMF."""
        self.wt = np.ascontiguousarray(nmf.components.T)
        self.h = nmf.memberships[0].copy()
        self.s2 = (2 * self.priors.b0 + nmf.objective) / (2 * self.priors.a0 + self.n_entries + 2)

    def sweep(self):
        """Draw W, H, s2 and the scales in turn; returns the objective."""
        products = self.x.times_memberships(self.h)
        precision = self.h @ self.h.T / self.s2
        draw_factor(precision, products / self.s2, 1.0, self.wt, self.rng)
        gram = self.wt @ self.wt.T
        projection = self.x.times_components(self.wt)
        draw_factor(gram / self.s2, projection / self.s2, 1.0, self.h, self.rng)
        rss = residual_sum_of_squares(self.squared_norm, gram, projection, self.h)
        shape = self.priors.a0 + 0.5 * self.n_entries
        self.s2 = (self.priors.b0 + 0.5 * rss) / self.rng.standard_gamma(shape)
        sums = self.wt.sum(axis=1), self.h.sum(axis=1)
        scale = draw_scales(*sums, self.x.shape[0] - self.x.shape[1], self.rng)[:, None]
        self.wt = scale * self.wt
        self.h = self.h / scale
        objective = self.objective(self.wt, self.h, self.s2, rss)
        if not np.isfinite(objective):
            raise FitError(f"the log joint became {-objective}; rescale the data or the priors")
        return objective

    def objective(self, wt, h, s2, rss):
        return noise_terms(rss, s2, self.n_entries, self.priors) + wt.sum() + h.sum()


def draw_scales(a, b, power, rng):
    """A scale s of every component, by one Metropolis step for (s w_k, h_k / s) from s = 1.

    With a = sum w_k and b = sum h_k, the density of u = ln s is

        exp(power u - a e^u - b e^-u)

    by the change of volume, with power = M - N, and the priors.  The proposal is the normal at its
    mode.
    """
    root = np.sqrt(power**2 + 4 * a * b)  # both forms are the positive zero of power - a s + b / s
    mode = np.log((power + root) / (2 * a) if power > 0 else 2 * b / (root - power))
    # the curvature at the mode is a s + b / s = root
    new = mode + rng.standard_normal(len(a)) / np.sqrt(root)

    def log_ratio(u):
        return power * u - a * np.exp(u) - b * np.exp(-u) + 0.5 * root * (u - mode) ** 2

    accepted = np.log(rng.random(len(a))) < log_ratio(new) - log_ratio(np.zeros(len(a)))
    return np.where(accepted, np.exp(new), 1.0)


def split_r_hat(draws):
    """The potential scale reduction of the two halves of a chain, near 1 if they agree."""
    n = len(draws) // 2
    halves = draws[:n], draws[-n:]
    within = np.mean([half.var(ddof=1) for half in halves])
    if within == 0:
        return 1.0
    return np.sqrt((n - 1) / n + np.var([half.mean() for half in halves], ddof=1) / within)
