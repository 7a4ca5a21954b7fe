"""How often does `check` raise an alarm, on data of the model and on data broken in one way?

    python benchmarks/check.py [part of a name]

The data are the paper's small synthetic data, sigma3 = 4 unless the name says otherwise, fitted
with five components and the better of two starts.  The rows "other generator" are made in another
way than those on which the thresholds were set: Laplace components, memberships from a Dirichlet,
other sizes; in some the number of components is wrong.  Every row is a case, every column a check,
every number a percentage of draws; the alarm that should be raised is in bold.
"""

import sys
from functools import partial

import numpy as np
from harness import fits_from_starts, header, paper_data, row, size
from threadpoolctl import threadpool_limits

from bjmd import Sources
from bjmd.analysis.check import check

DRAWS = size(200, 1)


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


def signal_dependent(data, rng):
    """Variance in proportion to 0.25 + signal, as counts of that mean have it."""
    return other_noise(data, lambda noise, signal, c: np.sqrt(0.25 + signal) * noise)


def poisson(data, rng):
    """Counts of mean 1 + 4 signal, divided by 4."""
    return other_noise(data, lambda noise, signal, c: rng.poisson(1 + 4 * signal) / 4 - signal)


def shifted(data, rng):
    shift = rng.standard_normal((len(data.components), 1))
    return changed(data, lambda x, c: x + shift if c == 1 else x)


def private(data, rng):
    """Half of the samples of source 1 are half made of a pattern that no other source has."""
    pattern = 4.0 * (rng.random((len(data.components), 1)) < 0.3)
    has = rng.random(data.sources.n_samples[0]) < 0.5
    signal = data.components @ data.memberships[0]
    return changed(data, lambda x, c: x + 0.5 * has * (pattern - signal) if c == 0 else x)


def times(factor):
    return lambda data, rng: changed(data, lambda x, c: factor * x)


def moved_by_20(data, rng):
    return changed(data, lambda x, c: x + 20)


CLEAN = {
    "the model": (clean, 5, 4.0),
    "sigma3 = 1.5": (clean, 5, 1.5),
    "one component too many": (clean, 6, 4.0),
    "a fifth missing": (a_fifth_missing, 5, 4.0),
    "source 2 another mix": (another_mix, 5, 4.0),
}
BROKEN = {
    "all times 100": (times(100), 5, "unit"),
    "all times 0.0001": (times(1e-4), 5, "unit"),
    "all plus 20": (moved_by_20, 5, "origin"),
    "noise variance 0.25 + signal": (signal_dependent, 5, "signal-dependent noise"),
    "Poisson counts": (poisson, 5, "signal-dependent noise"),
    "one entry in 1000 times 100": (outliers, 5, "outliers"),
    "Student t, 2 df": (student, 5, "outliers"),
    "every tenth feature 10 x noise": (a_tenth_noisy, 5, "feature noise"),
    "feature noise log-normal 0.7": (lognormal_features, 5, "feature noise"),
    "sample noise log-normal 0.5": (lognormal_samples, 5, "sample noise"),
    "source 2 shifted by sd 1": (shifted, 5, "shifts"),
    "source 2 shifted, K = 6": (shifted, 6, "shifts"),
    "pattern of source 1 alone, K = 6": (private, 6, "source-specific component"),
}


def other_generator(
    seed, n_features=150, n_samples=(100, 60, 40), noise=(0.5, 1.0, 0.8), alpha=0.5, n_components=4
):
    rng = np.random.default_rng(5000 + seed)
    components = rng.laplace(size=(n_features, n_components))
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
    "other generator, the model": (other_generator, 4),
    "other generator, one component too few": (other_generator, 3),
    "other generator, one component too many": (other_generator, 5),
    "other generator, all mixed, Dirichlet(3)": (partial(other_generator, alpha=3.0), 4),
    "other generator, 40 features, 25 and 30 samples": (
        partial(other_generator, n_features=40, n_samples=(25, 30), noise=(0.5, 1)),
        4,
    ),
    "other generator, 600 features, 30 and 300 samples": (
        partial(other_generator, n_features=600, n_samples=(30, 300), noise=(1, 2)),
        4,
    ),
    "other generator, logarithms of sparse counts": (counts, 4),
}


def drawn(change, sigma3=4.0, scale="small"):
    def draw(seed):
        return change(paper_data(scale, sigma3, seed), np.random.default_rng(1000 + seed))

    return draw


def cases():
    """Name, draw(seed), number of components, the right alarm or None, and number of draws."""
    for name, (change, k, sigma3) in CLEAN.items():
        yield name, drawn(change, sigma3), k, None, DRAWS
    yield "the large data", drawn(clean, scale="large"), 10, None, max(1, DRAWS // 40)
    for name, (draw, k) in OTHER_GENERATOR.items():
        yield name, draw, k, None, max(1, DRAWS // 2)
    for name, (change, k, right) in BROKEN.items():
        yield name, drawn(change), k, right, max(1, DRAWS // 5)


def main(part_of_name=""):
    columns = None
    for name, draw, n_components, right, n_draws in cases():
        if part_of_name not in name:
            continue
        # the default priors follow the data in unit and origin
        options = {"priors": "paper"} if right in ("unit", "origin") else {}
        raised = []
        for seed in range(n_draws):
            sources = draw(seed)
            best = fits_from_starts("cavi-bjmd", sources, n_components, 2, **options)[0]
            findings = check(sources, best)
            raised.append([finding.alarm for finding in findings])
        if columns is None:
            columns = [finding.name for finding in findings]
            header("case", "draws", *columns)
        percent = [f"{100 * share:.3g}" for share in np.mean(raised, axis=0)]
        if right is not None:
            place = columns.index(right)
            percent[place] = f"**{percent[place]}**"
        row(name, n_draws, *percent)


if __name__ == "__main__":
    with threadpool_limits(1):
        main(*sys.argv[1:2])
