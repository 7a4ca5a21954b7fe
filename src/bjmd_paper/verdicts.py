"""The claims of the paper's text, each as a test on our numbers: holds, does not hold, or cannot be tested here.

A claim is a function of the `Evidence` that returns whether it holds and the numbers that say so, or None where the run
did not make what it needs.  Its docstring is the claim.
"""

from dataclasses import dataclass, field

import pandas as pd

from bjmd_paper import scores, tables
from bjmd_paper.datasets import catalogue

AWARE_AND_BLIND = {
    "JMD": ("jmd", "glad"),
    "VI-BJMD": ("cavi-bjmd", "cavi-catbjmd"),
    "MAP-BJMD": ("map-bjmd", "map-catbjmd"),
}
COMPETITORS = ("kmeans", "jnmf", "semi-nmf", "bnmf")


@dataclass(frozen=True)
class Evidence:
    """Summaries (`scores.summary`) by family at the shown data set, sweeps over sigma3 by scale, the printed AUCs."""

    shown: dict[str, pd.DataFrame]
    sweeps: dict[str, pd.DataFrame]
    printed: pd.DataFrame = field(default_factory=tables.printed)

    def auc(self, family, fit):
        """AUC per source of one fit on a family's shown data, or None."""
        return self._per_source(self.shown.get(family), fit, "auc")

    def noise(self, family, fit):
        return self._per_source(self.shown.get(family), fit, "noise")

    def sweep(self, scale, fit):
        """AUC as a table of sigma3 by source, or None."""
        table = self.sweeps.get(scale)
        if table is None or fit not in set(table["fit"]):
            return None
        line = table[table["fit"] == fit].pivot(index="sigma3", columns="source", values="auc")
        return line if len(line) > 1 else None

    def printed_auc(self, family, row):
        """AUC per source as the paper prints it, or None."""
        cells = self.printed[(self.printed["data"] == family) & (self.printed["row"] == row)]
        return None if cells.empty else cells.set_index("source")["auc"]

    @staticmethod
    def _per_source(table, fit, column):
        if table is None or fit not in set(table["fit"]):
            return None
        return table[table["fit"] == fit].set_index("source")[column]


def the_numbers_are_reached(evidence):
    """The AUCs that the paper prints for MAP-BJMD and VI-BJMD are reached in every source (here: less one point)."""
    found = []
    for family in evidence.shown:
        for fit, row in {"map-bjmd": "MAP-BJMD", "map-bjmd-printed": "MAP-BJMD", "cavi-bjmd": "VI-BJMD"}.items():
            ours, printed = evidence.auc(family, fit), evidence.printed_auc(family, row)
            if ours is not None and printed is not None:
                gap = ours - printed
                reached = bool((gap >= -1).all())
                why = "" if reached else _why_lower(family, fit)
                found.append((reached, f"{fit}, {family}: {_signed(gap)}{why}"))
    return _all(found)


def _why_lower(family, fit):
    """Why a fit stays below the paper, if the data set knows."""
    paper = getattr(catalogue.family(family), "paper", None)
    return f" ({paper.why_lower[fit]})" if paper and fit in paper.why_lower else ""


def telling_noise_apart_helps(evidence):
    """Methods that consider the heterogeneity of noise beat their versions that ignore it, in every source."""
    found = []
    for scale in ("small", "large"):
        for name, (aware, blind) in AWARE_AND_BLIND.items():
            ours, other = evidence.auc(scale, aware), evidence.auc(scale, blind)
            if ours is not None and other is not None:
                gap = ours - other
                found.append((bool((gap > 0).all()), f"{name}, {scale}: {_signed(gap)}"))
    return _all(found)


def bjmd_beats_jmd_and_glad(evidence):
    """MAP-BJMD and VI-BJMD are better than JMD and GLAD on the small data, in every source."""
    found = []
    for fit in ("map-bjmd", "cavi-bjmd"):
        for other in ("jmd", "glad"):
            ours, theirs = evidence.auc("small", fit), evidence.auc("small", other)
            if ours is not None and theirs is not None:
                found.append((bool((ours >= theirs).all()), f"{fit} over {other}: {_signed(ours - theirs)}"))
    return _all(found)


def noise_is_found(evidence):
    """JMD, VI-BJMD and MAP-BJMD estimate the noise of every source accurately (here: within 5 % of 1, 2.5, 4)."""
    truth = evidence.noise("small", "truth")
    found = []
    for fit in ("jmd", "cavi-bjmd", "map-bjmd"):
        noise = evidence.noise("small", fit)
        if noise is not None and truth is not None:
            error = 100 * (noise / truth - 1)
            found.append((bool((error.abs() <= 5).all()), f"{fit}: {_signed(error)} %"))
    return _all(found)


def the_gap_widens(evidence):
    """The gap between methods that consider the heterogeneity and those that ignore it widens with source 3's noise."""
    found = []
    for scale in ("small", "large"):
        for name, (aware, blind) in AWARE_AND_BLIND.items():
            ours, other = evidence.sweep(scale, aware), evidence.sweep(scale, blind)
            if ours is not None and other is not None:
                gap = (ours - other).mean(axis=1)
                numbers = f"{name}, {scale}: {gap.iloc[0]:.2f} to {gap.iloc[-1]:.2f}"
                found.append((bool(gap.iloc[-1] > gap.iloc[0]), numbers))
    return _all(found)


def clean_sources_are_protected(evidence):
    """The noise of source 3 does not influence VI-BJMD and MAP-BJMD in sources 1 and 2 (here: AUC range below 2)."""
    found = []
    for scale in ("small", "large"):
        for fit in ("cavi-bjmd", "map-bjmd"):
            line = evidence.sweep(scale, fit)
            if line is not None:
                spread = (line.max() - line.min())[[1, 2]]
                found.append((bool((spread < 2).all()), f"{fit}, {scale}: range {spread[1]:.2f}, {spread[2]:.2f}"))
    return _all(found)


def cat_versions_suffer(evidence):
    """VI-catBJMD falls rapidly in sources 1 and 2 once the noise of source 3 is above 2.5 (here: by over 2 points)."""
    found = []
    for scale in ("small", "large"):
        line = evidence.sweep(scale, "cavi-catbjmd")
        if line is not None and 2.5 in line.index:
            fall = (line.loc[2.5] - line.iloc[-1])[[1, 2]]
            found.append((bool((fall > 2).all()), f"{scale}: falls by {fall[1]:.2f}, {fall[2]:.2f}"))
    return _all(found)


def vi_is_slightly_better(evidence):
    """AUCs of VI-BJMD are slightly better than those of MAP-BJMD on synthetic data (mean over sources and sigma3)."""
    found = []
    for scale in ("small", "large"):
        vi, mode = evidence.sweep(scale, "cavi-bjmd"), evidence.sweep(scale, "map-bjmd")
        if vi is not None and mode is not None:
            gain = (vi - mode).to_numpy().mean()
            found.append((bool(gain > 0), f"{scale}: {gain:+.2f}"))
    return _all(found)


def bjmd_is_similar_or_better_on_real_data(evidence):
    """MAP-BJMD and VI-BJMD are similar to or better than the competitors on all real data (here: within 1 point)."""
    found = []
    for family in evidence.shown:
        if catalogue.family(family).kind != "real":
            continue
        for fit in ("map-bjmd", "cavi-bjmd"):
            ours = evidence.auc(family, fit)
            others = {name: evidence.auc(family, name) for name in COMPETITORS}
            others = {name: auc for name, auc in others.items() if auc is not None}
            if ours is not None and others:
                best = max(others, key=lambda name: others[name].mean())
                gap = (ours - others[best]).mean()
                found.append((bool(gap >= -1), f"{fit}, {family}: {gap:+.2f} over {best}"))
    return _all(found)


def others_fail_on_metabric(evidence):
    """All methods but MAP-BJMD do poorly on METABRIC (the whole study; here: at least 5 points below MAP-BJMD)."""
    ours = evidence.auc("metabric", "map-bjmd-printed")
    if ours is None:
        return None
    gaps = {name: evidence.auc("metabric", name) for name in COMPETITORS}
    gaps = {name: (ours - auc).mean() for name, auc in gaps.items() if auc is not None}
    return _all([(bool(gap >= 5), f"{name}: {gap:.2f} below") for name, gap in gaps.items()])


def the_feature_test_helps(evidence):
    """Keeping only the features that pass the feature test improves every method on METABRIC."""
    return _feature_test("metabric", evidence)


def the_feature_test_helps_on_489_genes(evidence):
    """The same on the public excerpt of 489 genes (not in the paper)."""
    return _feature_test("metabric-489", evidence)


def _feature_test(family, evidence):
    found = []
    for fit in ("map-bjmd", "map-bjmd-printed", "cavi-bjmd", *COMPETITORS):
        before, after = evidence.auc(family, fit), evidence.auc(f"{family}-filtered", fit)
        if before is not None and after is not None:
            gain = (after - before).mean()
            found.append((bool(gain > 0), f"{fit}: {gain:+.2f}"))
    return _all(found)


CLAIMS = (
    the_numbers_are_reached,
    telling_noise_apart_helps,
    bjmd_beats_jmd_and_glad,
    noise_is_found,
    the_gap_widens,
    clean_sources_are_protected,
    cat_versions_suffer,
    vi_is_slightly_better,
    bjmd_is_similar_or_better_on_real_data,
    others_fail_on_metabric,
    the_feature_test_helps,
    the_feature_test_helps_on_489_genes,
)


def table(shown, swept, families, sweeps):
    """The verdicts on a run, from the scores of its `families`, and from those of every sigma3 in `sweeps` by scale."""
    swept = iter(swept)
    evidence = Evidence(
        {family: scores.summary(runs) for family, runs in zip(families, shown, strict=True)},
        {scale: scores.sweep([next(swept) for _ in levels], levels) for scale, levels in sweeps.items()},
    )
    return tables.Table.of(judge(evidence))


def judge(evidence):
    """The verdict table: one row per claim."""
    rows = []
    for claim in CLAIMS:
        outcome = claim(evidence)
        if outcome is None:
            verdict, numbers = "cannot be tested here", "this run lacks the data or the fits that it needs"
        else:
            verdict, numbers = ("holds" if outcome[0] else "does not hold"), outcome[1]
        rows.append({"claim": claim.__doc__, "verdict": verdict, "numbers": numbers})
    return pd.DataFrame(rows)


def _all(found):
    """A claim holds if all its parts do; None if there is no part."""
    if not found:
        return None
    return all(holds for holds, _ in found), "; ".join(numbers for _, numbers in found)


def _signed(series):
    return ", ".join(f"{value:+.2f}" for value in series)
