"""When should MAP stop?  Rules for it, on small, awkward data sets that are fitted far beyond any of them.

    python benchmarks/stops.py --number 420
    python benchmarks/stops.py --ordinary      # six larger data sets drawn from the model instead

A rule stops too early if a membership moves by more than 0.1 between there and the end of the long
fit, in which the objective changes by at most 1e-10 nats per entry three times in a row, or 4,000
sweeps are done.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from prove.fits import _sources

from bjmd.data.sources import Sources
from bjmd.inference import registry

MOST = 1000
MOVED = 0.1
"""Sweeps that a rule may take, and the move of a membership that makes its stop too early."""
RULES = {
    "change per entry <= 1e-5, 3 times": (1e-5, 3, np.inf),
    "change per entry <= 1e-6, 3 times (the rule)": (1e-6, 3, np.inf),
    "change per entry <= 1e-7, 3 times": (1e-7, 3, np.inf),
    "change per entry <= 1e-8, 3 times": (1e-8, 3, np.inf),
    "change per entry <= 1e-6, 5 times": (1e-6, 5, np.inf),
    "change per entry <= 1e-6, 10 times": (1e-6, 10, np.inf),
    "change per entry <= 1e-6 and memberships <= 1e-3, 3 times": (1e-6, 3, 1e-3),
    "change per entry <= 1e-6 and memberships <= 1e-4, 3 times": (1e-6, 3, 1e-4),
    "change per entry <= 1e-6 and memberships <= 1e-5, 3 times": (1e-6, 3, 1e-5),
}
"""The most that the objective and a membership may change, and in how many sweeps in a row."""


def awkward(number):
    """Data and a number of components; a data set with fewer samples than that cannot be fitted."""
    for one in range(number):
        rng = np.random.default_rng((99, one))
        sources = _sources(rng, may_be_sparse=True)
        n_components = int(rng.integers(2, 6))
        if sum(sources.n_samples) >= n_components:
            yield one, sources, n_components


def ordinary():
    sizes = (
        (100, (60, 40), 4, (0.3, 1), 1.0),
        (300, (500, 300), 5, (1, 3), 0.3),
        (500, (2000, 500), 8, (2, 5), 0.3),
    )
    for n_features, n_samples, k, noise, alpha in sizes:
        for seed in range(2):
            rng = np.random.default_rng(seed)
            components = rng.laplace(size=(n_features, k))
            matrices = [
                components @ rng.dirichlet(np.full(k, alpha), n).T
                + sd * rng.standard_normal((n_features, n))
                for n, sd in zip(n_samples, noise, strict=True)
            ]
            yield seed, Sources(matrices), k


def long_fit(seed, sources, n_components):
    """Of every sweep that was not undone: its number, both changes, how far it is from the end, and
    from the bottom.
    """
    memberships = []
    result = registry.fit(
        "map-bjmd",
        sources,
        n_components,
        seed,
        tol=1e-10,
        max_sweeps=4000,
        watch=lambda parts: memberships.append(np.hstack(parts)) or {},
    )
    kept = np.isnan(result.history["undone"])
    trace = result.trace[kept]
    columns = np.array(memberships[: kept.sum()])
    change = np.abs(np.diff(trace, prepend=np.inf)) / sum(sources.n_observed)
    move = np.abs(np.diff(columns, axis=0, prepend=np.inf)).max(axis=(1, 2))
    left = np.abs(columns - columns[-1]).max(axis=(1, 2))
    return np.flatnonzero(kept) + 1, change, move, left, trace - trace[-1]


def stop(fit, tol, times, most_moved):
    """The place among those sweeps at which a rule stops, or None."""
    sweeps, change, move, *_ = fit
    small = (change <= tol) & (move <= most_moved)
    for i in range(times - 1, len(small)):
        if small[i - times + 1 : i + 1].all():
            return i if sweeps[i] <= MOST else None
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=420)
    parser.add_argument("--ordinary", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(1):
        fits = [
            long_fit(*one) for one in (ordinary() if options.ordinary else awkward(options.number))
        ]
    print(f"{len(fits)} data sets\n")
    print(
        f"| rule | stops within {MOST:,} sweeps | too early | sweeps, mean and range | gain missed | left, at most |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, rule in RULES.items():
        places = [stop(fit, *rule) for fit in fits]
        sweeps = [MOST if i is None else fit[0][i] for fit, i in zip(fits, places, strict=True)]
        gains = [
            fit[4][i]
            for fit, i in zip(fits, places, strict=True)
            if i is not None and fit[3][i] > MOVED
        ]
        left = max(
            (fit[3][i] for fit, i in zip(fits, places, strict=True) if i is not None),
            default=np.nan,
        )
        stops = sum(i is not None for i in places)
        missed = f"{np.median(gains):.2g}, at most {max(gains):.2g} nats" if gains else ""
        taken = f"{np.mean(sweeps):.0f}, {min(sweeps)} to {max(sweeps)}"
        print(
            f"| {name} | {stops} | {len(gains)} ({len(gains) / stops:.1%}) | {taken} | {missed} | {left:.2g} |"
        )


if __name__ == "__main__":
    main()
