"""How often does `check` recommend which option, on data of the model and on data that break it?

    python benchmarks/check.py [part of a name]     # BJMD_DRAWS=10 makes fewer draws

The data are the paper's small synthetic data, sigma3 = 4 unless the name says otherwise, fitted
with five components and the better of two starts.  The rows "other generator" are made in another
way: Laplace components, memberships from a Dirichlet, other sizes; in some the number of components
is wrong.  Every row is a case, every column a recommendation, every number a percentage of draws;
the right one is in bold.
"""

import os
import sys
from functools import partial

import numpy as np
from harness import fits_from_starts, header, paper_data, row, size
from threadpoolctl import threadpool_limits

from bjmd import Sources
from bjmd.analysis.check import check

DRAWS = size(int(os.environ.get("BJMD_DRAWS", 200)), 1)
FEWER = max(1, DRAWS // 10)
RECOMMENDED = ("none", "feature", "sample", "robust")


def changed(data, change):
    """Every matrix changed by change(x, source number)."""
    return Sources([change(x, c) for c, x in enumerate(data.sources.matrices)])


def other_noise(data, change):
    """The noise of every source changed by change(noise, signal, source number)."""
    signals = [data.components @ h for h in data.memberships]
    return changed(data, lambda x, c: signals[c] + change(x - signals[c], signals[c], c))


def clean(data, rng):
    return data.sources


def a_fifth_missing(data, rng):
    return changed(data, lambda x, c: np.where(rng.random(x.shape) < 0.2, np.nan, x))


def another_mix(data, rng):
    """Source 2 without the samples of blocks 3 and 4: its mean differs, but nothing is shifted."""
    kept = data.memberships[1][2:4].sum(axis=0) == 0
    return changed(data, lambda x, c: x[:, kept] if c == 1 else x)


def a_tenth_noisy(data, rng):
    factor = np.where(np.arange(len(data.components)) % 10 == 0, 10.0, 1.0)[:, None]
    return other_noise(data, lambda noise, signal, c: factor * noise)


def lognormal_features(data, rng):
    factor = np.exp(0.7 * rng.standard_normal((len(data.components), 1)))
    return other_noise(data, lambda noise, signal, c: factor * noise)


def lognormal_samples(data, rng):
    return other_noise(
        data, lambda noise, signal, c: np.exp(0.5 * rng.standard_normal(noise.shape[1])) * noise
    )


def outliers(data, rng):
    return changed(data, lambda x, c: np.where(rng.random(x.shape) < 0.001, 100 * x, x))


def student(data, rng):
    return other_noise(
        data, lambda noise, signal, c: data.noise[c] * rng.standard_t(2, noise.shape)
    )


def shifted(data, rng):
    shift = rng.standard_normal((len(data.components), 1))
    return changed(data, lambda x, c: x + shift if c == 1 else x)


CLEAN = {
    "the model": (clean, 5, 4.0, DRAWS),
    "source 2 shifted by sd 1": (shifted, 5, 4.0, DRAWS),
    "sigma3 = 1.5": (clean, 5, 1.5, FEWER),
    "one component too many": (clean, 6, 4.0, FEWER),
    "a fifth missing": (a_fifth_missing, 5, 4.0, FEWER),
    "source 2 another mix": (another_mix, 5, 4.0, FEWER),
}
BROKEN = {
    "one entry in 1000 times 100": (outliers, "robust"),
    "Student t, 2 df": (student, "robust"),
    "every tenth feature 10 x noise": (a_tenth_noisy, "feature"),
    "feature noise log-normal 0.7": (lognormal_features, "feature"),
    "sample noise log-normal 0.5": (lognormal_samples, "sample"),
}


def other_generator(
    seed,
    n_features=150,
    n_samples=(100, 60, 40),
    noise=(0.5, 1.0, 0.8),
    alpha=0.5,
    n_components=4,
    levels=0.0,
    zeros=0.0,
):
    """Laplace components around levels of the features, a share of them zero."""
    rng = np.random.default_rng(5000 + seed)
    components = rng.laplace(size=(n_features, n_components))
    components[rng.random(components.shape) < zeros] = 0.0
    components += levels * rng.standard_normal((n_features, 1))
    memberships = [rng.dirichlet(np.full(n_components, alpha), n).T for n in n_samples]
    noises = [
        sd * rng.standard_normal((n_features, n)) for sd, n in zip(noise, n_samples, strict=True)
    ]
    return Sources([components @ h + e for h, e in zip(memberships, noises, strict=True)])


def counts(seed):
    """Sparse counts, 9 in 10 of them zero, divided by the cell's total, times 1000, log(1 + x)."""
    rng = np.random.default_rng(6000 + seed)
    rates = rng.gamma(0.3, size=(200, 4)) * rng.gamma(0.5, size=(200, 1))
    matrices = []
    for n in (150, 100):
        expected = rates @ rng.dirichlet(np.full(4, 0.5), n).T
        x = rng.poisson(100 * rng.gamma(3.0, size=n) / 3 * expected / expected.sum(axis=0)).astype(
            float
        )
        matrices.append(np.log1p(1000 * x / np.maximum(x.sum(axis=0), 1)))
    return Sources(matrices)


OTHER_GENERATOR = {
    "features at different levels, 20 and 20 samples": (
        partial(other_generator, n_samples=(20, 20), noise=(0.2, 0.4), levels=5.0),
        4,
        DRAWS,
    ),
    "nine tenths of the components zero": (partial(other_generator, zeros=0.9), 4, DRAWS),
    "logarithms of sparse counts": (counts, 4, DRAWS),
    "other generator, one component too few": (other_generator, 3, FEWER),
    "other generator, one component too many": (other_generator, 5, FEWER),
    "other generator, all mixed, Dirichlet(3)": (partial(other_generator, alpha=3.0), 4, FEWER),
    "other generator, 600 features, 30 and 300 samples": (
        partial(other_generator, n_features=600, n_samples=(30, 300), noise=(1, 2)),
        4,
        FEWER,
    ),
}


def drawn(change, sigma3=4.0):
    def draw(seed):
        return change(paper_data("small", sigma3, seed), np.random.default_rng(1000 + seed))

    return draw


def cases():
    """Name, draw(seed), number of components, the right recommendation, and number of draws."""
    for name, (change, k, sigma3, n_draws) in CLEAN.items():
        yield name, drawn(change, sigma3), k, "none", n_draws
    for name, (draw, k, n_draws) in OTHER_GENERATOR.items():
        yield name, draw, k, "none", n_draws
    for name, (change, right) in BROKEN.items():
        yield name, drawn(change), 5, right, FEWER


def main(part_of_name=""):
    header("case", "draws", *RECOMMENDED)
    for name, draw, n_components, right, n_draws in cases():
        if part_of_name not in name:
            continue
        count = dict.fromkeys(RECOMMENDED, 0)
        for seed in range(n_draws):
            sources = draw(seed)
            best = fits_from_starts("cavi-bjmd", sources, n_components, 2)[0]
            count[check(sources, best).recommended.get("noise", "none")] += 1
        percent = {option: f"{100 * n / n_draws:.3g}" for option, n in count.items()}
        percent[right] = f"**{percent[right]}**"
        row(name, n_draws, *percent.values())


if __name__ == "__main__":
    with threadpool_limits(1):
        main(*sys.argv[1:2])
