"""How often `select` finds the number of components, over many data sets of which it is known.

    python benchmarks/components.py [--large] [number of data sets of each kind, default 6]

Three rules are compared on the same fits: the K of highest ELBO, the K that predicts held-out
entries best, and the smallest K within one standard error of that one.  "truth within" counts how
often the true K is the best by held-out entries or within one standard error of it.  Kinds that
start with "not the model" break an assumption of the model.
"""

import argparse
import time

import numpy as np

from bjmd import select
from bjmd.data.sources import Sources
from bjmd_paper.datasets import synthetic


def drawn(rng, n_components, *, noise=(0.5, 1.0, 1.5), n_samples=80, alpha=1.1, kind="normal"):
    """Three sources of 60 features from the prior of the model, or with another distribution of the
    noise.
    """
    components = rng.laplace(size=(60, n_components))
    feature_sds = np.exp(0.5 * rng.standard_normal((60, 1)))
    matrices = []
    for sd in noise:
        errors = rng.standard_normal((60, n_samples))
        if kind == "heavy tails":
            errors = rng.standard_t(4, size=errors.shape) / np.sqrt(2)  # of variance 1
        elif kind == "by feature":
            errors *= feature_sds
        matrices.append(
            components @ rng.dirichlet(np.full(n_components, alpha), n_samples).T + sd * errors
        )
    return Sources(matrices)


KINDS = {
    **{
        f"paper's small data, sigma3 = {s}": (5, lambda rng, _, s=s: paper("small", s, rng))
        for s in (1.5, 2.5, 4.0)
    },
    **{f"from the prior, K = {k}": (k, drawn) for k in (3, 7)},
    **{
        f"the same, twice the noise, K = {k}": (
            k,
            lambda rng, k: drawn(rng, k, noise=(1.0, 2.0, 3.0)),
        )
        for k in (3, 7)
    },
    "the same, 25 samples a source, K = 3": (3, lambda rng, k: drawn(rng, k, n_samples=25)),
    "not the model: memberships near 0 or 1 (alpha 0.3), K = 6": (
        6,
        lambda rng, k: drawn(rng, k, alpha=0.3),
    ),
    "not the model: heavy tails (Student t, 4), K = 3": (
        3,
        lambda rng, k: drawn(rng, k, kind="heavy tails"),
    ),
    "not the model: heavy tails (Student t, 4), K = 6": (
        6,
        lambda rng, k: drawn(rng, k, kind="heavy tails"),
    ),
    "not the model: each feature its own noise, K = 3": (
        3,
        lambda rng, k: drawn(rng, k, kind="by feature"),
    ),
}
"""What is drawn: the true K, and a function of a generator and K."""
LARGE = {
    f"paper's large data, sigma3 = {s}": (10, lambda rng, _, s=s: paper("large", s, rng))
    for s in (1.5, 4.0)
}


def paper(scale, sigma3, rng):
    return synthetic.generate(scale, sigma3, int(rng.integers(2**31))).sources


def count(name, truth, draw, n_data, ks, **options):
    """One row of the table: how often each rule found the truth."""
    started = time.perf_counter()
    found = []
    for seed in range(n_data):
        selection = select(draw(np.random.default_rng(seed), truth), ks, jobs=2, **options)
        by_elbo = int(selection.table["k"][selection.table["elbo"].idxmax()])
        found.append((by_elbo, selection.best, selection.recommended, selection.candidates))
    elbo, best, smallest, candidates = zip(*found, strict=True)
    counts = [sum(k == truth for k in rule) for rule in (elbo, best, smallest)]
    counts.append(sum(truth in within for within in candidates))
    wrong = [
        f"{e}/{b}/{s}" for e, b, s in zip(elbo, best, smallest, strict=True) if {e, b, s} != {truth}
    ]
    seconds = (time.perf_counter() - started) / n_data
    cells = " | ".join(f"{n} of {n_data}" for n in counts)
    print(f"| {name} | {cells} | {', '.join(wrong)} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("n_data", nargs="?", type=int, default=6)
    parser.add_argument(
        "--large", action="store_true", help="the paper's large data instead; minutes each"
    )
    arguments = parser.parse_args()
    print(
        "| data | ELBO | held out | one standard error | truth within | others (ELBO/held out/one s.e.) | time |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    if arguments.large:
        for name, (truth, draw) in LARGE.items():
            count(name, truth, draw, arguments.n_data, range(2, 15))
    else:
        for name, (truth, draw) in KINDS.items():
            count(name, truth, draw, arguments.n_data, range(max(1, truth - 2), truth + 4))
