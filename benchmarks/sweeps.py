"""Sweeps with momentum and without, and how soon momentum is where plain sweeps end, on data on
which sweeps creep.

    python benchmarks/sweeps.py [--seeds 10] [--methods map-bjmd cavi-bjmd] [data ...]

The data are read from files that `bjmd datasets NAME` makes.  The priors are the paper's; MAP stops
at the paper's tolerance of 1e-5, the closed form at its own.  "As low" counts the sweeps with
momentum until the objective is no higher than where plain sweeps of the same seed stopped.
"""

import argparse
import sys
import time
from contextlib import nullcontext
from unittest import mock

import numpy as np

from bjmd.inference import registry
from bjmd.results import storage

COMPONENTS = {"3sources": 6, "metabric-489": 5, "yale-b": 38}
OPTIONS = {"map-bjmd": {"tol": 1e-5}, "cavi-bjmd": {}}


def measured(method, sources, k, seed, momentum):
    """The objective after every sweep, and the processor time of the fit."""
    options = OPTIONS[method]
    started = time.process_time()
    with nullcontext() if momentum else mock.patch("bjmd.inference.cavi.PLAIN_SWEEPS", sys.maxsize):
        options = options if method == "cavi-bjmd" else {**options, "momentum": momentum}
        result = registry.fit(method, sources, k, seed=seed, priors="paper", **options)
    return result.trace, time.process_time() - started


def spread(numbers):
    return f"{np.median(numbers):.0f} ({min(numbers):.0f} to {max(numbers):.0f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data", nargs="*", default=list(COMPONENTS), metavar="data", help=", ".join(COMPONENTS)
    )
    parser.add_argument("--methods", nargs="+", default=["map-bjmd"], choices=OPTIONS)
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    print(
        "| data | method | plain sweeps | with momentum | as low | objective lower by, nats | share of time |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in given.data:
        sources = storage.load_sources(f"{name}.npz")
        k = COMPONENTS[name]
        for method in given.methods:
            registry.fit(method, sources, k, max_sweeps=2)  # compile
            plain, quick = (
                [measured(method, sources, k, seed, on) for seed in range(given.seeds)]
                for on in (False, True)
            )
            both = [(p, q) for (p, _), (q, _) in zip(plain, quick, strict=True)]
            as_low = [1 + np.argmax(q <= p[-1]) if q[-1] <= p[-1] else np.inf for p, q in both]
            lower = [p[-1] - q[-1] for p, q in both]
            share = sum(t for _, t in quick) / sum(t for _, t in plain)
            sweeps = [spread([len(trace) for trace, _ in runs]) for runs in (plain, quick)]
            print(
                "|",
                " | ".join([name, method, *sweeps, spread(as_low), spread(lower), f"{share:.2f}"]),
                "|",
                flush=True,
            )
