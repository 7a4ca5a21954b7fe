"""The kinds of comparison that a claim may ask for.

Each is a function of the evidence and of the options of an entry in claims.toml.  Most yield
effects, which the test of the entry judges; facts of yes or no yield an `Outcome`.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from bjmd_paper.claims import statistics
from bjmd_paper.claims.evidence import Missing, auc_at
from bjmd_paper.claims.statistics import Effect, paired, percent, points, single, times
from bjmd_paper.claims.verdicts import HOLDS, INCONCLUSIVE, REVERSE, Outcome, fact
from bjmd_paper.datasets.synthetic import SCALES

UNITS: dict[str, tuple[Callable, Callable[[float], str]]] = {
    "points": (np.subtract, points),
    "percent": (lambda ours, theirs: 100 * (ours / theirs - 1), percent),
    "times": (lambda ours, theirs: np.log(ours / theirs), times),
}
"""How two numbers are compared, and how the result is written."""
SOURCES: dict[str, list[tuple]] = {
    "each": [(1, 1), (2, 2), (3, 3)],
    "clean": [(1, 1), (2, 2)],
    "next": [(1, 2), (2, 3)],
    "mean": [("mean", "mean")],
}
"""The sources of the synthetic data that are compared, ours and theirs.

"clean" are those whose noise stays as it is, and "next" compares each with the next, noisier one.
"""
FEWEST_LEVELS = 4
"""Below this number of sigma3, draws are not a sweep."""
STOPPING_CHANGE = 1e-4
"""The paper's tolerance of the relative change of H, 0.01 read as per cent."""
FLAT = 0.05
"""The share of its fall below which a curve looks flat."""
SINGULAR = 1 / np.sqrt(np.finfo(float).eps)
"""The condition number from which an inverse loses half of its digits."""


def measure(evidence, kind, **options):
    """The effects by a kind of comparison, a note on what the run lacks, and one on its data.

    The last is empty unless some of the data of the claim are missing altogether.
    """
    function = KINDS[kind]
    if function not in OF_PAIRS + OF_FITS:
        return [*function(evidence, **options)], "", ""
    data = listed(options.pop("data"))
    if function in OF_PAIRS:
        pairs = options.pop("pairs").items()
        cells = [
            (family, f"{label} on {family}".removeprefix(" on ") if len(data) > 1 else label, *pair)
            for family in data
            for label, pair in pairs
        ]
    else:
        cells = [(family, fit) for fit in options.pop("fits") for family in data]
    found, lacking = collect(lambda *cell: [*function(evidence, *cell, **options)], cells)
    effects = [effect for _, of_cell in found for effect in of_cell]
    if not effects:
        raise Missing(lacking)
    return effects, lacking, only_on({cell[0] for cell, of_cell in found if of_cell}, data)


def collect(measure, cells):
    """Every cell that the run has with what it gives, and a note on those that it lacks."""
    found = []
    missing: dict[str, None] = {}
    for cell in cells:
        try:
            found.append((cell, measure(*cell)))
        except Missing as error:
            missing[str(error)] = None
    lacking = ", ".join(missing)
    if not found:
        raise Missing(lacking)
    return found, lacking and f"not made in this run: {lacking}"


def only_on(tested, data):
    """Which data were tested, if not all that a claim is about."""
    return "" if tested >= {*data} else f"only on {', '.join(one for one in data if one in tested)}"


def listed(value):
    return [value] if isinstance(value, str) else value


# draws of the synthetic data

SUMMARIES = {"mean": lambda gap: gap.mean(axis=1), "slope": statistics.slopes}
"""What can be said of the gap between two curves over sigma3."""


def draws(evidence, scale, label, one, other, columns=("auc", "auc"), unit="points",
          sources="each", sigma3="table", above=0.0, below=np.inf):  # fmt: skip
    """One fit against another, draw by draw, by source or in the mean over sources.

    `sigma3` is "table", "each" (between `above` and `below`), [ours, theirs], a summary of the gap
    between the curves over sigma3, or "roughness", the gap between the roughness of both.
    """
    combine, form = UNITS[unit]
    levels = [evidence.sigma3] * 2 if sigma3 == "table" else sigma3

    def gaps(ours, theirs):
        """The gaps of all draws by level, or a summary of them."""
        if len(ours) < 2:
            raise Missing(f"{one} and {other} on two draws of the {scale} data")
        if not isinstance(levels, str):
            if not {*levels} <= {*ours}:
                at = " and ".join(f"{level:g}" for level in dict.fromkeys(levels))
                raise Missing(f"sigma3 = {at} of {one} and {other} on the {scale} data")
            return {levels[0]: combine(ours[levels[0]], theirs[levels[1]])}
        if ours.shape[1] < FEWEST_LEVELS:
            raise Missing(f"a sweep over sigma3 of {one} and {other} on the {scale} data")
        if sigma3 == "roughness":
            return {sigma3: statistics.roughness(ours) - statistics.roughness(theirs)}
        gap = combine(ours, theirs)
        if sigma3 in SUMMARIES:
            return {sigma3: SUMMARIES[sigma3](gap)}
        return {level: gap[level] for level in gap if above < level < below}

    for places in SOURCES[sources]:
        ours, theirs = (
            (scale, fit, column, source)
            for fit, column, source in zip((one, other), columns, places, strict=True)
        )
        curves = evidence.curve(*ours).align(evidence.curve(*theirs), join="inner")
        printed = evidence.printed_gap(combine, [ours], [theirs])
        name = label if places[0] == "mean" else f"{label} source {places[0]}"
        name += f" over {places[1]}" if places[0] != places[1] else ""
        for level, gap in gaps(*curves).items():
            at_print = level in ("mean", evidence.sigma3)
            where = f"{name} at {level:g}" if sigma3 == "each" else name
            yield Effect(where.strip(), gap, printed if at_print else None, form)


def larger_on(evidence, data, than, pair):
    """The gap between two fits is larger on one scale than on another.

    The draws of the two are independent, so that they may be paired by their numbers.
    """
    one, other = pair
    (ours,), (theirs,) = (
        draws(evidence, scale, "", one, other, sources="mean", sigma3="mean")
        for scale in (data, than)
    )
    gaps = [effect.values.reset_index(drop=True) for effect in (ours, theirs)]
    printed = None if None in (ours.printed, theirs.printed) else ours.printed - theirs.printed
    yield Effect("", (gaps[0] - gaps[1]).dropna(), printed)


# starts


def restarts(evidence, family, label, ours, theirs, column="auc", unit="points", sources="mean",
             before=""):  # fmt: skip
    """One fit against another on the same data, or on the data `before` the feature test.

    A side may be a list: the worst of ours is compared with the best of theirs, of those that the
    run has.
    """
    combine, form = UNITS[unit]

    def starts(family, fit):
        by_source = evidence.starts(family, fit, column)
        return by_source.mean() if sources == "mean" else by_source

    our = [starts(family, fit) for fit in listed(ours)]
    their, lacking = collect(
        lambda fit: starts(before or family, fit), [(fit,) for fit in listed(theirs)]
    )
    for place, source in enumerate(our[0].values, start=1):
        worst = min(our, key=lambda starts: starts.estimate[source])
        (name,), best = max(their, key=lambda one: one[1].estimate[source])
        against = f"({name})" if len(listed(theirs)) > 1 else ""
        where = column, "mean" if sources == "mean" else place
        printed = evidence.printed_gap(
            combine,
            [(family, fit, *where) for fit in listed(ours)],
            [(before or family, fit, *where) for fit in listed(theirs)],
        )
        yield paired(
            " ".join(filter(None, [label, source, against])),
            combine,
            worst.values[source],
            best.values[source],
            combine(worst.estimate[source], best.estimate[source]),
            printed=printed,
            form=form,
            note=lacking,
        )


def against_print(evidence, family, fit, column="auc", unit="points"):
    """Ours against the printed numbers: one more draw of synthetic data, or starts on real data."""
    if evidence.print_of(family, fit, column) is None:
        return
    combine, form = UNITS[unit]
    starts = None if family in SCALES else evidence.starts(family, fit, column)
    ours = starts.values if starts else evidence.drawn(family, fit, column)[evidence.sigma3]
    for place, source in enumerate(ours, start=1):
        printed = evidence.print_of(family, fit, column, place)
        gaps = combine(ours[source], printed)
        where = f"{fit} on {family} {source}"
        if starts:
            yield single(where, gaps, combine(starts.estimate[source], printed), form=form)
        else:
            yield Effect(where, gaps, None, form, "next draw")


def source_over_source(evidence, family, fit, sources, column):
    """One source over another by the same start, in per cent; sources count from 1."""
    combine, form = UNITS["percent"]
    starts = evidence.starts(family, fit, column)
    one, other = (starts.values.columns[source - 1] for source in sources)
    values = combine(starts.values[one], starts.values[other])
    estimate = combine(starts.estimate[one], starts.estimate[other])
    printed = evidence.printed_gap(combine, *([(family, fit, column, c)] for c in sources))
    yield single(fit, values, estimate, printed=printed, form=form)


def slower(evidence, family, label, slow, fast):
    """The time of one fit over that of another, by draw, or by start where there are no draws."""
    cell = family, label, slow, fast
    try:
        return [*draws(evidence, *cell, ("seconds", "seconds"), "times", "mean")]
    except Missing:
        return [*restarts(evidence, *cell, "seconds", "times")]


def iterations(evidence, data, fits, least=0, most=np.inf):
    """All chosen runs take more iterations than `least` and fewer than `most`."""
    numbers = {fit: _chosen(evidence, data, fit)["iterations"] for fit in fits}
    yield fact(
        all(((least < n) & (n < most)).all() for n in numbers.values()),
        f"more than {least:,}" if least else f"less than {most:,}",
        ", ".join(f"{fit} {n.min():,.0f} to {n.max():,.0f}" for fit, n in numbers.items()),
    )


def stops_at_maximum(evidence, data, fit, share, maximum):
    """At least a share of the starts is still running at a maximum of iterations.

    Runs that were cut off before it are counted for neither side.
    """
    found, lacking = collect(
        lambda family: evidence.fit_runs(family, fit).drop_duplicates("seed"),
        [(family,) for family in listed(data)],
    )
    runs = pd.concat(of_family for _, of_family in found)
    only = only_on({family for (family,), _ in found}, listed(data))
    cut_off = ~runs["converged"].astype(bool)
    reached = (cut_off & (runs["iterations"] >= maximum)).mean()
    verdict = INCONCLUSIVE if cut_off.mean() >= share else REVERSE
    yield Outcome(
        HOLDS if reached >= share else verdict,
        f"at {maximum:,}",
        f"{100 * reached:.0f} % of starts at {maximum:,}, {100 * cut_off.mean():.0f} % cut off"
        + (only and f"; {only}"),
        lacking,
    )


def singular(evidence, data, fit):
    """The matrix that a method inverts is singular to half of the digits."""
    condition = _chosen(evidence, data, fit)["condition"].median()
    text = f"condition number {condition:.2g}"
    yield fact(condition > SINGULAR, "", text, f"singular from {SINGULAR:.1e} on")


def _chosen(evidence, data, fit):
    runs = evidence.fit_runs(data, fit)
    return runs[runs["chosen"].astype(bool)]


# traces of ADVI


def _log_change(trace):
    return np.log(trace["change"].clip(lower=np.finfo(float).tiny))


def _stopping_rule(trace):
    """The first record at which the change of H is below the tolerance, or the end."""
    below = trace["iteration"][trace["change"] < STOPPING_CHANGE]
    return float(below.iloc[0] if len(below) else trace["iteration"].iloc[-1])


MOMENTS = {
    "first": lambda trace: trace["iteration"].iloc[0],
    "ELBO looks stable": lambda trace: statistics.settles(
        trace["iteration"], trace["objective"], share=FLAT
    ),
    "ELBO stable": lambda trace: statistics.settles(trace["iteration"], trace["objective"]),
    "change stable": lambda trace: statistics.settles(trace["iteration"], _log_change(trace)),
    "stopping rule": _stopping_rule,
    "end": lambda trace: np.inf,
}
"""Iterations that claims about a trace may name; others are numbers."""


def auc_rises(evidence, start, end="end", sources="each"):
    """How much the AUC of ADVI rises between two moments."""

    def auc(trace, moment):
        return auc_at(trace, MOMENTS[moment](trace) if isinstance(moment, str) else moment)

    rises = {draw: auc(trace, end) - auc(trace, start) for draw, trace in evidence.traces().items()}
    table = pd.DataFrame.from_dict(rises, orient="index", columns=[1, 2, 3])
    if sources == "mean":
        return [Effect("", table.mean(axis=1))]
    return [Effect(f"source {c}", table[c]) for c in table]


def stable_from(evidence, moment, iteration):
    """The iteration of a moment over the printed one."""
    moments = [MOMENTS[moment](trace) for trace in evidence.traces().values()]
    note = f"{min(moments):,.0f} to {max(moments):,.0f} in {len(moments)} draws"
    yield Effect("", np.log(np.array(moments) / iteration), form=times, note=note)


def change_at_end(evidence):
    """The change of H in the last records of a trace over that in the middle."""
    ratios = []
    for trace in evidence.traces().values():
        middle = _log_change(trace.iloc[: len(trace) // 2].tail(statistics.LAST_RECORDS))
        ratios.append(_log_change(trace.tail(statistics.LAST_RECORDS)).median() - middle.median())
    yield Effect("", np.array(ratios), form=times)


# the feature test on synthetic data


def selected(evidence):
    """AUC after the feature test over that before it, of every fit."""
    table = evidence.feature_auc
    if table.empty or set(table.dropna(subset="auc")["stage"]) != {"before", "after"}:
        raise Missing("the feature test on synthetic data")
    for (extra, fit), part in table.groupby(["extra", "fit"], sort=False):
        auc = part.pivot_table(index="draw", columns="stage", values="auc")
        gains = auc.reindex(columns=["before", "after"]).diff(axis=1)["after"].dropna()
        if len(gains) > 1:
            gains = gains.set_axis([f"{extra} {draw}" for draw in gains.index])
            yield Effect(f"{fit} with {extra} noise features", gains)


OF_PAIRS = (draws, restarts, slower)
"""Kinds that are asked of every pair of fits on all data."""
OF_FITS = (against_print, source_over_source)
"""Kinds that are asked of every fit on all data."""
OF_A_RUN = (
    *(larger_on, iterations, stops_at_maximum, singular),
    *(auc_rises, stable_from, change_at_end, selected),
)
"""All others."""
KINDS: dict[str, Callable] = {
    function.__name__.replace("_", " "): function for function in OF_PAIRS + OF_FITS + OF_A_RUN
}
"""What `kind` of a claim may say."""
