"""Twenty plain restarts against the search (inference/restarts.py): the lowest objective, and the
processor time it takes.

    python benchmarks/optimum.py [data ...] [--methods map-bjmd] [--repeats 20] [--plain 60]

For every data set and method, PLAIN plain restarts are run once; the best of 20 is that of many
random draws of 20 from them.  The search is run REPEATS times with other seeds.  Printed are the
objective of both above the lowest plain one (median, and 5 % to 95 %), the share of pairs in which
the search is no worse by more than SAME nats, and its share of the processor time of 20 plain
restarts, both without the intervals of the best.  What was run is kept in optimum.json, and not run
again.

The real data are read from files that `bjmd datasets NAME` makes, and are left out where there are
none.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts
from bjmd.results import storage
from bjmd_paper.datasets import synthetic

N_RESTARTS = 20
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
    "small": (lambda: synthetic.generate("small", 4.0, 4).sources, 5),
    "digits": (digits, 10),
    "3sources": (lambda: storage.load_sources("3sources.npz"), 6),
    "metabric-489": (lambda: storage.load_sources("metabric-489.npz"), 5),
    "yale-b": (lambda: storage.load_sources("yale-b.npz"), 38),
}


def timed(fit):
    """The lowest objective of some fits, and the processor time of all."""
    started = time.process_time()
    return restarts.best(fit(), 1)[0].objective, time.process_time() - started


def kept(key, n, run):
    """run(0), ..., run(n - 1), as far as they are not kept already."""
    everything = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found = everything.get(key, [])
    for i in range(len(found), n):
        found.append(run(i))
        KEPT.write_text(json.dumps({**everything, key: found}))
    return np.array(found[:n]).T


def compare(name, methods, n_plain, n_repeats):
    load, k = DATA[name]
    sources = load()
    for method in methods:
        registry.fit(method, sources, k, max_sweeps=2)  # compile

        def plain(i, method=method):
            return timed(
                lambda: restarts.run(method, sources, k, n_restarts=1, seed=i)
            )

        def searched(i, method=method):
            return timed(
                lambda: restarts.search(method, sources, k, n_restarts=N_RESTARTS, seed=1000 * (i + 1))
            )

        objectives, seconds = kept(f"{name} {method} plain", n_plain, plain)
        found, taken = kept(f"{name} {method} search", n_repeats, searched)
        rng = np.random.default_rng(0)
        best = np.array(
            [rng.choice(objectives, min(N_RESTARTS, n_plain)).min() for _ in range(DRAWS)]
        )
        no_worse = (found[:, None] <= best + SAME).mean()
        share = taken / (N_RESTARTS * seconds.mean())
        cells = [
            name,
            method,
            *(spread(x - objectives.min()) for x in (best, found)),
            f"{no_worse:.0%}",
        ]
        print(
            "|",
            " | ".join(
                [*cells, f"{np.median(share):.2f} ({share.min():.2f} to {share.max():.2f})"]
            ),
            "|",
            flush=True,
        )


def spread(values):
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="*", default=list(DATA), metavar="data", help=", ".join(DATA))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--plain", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    print(
        "| data | method | best of 20 plain restarts | search | no worse | share of time |\n|---|---|---|---|---|---|"
    )
    for name in given.data:
        if name in ("small", "digits") or Path(f"{name}.npz").is_file():
            compare(name, given.methods, given.plain, given.repeats)
        else:
            print(f"| {name} | not at hand |")
