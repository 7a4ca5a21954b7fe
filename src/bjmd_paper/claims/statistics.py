"""The statistics behind the verdicts: effects with intervals, and what is read off a curve."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import betaincinv, stdtrit

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


def nats(value):
    """Nats for each entry of the data."""
    return f"{value:+.4f}"


def count(value):
    return f"{value:.3g}"


def between(form, low, high):
    """Two ends, with their unit once."""
    return f"{form(low).removesuffix(' times').removesuffix(' %')} to {form(high)}"


@dataclass(frozen=True)
class Effect:
    """A difference that a claim is about: one value a draw of the data, or one for each resample of
    the restarts.
    """

    label: str
    values: pd.Series | np.ndarray
    printed: float | None = None
    """The same difference in the paper's tables."""
    form: Callable[[float], str] = points
    over: str = "draws"
    """draws: the interval of the mean; one draw: of the next draw; restarts: percentiles of the
    resamples.
    """
    point: float | None = None
    """The estimate, where it is not the mean of the values."""

    @property
    def mean(self):
        return float(np.mean(self.values)) if self.point is None else float(self.point)

    def interval(self, cells=1):
        """The two ends at 95 %, by Bonferroni where it is one of many."""
        outside = (1 - LEVEL) / cells
        if self.over == "restarts":
            low, high = np.quantile(self.values, [outside / 2, 1 - outside / 2])
            return float(low), float(high)
        width = half_width(self.values, outside, next_one=self.over == "one draw")
        return self.mean - width, self.mean + width

    def text(self, cells=1):
        low, high = self.interval(cells)
        details = [between(self.form, low, high)]
        if self.over != "restarts":
            details.append(
                f"above 0 in {100 * np.mean(np.asarray(self.values) > 0):.0f} % of draws"
            )
        if self.printed is not None:
            details.append(f"printed {self.form(self.printed)}")
        return f"{self.label} {self.form(self.mean)} ({'; '.join(details)})"


def half_width(values, outside, *, next_one=False):
    """Half the width of Student's interval for the mean of independent values, or for one more such
    value.
    """
    n = len(values)
    spread = np.std(values, ddof=1) * np.sqrt(1 / n + (1 if next_one else 0))
    return float(-stdtrit(n - 1, outside / 2) * spread)


def average(effects, label="mean"):
    """The mean of effects on the same draws, or of resampled ones; None if they are on different
    draws.
    """
    first = effects[0]
    if any(effect.over != first.over for effect in effects):
        return None
    columns = [pd.Series(effect.values) for effect in effects]
    values = pd.concat(columns, axis=1, join="inner").mean(axis=1)
    if len(values) < 2:
        return None
    prints = [effect.printed for effect in effects]
    printed = None if None in prints else float(np.mean(prints))
    point = (
        float(np.mean([effect.mean for effect in effects])) if first.over == "restarts" else None
    )
    return Effect(label, values, printed, first.form, first.over, point)


def resample_best(objective, values, n_best, seed):
    """The mean of `values` (restarts, sources) over the n_best of lowest objective, for resamples
    of the restarts.
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


def welch(one, other):
    """How much larger the mean of `one` is than that of `other`, and its 95 % interval, for
    independent samples.
    """
    errors = np.array([np.var(values, ddof=1) / len(values) for values in (one, other)])
    freedom = errors.sum() ** 2 / (errors**2 / np.array([len(one) - 1, len(other) - 1])).sum()
    more = np.mean(one) - np.mean(other)
    half = -stdtrit(freedom, (1 - LEVEL) / 2) * np.sqrt(errors.sum())
    return float(more), float(more - half), float(more + half)


def share_interval(successes, n):
    """The exact 95 % interval of a share."""
    outside = (1 - LEVEL) / 2
    low = betaincinv(successes, n - successes + 1, outside) if successes else 0.0
    high = betaincinv(successes + 1, n - successes, 1 - outside) if successes < n else 1.0
    return float(low), float(high)


def slopes(curves):
    """The least-squares slope of every row against the columns' names."""
    x = np.asarray(curves.columns, dtype=float)
    return (
        (curves - curves.mean(axis=1).to_numpy()[:, None])
        @ (x - x.mean())
        / ((x - x.mean()) ** 2).sum()
    )


def roughness(curves):
    """The standard deviation of every row about its straight line."""
    x = np.asarray(curves.columns, dtype=float)
    line = np.outer(slopes(curves), x - x.mean()) + curves.mean(axis=1).to_numpy()[:, None]
    return np.sqrt(((curves - line) ** 2).sum(axis=1) / (len(x) - 2))


def knee(x, y):
    """Where the best line of two joined pieces bends (at one of the inner x), and its slopes before
    and after.
    """
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    found = []
    for bend in x[1:-1]:
        terms = np.column_stack([np.ones_like(x), x, np.maximum(x - bend, 0)])
        weights = np.linalg.lstsq(terms, y, rcond=None)[0]
        found.append(
            (
                float(((terms @ weights - y) ** 2).sum()),
                float(bend),
                weights[1],
                weights[1] + weights[2],
            )
        )
    return min(found)[1:]


def median_interval(values):
    """The median with the notch of a box plot, 1.57 IQR / sqrt(n), about a 95 % interval."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    width = 1.57 * (high - low) / np.sqrt(len(values))
    return float(middle), float(middle - width), float(middle + width)


def settles(iterations, values, last=20):
    """The iteration from which the values stay within three sds of their mean, both of the `last`
    values.
    """
    values = np.asarray(values, dtype=float)
    final = values[-last:]
    outside = np.flatnonzero(np.abs(values - final.mean()) > 3 * final.std(ddof=1))
    return float(
        np.asarray(iterations)[0 if not len(outside) else min(outside[-1] + 1, len(values) - 1)]
    )
