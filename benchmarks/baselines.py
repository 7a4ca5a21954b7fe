"""How fast the baselines are, as ratios within one run on one BLAS thread.

    python benchmarks/baselines.py

jnmf      50 sweeps of five passes against 50 of scikit-learn's with one       at most 3
semi-nmf  one sweep against the two products with the data                     at most 3
bnmf      one Gibbs sweep against the two products with the data               at most 5
jmd       one fit of the small data against cavi-bjmd                          at most 50

The first three run on the large synthetic data, clipped at zero.  Every time is the best of several
repeats.
"""

import time

import numpy as np
from sklearn.decomposition import non_negative_factorization
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.model import Priors
from bjmd_paper.baselines import bnmf, semi_nmf
from bjmd_paper.datasets import synthetic

REPEATS = 7
NMF_SWEEPS = 50
JMD_SEEDS = range(5)


def best_seconds(*calls):
    """The least time of each call over the repeats, which take turns so that a busy machine slows
    all alike.
    """
    least = [np.inf] * len(calls)
    for call in calls:
        call()  # compile, and warm the caches
    for _ in range(REPEATS):
        for i, call in enumerate(calls):
            started = time.perf_counter()
            call()
            least[i] = min(least[i], time.perf_counter() - started)
    return least


def report(name, seconds, floor, limit):
    ratio = seconds / floor
    verdict = "ok" if ratio <= limit else "TOO SLOW"
    print(
        f"{name:40s} {1e3 * seconds:9.2f} ms {1e3 * floor:9.2f} ms  ratio {ratio:6.2f}  limit {limit:4.1f}  {verdict}"
    )


def main():
    large = synthetic.generate("large", 4.0, 4)
    clipped = Sources([np.maximum(x, 0) for x in large.sources.matrices]).concatenated()
    (x,), (squared_norm,) = clipped.data, clipped.squared_norms
    k = large.components.shape[1]

    # these tolerances make both take exactly NMF_SWEEPS sweeps
    ours, theirs = best_seconds(
        lambda: registry.fit("jnmf", clipped, k, seed=0, tol=1e-300, max_sweeps=NMF_SWEEPS),
        lambda: non_negative_factorization(
            x.raw, n_components=k, init="random", tol=0.0, max_iter=NMF_SWEEPS, random_state=0
        ),
    )
    report(f"jnmf / scikit-learn, {NMF_SWEEPS} sweeps", ours, theirs, 3.0)

    rng = np.random.default_rng(0)
    wt = rng.random((k, x.shape[0]))
    h = rng.random((k, x.shape[1]))

    def floor():
        return x.times_memberships(h), x.times_components(wt)

    state = bnmf.Chain(clipped, k, rng, Priors(), 1.0, 1.0)
    products, semi, gibbs = best_seconds(
        floor, lambda: semi_nmf.improve(x, squared_norm, h), lambda: state.sweep(draw=True)
    )
    report("semi-nmf sweep / its two products", semi, products, 3.0)
    report("bnmf Gibbs sweep / its two products", gibbs, products, 5.0)

    small = synthetic.generate("small", 4.0, 4)

    def fits(name):
        return lambda: [
            registry.fit(name, small.sources, small.components.shape[1], seed=seed)
            for seed in JMD_SEEDS
        ]

    jmd, cavi = best_seconds(fits("jmd"), fits("cavi-bjmd"))
    report(
        "jmd / cavi-bjmd, a fit of the small data",
        jmd / len(JMD_SEEDS),
        cavi / len(JMD_SEEDS),
        50.0,
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
