"""The three real data sets, and what we add to them.

Nothing but the start varies on real data, so intervals over restarts say nothing about other
samples.
"""

from functools import partial

import numpy as np

from bjmd_paper.claims import heterogeneity, sweeps
from bjmd_paper.claims.evidence import (
    COMPETITORS,
    MORE_COMPETITORS,
    PAIRS,
    best_of,
    found,
    restart_effects,
    worst_of,
)
from bjmd_paper.claims.rules import (
    FAILS,
    HOLDS,
    SMALLER,
    UNTESTABLE,
    Claims,
    Missing,
    Outcome,
    all_of,
    at_least,
    beats,
    fact,
    outcome,
)

SINGULAR = 1 / np.sqrt(np.finfo(float).eps)
"""The condition number from which an inverse loses half of its digits."""
BAYESIAN = ("bnmf", "cavi-bjmd", "map-bjmd")
OTHERS = ("kmeans", "jnmf", "semi-nmf")


def _printed_over_best(evidence, family, fit, *, by_source):
    """What the paper prints for one fit over the best of the others: in each source, or in the mean
    over them.
    """
    ours = evidence.print_of(family, fit)
    theirs = [evidence.print_of(family, other) for other in COMPETITORS]
    if ours is None or any(each is None for each in theirs):
        return None
    if by_source:
        return ours - np.max(theirs, axis=0)
    return np.array([ours.mean() - np.max([each.mean() for each in theirs])])


def over_best(
    evidence, family, fit, names=COMPETITORS, *, matched=False, by_source=False, label=None
):
    """One fit over the best of the others, each in the score that is better for it."""
    ours = evidence.score(family, fit, matched=matched)
    best, theirs = evidence.best_competitor(family, names, matched=matched, by_source=by_source)
    paper = not matched and tuple(names) == COMPETITORS
    printed = _printed_over_best(evidence, family, fit, by_source=by_source) if paper else None
    label = f"{family} (best other {best})" if label is None else label
    difference = (ours if by_source else ours.mean(), theirs)
    return restart_effects(label, np.subtract, *difference, printed=printed)


def _similar_or_better(evidence, fit, names=COMPETITORS, *, matched=False):
    by_source = []

    def cell(family):
        effects = over_best(evidence, family, fit, names, matched=matched)
        each = over_best(evidence, family, fit, names, matched=matched, by_source=True)
        by_source.append(f"{family} {' '.join(effect.form(effect.mean) for effect in each)}")
        return effects

    effects, lacking = found(
        [lambda family=family: cell(family) for family in evidence.real_families()]
    )
    judged = at_least(effects, evidence.margins.similar)
    return judged.noting(f"over the best other in each source: {', '.join(by_source)}").noting(
        lacking
    )


def vi_beats_semi_nmf_on_faces(evidence):
    pair = [evidence.score("yale-b", fit) for fit in ("cavi-bjmd", "semi-nmf")]
    return beats(
        restart_effects(
            "", np.subtract, *pair, printed=evidence.print_gap("yale-b", "cavi-bjmd", "semi-nmf")
        )
    )


def semi_nmf_is_not_robust(evidence):
    ours = evidence.score("3sources", "map-bjmd")
    semi = evidence.score("3sources", "semi-nmf")
    printed = evidence.print_gap("3sources", "map-bjmd", "semi-nmf")
    below = beats(
        restart_effects(
            "",
            np.subtract,
            ours.mean(),
            semi.mean(),
            printed=None if printed is None else [printed.mean()],
        )
    )
    condition = float(np.median(evidence.restarts("3sources", "semi-nmf", "condition").chosen))
    raw, scaled = (
        evidence.restarts("3sources", "semi-nmf", name).point.mean()
        for name in ("auc", "auc_scaled")
    )
    cause = fact(
        condition > SINGULAR,
        "",
        f"condition number {condition:.2g}",
        f"singular from {SINGULAR:.1e} on",
    )
    return all_of(evidence, MAP_over_it=lambda _: below, the_inverse=lambda _: cause).noting(
        f"mean AUC of its memberships as they are {raw:.1f}, scaled to sum to one {scaled:.1f}"
    )


def _bayesian_over_others(evidence, family, *, matched=False):
    def score(fit):
        return evidence.score(family, fit, matched=matched)

    prints = [evidence.print_of(family, fit) for fit in (*BAYESIAN, *OTHERS)]
    printed = None
    if not matched and all(each is not None for each in prints):
        printed = np.min(prints[: len(BAYESIAN)], axis=0) - np.max(prints[len(BAYESIAN) :], axis=0)
    worst = worst_of([score(fit) for fit in BAYESIAN])
    best = best_of([score(fit) for fit in OTHERS])
    means = ", ".join(f"{fit} {score(fit).point.mean():.1f}" for fit in (*BAYESIAN, *OTHERS))
    return beats(restart_effects("", np.subtract, worst, best, printed=printed)).noting(
        f"the worst Bayesian method over the best other; means {means}"
    )


def vi_is_not_always_better(evidence):
    synthetic = [
        outcome(claim, evidence) for claim in (sweeps.CLAIMS["E5"], heterogeneity.CLAIMS["L4"])
    ]
    if any(one.verdict == UNTESTABLE for one in synthetic):
        raise Missing("VI and MAP on synthetic data")
    effects, lacking = found(
        [
            lambda family=family: restart_effects(
                family,
                np.subtract,
                evidence.score(family, "cavi-bjmd"),
                evidence.score(family, "map-bjmd"),
                printed=evidence.print_gap(family, "cavi-bjmd", "map-bjmd"),
            )
            for family in evidence.real_families()
        ]
    )
    below = [effect.label for effect in effects if effect.interval(len(effects))[1] < 0]
    return Outcome(
        HOLDS if below and all(one.verdict in (HOLDS, SMALLER) for one in synthetic) else FAILS,
        _lower_in(effects),
        f"lower in {', '.join(below) or 'no source'}",
        "; ".join(
            [
                f"synthetic: {', '.join(one.verdict for one in synthetic)}",
                *(effect.text() for effect in effects),
            ]
        ),
    ).noting(lacking)


def _lower_in(effects):
    prints = [effect.printed for effect in effects if effect.printed is not None]
    return (
        f"lower in {sum(printed < 0 for printed in prints)} of {len(prints)} sources"
        if prints
        else ""
    )


def noise_by_source_matters(evidence):
    by_source = []

    def cell(family, name):
        one, other = (evidence.score(family, fit) for fit in PAIRS[name])
        ratio = evidence.restarts(family, PAIRS[name][0], "noise").point
        gaps = " ".join(f"{gap:+.2f}" for gap in one.point - other.point)
        by_source.append(
            f"{name} on {family} {gaps} (noise differs {ratio.max() / ratio.min():.2f} times)"
        )
        return restart_effects(f"{name} on {family}", np.subtract, one.mean(), other.mean())

    cells = [(family, name) for family in evidence.real_families() for name in ("JMD", "VI", "MAP")]
    effects, lacking = found([lambda cell_=cell_: cell(*cell_) for cell_ in cells])
    return beats(effects).noting(f"by source: {', '.join(by_source)}").noting(lacking)


CLAIMS: Claims = {
    "R1a": partial(_similar_or_better, fit="map-bjmd"),
    "R1a-printed": partial(_similar_or_better, fit="map-bjmd-printed"),
    "R1a-more": partial(_similar_or_better, fit="map-bjmd", names=MORE_COMPETITORS),
    "R1a-matched": partial(_similar_or_better, fit="map-bjmd", matched=True),
    "R1b": partial(_similar_or_better, fit="cavi-bjmd"),
    "R1b-advi": partial(_similar_or_better, fit="advi-bjmd"),
    "R1b-more": partial(_similar_or_better, fit="cavi-bjmd", names=MORE_COMPETITORS),
    "R1b-matched": partial(_similar_or_better, fit="cavi-bjmd", matched=True),
    "R1c": vi_beats_semi_nmf_on_faces,
    "R2": semi_nmf_is_not_robust,
    "R4a": lambda evidence: _bayesian_over_others(evidence, "3sources"),
    "R4a-matched": lambda evidence: _bayesian_over_others(evidence, "3sources", matched=True),
    "R4-dense": lambda evidence: _bayesian_over_others(evidence, "yale-b"),
    "R6": lambda evidence: beats(
        over_best(evidence, "metabric", "map-bjmd-printed", by_source=True, label="")
    ),
    "R6-489": lambda evidence: beats(
        over_best(evidence, "metabric-489", "map-bjmd", by_source=True, label="")
    ),
    "R7": lambda evidence: all_of(evidence, R6=CLAIMS["R6"]),
    "R9": vi_is_not_always_better,
    "X1": noise_by_source_matters,
}
