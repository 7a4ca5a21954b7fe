"""Speed and memory of MAP-BJMD as ratios within one run, on one BLAS thread.

    python benchmarks/map_bjmd.py

floor       the fit's time over that of its products with the data alone, as many as it has sweeps
peer        scikit-learn's NMF on the concatenated, clipped data over the fit's time, and both AUCs
memory      the fit's peak allocation over the size of the data
growth      the exponent p in time ~ N^p from 10^3 to 10^5 samples at M = 200, K = 10
"""

import time
import tracemalloc
import warnings

import numpy as np
from sklearn.decomposition import NMF
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source


def best_time(function, repeats):
    """The shortest of several runs: what the code needs when nothing else interferes."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def products(sources, result, n_sweeps):
    wt = np.ascontiguousarray(result.components.T)
    for _ in range(n_sweeps):
        for x, h in zip(sources.data, result.memberships, strict=True):
            x.times_memberships(h)
            x.times_components(wt)


def floor_and_peer():
    drawn = synthetic.generate("large", 4.0, 4)
    sources = drawn.sources
    result = registry.fit("map-bjmd", sources, 10, seed=4, tol=1e-5)
    ours = best_time(lambda: registry.fit("map-bjmd", sources, 10, seed=4, tol=1e-5), 7)
    floor = best_time(lambda: products(sources, result, len(result.trace)), 7)
    print(
        f"floor    {ours / floor:.2f} times its products ({len(result.trace)} sweeps, {ours:.3f} s); goal: at most 2"
    )

    clipped = np.hstack(sources.matrices).clip(min=0)
    nmf = NMF(10, init="nndsvda", max_iter=1000)
    with warnings.catch_warnings(action="ignore"):
        theirs = best_time(lambda: nmf.fit(clipped.T), 1)
        memberships = sources.split(nmf.transform(clipped.T).T)
    ours_auc, theirs_auc = (
        100 * auc_per_source(h, sources.labels) for h in (result.memberships, memberships)
    )
    print(f"peer     {theirs / ours:.1f} times as fast as scikit-learn's NMF; goal: at least 10")
    print(
        f"         AUC {ours_auc.round(2)} against {theirs_auc.round(2)}; goal: higher in every source"
    )


def memory():
    sources = synthetic.generate("large", 4.0, 4).sources
    size = sum(x.nbytes for x in sources.matrices)
    tracemalloc.start()
    registry.fit("map-bjmd", sources, 10, seed=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"memory   {peak / size:.3f} of the data's size above the data; goal: at most 0.3")


def growth():
    rng = np.random.default_rng(0)
    counts = [10**3, 10**4, 10**5]
    times = []
    for n in counts:
        x = rng.laplace(size=(200, 10)) @ rng.dirichlet(np.ones(10), n).T + rng.standard_normal(
            (200, n)
        )
        sources = Sources([x])
        run = lambda sources=sources: registry.fit(
            "map-bjmd", sources, 10, tol=1e-15, max_sweeps=10
        )
        times.append(best_time(run, 3))
    exponent = np.polyfit(np.log(counts), np.log(times), 1)[0]
    steepest = (np.diff(np.log(times)) / np.diff(np.log(counts))).max()
    print(f"growth   time ~ N^{exponent:.2f}, steepest N^{steepest:.2f}; goal: at most N^1.1")


if __name__ == "__main__":
    with threadpool_limits(1):
        floor_and_peer()
        memory()
        growth()
