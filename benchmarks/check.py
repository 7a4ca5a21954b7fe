"""How often `check` raises which alarm: on data of the model, where none should be, and on data broken in one way.

    python benchmarks/check.py [draws [method]]         # 200 draws of the model, 40 of every broken case, cavi-bjmd

The data are the paper's small synthetic data, sigma3 = 4 unless the name says otherwise, fitted with five components
and the better of two starts.  Every row is a case, every column a check, every number a percentage of draws; the alarm
that should be raised is in bold.
"""

import sys

import numpy as np
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.fits import registry
from bjmd.fits.check import check
from bjmd_paper.datasets import synthetic


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
    """Source 2 without the samples of blocks 3 and 4: its mean is another, but nothing is shifted."""
    kept = data.memberships[1][2:4].sum(axis=0) == 0
    return changed(data, lambda x, c: x[:, kept] if c == 1 else x)


def a_tenth_noisy(data, rng):
    factor = np.where(np.arange(len(data.components)) % 10 == 0, 10.0, 1.0)[:, None]
    return other_noise(data, lambda noise, signal, c: factor * noise)


def lognormal_features(data, rng):
    factor = np.exp(0.7 * rng.standard_normal((len(data.components), 1)))
    return other_noise(data, lambda noise, signal, c: factor * noise)


def lognormal_samples(data, rng):
    return other_noise(data, lambda noise, signal, c: np.exp(0.5 * rng.standard_normal(noise.shape[1])) * noise)


def wild(data, rng):
    return changed(data, lambda x, c: np.where(rng.random(x.shape) < 0.001, 100 * x, x))


def student(data, rng):
    return other_noise(data, lambda noise, signal, c: data.noise[c] * rng.standard_t(2, noise.shape))


def growing(data, rng):
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
    "noise variance 0.25 + signal": (growing, 5, "growing noise"),
    "Poisson counts": (poisson, 5, "growing noise"),
    "one entry in 1000 times 100": (wild, 5, "wild entries"),
    "Student t, 2 df": (student, 5, "wild entries"),
    "every tenth feature 10 x noise": (a_tenth_noisy, 5, "feature noise"),
    "feature noise log-normal 0.7": (lognormal_features, 5, "feature noise"),
    "sample noise log-normal 0.5": (lognormal_samples, 5, "sample noise"),
    "source 2 shifted by sd 1": (shifted, 5, "shifts"),
    "source 2 shifted, K = 6": (shifted, 6, "shifts"),
    "pattern of source 1 alone, K = 6": (private, 6, "private component"),
}


def alarms(change, n_components, sigma3, n_draws, method, scale="small"):
    """Names of the checks, and the share of draws in which each raises the alarm."""
    raised = []
    for seed in range(n_draws):
        data = synthetic.generate(scale, sigma3, seed)
        sources = change(data, np.random.default_rng(1000 + seed))
        fits = [registry.fit(method, sources, n_components, seed=start) for start in range(2)]
        findings = check(sources, min(fits, key=lambda fit: fit.objective))
        raised.append([finding.alarm for finding in findings])
    return [finding.name for finding in findings], np.mean(raised, axis=0)


def main(n_draws=200, method="cavi-bjmd"):
    rows = [(name, *case, None, n_draws, "small") for name, case in CLEAN.items()]
    rows.append(("the large data", clean, 10, 4.0, None, max(1, n_draws // 40), "large"))
    rows += [
        (name, change, k, 4.0, right, max(1, n_draws // 5), "small") for name, (change, k, right) in BROKEN.items()
    ]
    for place, (name, change, n_components, sigma3, right, draws, scale) in enumerate(rows):
        checks, shares = alarms(change, n_components, sigma3, draws, method, scale)
        if place == 0:
            print("| case | draws |", " | ".join(checks), "|\n|---|" + "---|" * (len(checks) + 1))
        cells = [f"**{100 * s:.3g}**" if right == c else f"{100 * s:.3g}" for c, s in zip(checks, shares, strict=True)]
        print(f"| {name} | {draws} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main(*[int(sys.argv[1])] if len(sys.argv) > 1 else [], *sys.argv[2:3])
