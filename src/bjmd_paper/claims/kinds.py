"""The kinds of comparison that a claim may ask for.

Each is a function of the evidence and of the options of an entry in claims.toml.  Most return
effects and notes, which the test of the entry judges; some return an `Outcome` themselves.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from bjmd_paper.claims import statistics
from bjmd_paper.claims.evidence import Missing
from bjmd_paper.claims.statistics import Effect, percent, points, times
from bjmd_paper.claims.verdicts import Outcome, fact

UNITS: dict[str, tuple[Callable, Callable[[float], str]]] = {
    "points": (np.subtract, points),
    "sd": (np.subtract, "{:+.3f}".format),
    "percent": (lambda ours, theirs: 100 * (ours / theirs - 1), percent),
    "times": (lambda ours, theirs: np.log(ours / theirs), times),
    "times faster": (lambda ours, theirs: np.log(theirs / ours), times),
    "ratio": (np.divide, "{:.3g}".format),
    "nats lower": (lambda ours, theirs: theirs - ours, "{:+.4f}".format),
}
"""How two numbers are compared, and how the result is written."""
CLEAN = (1, 2)
"""The sources whose noise stays as it is."""
PROTECTED = 0.95
"""The share of the pooled version's loss that a method has to avoid."""
NOMINAL = 0.05
"""The level of the feature test."""
ABOUT = 2
"""The factor that "around" allows; the paper reads its numbers off a curve."""
STOPPING_CHANGE = 1e-4
"""The paper's tolerance of the relative change of H, 0.01 read as per cent."""
SINGULAR = 1 / np.sqrt(np.finfo(float).eps)
"""The condition number from which an inverse loses half of its digits."""


def collect(measure, cells):
    """The effects of all cells that the run has, and a note on what it lacks."""
    effects = []
    lacking: dict[str, None] = {}
    for cell in cells:
        try:
            effects += measure(*cell)
        except Missing as error:
            lacking[str(error)] = None
    if not effects:
        raise Missing(", ".join(lacking) or "any data that this is about")
    return effects, [f"not made in this run: {', '.join(lacking)}"] if lacking else []


# draws of the synthetic data

SUMMARIES = {"mean": lambda gap: gap.mean(axis=1), "slope": statistics.slopes}
SOURCES = {"each": (1, 2, 3), "clean": CLEAN, "mean": ("mean",)}


def draws(evidence, data, pairs, columns=("auc", "auc"), unit="points", sources="each",
          sigma3="table", above=0.0, below=np.inf):  # fmt: skip
    """One fit against another, draw by draw, by source or in the mean over sources.

    `sigma3` is "table", "each" (between `above` and `below`), or a summary of the curve over all
    sigma3: "mean" or "slope" of the gap, or "roughness", the gap between the roughness of both.
    """
    combine, form = UNITS[unit]
    curves = []

    def measure(scale, label, one, other):
        printed = evidence.printed_gap(combine, [(scale, one)], [(scale, other)], columns, sources)
        effects = []
        for i, source in enumerate(SOURCES[sources]):
            name = label if source == "mean" else f"{label} source {source}".strip()
            both = [
                evidence.curve(scale, fit, column, source, whole=sigma3 != "table")
                for fit, column in zip((one, other), columns, strict=True)
            ]
            if sigma3 == "roughness":
                both = [statistics.roughness(curve).to_frame("") for curve in both]
            gap = combine(*both).dropna()
            value = None if printed is None or sigma3 in ("slope", "roughness") else printed[i]
            if sigma3 in SUMMARIES:
                text = f"{name} {sigma3}".strip()
                effects.append(Effect(text, SUMMARIES[sigma3](gap), value, form))
                curves.append(f"{name} by sigma3: {' '.join(map(form, gap.mean()))}".strip())
                continue
            effects += [
                Effect(
                    f"{name} at {level:g}".strip() if sigma3 == "each" else name,
                    gap[level],
                    value if level == evidence.sigma3 else None,
                    form,
                )
                for level in gap
                if sigma3 != "each" or above < level < below
            ]
        return effects

    several = isinstance(data, list)
    cells = [
        (scale, f"{label} on {scale}" if several else label, *pair)
        for scale in evidence.families(data)
        for label, pair in pairs.items()
    ]
    effects, notes = collect(measure, cells)
    return effects, [*curves, *notes]


def larger_on(evidence, data, than, pair):
    """The gap between two fits is larger on one scale than on another; the draws differ."""
    one, other = pair
    gaps = []
    prints = []
    for scale in (data, than):
        curves = (evidence.sweep(scale, fit) for fit in pair)
        gaps.append(np.subtract(*curves).dropna().mean(axis=1))
        prints.append(
            evidence.printed_gap(np.subtract, [(scale, one)], [(scale, other)], ["auc"] * 2, "mean")
        )
    more = gaps[0].mean() - gaps[1].mean()
    low, high = stats.ttest_ind(*gaps, equal_var=False).confidence_interval(statistics.LEVEL)
    paper = "" if any(one is None for one in prints) else points(prints[0][0] - prints[1][0])
    return fact(low > 0, paper, f"{more:+.2f} ({low:+.2f} to {high:+.2f})", "Welch's interval")


def protected(evidence, data, pairs):
    """The pooled version loses AUC in the clean sources as source 3 gets noisier, ours does not."""
    shares = []
    losses = []
    for name, pair in pairs.items():
        for source in CLEAN:
            try:
                curves = [evidence.sweep(data, fit, source=source) for fit in pair]
            except Missing:
                continue
            ours, pooled = (curve.iloc[:, 0] - curve.iloc[:, -1] for curve in curves)
            both = ours.index.intersection(pooled.index)
            label = f"{name} source {source}"
            losses.append(Effect(f"{label} loses", ours).text())
            if Effect("", pooled[both]).interval()[0] <= 0:
                shares.append((label, 0.0, 0.0))
                losses.append(f"pooled {name} loses nothing in source {source}")
                continue
            kept = 1 - statistics.ratio_of_means(ours[both], pooled[both])
            share = 1 - ours[both].mean() / pooled[both].mean()
            shares.append((label, share, float(np.quantile(kept, 0.025))))
    if not shares:
        raise Missing(f"sweeps over sigma3 on the {data} data")
    avoided = ", ".join(f"{label} {100 * share:.1f} %" for label, share, _ in shares)
    lows = ", ".join(f"{100 * low:.1f} %" for *_, low in shares)
    return fact(
        min(low for *_, low in shares) >= PROTECTED,
        "not influenced",
        f"{avoided} of the loss avoided",
        f"lower ends {lows}; {'; '.join(losses)}",
    )


def falls_from(evidence, data, fit, sigma3):
    """The curves of the clean sources bend at the printed sigma3, and fall faster after it."""
    bends_at = []
    notes = []
    holds = []
    for source in CLEAN:
        curves = evidence.sweep(data, fit, source=source)
        levels = np.asarray(curves.columns, dtype=float)
        knees = np.array([statistics.knee(levels, curve) for curve in curves.to_numpy()])
        middle, low, high = statistics.median_interval(knees[:, 0])
        # a bend is at one of the levels, so it is known to half a step
        half = np.diff(levels).max() / 2
        faster = Effect("", knees[:, 1] - knees[:, 2]).interval(len(CLEAN))[0] > 0
        holds.append(low - half <= sigma3 <= high + half and faster)
        steps = " ".join(f"{step:+.2f}" for step in curves.mean().diff().dropna())
        bends_at.append(f"source {source} from {middle:g}")
        notes.append(f"source {source} bends at {low:.2f} to {high:.2f}, by step {steps}")
    return fact(all(holds), f"above {sigma3:g}", ", ".join(bends_at), "; ".join(notes))


def noisier_is_worse(evidence, data, fit):
    """The AUC in each source is higher than in the next, noisier one."""
    auc = _auc_by_draw(evidence, data, fit)
    printed = evidence.print_of(data, fit)
    return [
        Effect(f"source {c} over {c + 1}", auc[c] - auc[c + 1], float(printed[c - 1] - printed[c]))
        for c in CLEAN
    ], []


def _auc_by_draw(evidence, scale, fit):
    """AUCs at the sigma3 of the tables.

    ADVI is slow and need not be among the draws.  On the small data it has traces, and on the large
    data one draw, which gets the spread of the closed form.
    """
    try:
        return evidence.at_table(scale, fit)
    except Missing:
        if fit != "advi-bjmd":
            raise
    if scale == "small":
        ends = {draw: _auc_at(trace, np.inf) for draw, trace in evidence.traces().items()}
        return pd.DataFrame.from_dict(ends, orient="index", columns=[1, 2, 3])
    runs = evidence.fit_runs(scale, fit)
    closed = evidence.at_table(scale, "cavi-bjmd")
    chosen = runs[runs["chosen"].astype(bool)].groupby("source")["auc"].mean()
    return closed - closed.mean() + chosen


# restarts


def restart_effects(label, combine, ours, theirs, printed=None, form=points):
    """An effect for every source; `ours` is resampled, and `theirs` is too, or an array."""
    fixed = isinstance(theirs, np.ndarray)
    samples = combine(ours.samples, theirs if fixed else theirs.samples)
    point = combine(ours.point, theirs if fixed else theirs.point)
    return [
        Effect(
            f"{label} {name}".strip(),
            samples[:, c],
            None if printed is None else float(printed[c]),
            form,
            "restarts",
            point[c],
        )
        for c, name in enumerate(ours.names)
    ]


def restarts(evidence, data, pairs, column="auc", unit="points", sources="mean", before=""):
    """One fit against another on the same data, or on the data `before` the feature test.

    A side may be a list: the worst of ours is compared with the best of theirs.
    """
    combine, form = UNITS[unit]
    families = evidence.families(data)
    by_source = []

    def measure(family, label, ours, theirs):
        ours = [(family, fit) for fit in ([ours] if isinstance(ours, str) else ours)]
        others = [theirs] if isinstance(theirs, str) else theirs
        theirs = [(before or family, fit) for fit in others]
        if len(families) > 1:
            label = f"{label} on {family}" if label else family
        _, worst = evidence.extreme(np.min, ours, column, sources)
        best, most = evidence.extreme(np.max, theirs, column, sources)
        if len(others) > 1 and sources == "mean":
            label = f"{label} (best other {best})".strip()
        if sources == "mean" and unit == "points" and not before:
            _, each = evidence.extreme(np.min, ours, column, "each")
            _, of_theirs = evidence.extreme(np.max, theirs, column, "each")
            by_source.append(f"{label} {' '.join(map(form, each.point - of_theirs.point))}")
        printed = evidence.printed_gap(combine, ours, theirs, [column] * 2, sources)
        return restart_effects(label, combine, worst, most, printed, form)

    cells = [(family, label, *pair) for family in families for label, pair in pairs.items()]
    effects, notes = collect(measure, cells)
    return effects, [f"by source: {', '.join(by_source)}" if by_source else "", *notes]


def against_print(evidence, fits, data=(), column="auc", unit="points"):
    """Ours against the printed numbers, in every source of all data that have them."""
    combine, form = UNITS[unit]
    in_range = []

    def measure(family, fit):
        printed = evidence.print_of(family, fit, column)
        label = f"{fit} on {family}" if len(fits) > 1 else family
        if family in ("small", "large"):
            auc = _auc_by_draw(evidence, family, fit)
            return [
                Effect(f"{label} {c}", combine(auc[c], printed[c - 1]), None, form, "one draw")
                for c in auc.columns
            ]
        ours = evidence.restarts(family, fit, column)
        least, most = ours.chosen.min(axis=0), ours.chosen.max(axis=0)
        in_range.extend((least <= printed) & (printed <= most))
        return restart_effects(label, combine, ours, printed, None, form)

    families = evidence.families(data) if data else dict.fromkeys(evidence.printed["data"])
    cells = [
        (family, fit)
        for fit in fits
        for family in families
        if evidence.print_of(family, fit, column) is not None
    ]
    effects, notes = collect(measure, cells)
    if column == "noise":
        found = f"{int(np.sum(in_range))} of {len(in_range)} cells"
        notes = [f"the printed digits lie in the range of our chosen runs in {found}", *notes]
    return effects, notes


def source_over_source(evidence, data, fits, sources, column):
    """One source over another by the same fit, in per cent; sources count from 1."""
    one, other = (source - 1 for source in sources)

    def ratio(values):
        return 100 * (values[..., one] / values[..., other] - 1)

    def measure(fit):
        ours = evidence.restarts(data, fit, column)
        printed = evidence.print_of(data, fit, column)
        value = None if printed is None else float(ratio(printed))
        point = float(ratio(ours.point))
        return [Effect(fit, ratio(ours.samples), value, percent, "restarts", point)]

    return collect(measure, [(fit,) for fit in fits])


def faster(evidence, data, pairs):
    """The slower fit's time over the faster one's, by draw, or by restart where it has no draws."""

    def measure(family, label, slow, fast):
        pair = {f"{label} on {family}": (slow, fast)}
        try:
            return draws(evidence, family, pair, ("seconds", "seconds"), "times", "mean")[0]
        except Missing:
            return restarts(evidence, family, pair, "seconds", "times")[0]

    families = evidence.families(data)
    cells = [(family, label, *pair) for family in families for label, pair in pairs.items()]
    effects, notes = collect(measure, cells)
    comparable = times(evidence.margins["comparable time"])
    return effects, [f"up to {comparable} is what the paper calls comparable", *notes]


def few_sweeps(evidence, data, fits, most):
    """Every chosen run of every draw takes fewer sweeps than `most`."""
    sweeps = {fit: evidence.at_table(data, fit, "most_iterations").iloc[:, 0] for fit in fits}
    texts = [f"{fit} {n.median():.0f} (at most {n.max():.0f})" for fit, n in sweeps.items()]
    return fact(
        all((n < most).all() for n in sweeps.values()),
        f"less than {most}",
        ", ".join(texts),
        "median and maximum over draws of the most sweeps of a chosen run",
    )


def many_iterations(evidence, data, fit, least):
    """Every restart takes more iterations than `least`."""
    iterations = evidence.fit_runs(data, fit)["iterations"]
    return fact(iterations.min() > least, "thousands", f"{iterations.min():,.0f} or more")


def stops_at_maximum(evidence, data, fit, share, families=1):
    """At least a share of the restarts runs into the maximum, on at least so many families."""
    shares = {}
    for family in evidence.families(data):
        try:
            runs = evidence.fit_runs(family, fit).drop_duplicates("seed")
        except Missing:
            continue
        shares[family] = float(1 - runs["converged"].astype(bool).mean())
    if len(shares) < families:
        raise Missing(f"{fit} on {' and '.join(evidence.families(data)) or 'real data'}")
    return fact(
        sum(value >= share for value in shares.values()) >= families,
        "at its maximum",
        ", ".join(f"{family} {100 * value:.0f} %" for family, value in shares.items()),
        "share of restarts that did not converge",
    )


def singular(evidence, data, fit):
    """The matrix that a method inverts is singular to half of the digits."""
    condition = float(np.median(evidence.restarts(data, fit, "condition").chosen))
    text = f"condition number {condition:.2g}"
    return fact(condition > SINGULAR, "", text, f"singular from {SINGULAR:.1e} on")


def seconds(evidence, data, fits):
    """How long fits take, for claims that cannot be tested."""
    runs = {fit: evidence.fit_runs(data, fit) for fit in fits}
    texts = [
        f"{fit} {table['seconds'].mean():.3g} s, "
        f"{1000 * (table['seconds'] / table['iterations']).mean():.2g} ms an iteration"
        for fit, table in runs.items()
    ]
    return Outcome("", ours="; ".join(texts))


# traces of ADVI


def _log_change(trace):
    return np.log(trace["change"].clip(lower=np.finfo(float).tiny))


def _stopping_rule(trace):
    """The first look at which the change of H is below the tolerance, or the end."""
    below = trace["iteration"][trace["change"] < STOPPING_CHANGE]
    return float(below.iloc[0] if len(below) else trace["iteration"].iloc[-1])


MOMENTS = {
    "first": lambda trace: trace["iteration"].iloc[0],
    "ELBO stable": lambda trace: statistics.settles(trace["iteration"], trace["objective"]),
    "change stable": lambda trace: statistics.settles(trace["iteration"], _log_change(trace)),
    "stopping rule": _stopping_rule,
    "20000": lambda trace: 20_000,
    "end": lambda trace: np.inf,
}
"""Iterations that claims about a trace speak of."""


def _auc_at(trace, iteration):
    """The AUC in every source at the last look up to an iteration."""
    row = max(int((trace["iteration"] <= iteration).sum()) - 1, 0)
    return trace.iloc[row][["auc_1", "auc_2", "auc_3"]].to_numpy(float)


def auc_rises(evidence, start, end="end"):
    """How much the AUC of ADVI rises between two moments."""
    rises = {
        draw: _auc_at(trace, MOMENTS[end](trace)) - _auc_at(trace, MOMENTS[start](trace))
        for draw, trace in evidence.traces().items()
    }
    table = pd.DataFrame.from_dict(rises, orient="index", columns=[1, 2, 3])
    return [Effect(f"source {c}", table[c]) for c in table], []


def stable_from(evidence, moment, iteration):
    """The median of a moment over the draws is about an iteration."""
    moments = np.array([MOMENTS[moment](trace) for trace in evidence.traces().values()])
    middle = np.median(moments)
    return fact(
        iteration / ABOUT <= middle <= iteration * ABOUT,
        f"about {iteration:,}",
        f"{middle:,.0f} ({moments.min():,.0f} to {moments.max():,.0f})",
        f"median and range over {len(moments)} draws; within a factor of {ABOUT} counts as about",
    )


def change_stays_above_zero(evidence):
    """The relative change of H does not fall any further over the last half of the iterations."""
    last = []
    slopes = []
    for trace in evidence.traces().values():
        half = trace.iloc[len(trace) // 2 :]
        last.append(trace["change"].tail(20).median())
        slopes.append(np.polyfit(half["iteration"] / 10_000, _log_change(half), 1)[0])
    slope = Effect("slope", np.array(slopes), form="{:+.3f}".format)
    low, high = slope.interval()
    return fact(
        min(last) > 0 and low <= 0 <= high,
        "",
        f"{np.median(last):.2g} at the end",
        f"slope of its logarithm over the last half, for 10,000 iterations: {slope.text()}",
    )


# the feature test on synthetic data


def selected(evidence, fits=(), over=()):
    """AUC after the feature test: over that before it, or of `fits` over that of others."""
    table = evidence.feature_auc
    if table.empty or set(table.dropna(subset="auc")["stage"]) != {"before", "after"}:
        raise Missing("the feature test on synthetic data")
    effects = []
    for extra, part in table.groupby("extra"):
        auc = part.pivot_table(index="draw", columns=["stage", "fit"], values="auc")
        auc = auc.set_axis([f"{extra} {draw}" for draw in auc.index])
        after = auc["after"]
        if fits:
            pairs = [(one, other) for one in fits for other in over if {one, other} <= {*after}]
            gaps = {f"{one} over {other}": after[one] - after[other] for one, other in pairs}
        else:
            gaps = {fit: after[fit] - auc["before"][fit] for fit in after}
        effects += [
            Effect(f"{label} with {extra} noise features", gap.dropna())
            for label, gap in gaps.items()
            if len(gap.dropna()) > 1
        ]
    if not effects:
        raise Missing("two draws of the feature test on synthetic data")
    return effects, []


def power(evidence, noise_from):
    """The share of signal features that pass, less that of noise features.

    In each source, and by the paper's rule, which is to pass in all of them (source 0).
    """
    table = _feature_draws(evidence, noise_from)
    effects = []
    for (extra, source), one in table[table["source"] >= 0].groupby(["extra", "source"]):
        names = [f"{extra} {draw}" for draw in one["draw"]]
        where = "all sources" if source == 0 else f"source {source}"
        gain = (one["power"] - one["false_rate"]).set_axis(names)
        effects.append(Effect(f"{extra} noise features, {where}", gain, form="{:.3g}".format))
    places = {0: "in all sources", -1: "in any"}
    passing = ", ".join(
        f"{100 * share:.0f} % {places.get(source, f'in source {source}')}"
        for source, share in table.groupby("source")["power"].mean().items()
    )
    return effects, [
        f"share of signal features that pass less that of noise features; signal passes: {passing}"
    ]


def keeps_level(evidence, noise_from):
    """The share of draws with a false feature may be the nominal one, in every source."""
    table = _feature_draws(evidence, noise_from)
    texts = []
    lows = []
    shares = []
    for (extra, source), one in table[table["source"] > 0].groupby(["extra", "source"]):
        test = stats.binomtest(int(one["any_false"].sum()), len(one))
        low, high = test.proportion_ci(statistics.LEVEL)
        lows.append(low)
        shares.append(one["any_false"].mean())
        label = f"{extra} noise features, source {source}"
        texts.append(f"{label}: {shares[-1]:.2f} ({low:.2f} to {high:.2f})")
    return fact(
        max(lows) <= NOMINAL,
        f"at most {NOMINAL}",
        f"a false feature in up to {100 * max(shares):.0f} % of draws",
        ", ".join(texts),
    )


def _feature_draws(evidence, noise_from):
    table = evidence.features
    table = table if table.empty else table[table["noise_from"] == noise_from]
    if table.empty or table["draw"].nunique() < 2:
        raise Missing(f"the feature test on synthetic data with the noise by {noise_from}")
    return table


KINDS = {
    function.__name__.replace("_", " "): function
    for function in (
        draws, larger_on, protected, falls_from, noisier_is_worse,
        restarts, against_print, source_over_source, faster, singular,
        few_sweeps, many_iterations, stops_at_maximum, seconds,
        auc_rises, stable_from, change_stays_above_zero,
        selected, power, keeps_level,
    )
}  # fmt: skip
"""What `kind` of a claim may say."""
