"""What happens as source 3 gets noisier."""

from dataclasses import replace
from functools import partial

import numpy as np

from bjmd_paper.claims import statistics
from bjmd_paper.claims.evidence import PAIRS, TABLE_SIGMA3, found
from bjmd_paper.claims.rules import Claims, Missing, all_of, beats, fact
from bjmd_paper.claims.statistics import Effect, count, points

TO_THE_END = ("JMD", "VI", "MAP")
CLEAN = (1, 2)
PROTECTED = 0.95
"""The share of the blind version's loss that has to be avoided: all but what an interval at 95 %
leaves out.
"""


def _gap(evidence, scale, one, other, source=None):
    """One fit over another: a row for each draw, a column for each sigma3."""
    return (
        evidence.sweep(scale, one, source=source) - evidence.sweep(scale, other, source=source)
    ).dropna()


def _printed_mean(evidence, scale, one, other):
    printed = evidence.print_gap(scale, one, other)
    return None if printed is None else float(printed.mean())


def _always_better(evidence, scale, names):
    def cells(name):
        gap = _gap(evidence, scale, *PAIRS[name])
        printed = _printed_mean(evidence, scale, *PAIRS[name])
        return [
            Effect(f"{name} at {level:g}", gap[level], printed if level == TABLE_SIGMA3 else None)
            for level in gap
        ]

    effects, lacking = found([lambda name=name: cells(name) for name in names])
    judged = beats(effects).noting("mean over the sources").noting(lacking)
    least = min(effects, key=lambda e: e.mean)
    return replace(judged, ours=f"{judged.ours}; smallest gap {points(least.mean)} ({least.label})")


def the_gap_grows(evidence):
    widest = {}

    def slope(name):
        gap = _gap(evidence, "small", *PAIRS[name])
        widest[name] = gap.mean().idxmax()
        return [Effect(f"{name} in points for a unit of sigma3", statistics.slopes(gap))]

    effects, lacking = found([lambda name=name: slope(name) for name in PAIRS])
    where = ", ".join(f"{name} {level:g}" for name, level in widest.items())
    return beats(effects).noting(f"the gap is widest at sigma3: {where}").noting(lacking)


def _protected(evidence, scale, names):
    """The share of the blind version's loss in the clean sources, from the least to the most noise,
    that is avoided.
    """
    shares = []
    strict = []

    def loss(fit, source):
        line = evidence.sweep(scale, fit, source=source)
        return line.iloc[:, 0] - line.iloc[:, -1]

    for name in names:
        for source in CLEAN:
            try:
                ours = loss(PAIRS[name][0], source)
                blind = loss(PAIRS[name][1], source)
            except Missing:
                continue
            both = ours.index.intersection(blind.index)
            low, _ = Effect("", blind[both]).interval()
            label = f"{name} source {source}"
            strict.append(Effect(f"{label} loses", ours).text())
            if low <= 0:
                shares.append((label, 0.0, 0.0))
                strict.append(f"blind {name} loses nothing in source {source}")
                continue
            kept = 1 - statistics.ratio_of_means(ours[both], blind[both])
            shares.append(
                (label, 1 - ours[both].mean() / blind[both].mean(), float(np.quantile(kept, 0.025)))
            )
    if not shares:
        raise Missing(f"sweeps over sigma3 on the {scale} data")
    return fact(
        min(low for *_, low in shares) >= PROTECTED,
        "not influenced",
        ", ".join(f"{label} {100 * share:.1f} %" for label, share, _ in shares)
        + " of the loss avoided",
        f"lower ends {', '.join(f'{100 * low:.1f} %' for *_, low in shares)}; {'; '.join(strict)}",
    )


def _falls_from(evidence, scale, printed, fit="cavi-catbjmd"):
    """Whether the curves of the clean sources bend at the printed sigma3, and fall faster after it."""
    texts = []
    holds = []
    for source in CLEAN:
        line = evidence.sweep(scale, fit, source=source)
        levels = np.asarray(line.columns, dtype=float)
        bends = np.array([statistics.knee(levels, row) for row in line.to_numpy()])
        middle, low, high = statistics.median_interval(bends[:, 0])
        # a bend is at one of the levels, so it is known to half a step
        half = np.diff(levels).max() / 2
        faster = Effect("", bends[:, 1] - bends[:, 2]).interval(len(CLEAN))[0] > 0
        holds.append(low - half <= printed <= high + half and faster)
        steps = " ".join(f"{step:+.2f}" for step in line.mean().diff().dropna())
        texts.append(
            (
                f"source {source} from {middle:g}",
                f"source {source} bends at {low:.2f} to {high:.2f}, by step {steps}",
            )
        )
    return fact(
        all(holds),
        f"above {printed:g}",
        ", ".join(text for text, _ in texts),
        "; ".join(text for _, text in texts),
    )


def blind_noise_is_too_high(evidence):
    effects = []
    for source in CLEAN:
        noise = evidence.sweep("small", "cavi-catbjmd", "noise", source)
        excess = noise - evidence.sweep("small", "cavi-catbjmd", "true_noise", source)
        effects += [
            Effect(f"source {source} at {level:g}", excess[level])
            for level in excess
            if level > 2.5
        ]
    return beats(effects).noting(
        "noise sd above the true one; the pooled sd passes that of source 2 at sigma3 = 3.4"
    )


def blind_vi_takes_longer(evidence):
    blind, aware = (
        evidence.sweep("small", fit, "iterations") for fit in ("cavi-catbjmd", "cavi-bjmd")
    )
    ratio = (blind / aware).dropna()
    return beats(
        [Effect("slope of the ratio of sweeps", statistics.slopes(ratio), form=count)]
    ).noting(f"VI-cat / VI by sigma3: {' '.join(f'{value:.1f}' for value in ratio.mean())}")


def _vi_over_map(evidence, scale, mode):
    gap = _gap(evidence, scale, "cavi-bjmd", mode)
    effect = Effect(
        "mean over sources and sigma3",
        gap.mean(axis=1),
        _printed_mean(evidence, scale, "cavi-bjmd", mode),
    )
    return beats([effect]).noting("by sigma3 " + " ".join(f"{value:+.2f}" for value in gap.mean()))


def _blind_vi_over_map(evidence, mode):
    gap = _gap(evidence, "small", "cavi-catbjmd", mode)
    low = beats([Effect(f"at {level:g}", gap[level]) for level in gap if level < 3])
    return low.noting(
        "from 3.0 on " + " ".join(f"{gap[level].mean():+.2f}" for level in gap if level >= 3)
    )


def _better_in_all_sources(evidence, mode):
    printed = evidence.print_gap("large", "cavi-bjmd", mode)
    return beats(
        [
            Effect(
                f"source {c}",
                _gap(evidence, "large", "cavi-bjmd", mode, c).mean(axis=1),
                None if printed is None else float(printed[c - 1]),
            )
            for c in (1, 2, 3)
        ]
    ).noting("mean over sigma3")


def _more_than_on_small(evidence, mode):
    large, small = (
        _gap(evidence, scale, "cavi-bjmd", mode).mean(axis=1) for scale in ("large", "small")
    )
    more, low, high = statistics.welch(large, small)
    prints = [_printed_mean(evidence, scale, "cavi-bjmd", mode) for scale in ("large", "small")]
    paper = "" if None in prints else f"{prints[0] - prints[1]:+.2f}"
    return fact(
        low > 0,
        paper,
        f"{more:+.2f} ({low:+.2f} to {high:+.2f})",
        "VI over MAP, large minus small data",
    )


def _rougher(evidence, mode):
    def rough(fit, source):
        return statistics.roughness(evidence.sweep("large", fit, source=source))

    return beats(
        [
            Effect(
                f"source {c}",
                (rough(mode, c) - rough("cavi-bjmd", c)).dropna(),
                form="{:+.3f}".format,
            )
            for c in CLEAN
        ]
    ).noting("sd of a curve about its straight line, MAP minus VI")


CLAIMS: Claims = {
    "E8a": partial(_better_in_all_sources, mode="map-bjmd"),
    "E8a-printed": partial(_better_in_all_sources, mode="map-bjmd-printed"),
    "E8b": partial(_more_than_on_small, mode="map-bjmd"),
    "E8b-printed": partial(_more_than_on_small, mode="map-bjmd-printed"),
    "E1": lambda evidence: _always_better(evidence, "small", TO_THE_END),
    "E1-printed": lambda evidence: _always_better(evidence, "small", ["MAP as printed"]),
    "E2": the_gap_grows,
    "E3": lambda evidence: _protected(evidence, "small", ("VI", "MAP")),
    "E4": lambda evidence: _falls_from(evidence, "small", 2.5).noting(
        "VI-cat is the closed form; ADVI-cat was not swept"
    ),
    "E4-map": lambda evidence: _falls_from(evidence, "small", 2.5, "map-catbjmd-printed"),
    "E4b": blind_noise_is_too_high,
    "E4c": blind_vi_takes_longer,
    "E5": lambda evidence: _vi_over_map(evidence, "small", "map-bjmd"),
    "E5-printed": lambda evidence: _vi_over_map(evidence, "small", "map-bjmd-printed"),
    "E5b": lambda evidence: _blind_vi_over_map(evidence, "map-catbjmd"),
    "E5b-printed": lambda evidence: _blind_vi_over_map(evidence, "map-catbjmd-printed"),
    "E6": lambda evidence: _always_better(evidence, "large", ("VI", "MAP")),
    "E7": lambda evidence: _falls_from(evidence, "large", 3.5),
    "E9": lambda evidence: _protected(evidence, "large", ("VI",)),
    "E10": lambda evidence: _rougher(evidence, "map-bjmd"),
    "E10-printed": lambda evidence: _rougher(evidence, "map-bjmd-printed"),
    "E11": lambda evidence: all_of(evidence, E1=CLAIMS["E1"], E6=CLAIMS["E6"]),
}
