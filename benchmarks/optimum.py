"""Does the search find a lower objective than 20 plain restarts, and in how much time?

    python benchmarks/optimum.py [data ...] [--methods map-bjmd] [--repeats 20] [--plain 60]

For every data set and method, PLAIN plain restarts are run once; the best of 20 is that of many
random draws of 20 from them.  The search is run REPEATS times with other seeds.  Printed are the
objective of both above the lowest plain one (median, and 5 % to 95 %), the share of pairs in which
the search is no worse by more than SAME nats, and its share of the processor time of 20 plain
restarts, both without the intervals of the best.  Finished runs are kept in optimum.json and not
run again.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from harness import QUICK, header, paper_data, real_data, row, size
from sklearn.datasets import load_digits

import bjmd
from bjmd import Sources
from bjmd.inference import restarts

N_RESTARTS = size(20, 8)
DRAWS = 2000
SAME = 0.01
METHODS = ("cavi-bjmd", "map-bjmd")
KEPT = Path("optimum.json")


def digits():
    """All digits in three sources, the last with noise of sd 4 added."""
    x = load_digits().data.T.astype(float)
    rng = np.random.default_rng(0)
    parts = [x[:, samples] for samples in np.array_split(rng.permutation(x.shape[1]), 3)]
    parts[2] = parts[2] + rng.normal(0, 4, parts[2].shape)
    return Sources([np.ascontiguousarray(part) for part in parts])


DATA = {
    "small": (lambda: paper_data().sources, 5),
    "digits": (digits, 10),
    "3sources": (lambda: real_data("3sources"), 6),
    "metabric-489": (lambda: real_data("metabric-489"), 5),
    "yale-b": (lambda: real_data("yale-b"), 38),
}


def objective_and_seconds(fits):
    """The lowest objective of some fits, and the processor time of all."""
    started = time.process_time()
    return restarts.best(fits(), 1)[0].objective, time.process_time() - started


def kept(key, n, run):
    """run(0), ..., run(n - 1), except those that are kept already."""
    everything = json.loads(KEPT.read_text()) if KEPT.exists() and not QUICK else {}
    results = everything.get(key, [])
    for i in range(len(results), n):
        results.append(run(i))
        if not QUICK:
            KEPT.write_text(json.dumps({**everything, key: results}))
    return np.array(results[:n]).T


def compare(name, sources, k, method, n_plain, n_repeats):
    bjmd.fit(method, sources, k, max_sweeps=2)  # compiles

    def plain(i):
        options = {"n_restarts": 1, "seed": i}
        return objective_and_seconds(lambda: restarts.run(method, sources, k, **options))

    def searched(i):
        options = {"n_restarts": N_RESTARTS, "seed": 1000 * (i + 1)}
        return objective_and_seconds(
            lambda: restarts.run(method, sources, k, search=True, **options)
        )

    objectives, seconds = kept(f"{name} {method} plain", n_plain, plain)
    by_search, search_seconds = kept(f"{name} {method} search", n_repeats, searched)
    rng = np.random.default_rng(0)
    n_drawn = min(N_RESTARTS, n_plain)
    best = np.array([rng.choice(objectives, n_drawn).min() for _ in range(DRAWS)])
    no_worse = (by_search[:, None] <= best + SAME).mean()
    share = search_seconds / (N_RESTARTS * seconds.mean())
    row(
        name,
        method,
        spread(best - objectives.min()),
        spread(by_search - objectives.min()),
        f"{no_worse:.0%}",
        f"{np.median(share):.2f} ({share.min():.2f} to {share.max():.2f})",
    )


def spread(values):
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = size([*DATA], ["small"])
    parser.add_argument("data", nargs="*", default=names, metavar="data", help=", ".join(DATA))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--plain", type=int, default=size(60, 2))
    parser.add_argument("--repeats", type=int, default=size(20, 1))
    given = parser.parse_args()
    header("data", "method", "best of 20 plain", "search", "no worse", "share of time")
    for name in given.data:
        load, k = DATA[name]
        sources = load()
        if sources is not None:
            for method in given.methods:
                compare(name, sources, k, method, given.plain, given.repeats)
