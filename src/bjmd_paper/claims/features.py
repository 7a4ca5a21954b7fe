"""Feature selection by the noise: on METABRIC, on its excerpt, and on synthetic data where the
truth is known.
"""

from functools import partial

from bjmd_paper.claims.evidence import COMPETITORS, found, restart_effects
from bjmd_paper.claims.real_data import over_best
from bjmd_paper.claims.rules import Claims, Missing, all_of, beats, fact
from bjmd_paper.claims.statistics import Effect, count, share_interval

NOMINAL = 0.05
"""The level of the test."""
METHODS = (*COMPETITORS, "map-bjmd-printed")
"""Those that the paper shows before and after."""
EXCERPT = "489 z-scores have variance 1 by construction, so that a test of variances has nothing to choose from"


def _after_over_before(evidence, family, fits=METHODS):
    def cell(fit):
        before = evidence.score(family, fit)
        after = evidence.score(f"{family}-filtered", fit)
        prints = [evidence.print_of(name, fit) for name in (f"{family}-filtered", family)]
        printed = (
            None if any(each is None for each in prints) else [prints[0].mean() - prints[1].mean()]
        )
        return restart_effects(
            fit, lambda a, b: a - b, after.mean(), before.mean(), printed=printed
        )

    effects, lacking = found([lambda fit=fit: cell(fit) for fit in fits])
    return beats(effects).noting(lacking)


def _stages(evidence):
    """AUC by (extra, draw), fit, stage and source."""
    table = evidence.feature_auc
    if table.empty or set(table.dropna(subset="auc")["stage"]) != {"before", "after"}:
        raise Missing("the feature test on synthetic data")
    table = table.assign(
        key=[f"{extra} {draw}" for extra, draw in zip(table["extra"], table["draw"], strict=True)]
    )
    return table.pivot_table(
        index=["extra", "key"], columns=["stage", "fit", "source"], values="auc"
    )


def selection_helps_on_synthetic_data(evidence):
    stages = _stages(evidence)
    effects = []
    for extra, table in stages.groupby(level="extra"):
        gain = (table["after"] - table["before"]).droplevel("extra").T.groupby(level="fit").mean().T
        effects += [
            Effect(f"{fit} with {extra} noise features", gain[fit].dropna())
            for fit in gain
            if len(gain[fit].dropna()) > 1
        ]
    if not effects:
        raise Missing("two draws of the feature test on synthetic data")
    return beats(effects).noting("mean over the sources; kept is what passes in any of them")


def _finds_signal(table):
    """Power over false positives in each source, and by the paper's rule, which is to pass in all
    of them.
    """
    effects = []
    for (extra, source), one in table[table["source"] >= 0].groupby(["extra", "source"]):
        gain = (one["power"] - one["false_rate"]).set_axis(
            [f"{extra} {draw}" for draw in one["draw"]]
        )
        where = "all sources" if source == 0 else f"source {source}"
        effects.append(Effect(f"{extra} noise features, {where}", gain, form=count))
    names = {0: "in all sources", -1: "in any"}
    shares = table.groupby("source")["power"].mean().items()
    passing = ", ".join(
        f"{100 * share:.0f} % {names.get(where, f'in source {where}')}" for where, share in shares
    )
    return beats(effects).noting(
        f"share of signal features that pass less that of noise features; signal passes: {passing}"
    )


def _keeps_its_level(table):
    """Whether the share of draws with a false feature may be the nominal one."""
    texts = []
    kept = []
    for (extra, source), one in table[table["source"] > 0].groupby(["extra", "source"]):
        low, high = share_interval(one["any_false"].sum(), len(one))
        kept.append(low <= NOMINAL)
        texts.append(
            f"{extra} noise features, source {source}: {one['any_false'].mean():.2f} ({low:.2f} to {high:.2f})"
        )
    worst = table[table["source"] > 0].groupby(["extra", "source"])["any_false"].mean().max()
    return fact(
        all(kept),
        f"at most {NOMINAL}",
        f"a false feature in up to {100 * worst:.0f} % of draws",
        ", ".join(texts),
    )


def _effective(evidence, noise_from):
    table = evidence.features
    table = table if table.empty else table[table["noise_from"] == noise_from]
    if table.empty or table["draw"].nunique() < 2:
        raise Missing(f"the feature test on synthetic data with the noise by {noise_from}")
    return all_of(
        evidence, signal=lambda _: _finds_signal(table), level=lambda _: _keeps_its_level(table)
    )


def _best_on_filtered(evidence, family, fits):
    effects, lacking = found(
        [
            lambda fit=fit: over_best(evidence, family, fit, by_source=True, label=fit)
            for fit in fits
        ]
    )
    return beats(effects).noting(lacking)


def _best_on_synthetic(evidence, fits):
    stages = _stages(evidence)
    effects = []
    for extra, table in stages.groupby(level="extra"):
        auc = table["after"].droplevel("extra").T.groupby(level="fit").mean().T
        effects += [
            Effect(
                f"{fit} over {other} with {extra} noise features", (auc[fit] - auc[other]).dropna()
            )
            for fit in fits
            for other in COMPETITORS
            if fit in auc and other in auc
        ]
    effects = [effect for effect in effects if len(effect.values) > 1]
    if not effects:
        raise Missing("competitors after the feature test on synthetic data")
    return beats(effects).noting("mean over the sources")


def _seconds(evidence):
    table = evidence.feature_auc
    if table.empty or "cavi-bjmd" not in set(table["fit"]):
        return ""
    before, after = (
        table[(table["fit"] == "cavi-bjmd") & (table["stage"] == stage)]["seconds"].mean()
        for stage in ("before", "after")
    )
    return f"VI, closed form: {before:.3g} s before and {after:.3g} s after, on synthetic data with noise features"


BOTH = ("map-bjmd-printed", "cavi-bjmd", "advi-bjmd")
VI = ("cavi-bjmd", "advi-bjmd")
CLAIMS: Claims = {
    "F3": partial(_effective, noise_from="map-bjmd-printed"),
    "F3-held": partial(_effective, noise_from="map-bjmd-held"),
    "F3-end": partial(_effective, noise_from="map-bjmd"),
    "F3-vi": partial(_effective, noise_from="cavi-bjmd"),
    "F3-truth": partial(_effective, noise_from="truth"),
    "F4": partial(_best_on_filtered, family="metabric-filtered", fits=BOTH),
    "F4-489": partial(_best_on_filtered, family="metabric-489-filtered", fits=BOTH),
    "F4-synthetic": partial(_best_on_synthetic, fits=BOTH),
    "F6": partial(_best_on_filtered, family="metabric-filtered", fits=VI),
    "F6-489": partial(_best_on_filtered, family="metabric-489-filtered", fits=VI),
    "F6-synthetic": partial(_best_on_synthetic, fits=VI),
    "F2": lambda evidence: _after_over_before(evidence, "metabric"),
    "F2-489": lambda evidence: _after_over_before(
        evidence, "metabric-489", (*METHODS, "map-bjmd", "cavi-bjmd")
    ).noting(EXCERPT),
    "F2-synthetic": selection_helps_on_synthetic_data,
    "F5": _seconds,
}
