"""How an effect becomes one of four verdicts.

A claim over several cells (sources, noise levels, data sets) has to hold in each of them, and its
intervals are Bonferroni's.  "Much smaller than printed" is a convention: the whole interval of the
mean effect lies below half of the printed one.  Margins come from the paper's own tables
(`Margins`): what it calls the same there is the same here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from bjmd_paper.claims.statistics import average, between, points, times

HOLDS = "holds"
SMALLER = "holds, but much smaller than printed"
FAILS = "does not hold"
UNTESTABLE = "cannot be tested here"
VERDICTS = (HOLDS, SMALLER, FAILS, UNTESTABLE)
MUCH_SMALLER = 0.5
Claims = dict[str, Callable]
"""A claim's number -> the function of the evidence that judges it."""


class Missing(Exception):
    """What a claim needs and the run did not make."""


@dataclass(frozen=True)
class Outcome:
    """What was found about one claim; texts are for the table."""

    verdict: str
    paper: str = ""
    ours: str = ""
    numbers: str = ""
    own_table: str = ""
    """Whether the paper's own tables support the sentence: yes, no, or empty if they do not speak
    of it.
    """

    def noting(self, text):
        return replace(self, numbers="; ".join(filter(None, [self.numbers, text])))


def untestable(reason):
    return Outcome(UNTESTABLE, numbers=reason)


def fact(true, paper, ours, numbers="", own_table=""):
    """A claim that is a plain question of yes or no."""
    return Outcome(HOLDS if true else FAILS, paper, ours, numbers, own_table)


def beats(effects, least=0.0):
    """Every effect is above `least`."""
    return _judge(effects, lambda low, high: low > least, lambda printed: printed > least, least)


def at_least(effects, margin):
    """No effect is below zero by more than the margin: similar or better."""
    outcome = _judge(
        effects, lambda low, high: low >= -margin, lambda printed: printed >= -margin, -margin
    )
    better = "yes" if all(effect.interval(len(effects))[0] > 0 for effect in effects) else "no"
    return outcome.noting(
        f"margin {effects[0].form(margin)}, without it (strictly better): {better}"
    )


def within(effects, margin):
    """Every effect lies between minus and plus the margin: the same."""
    ends = [effect.interval(len(effects)) for effect in effects]
    inside = [-margin <= low and high <= margin for low, high in ends]
    apart = [
        effect.label
        for effect, (low, high) in zip(effects, ends, strict=True)
        if low > 0 or high < 0
    ]
    prints = [effect.printed for effect in effects if effect.printed is not None]
    largest = max(effects, key=lambda effect: abs(effect.mean))
    form = largest.form
    return Outcome(
        HOLDS if all(inside) else FAILS,
        f"at most {form(max(map(abs, prints))).lstrip('+-')} apart" if prints else "",
        f"at most {form(abs(largest.mean)).lstrip('+')} apart ({largest.label})",
        f"{_cells(effects)}; margin {form(margin).lstrip('+')}; an interval without 0: {', '.join(apart) or 'none'}",
        _yes_no([abs(printed) <= margin for printed in prints]),
    )


def reached(effects):
    """Every printed number is at most the upper end of ours; effects are ours minus printed."""
    ends = [effect.interval(len(effects)) for effect in effects]
    lower = [effect.label for effect, (_, high) in zip(effects, ends, strict=True) if high < 0]
    higher = [effect.label for effect, (low, _) in zip(effects, ends, strict=True) if low > 0]
    worst = min(effects, key=lambda effect: effect.mean)
    notes = [f"below the print in {', '.join(lower)}"] if lower else []
    notes += [f"above it by more than the interval in {', '.join(higher)}"] if higher else []
    return Outcome(
        FAILS if lower else HOLDS,
        "",
        f"{len(effects) - len(lower)} of {len(effects)} cells",
        "; ".join([*notes, f"lowest {worst.label} {points(worst.mean)}", _cells(effects)]),
    )


def outcome(function, evidence):
    """What a claim's function finds, or what the run lacks for it."""
    try:
        return function(evidence)
    except Missing as lacking:
        return untestable(f"this run did not make {lacking}")


def all_of(evidence, **functions):
    """A sentence of several parts: the worst of their verdicts, leaving out those that are not
    tested.
    """
    parts = {
        name.replace("_", " "): outcome(function, evidence) for name, function in functions.items()
    }
    tested = {name: part for name, part in parts.items() if part.verdict != UNTESTABLE}
    if not tested:
        return untestable("; ".join(dict.fromkeys(part.numbers for part in parts.values())))
    return Outcome(
        max((part.verdict for part in tested.values()), key=VERDICTS.index),
        "; ".join(f"{name}: {part.paper}" for name, part in tested.items() if part.paper),
        "; ".join(f"{name}: {part.ours or 'not made'}" for name, part in parts.items()),
        "; ".join(f"{name}: {part.verdict}, {part.numbers}" for name, part in parts.items()),
        _yes_no([part.own_table == "yes" for part in tested.values() if part.own_table]),
    )


def _judge(effects, holds, print_holds, least):
    cells = len(effects)
    ends = [effect.interval(cells) for effect in effects]
    missed = [
        (effect, high)
        for effect, (low, high) in zip(effects, ends, strict=True)
        if not holds(low, high)
    ]
    prints = [effect for effect in effects if effect.printed is not None]
    mean = average(prints or effects)
    printed = mean.printed if mean else None
    form = effects[0].form
    if missed:
        verdict = FAILS
    elif printed is not None and printed > 0 and mean.interval()[1] < MUCH_SMALLER * printed:
        verdict = SMALLER
    else:
        verdict = HOLDS
    low, high = (
        mean.interval() if mean else (min(e.mean for e in effects), max(e.mean for e in effects))
    )
    ours = between(form, low, high)
    if mean:
        ours = f"{form(mean.mean)} ({ours})"
    if printed is not None and printed > 0 and mean.mean > 0 and form is not times:
        ours += f", {100 * mean.mean / printed:.0f} % of the print"
    return Outcome(
        verdict,
        "" if printed is None else form(printed),
        ours,
        "; ".join([*_reasons(missed, least), _cells(effects)]),
        _yes_no([print_holds(effect.printed) for effect in prints]),
    )


def _reasons(missed, least):
    """Why cells miss: the reverse is true, or nothing was found."""
    turned = [effect.label for effect, high in missed if high < least]
    unclear = [effect.label for effect, high in missed if high >= least]
    reasons = [f"the reverse is true in {', '.join(turned)}"] if turned else []
    return [*reasons, f"not shown in {', '.join(unclear)}"] if unclear else reasons


def _cells(effects):
    return ", ".join(effect.text(len(effects)) for effect in effects)


def _yes_no(found):
    return "" if not found else "yes" if all(found) else "no"


@dataclass(frozen=True)
class Margins:
    """What the paper calls the same, from its own tables."""

    printed: pd.DataFrame
    competitors: tuple[str, ...] = field(default=("K-means", "Joint-NMF", "Semi-NMF", "BNMF"))

    @cached_property
    def _auc(self):
        return self.printed.pivot(index=["data", "source"], columns="row", values="auc")

    @cached_property
    def about_the_same(self):
        """MAP and VI on the small data: their largest gap."""
        small = self._auc.loc["small"]
        return float((small["VI-BJMD"] - small["MAP-BJMD"]).abs().max())

    @cached_property
    def similar(self):
        """The largest deficit of MAP or VI to a competitor in a source of real data, which it calls
        similar.
        """
        real = self._auc.drop(index=["small", "large"], level="data")
        deficit = (
            real[list(self.competitors)].max(axis=1).to_numpy()[:, None]
            - real[["MAP-BJMD", "VI-BJMD"]]
        )
        return float(deficit.max().max())

    @cached_property
    def noise(self):
        """The largest gap in per cent between the noise of VI and MAP, which it calls very
        consistent.
        """
        noise = self.printed.dropna(subset="noise").pivot(
            index=["data", "source"], columns="row", values="noise"
        )
        return float(100 * (noise["VI-BJMD"] / noise["MAP-BJMD"] - 1).abs().max())

    @cached_property
    def comparable_time(self):
        """The logarithm of the largest ratio of times, MAP to the slowest method that is not
        Bayesian, on Yale B, where the paper calls the speed comparable.
        """
        seconds = self.printed[self.printed["data"] == "yale-b"].groupby("row")["seconds"].first()
        return float(
            np.log(seconds["MAP-BJMD"] / seconds[["K-means", "Joint-NMF", "Semi-NMF"]].max())
        )
