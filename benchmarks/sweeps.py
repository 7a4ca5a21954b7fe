"""Sweeps of MAP with momentum and without, the objective, and the processor time, on data on which sweeps creep.

    python benchmarks/sweeps.py [--seeds 10] [data ...]

The data are read from files that `bjmd datasets NAME` makes.  The options are the paper's, at its tolerance of 1e-5.
"""

import argparse
import time

import numpy as np

from bjmd.fits import registry, storage

COMPONENTS = {"3sources": 6, "metabric-489": 5, "yale-b": 38}


def measured(sources, k, seed, momentum):
    started = time.process_time()
    result = registry.fit("map-bjmd", sources, k, seed=seed, priors="paper", tol=1e-5, momentum=momentum)
    return len(result.trace), result.objective, time.process_time() - started


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=list(COMPONENTS), metavar="data", help=", ".join(COMPONENTS))
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    print("| data | sweeps, plain | with momentum | objective lower by, nats | share of time |\n|---|---|---|---|---|")
    for name in given.data:
        sources, k = storage.load_sources(f"{name}.npz"), COMPONENTS[name]
        registry.fit("map-bjmd", sources, k, max_sweeps=2)  # compile
        plain, quick = (
            np.array([measured(sources, k, seed, on) for seed in range(given.seeds)]).T for on in (False, True)
        )
        ranges = [f"{np.median(runs[0]):.0f} ({runs[0].min():.0f} to {runs[0].max():.0f})" for runs in (plain, quick)]
        lower, share = plain[1] - quick[1], quick[2].sum() / plain[2].sum()
        cells = [name, *ranges, f"{np.median(lower):.0f} ({lower.min():.0f} to {lower.max():.0f})", f"{share:.2f}"]
        print("|", " | ".join(cells), "|", flush=True)
