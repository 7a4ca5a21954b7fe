"""Objectives, and how many iterations each method takes."""

import numpy as np

from bjmd_paper.claims.evidence import PAIRS, found
from bjmd_paper.claims.rules import Claims, Missing, beats, fact
from bjmd_paper.claims.statistics import Effect, nats
from bjmd_paper.datasets.synthetic import SCALES

THOUSANDS = 1000
FEW = 100
LESS_THAN_TEN = 10
"""The orders of magnitude that the words "thousands", "a few" and "less than ten" stand for."""
READING = (
    "ADVI's tolerance of 0.01 is read as per cent, as in the paper's figure; read as a fraction it stops after a few "
    "thousand iterations"
)


def _gain(evidence, scale, name):
    """How much better the aware version's objective is at every sigma3, in nats for each entry of
    the data.
    """
    aware, blind = PAIRS[name]
    size = SCALES[scale]
    entries = 3 * size.n_features * size.samples_per_source
    gain = (
        evidence.sweep(scale, blind, "objective") - evidence.sweep(scale, aware, "objective")
    ).dropna() / entries
    return [
        Effect(f"{name} on {scale} at sigma3 {level:g}", gain[level], form=nats) for level in gain
    ]


def aware_objectives_are_better(evidence):
    cells = [(scale, name) for scale in ("small", "large") for name in PAIRS]
    effects, lacking = found([lambda cell=cell: _gain(evidence, *cell) for cell in cells])
    terms = "in nats for each entry; terms of the prior of the noise, some ten nats in all, are not counted alike"
    return beats(effects).noting(terms).noting(lacking)


def few_sweeps(evidence):
    advi = evidence.fit_runs("small", "advi-bjmd")["iterations"]
    most = {
        fit: evidence.at_table("small", fit, "most_iterations").to_numpy().max()
        for fit in ("jmd", "map-bjmd")
    }
    return fact(
        advi.min() > THOUSANDS and max(most.values()) < FEW,
        "",
        f"ADVI {advi.min():,.0f} or more; JMD at most {most['jmd']:.0f}, MAP at most {most['map-bjmd']:.0f}",
    )


def _seconds_an_iteration(evidence, family, fits):
    rows = {fit: evidence.fit_runs(family, fit) for fit in fits}
    each = {
        fit: 1000 * (table["seconds"] / table["iterations"]).mean() for fit, table in rows.items()
    }
    return (
        ", ".join(f"{fit} {value:.2g} ms" for fit, value in each.items())
        + " for an iteration on the processor"
    )


def vi_cat_runs_into_its_maximum(evidence):
    runs = evidence.fit_runs("large", "advi-catbjmd").drop_duplicates("seed")
    stopped = ~runs["converged"].astype(bool)
    return fact(
        stopped.all(),
        "at its maximum",
        f"{stopped.sum()} of {len(runs)} restarts at their maximum",
        f"{runs['iterations'].min():,.0f} to {runs['iterations'].max():,.0f} iterations; {READING}",
    )


def _steps(evidence, fits):
    most = {fit: evidence.at_table("large", fit, "most_iterations").iloc[:, 0] for fit in fits}
    return fact(
        all((one < LESS_THAN_TEN).all() for one in most.values()),
        "less than 10",
        ", ".join(
            f"{fit} {one.median():.0f} (at most {one.max():.0f})" for fit, one in most.items()
        ),
        "median and maximum over draws of the most sweeps of a chosen run",
    )


def advi_runs_into_its_maximum(evidence):
    shares = {}
    for family in evidence.real_families():
        try:
            runs = evidence.fit_runs(family, "advi-bjmd").drop_duplicates("seed")
        except Missing:
            continue
        shares[family] = float(1 - runs["converged"].astype(bool).mean())
    if len(shares) < 2:
        raise Missing("ADVI on two real data sets")
    return fact(
        np.sum(np.array(list(shares.values())) >= 0.5) >= 2,
        "often",
        ", ".join(f"{family} {100 * share:.0f} %" for family, share in shares.items()),
        f"share of restarts that did not converge; often means half of them, on two data sets; {READING}",
    )


CLAIMS: Claims = {
    "O1": aware_objectives_are_better,
    "O2": few_sweeps,
    "O3": lambda evidence: _seconds_an_iteration(
        evidence, "small", ("advi-bjmd", "jmd", "map-bjmd")
    ),
    "L1": vi_cat_runs_into_its_maximum,
    "L2": lambda evidence: _steps(evidence, ("map-bjmd-printed", "map-catbjmd-printed")),
    "L2-end": lambda evidence: _steps(evidence, ("map-bjmd", "map-catbjmd")),
    "R10": advi_runs_into_its_maximum,
}
