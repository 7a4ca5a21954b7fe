"""How fast do sweeps converge, and when should they stop?

    python benchmarks/convergence.py [momentum stops ordinary_stops]

momentum        MAP with momentum and without, on the paper's real data with its priors and
                tol = 1e-5.  "As low" counts the sweeps with momentum until the objective is no
                higher than where plain sweeps of the same seed stopped.
stops           rules to stop MAP, on 420 small, awkward data sets that are fitted far beyond any of
                them.  A rule stops too early if a membership moves by more than 0.1 between there
                and the end of the long fit.
ordinary_stops  the same on six larger data sets drawn from the model
"""

import sys
import time
from pathlib import Path

import numpy as np
from harness import header, real_data, row, run_tables, size

import bjmd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from prove.fits import awkward_sources

SEEDS = range(size(5, 1))
LONG = {"tol": 1e-10, "max_sweeps": size(4000, 50)}
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


def momentum():
    header("data", "plain sweeps", "with momentum", "as low", "lower by, nats", "share of time")
    for name, k in size((("metabric-489", 5), ("3sources", 6), ("yale-b", 38)), (("3sources", 6),)):
        sources = real_data(name)
        if sources is None:
            continue
        bjmd.fit("map-bjmd", sources, k, max_sweeps=2)  # compiles
        plain, quick = (
            [trace_and_seconds(sources, k, seed, on) for seed in SEEDS] for on in (False, True)
        )
        traces = [(p, q) for (p, _), (q, _) in zip(plain, quick, strict=True)]
        as_low = [1 + np.argmax(q <= p[-1]) if q[-1] <= p[-1] else np.inf for p, q in traces]
        lower = [p[-1] - q[-1] for p, q in traces]
        share = sum(t for _, t in quick) / sum(t for _, t in plain)
        lengths = [spread([len(trace) for trace, _ in fits]) for fits in (plain, quick)]
        row(name, *lengths, spread(as_low), spread(lower), f"{share:.2f}")


def trace_and_seconds(sources, k, seed, on):
    started = time.process_time()
    options = {"priors": "paper", "tol": 1e-5, "momentum": on}
    result = bjmd.fit("map-bjmd", sources, k, seed, **options)
    return result.trace, time.process_time() - started


def spread(values):
    return f"{np.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def stops():
    compare_rules(awkward_data(size(420, 5)))


def ordinary_stops():
    compare_rules(ordinary_data())


def awkward_data(number):
    """A seed, data and a number of components; data with fewer samples than that are left out."""
    for seed in range(number):
        rng = np.random.default_rng((99, seed))
        sources = awkward_sources(rng, may_be_sparse=True)
        n_components = int(rng.integers(2, 6))
        if sum(sources.n_samples) >= n_components:
            yield seed, sources, n_components


def ordinary_data():
    plans = (
        (100, (60, 40), 4, (0.3, 1), 1.0),
        (300, (500, 300), 5, (1, 3), 0.3),
        (500, (2000, 500), 8, (2, 5), 0.3),
    )
    for n_features, n_samples, k, noise, alpha in plans[: size(3, 1)]:
        for seed in range(2):
            rng = np.random.default_rng(seed)
            components = rng.laplace(size=(n_features, k))
            matrices = []
            for n, sd in zip(n_samples, noise, strict=True):
                signal = components @ rng.dirichlet(np.full(k, alpha), n).T
                matrices.append(signal + sd * rng.standard_normal((n_features, n)))
            yield seed, bjmd.Sources(matrices), k


def long_fit(seed, sources, n_components):
    """Of every sweep that was kept: its number, both changes, and the distances to the end.

    Distances are that of the memberships and that of the objective.
    """
    memberships = []

    def watch(parts):
        memberships.append(np.hstack(parts))
        return {}

    result = bjmd.fit("map-bjmd", sources, n_components, seed, watch=watch, **LONG)
    kept = np.diff(result.trace, prepend=np.inf) != 0
    trace = result.trace[kept]
    columns = np.array(memberships[: kept.sum()])
    change = np.abs(np.diff(trace, prepend=np.inf)) / sum(sources.n_observed)
    move = np.abs(np.diff(columns, axis=0, prepend=np.inf)).max(axis=(1, 2))
    distance = np.abs(columns - columns[-1]).max(axis=(1, 2))
    return np.flatnonzero(kept) + 1, change, move, distance, trace - trace[-1]


def stop(fit, tol, times, most_moved):
    """The place among those sweeps at which a rule stops, or None."""
    sweeps, change, move, *_ = fit
    small = (change <= tol) & (move <= most_moved)
    for i in range(times - 1, len(small)):
        if small[i - times + 1 : i + 1].all():
            return i if sweeps[i] <= MOST else None
    return None


def compare_rules(data):
    fits = [long_fit(*one) for one in data]
    print(f"{len(fits)} data sets\n")
    header("rule", f"stops within {MOST:,} sweeps", "too early", "sweeps, mean", "gain missed")
    for name, rule in RULES.items():
        places = [(fit, stop(fit, *rule)) for fit in fits]
        stopped = [(fit, i) for fit, i in places if i is not None]
        sweeps = [MOST if i is None else fit[0][i] for fit, i in places]
        gains = [fit[4][i] for fit, i in stopped if fit[3][i] > MOVED]
        early = f"{len(gains)} ({len(gains) / max(len(stopped), 1):.1%})"
        missed = f"{np.median(gains):.2g}, at most {max(gains):.2g} nats" if gains else ""
        row(name, len(stopped), early, f"{np.mean(sweeps):.0f}", missed)


if __name__ == "__main__":
    run_tables(__doc__, (momentum, stops, ordinary_stops))
