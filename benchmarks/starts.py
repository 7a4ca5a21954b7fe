"""Where cavi-bjmd should begin: random, k-means++-like and MAP starts, by what they end with.

    python benchmarks/starts.py

Printed for each start, over several seeds: the median number of sweeps (tol 1e-6), the median time
with the start's own, and how far above the best objective of all (minus the ELBO, in nats) it
ended, in the median and at worst.
"""

import time
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from bjmd.inference import cavi, registry
from bjmd_paper.datasets import synthetic

DATA = {"small": 20, "large": 10}
"""The sizes of synthetic data (sigma3 = 4), and how many seeds of each start."""


def blind(concentration):
    def start(sources, n_components, seed):
        rng = np.random.default_rng(seed)
        return [rng.dirichlet(np.full(n_components, concentration), n).T for n in sources.n_samples]

    return start


def plus_plus(sources, n_components, seed):
    """Far-apart samples as centres, drawn as by k-means++; each sample belongs to the nearest."""
    rng = np.random.default_rng(seed)
    x = np.hstack(sources.matrices)
    norms = (x**2).sum(axis=0)
    distances = []
    nearest = np.ones(x.shape[1])
    for _ in range(n_components):
        centre = x[:, rng.choice(x.shape[1], p=nearest / nearest.sum())]
        distances.append(np.maximum(norms - 2 * centre @ x + centre @ centre, 0))
        nearest = np.min(distances, axis=0)
    return sources.split(np.eye(n_components)[:, np.argmin(distances, axis=0)])


def by_map(sources, n_components, seed):
    return registry.fit("map-bjmd", sources, n_components, seed=seed).memberships


STARTS = {
    "random, concentration 0.05": blind(0.05),
    "random, concentration 0.1": blind(0.1),
    "random, concentration 1": blind(1.0),
    "k-means++-like": plus_plus,
    "MAP": by_map,
}


def run(sources, n_components, start, seed):
    """The objective, the number of sweeps and the seconds of one fit from one start."""
    started = time.perf_counter()
    blocks = iter(start(sources, n_components, seed))
    with patch.object(cavi, "random_memberships", lambda *_: np.ascontiguousarray(next(blocks))):
        result = registry.fit("cavi-bjmd", sources, n_components, seed=seed)
    return result.objective, len(result.trace), time.perf_counter() - started


def compare(scale, n_seeds):
    sources = synthetic.generate(scale, 4.0, 4).sources
    n_components = synthetic.SCALES[scale].n_components
    run(sources, n_components, STARTS["MAP"], 0)  # compile
    found = {
        name: np.array([run(sources, n_components, start, seed) for seed in range(n_seeds)]).T
        for name, start in STARTS.items()
    }
    best = min(objective.min() for objective, _, _ in found.values())
    print(f"{scale} data, {n_seeds} seeds")
    for name, (objective, sweeps, seconds) in found.items():
        gap = objective - best
        print(
            f"  {name:27} {np.median(sweeps):4.0f} sweeps  {np.median(seconds):6.3f} s  "
            f"above the best by {np.median(gap):8.2f}, at worst {gap.max():8.2f} nats"
        )


if __name__ == "__main__":
    with threadpool_limits(1):
        for scale, n_seeds in DATA.items():
            compare(scale, n_seeds)
