"""How often does `select` find the number of components?

    python benchmarks/components.py [--large]

Twenty data sets of each kind, whose number of components is known.  Three rules are compared on the
same fits: the K of highest ELBO, the K that predicts held-out entries best, and the smallest K
within one standard error of that one.  "truth within" counts how often the true K is the best by
held-out entries or within one standard error of it.  Kinds that start with "not the model" break
an assumption of the model.
"""

import argparse
import time

import numpy as np
from harness import header, paper_data, row, size

from bjmd import Sources, select

N_DATA = size(20, 1)


def drawn(rng, n_components, *, noise=(0.5, 1.0, 1.5), n_samples=80, alpha=1.1, kind="normal"):
    """Three sources of 60 features from the prior, or with another distribution of the noise."""
    components = rng.laplace(size=(60, n_components))
    feature_sds = np.exp(0.5 * rng.standard_normal((60, 1)))
    matrices = []
    for sd in noise:
        errors = rng.standard_normal((60, n_samples))
        if kind == "by feature":
            errors *= feature_sds
        matrices.append(
            components @ rng.dirichlet(np.full(n_components, alpha), n_samples).T + sd * errors
        )
    return Sources(matrices)


def from_prior(**changes):
    return lambda rng, n_components: drawn(rng, n_components, **changes)


def paper(scale, sigma3):
    return lambda rng, _: paper_data(scale, sigma3, int(rng.integers(2**31))).sources


KINDS = {
    **{f"from the prior, K = {k}": (k, from_prior()) for k in (3, 5, 8)},
    **{
        f"the same, noise 1 / 2.5 / 4, K = {k}": (k, from_prior(noise=(1.0, 2.5, 4.0)))
        for k in (3, 5, 8)
    },
    "paper's small data, sigma3 = 4.0": (5, paper("small", 4.0)),
    "memberships near 0 or 1 (alpha 0.3), K = 6": (6, from_prior(alpha=0.3)),
    "not the model: each feature its own noise, K = 3": (3, from_prior(kind="by feature")),
}
LARGE = {
    "paper's large data, sigma3 = 1.5": (10, paper("large", 1.5)),
    "paper's large data, sigma3 = 4.0": (10, paper("large", 4.0)),
}
"""What is drawn: the true K, and a function of a generator and K."""


def count(name, truth, draw, ks):
    """One row of the table: how often each rule found the truth."""
    started = time.perf_counter()
    chosen = []
    n_within = 0
    for seed in range(N_DATA):
        sources = draw(np.random.default_rng(seed), truth)
        selection = select(sources, ks, n_restarts=size(5, 1), n_repeats=size(3, 2))
        by_elbo = int(selection.table["k"][selection.table["elbo"].idxmax()])
        chosen.append((by_elbo, selection.best, selection.recommended))
        n_within += truth in selection.candidates
    counts = [*(np.array(chosen) == truth).sum(axis=0), n_within]
    wrong = ["/".join(map(str, ks)) for ks in chosen if set(ks) != {truth}]
    seconds = (time.perf_counter() - started) / N_DATA
    cells = [f"{n} of {N_DATA}" for n in counts]
    row(name, *cells, ", ".join(wrong), f"{seconds:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="the paper's large data; minutes each")
    header("data", "ELBO", "held out", "one s.e.", "truth within", "others, in this order", "time")
    kinds, most = (LARGE, 4) if parser.parse_args().large else (KINDS, 3)
    for name, (truth, draw) in kinds.items():
        lowest = 2 if kinds is LARGE else max(1, truth - 2)
        count(name, truth, draw, range(lowest, truth + most + 1)[: size(None, 3)])
