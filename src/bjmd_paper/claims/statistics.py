"""The effects that claims are about, each with an interval."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtrit

LEVEL = 0.95
LAST_RECORDS = 20
"""How many records count as the end of a trace."""


def points(value):
    """Points of AUC."""
    return f"{round(value, 2) + 0.0:+.2f}"  # adding 0 turns -0 into 0


def percent(value):
    return f"{value:+.1f} %"


def times(log_ratio):
    """A ratio that is kept as its logarithm."""
    ratio = np.exp(log_ratio)
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def with_interval(form, over, estimate, low, high):
    """An estimate and its interval, which over starts is that of all starts."""
    starts = "all starts " if over == "starts" else ""
    lower = form(low).removesuffix(" times").removesuffix(" %")
    return f"{form(estimate)} ({starts}{lower} to {form(high)})"


@dataclass(frozen=True)
class Effect:
    """A difference in one cell of a claim: in a source, at a noise level, on a data set.

    What its interval is depends on what the values are:

    - "draws": a value for each draw, and Student's interval of their mean;
    - "next draw": a value for each draw, and the interval of one more draw;
    - "starts": a value for each pair of starts (`paired`) or for each start (`single`), and Hodges
      and Lehmann's interval of their median, or that of the sign test; of few starts, the range of
      all values.  The estimate is that of the chosen starts, which may lie outside it.
    """

    label: str
    values: pd.Series | np.ndarray
    printed: float | None = None
    """The same difference in the paper's tables."""
    form: Callable[[float], str] = points
    over: str = "draws"
    chosen: float | None = None
    """The estimate, where it is not the mean of the values: that of the chosen starts."""
    share_sd: float = 0.0
    """For starts: the sd of the share of values above 0, if 0 were their median."""
    note: str = ""
    """What a reader of the numbers should know."""

    @property
    def estimate(self):
        return float(np.mean(self.values) if self.chosen is None else self.chosen)

    def interval(self, cells=1):
        """The ends of the 95 % interval, widened by Bonferroni's correction for several cells."""
        n = len(self.values)
        outside = (1 - LEVEL) / cells
        if self.over == "starts":
            tail = max(0.5 - ndtri(1 - outside / 2) * self.share_sd, 0.0)
            low, high = np.quantile(self.values, [tail, 1 - tail])
            return float(low), float(high)
        spread = np.std(self.values, ddof=1) * np.sqrt(1 / n + (self.over == "next draw"))
        width = float(stdtrit(n - 1, 1 - outside / 2) * spread)
        return self.estimate - width, self.estimate + width

    def text(self, cells=1):
        printed = "" if self.printed is None else f"; printed {self.form(self.printed)}"
        ends = with_interval(self.form, self.over, self.estimate, *self.interval(cells))
        return f"{self.label} {ends}{printed}".strip()


def paired(label, combine, ours, theirs, chosen, **options):
    """The effect of all pairs of one of our starts and one of theirs.

    Its interval is that of Mann and Whitney's test: it excludes 0 if that rejects.
    """
    n = len(ours)
    m = len(theirs)
    values = combine(np.asarray(ours)[:, None], np.asarray(theirs)).ravel()
    share_sd = np.sqrt((n + m + 1) / (12 * n * m))
    return Effect(label, values, over="starts", chosen=chosen, share_sd=share_sd, **options)


def single(label, values, chosen, **options):
    """The effect of all starts of one fit."""
    share_sd = 0.5 / np.sqrt(len(values))
    return Effect(label, values, over="starts", chosen=chosen, share_sd=share_sd, **options)


def overall(effects):
    """The mean over cells and the ends of its interval.

    On the same draws it is the interval of their means.  Otherwise the ends are averaged, which
    makes the interval too wide rather than too narrow.
    """
    if all(effect.over == "draws" for effect in effects):
        columns = [pd.Series(effect.values) for effect in effects]
        values = pd.concat(columns, axis=1, join="inner").mean(axis=1)
        if len(values) > 1:
            mean = Effect("", values)
            return mean.estimate, *mean.interval()
    return tuple(np.mean([(effect.estimate, *effect.interval()) for effect in effects], axis=0))


def slopes(curves):
    """The least-squares slope of every row against the names of the columns."""
    slope, _ = np.polyfit(np.asarray(curves.columns, dtype=float), curves.T, 1)
    return pd.Series(slope, index=curves.index)


def roughness(curves):
    """The standard deviation of every row about its straight line."""
    levels = np.asarray(curves.columns, dtype=float)
    _, squares, *_ = np.polyfit(levels, curves.T, 1, full=True)
    return pd.Series(np.sqrt(squares / (len(levels) - 2)), index=curves.index)


def settles(iterations, values, share=None):
    """The iteration from which the values stay near the mean of the last ones.

    Near means within three of their sds, or within a share of the distance from the first value, as
    one reads it off a plot.  A running median of five keeps single values from counting.
    """
    smooth = pd.Series(np.asarray(values)).rolling(5, center=True, min_periods=3).median()
    final = np.asarray(values)[-LAST_RECORDS:]
    away = np.abs(smooth - final.mean())
    near = 3 * final.std(ddof=1) if share is None else share * away.iloc[0]
    outside = np.flatnonzero(away > near)
    first = min(outside[-1] + 1, len(away) - 1) if len(outside) else 0
    return float(np.asarray(iterations)[first])
