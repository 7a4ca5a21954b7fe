"""Can the posterior be believed?  Coverage, simulation-based calibration, and long MCMC.

    python benchmarks/calibration.py [coverage ranks nuts]

Components are matched to the true ones by the distance of their columns of W; the noise and entries
of WH need no matching.  "Alone" is the interval of a factor without linear response
(docs/derivation.md, 4.11); entries of WH are predicted with those.

coverage  90 % intervals on many kinds of data: from the prior, with missing entries, with other
          noise, with sparse memberships, and the paper's small synthetic data; 200 data sets each,
          50 of the larger kinds
ranks     500 data sets from the prior.  A perfect posterior would cover at every level what it
          promises, and the rank of the truth among its draws would be uniform; draws
          docs/images/calibration.png, with the points of nuts
nuts      the closed form against PyMC's NUTS on one small data set, started at its solution
"""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
from harness import QUICK, fits_from_starts, header, matched, row, run_tables, size, with_missing
from matplotlib.figure import Figure
from scipy.stats import chisquare

from bjmd import Sources
from bjmd.analysis import intervals
from bjmd.model import Priors
from bjmd.report.figures import COLOURS, styled
from bjmd_paper.datasets import synthetic

PRIORS = {"lambda_": 1.0, "alpha0": 1.1, "a0": 3.0, "b0": 1.0}
KNOWN = {"priors": "paper", "tol": 1e-8, **PRIORS}
"""Options of a fit that knows the priors."""
N_FEATURES = 20
N_SAMPLES = (25, 15)
N_COMPONENTS = 3
N_DATA = size(500, 3)
N_COVERED = size(200, 2)
N_LARGER = size(50, 2)
N_RANKS = 99
N_BINS = 20
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
NAMES = {"noise": "noise sd", "W": "components", "H": "memberships", "WH": "entries of WH"}
IMAGE = Path(__file__).parents[1] / "docs/images/calibration.png"


def drawn(
    rng,
    n_features=N_FEATURES,
    n_samples=N_SAMPLES,
    n_components=N_COMPONENTS,
    alpha0=PRIORS["alpha0"],
    noise_model="source",
    missing=0.0,
):
    """Truth and data from the prior: W, the list of H, the noise sds, and the sources.

    The precisions of features and samples are Gamma(4, 4), and robust noise is Student's t with 4
    degrees of freedom.
    """
    w = rng.laplace(scale=PRIORS["lambda_"], size=(n_features, n_components))
    h = [rng.dirichlet(np.full(n_components, alpha0), n).T for n in n_samples]
    noise = np.sqrt(PRIORS["b0"] / rng.gamma(PRIORS["a0"], size=len(h)))
    features = rng.gamma(4.0, 1 / 4, (n_features, 1)) if noise_model == "feature" else 1.0
    matrices = []
    for memberships, sd in zip(h, noise, strict=True):
        shape = n_features, memberships.shape[1]
        errors = sd * rng.standard_normal(shape) / np.sqrt(features)
        if noise_model == "sample":
            errors /= np.sqrt(rng.gamma(4.0, 1 / 4, shape[1]))
        if noise_model == "robust":
            errors = sd * rng.standard_t(4, shape)
        matrices.append(w @ memberships + errors)
    sources = Sources(matrices)
    return w, h, noise, with_missing(sources, missing, rng) if missing else sources


def paper_data(rng):
    """The paper's small synthetic data, at the noise of its tables."""
    data = synthetic.generate("small", 4.0, rng)
    return data.components, data.memberships, data.noise, data.sources


def from_prior(**kind):
    return lambda rng: drawn(rng, **kind)


LARGER = {"n_features": 105, "n_samples": (120, 120, 120), "n_components": 5}
"""As large as the paper's small data."""


COVERED = [
    ("from the prior", from_prior(), KNOWN, "priors known"),
    ("from the prior", from_prior(), {"offsets": False}, "offsets=False"),
    ("from the prior", from_prior(), {}, "default"),
    ("from the prior, larger", from_prior(**LARGER), KNOWN, "priors known"),
    ("from the prior, larger", from_prior(**LARGER), {}, "default"),
    ("20 % missing", from_prior(missing=0.2), KNOWN, "priors known"),
    ("50 % missing", from_prior(missing=0.5), KNOWN, "priors known"),
    *(
        (f"noise by {kind}", from_prior(noise_model=kind), {**KNOWN, "noise": noise}, f"{noise=!s}")
        for kind in ("feature", "sample", "robust")
        for noise in (kind, "source")
    ),
    *(
        (name, draw, options, text)
        for name, draw in (
            ("Dirichlet(0.3), larger", from_prior(**LARGER, alpha0=0.3)),
            ("the paper's small data", paper_data),
        )
        for options, text in (
            ({}, "default"),
            ({"alpha0": "by-source"}, 'alpha0="by-source"'),
            ({"alpha0": 1.0}, "alpha0=1"),
            ({"priors": "paper"}, 'priors="paper"'),
        )
    ),
]
"""Kinds of data, functions that draw them, options of the fit, and how the table calls them."""


def coverage():
    header("data", "fit", "noise", "W", "H", "H where it is not 0", "upper end where H is 0")
    for name, draw, options, text in COVERED:
        n_data = N_LARGER if "larger" in name or "paper" in name else N_COVERED
        covered = [covered_once(draw, options, seed) for seed in range(n_data)]
        cells = []
        for what in ("noise", "W", "H", "not zero"):
            shares = 100 * np.array([one[what] for one in covered])
            cells.append(f"{shares.mean():.0f} ± {shares.std() / np.sqrt(n_data):.1f} %")
        ends = np.concatenate([one["ends"] for one in covered])
        if not len(ends):
            cells[-1] = "–"
        row(name, text, *cells, f"{np.median(ends):.2f}" if len(ends) else "–")


def covered_once(draw, options, seed):
    """Shares of 90 % intervals that hold the truth, and the upper ends of those of true zeros."""
    w, h, noise, sources = draw(np.random.default_rng(seed))
    result = best_fit(sources, w.shape[1], **options)
    order = matched(result.components, w)
    posterior = result.posterior
    ends = [factor.interval(0.9) for factor in posterior.memberships]
    low, high = (np.hstack(parts) for parts in zip(*ends, strict=True))
    truth = np.hstack(h)[order]
    inside = (low <= truth) & (truth <= high)
    return {
        "noise": share_inside(posterior.noise, noise, 0.9),
        "W": share_inside(posterior.components, w[:, order], 0.9),
        "H": inside.mean(),
        "not zero": inside[truth > 0].mean(),
        "ends": high[truth == 0],
    }


def best_fit(sources, n_components, **options):
    best = fits_from_starts("cavi-bjmd", sources, n_components, 3, **options)[0]
    return intervals.widened(sources, best)


def factors_and_truth(result, w, h, noise):
    """Of the noise, W and the H of source 1: the posterior, and the truth in its order."""
    order = matched(result.components, w)
    return {
        "noise": (result.posterior.noise, noise),
        "W": (result.posterior.components, w[:, order]),
        "H": (result.posterior.memberships[0], h[0][order]),
    }


def share_inside(factor, truth, level):
    lower, upper = factor.interval(level)
    return ((lower <= truth) & (truth <= upper)).mean()


def one_data_set(seed):
    """By name: share inside at every level and alone, mean of (error / sd)^2, and a rank."""
    rng = np.random.default_rng(seed)
    w, h, noise, sources = drawn(rng)
    result = best_fit(sources, N_COMPONENTS, **KNOWN)
    measured = {}
    for name, (factor, truth) in factors_and_truth(result, w, h, noise).items():
        shares = [share_inside(factor, truth, level) for level in LEVELS]
        alone = share_inside(factor.plain(), truth, 0.9)
        draws = factor.sample(N_RANKS, rng).reshape(N_RANKS, -1)[:, 0]
        squared = np.mean(((factor.mean - truth) / factor.sd) ** 2)
        measured[name] = shares, alone, squared, (draws < truth.ravel()[0]).sum()
    rows = result.posterior.components.plain().sample(N_RANKS, rng)[:, 0]
    columns = result.posterior.memberships[0].plain().sample(N_RANKS, rng)
    products = (rows * columns[:, :, 0]).sum(axis=1)
    truth = w[0] @ h[0][:, 0]
    rank = (products < truth).sum()
    shares = [float(abs(rank / N_RANKS - 0.5) <= level / 2) for level in LEVELS]
    squared = ((products.mean() - truth) / products.std()) ** 2
    measured["WH"] = shares, shares[LEVELS.index(0.9)], squared, rank
    return measured


def ranks():
    measured = [one_data_set(seed) for seed in range(N_DATA)]
    header("what", "50 % intervals", "90 % intervals", "alone, 90 %", "error / sd", "p of ranks")
    shares = {}
    places = {}
    for name, label in NAMES.items():
        columns = zip(*(data_set[name] for data_set in measured), strict=True)
        shares[name], alone, squared, places[name] = map(np.array, columns)
        counts = np.histogram(places[name], np.linspace(-0.5, N_RANKS + 0.5, N_BINS + 1))[0]
        cells = []
        for level in (0.5, 0.9):
            share = 100 * shares[name][:, LEVELS.index(level)]
            cells.append(f"{share.mean():.1f} ± {share.std() / np.sqrt(N_DATA):.1f} %")
        error = np.sqrt(squared.mean())
        p = chisquare(counts).pvalue
        row(label, *cells, f"{100 * alone.mean():.1f} %", f"{error:.2f}", f"{p:.2g}")
    if not QUICK:
        figure(shares, places, against_nuts()[0]).savefig(IMAGE, dpi=150)


@cache
def against_nuts(seed=1):
    """Mean, sd and sd alone of the closed form, mean and sd of NUTS, of all entries; its R-hat."""
    import pymc as pm

    from bjmd_paper.baselines.advi import build_model

    *_, sources = drawn(np.random.default_rng(seed), 8, (12, 8), 2)
    result = best_fit(sources, 2, **KNOWN)
    start = {
        "W": result.components,
        "H": np.hstack(result.memberships).T,
        "s2": np.square(result.noise),
    }
    with warnings.catch_warnings(action="ignore"):
        with build_model(sources, 2, Priors(**PRIORS)):
            trace = pm.sample(
                size(2000, 20),
                tune=size(1000, 20),
                init="adapt_diag",
                chains=2,
                cores=1,
                random_seed=seed,
                initvals=start,
                progressbar=False,
                compute_convergence_checks=False,
            )
        r_hat = {name: float(pm.rhat(trace, var_names=[name])[name].max()) for name in start}
    posterior = result.posterior
    ours = {"W": [posterior.components], "H": posterior.memberships, "s2": [posterior.noise]}
    compared = {}
    for name, factors in ours.items():
        chains = trace.posterior[name].to_numpy()
        draws = chains.reshape(-1, *chains.shape[2:])
        draws = np.sqrt(draws) if name == "s2" else draws
        means = [factor.mean for factor in factors]
        sds = [factor.sd for factor in factors]
        alone = [factor.plain().sd for factor in factors]
        # PyMC has samples in rows
        parts = [np.hstack(x).T if name == "H" else x[0] for x in (means, sds, alone)]
        compared[name] = [np.ravel(x) for x in (*parts, draws.mean(axis=0), draws.std(axis=0))]
    return compared, r_hat


def nuts():
    compared, r_hat = against_nuts()
    header("what", "difference of means, in sds", "sd over that of NUTS", "alone", "worst R-hat")
    for name, label in zip(("s2", "W", "H"), NAMES.values(), strict=False):
        mean, sd, alone, true_mean, true_sd = compared[name]
        away = np.abs(mean - true_mean) / true_sd
        ratio = sd / true_sd
        row(
            label,
            f"median {np.median(away):.2f}, at most {away.max():.2f}",
            f"median {np.median(ratio):.2f}, {ratio.min():.2f} to {ratio.max():.2f}",
            f"median {np.median(alone / true_sd):.2f}",
            f"{r_hat[name]:.3f}",
        )


@styled
def figure(shares, ranks, compared):
    drawing = Figure((5.6, 7.6), layout="constrained")
    axes = drawing.subplots(3, 2).ravel()
    axes[0].plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    for (name, label), colour in zip(NAMES.items(), COLOURS, strict=False):
        axes[0].plot(LEVELS, shares[name].mean(axis=0), "o-", color=colour, label=label)
    axes[0].set(title="Coverage", xlabel="level of the interval", ylabel="share with the truth")
    axes[0].legend(fontsize="small")
    for (name, label), colour, ax in zip(NAMES.items(), COLOURS, axes[1:5], strict=False):
        expected = N_DATA / N_BINS
        margin = 1.96 * np.sqrt(expected * (1 - 1 / N_BINS))
        ax.axhspan(expected - margin, expected + margin, color="#dddddd")
        ax.hist(ranks[name], np.linspace(-0.5, N_RANKS + 0.5, N_BINS + 1), color=colour, alpha=0.8)
        ax.set(title=f"Rank of the truth: {label}", xlabel=f"rank among {N_RANKS} draws")
        ax.set_ylabel("data sets")
    axes[5].plot([0.01, 1], [0.01, 1], color="#999999", linewidth=0.8)
    for name, label, colour in zip(("s2", "W", "H"), NAMES.values(), COLOURS, strict=False):
        _, sd, alone, _, true_sd = compared[name]
        axes[5].plot(true_sd, sd, "o", color=colour, label=label, alpha=0.8)
        axes[5].plot(true_sd, alone, "x", color=colour, alpha=0.4)
    axes[5].set(title="Posterior sd (x: factors alone)", xlabel="NUTS", ylabel="closed form")
    axes[5].set(xscale="log", yscale="log")
    axes[5].legend(fontsize="small")
    return drawing


if __name__ == "__main__":
    run_tables(__doc__, (coverage, ranks, nuts))
