"""The statistics behind the verdicts: effects with intervals, and what is read off a curve."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

LEVEL = 0.95
RESAMPLES = 2000
SEED = 20


def points(value):
    """Points of AUC."""
    return f"{round(value, 2) + 0.0:+.2f}"  # adding 0 turns -0 into 0


def percent(value):
    return f"{value:+.1f} %"


def times(log_ratio):
    """A ratio that is kept as its logarithm."""
    ratio = np.exp(log_ratio)
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def between(form, low, high):
    """Two ends, with their unit once."""
    return f"{form(low).removesuffix(' times').removesuffix(' %')} to {form(high)}"


@dataclass(frozen=True)
class Effect:
    """A difference that a claim is about: one value per draw, or per resample of the restarts."""

    label: str
    values: pd.Series | np.ndarray
    printed: float | None = None
    """The same difference in the paper's tables."""
    form: Callable[[float], str] = points
    over: str = "draws"
    """"draws": the interval of the mean; "one draw": of the next draw; "restarts": percentiles."""
    point: float | None = None
    """The estimate, where it is not the mean of the values."""

    @property
    def mean(self):
        return float(np.mean(self.values)) if self.point is None else float(self.point)

    def interval(self, cells=1):
        """The ends of the 95 % interval, with Bonferroni's correction for the number of cells."""
        outside = (1 - LEVEL) / cells
        if self.over == "restarts":
            low, high = np.quantile(self.values, [outside / 2, 1 - outside / 2])
            return float(low), float(high)
        n = len(self.values)
        spread = np.std(self.values, ddof=1) * np.sqrt(1 / n + (self.over == "one draw"))
        width = float(-stdtrit(n - 1, outside / 2) * spread)
        return self.mean - width, self.mean + width

    def text(self, cells=1):
        details = [between(self.form, *self.interval(cells))]
        if self.over != "restarts":
            share = np.mean(np.asarray(self.values) > 0)
            details.append(f"above 0 in {100 * share:.0f} % of draws")
        if self.printed is not None:
            details.append(f"printed {self.form(self.printed)}")
        return f"{self.label} {self.form(self.mean)} ({'; '.join(details)})".strip()


def average(effects):
    """The mean of effects on the same draws or restarts; None if they are on different draws."""
    first = effects[0]
    if any(effect.over != first.over for effect in effects):
        return None
    columns = [pd.Series(effect.values) for effect in effects]
    values = pd.concat(columns, axis=1, join="inner").mean(axis=1)
    if len(values) < 2:
        return None
    prints = [effect.printed for effect in effects]
    printed = None if None in prints else float(np.mean(prints))
    point = None
    if first.over == "restarts":
        point = float(np.mean([effect.mean for effect in effects]))
    return Effect("mean", values, printed, first.form, first.over, point)


def resample_best(objective, values, n_best, seed):
    """The mean of `values` (restarts, sources) over the `n_best` restarts of lowest objective.

    Returns one row for each bootstrap resample of the restarts.
    """
    objective = np.asarray(objective, dtype=float)
    values = np.asarray(values, dtype=float)
    drawn = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    order = np.argsort(objective[drawn], axis=1, kind="stable")[:, :n_best]
    return values[np.take_along_axis(drawn, order, axis=1)].mean(axis=1)


def ratio_of_means(over, under):
    """The resampled ratios of two means of the same draws."""
    over = np.asarray(over)
    under = np.asarray(under)
    drawn = np.random.default_rng(SEED).integers(len(over), size=(RESAMPLES, len(over)))
    return over[drawn].mean(axis=1) / under[drawn].mean(axis=1)


def slopes(curves):
    """The least-squares slope of every row against the columns' names."""
    x = np.asarray(curves.columns, dtype=float)
    x = x - x.mean()
    return (curves - curves.mean(axis=1).to_numpy()[:, None]) @ x / (x**2).sum()


def roughness(curves):
    """The standard deviation of every row about its straight line."""
    x = np.asarray(curves.columns, dtype=float)
    line = np.outer(slopes(curves), x - x.mean()) + curves.mean(axis=1).to_numpy()[:, None]
    return np.sqrt(((curves - line) ** 2).sum(axis=1) / (len(x) - 2))


def knee(x, y):
    """Where the best line of two joined pieces bends, and its slopes before and after.

    The bend is at one of the inner x.
    """
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    candidates = []
    for bend in x[1:-1]:
        terms = np.column_stack([np.ones_like(x), x, np.maximum(x - bend, 0)])
        weights = np.linalg.lstsq(terms, y, rcond=None)[0]
        error = float(((terms @ weights - y) ** 2).sum())
        candidates.append((error, float(bend), weights[1], weights[1] + weights[2]))
    return min(candidates)[1:]


def median_interval(values):
    """The median with the notch of a box plot, 1.57 IQR / sqrt(n), about a 95 % interval."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    width = 1.57 * (high - low) / np.sqrt(len(values))
    return float(middle), float(middle - width), float(middle + width)


def settles(iterations, values, last=20):
    """The iteration from which the values stay within three sds of the mean of the `last` ones."""
    values = np.asarray(values, dtype=float)
    final = values[-last:]
    outside = np.flatnonzero(np.abs(values - final.mean()) > 3 * final.std(ddof=1))
    first = min(outside[-1] + 1, len(values) - 1) if len(outside) else 0
    return float(np.asarray(iterations)[first])
