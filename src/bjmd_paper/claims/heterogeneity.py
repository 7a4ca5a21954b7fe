"""What a noise level for each source is worth at the sigma3 of the paper's tables, and the tables
themselves.
"""

from functools import partial

from bjmd_paper.claims.convergence import final_auc
from bjmd_paper.claims.evidence import COMPETITORS, MODES, PAIRS, found, restart_effects
from bjmd_paper.claims.rules import (
    FAILS,
    UNTESTABLE,
    Claims,
    Missing,
    all_of,
    beats,
    fact,
    outcome,
    reached,
    within,
)
from bjmd_paper.claims.statistics import Effect
from bjmd_paper.datasets import catalogue

TO_THE_END = ("JMD", "VI", "MAP")


def _over(evidence, scale, pairs):
    """Beats for pairs of fits, {label: (one, other)}, in every source."""
    effects, lacking = found(
        [
            lambda label=label, pair=pair: evidence.gaps(scale, *pair, label)
            for label, pair in pairs.items()
        ]
    )
    return beats(effects).noting(lacking)


def _aware(names):
    return {name: PAIRS[name] for name in names}


def every_aware_beats_every_blind(evidence):
    pairs = {
        f"{one} over blind {other}": (PAIRS[one][0], PAIRS[other][1])
        for one in TO_THE_END
        for other in TO_THE_END
    }
    return _over(evidence, "small", pairs)


def large_agrees_with_small(evidence):
    small, large = (outcome(CLAIMS[id], evidence) for id in ("H1a", "L3"))
    if UNTESTABLE in (small.verdict, large.verdict):
        raise Missing("both scales")
    same = (small.verdict == FAILS) == (large.verdict == FAILS)
    return fact(
        same,
        "consistent",
        f"small: {small.verdict}; large: {large.verdict}",
        "the verdicts of H1a and L3",
    )


# the tables themselves


def _against_print(evidence, family, fit):
    """Ours minus printed in each source."""
    printed = evidence.print_of(family, fit)
    if printed is None:
        raise Missing(f"printed AUCs of {fit} on {family}")
    label = f"{fit} on {family}"
    if catalogue.family(family).kind != "synthetic":
        return restart_effects(label, lambda auc: auc - printed, evidence.score(family, fit))
    auc = _drawn(evidence, family, fit)
    return [Effect(f"{label} {c}", auc[c] - printed[c - 1], over="one draw") for c in auc.columns]


def _drawn(evidence, scale, fit):
    """AUCs by draw.  ADVI is slow and has few draws; on the large data it has one, with the closed
    form's spread.
    """
    try:
        return evidence.at_table(scale, fit)
    except Missing:
        if fit != "advi-bjmd":
            raise
    if scale == "small":
        return final_auc(evidence)
    one = evidence.fit_runs(scale, fit)
    closed = evidence.at_table(scale, "cavi-bjmd")
    return closed - closed.mean() + one[one["chosen"].astype(bool)].groupby("source")["auc"].mean()


def _all_prints(evidence, fits, families=None):
    families = dict.fromkeys(evidence.printed["data"]) if families is None else families
    cells = [
        (family, fit)
        for fit in fits
        for family in families
        if evidence.print_of(family, fit) is not None
    ]
    return found([lambda cell=cell: _against_print(evidence, *cell) for cell in cells])


def _reached(evidence, fit):
    effects, lacking = _all_prints(evidence, [fit])
    return reached(effects).noting(lacking)


_PRINTED_FITS = (*MODES, "cavi-bjmd", "advi-bjmd", "jmd", *COMPETITORS)


def _map_and_vi_are_reached(evidence):
    return all_of(
        evidence,
        MAP_as_printed=partial(_reached, fit="map-bjmd-printed"),
        VI=partial(_reached, fit="cavi-bjmd"),
        ADVI=partial(_reached, fit="advi-bjmd"),
    )


def printed_rows_are_draws(evidence):
    fits = ("jmd", "glad", "cavi-bjmd", "cavi-catbjmd", "map-bjmd-printed", "map-catbjmd-printed")
    effects, lacking = _all_prints(evidence, fits, ("small", "large"))
    ends = [effect.interval(len(effects)) for effect in effects]
    apart = [
        effect.label
        for effect, (low, high) in zip(effects, ends, strict=True)
        if low > 0 or high < 0
    ]
    inside = len(effects) - len(apart)
    numbers = ", ".join(
        f"{effect.label} {-effect.mean / effect.values.std():+.1f} sd" for effect in effects
    )
    return fact(
        not apart,
        "one draw",
        f"{inside} of {len(effects)} cells",
        f"print minus our mean, in sds of a draw: {numbers}",
    ).noting(lacking)


CLAIMS: Claims = {
    "H1a": lambda evidence: _over(evidence, "small", _aware(TO_THE_END)),
    "H1b": every_aware_beats_every_blind,
    "H2a": lambda evidence: _over(
        evidence, "small", {"MAP": ("map-bjmd", "glad"), "VI": ("cavi-bjmd", "glad")}
    ),
    "H2b": lambda evidence: _over(evidence, "small", {"": ("map-bjmd", "jmd")}),
    "H2b-printed": lambda evidence: _over(evidence, "small", {"": ("map-bjmd-printed", "jmd")}),
    "H2c": lambda evidence: _over(evidence, "small", {"": ("cavi-bjmd", "jmd")}),
    "H3": lambda evidence: within(
        evidence.gaps("small", "cavi-bjmd", "map-bjmd"), evidence.margins.about_the_same
    ),
    "H3-printed": lambda evidence: within(
        evidence.gaps("small", "cavi-bjmd", "map-bjmd-printed"), evidence.margins.about_the_same
    ),
    "L3": lambda evidence: _over(evidence, "large", _aware(("VI", "MAP"))),
    "L3-printed": lambda evidence: _over(evidence, "large", _aware(("MAP as printed",))),
    "L4": lambda evidence: _over(evidence, "large", {"": ("cavi-bjmd", "map-bjmd")}),
    "L4-printed": lambda evidence: _over(
        evidence, "large", {"": ("cavi-bjmd", "map-bjmd-printed")}
    ),
    "L0": large_agrees_with_small,
    "P": _map_and_vi_are_reached,
    **{f"P-{fit}": partial(_reached, fit=fit) for fit in _PRINTED_FITS},
    **{
        f"H1a-{name.replace(' ', '-')}": lambda evidence, name=name: _over(
            evidence, "small", _aware([name])
        )
        for name in PAIRS
    },
    "P-draw": printed_rows_are_draws,
}
