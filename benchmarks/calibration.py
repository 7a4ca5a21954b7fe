"""Can the posterior be believed?  Coverage, simulation-based calibration, and the closed form against long MCMC.

    python benchmarks/calibration.py [number of data sets, default 500]

Every data set has its own W, H and noise, drawn from the priors that the fit is given, so a perfect
posterior would cover at every level what it promises, and the rank of the truth among its draws
would be uniform.  Components are matched to the true ones by the distance of their columns of W;
the noise and entries of WH need no matching.  "Alone" is the interval of a factor as the fit has
it, without linear response (docs/derivation.md, 4.11); entries of WH are predicted with those.
MCMC is PyMC's NUTS on one small data set, started at the closed form's solution.  Writes
docs/images/calibration.png.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from scipy.stats import chisquare
from threadpoolctl import threadpool_limits

from bjmd.analysis import intervals
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.model import Priors
from bjmd.report.style import COLOURS, styled
from bjmd_paper.baselines.advi import build_model

M = 20
N = (25, 15)
K = 3
PRIORS = {"lambda_": 1.0, "alpha0": 1.1, "a0": 3.0, "b0": 1.0}
RESTARTS = 3
N_RANKS = 99
N_BINS = 20
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
NAMES = {"noise": "noise sd", "W": "components", "H": "memberships", "WH": "entries of WH"}


def draw(rng, n_features=M, n_samples=N, n_components=K):
    """Truth and data from the prior: W, the list of H, the noise sds, and the sources."""
    w = rng.laplace(scale=PRIORS["lambda_"], size=(n_features, n_components))
    h = [rng.dirichlet(np.full(n_components, PRIORS["alpha0"]), n).T for n in n_samples]
    noise = np.sqrt(PRIORS["b0"] / rng.gamma(PRIORS["a0"], size=len(h)))
    data = [
        w @ block + sd * rng.standard_normal((len(w), block.shape[1]))
        for block, sd in zip(h, noise, strict=True)
    ]
    return w, h, noise, Sources(data)


def best_fit(sources, n_components):
    options = {"priors": "paper", "tol": 1e-8, **PRIORS}
    fits = [
        registry.fit("cavi-bjmd", sources, n_components, seed=s, **options) for s in range(RESTARTS)
    ]
    return intervals.widened(sources, min(fits, key=lambda result: result.objective))


def matched(components, w):
    """The true component that each fitted one is."""
    fitted, true = linear_sum_assignment(
        ((components[:, :, None] - w[:, None, :]) ** 2).sum(axis=0)
    )
    return true[np.argsort(fitted)]


def one(seed):
    """By name: shares of entries that intervals hold at every LEVEL, mean of (error / sd)^2, a
    rank, a share alone.
    """
    rng = np.random.default_rng(seed)
    w, h, noise, sources = draw(rng)
    result = best_fit(sources, K)
    order = matched(result.components, w)
    posterior = result.posterior
    factors = {"noise": (posterior.noise, noise), "W": (posterior.components, w[:, order])}
    factors["H"] = posterior.memberships[0], h[0][order]
    found = {}
    for name, (factor, truth) in factors.items():
        ends = [*(factor.interval(level) for level in LEVELS), factor.plain().interval(0.9)]
        *shares, alone = [((lower <= truth) & (truth <= upper)).mean() for lower, upper in ends]
        rank = (factor.sample(N_RANKS, rng).reshape(N_RANKS, -1)[:, 0] < truth.ravel()[0]).sum()
        found[name] = shares, np.mean(((factor.mean - truth) / factor.sd) ** 2), rank, alone
    rows = posterior.components.plain().sample(N_RANKS, rng)[:, 0]
    columns = posterior.memberships[0].plain().sample(N_RANKS, rng)
    products = (rows * columns[:, :, 0]).sum(axis=1)
    truth = w[0] @ h[0][:, 0]
    inside = [np.mean(np.abs((products < truth).mean() - 0.5) <= level / 2) for level in LEVELS]
    alone = inside[LEVELS.index(0.9)]
    found["WH"] = (
        inside,
        ((products.mean() - truth) / products.std()) ** 2,
        (products < truth).sum(),
        alone,
    )
    return found


def against_nuts(seed=1, n_draws=2000, n_chains=2):
    """Means and sds of the closed form and of NUTS, and sds alone, of every entry of W, H and the
    noise.
    """
    import pymc as pm

    *_, sources = draw(np.random.default_rng(seed), 8, (12, 8), 2)
    result = best_fit(sources, 2)
    names = ("lambda_", "alpha0", "a0", "b0")
    with warnings.catch_warnings(action="ignore"):
        with build_model(sources, 2, Priors(**{name: PRIORS[name] for name in names})):
            start = {
                "W": result.components,
                "H": np.hstack(result.memberships).T,
                "s2": np.square(result.noise),
            }
            trace = pm.sample(
                n_draws,
                tune=1000,
                init="adapt_diag",
                chains=n_chains,
                cores=1,
                random_seed=seed,
                initvals=start,
                progressbar=False,
                compute_convergence_checks=False,
            )
        chains = trace.posterior
        split = {
            name: float(np.max(pm.rhat(trace, var_names=[name])[name])) for name in ("W", "H", "s2")
        }
    draws = {
        name: chains[name].to_numpy().reshape(-1, *chains[name].shape[2:])
        for name in ("W", "H", "s2")
    }
    draws["s2"] = np.sqrt(draws["s2"])
    posterior = result.posterior
    ours = {"W": [posterior.components], "H": posterior.memberships, "s2": [posterior.noise]}
    parts = {}
    for name, factors in ours.items():
        each = ([q.mean for q in factors], [q.sd for q in factors], [q.plain().sd for q in factors])
        mean, sd, alone = (np.hstack(part).T if name == "H" else part[0] for part in each)
        parts[name] = mean, sd, draws[name].mean(axis=0), draws[name].std(axis=0), alone
    return {name: tuple(map(np.ravel, five)) for name, five in parts.items()}, split


@styled
def figure(shares, ranks, compared):
    drawn = Figure((9.6, 6.0), layout="constrained")
    axes = drawn.subplots(2, 3)
    ax = axes[0, 0]
    ax.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for (name, label), colour in zip(NAMES.items(), COLOURS, strict=False):
        ax.plot(LEVELS, shares[name].mean(axis=0), "o-", color=colour, label=label)
    ax.set(title="Coverage", xlabel="level of the interval", ylabel="share that holds the truth")
    ax.legend()
    spots = (axes[0, 1], axes[0, 2], axes[1, 0], axes[1, 1])
    for (name, label), colour, ax in zip(NAMES.items(), COLOURS, spots, strict=False):
        n = len(ranks[name])
        low, high = (
            n / N_BINS + sign * 1.96 * np.sqrt(n / N_BINS * (1 - 1 / N_BINS)) for sign in (-1, 1)
        )
        ax.axhspan(low, high, color="#dddddd")
        ax.hist(ranks[name], np.linspace(-0.5, N_RANKS + 0.5, N_BINS + 1), color=colour, alpha=0.8)
        ax.set(
            title=f"Rank of the truth: {label}",
            xlabel=f"rank among {N_RANKS} draws",
            ylabel="data sets",
        )
    ax = axes[1, 2]
    ax.plot([0.01, 1], [0.01, 1], color="#999999", linewidth=0.8)
    for name, label, colour in zip(
        ("s2", "W", "H"), list(NAMES.values())[:3], COLOURS, strict=False
    ):
        ax.plot(compared[name][3], compared[name][1], "o", color=colour, label=label, alpha=0.8)
        ax.plot(compared[name][3], compared[name][4], "x", color=colour, alpha=0.4)
    ax.set(
        title="Posterior sd (x: factors alone)",
        xlabel="NUTS",
        ylabel="closed form",
        xscale="log",
        yscale="log",
    )
    ax.legend()
    return drawn


def main():
    n_data = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with threadpool_limits(1):
        found = [one(seed) for seed in range(n_data)]
        compared, split = against_nuts()
    shares = {name: np.array([one[name][0] for one in found]) for name in NAMES}
    ranks = {name: np.array([one[name][2] for one in found]) for name in NAMES}
    print(f"{n_data} data sets, M = {M}, N = {N}, K = {K}\n")
    print(
        "| what | 50 % intervals hold | 90 % intervals hold | alone, 90 % | error / sd | p of uniform ranks |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, label in NAMES.items():
        half, most = (shares[name][:, LEVELS.index(level)] for level in (0.5, 0.9))
        alone = 100 * np.mean([one[name][3] for one in found])
        error = np.sqrt(np.mean([one[name][1] for one in found]))
        counts = np.histogram(ranks[name], np.linspace(-0.5, N_RANKS + 0.5, N_BINS + 1))[0]
        text = " | ".join(
            f"{100 * x.mean():.1f} ± {100 * x.std() / np.sqrt(n_data):.1f} %" for x in (half, most)
        )
        print(
            f"| {label} | {text} | {alone:.1f} % | {error:.2f} | {chisquare(counts).pvalue:.2g} |"
        )
    print(
        "\n| what | difference of the means, in sds of NUTS | sd over that of NUTS | alone | worst R-hat of NUTS |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, label in zip(("s2", "W", "H"), list(NAMES.values())[:3], strict=True):
        mean, sd, true_mean, true_sd, alone = compared[name]
        away = np.abs(mean - true_mean) / true_sd
        ratio = sd / true_sd
        print(
            f"| {label} | median {np.median(away):.2f}, at most {away.max():.2f} | median {np.median(ratio):.2f}, "
            f"{ratio.min():.2f} to {ratio.max():.2f} | median {np.median(alone / true_sd):.2f} | {split[name]:.3f} |"
        )
    path = Path(__file__).parents[1] / "docs/images/calibration.png"
    figure(shares, ranks, compared).savefig(path, dpi=150)
    print(f"\n{path}")


if __name__ == "__main__":
    main()
