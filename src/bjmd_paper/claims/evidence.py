"""The measurements of a run, as every claim reads them."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd

from bjmd_paper.datasets import catalogue
from bjmd_paper.datasets.synthetic import SCALES

FEWEST_STARTS = 3
"""Below this, the spread over starts says nothing."""


class Missing(Exception):
    """What a claim needs and the run did not make."""


@dataclass(frozen=True)
class Starts:
    """A number for each start (row) and source (column) of one fit."""

    values: pd.DataFrame
    estimate: pd.Series
    """What the tables show: the mean over the chosen starts, or the median of their times."""

    def mean(self):
        """The mean over the sources, as if it were one source."""
        return Starts(self.values.mean(axis=1).to_frame(""), pd.Series({"": self.estimate.mean()}))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that a run measured, the paper's row of every fit, and the printed numbers."""

    rows: dict[str, str]
    """A fit -> the row of the paper's tables that it stands for."""
    sigma3: float
    """The noise of source 3 in the tables."""
    runs: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Starts by family of data."""
    draws: pd.DataFrame = field(default_factory=pd.DataFrame)
    advi: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Traces of ADVI."""
    feature_auc: pd.DataFrame = field(default_factory=pd.DataFrame)
    printed: pd.DataFrame = field(default_factory=catalogue.printed)

    # the paper's numbers

    def print_of(self, family, fit, column="auc", source="mean"):
        """The printed number of a source, by its place, or the mean over sources; None if none."""
        table = self.printed
        rows = table[(table["data"] == family) & (table["row"] == self.rows.get(fit))]
        if rows.empty or column not in rows:
            return None
        values = rows.set_index("source")[column]
        value = values.mean(skipna=False) if source == "mean" else values[source]
        return None if np.isnan(value) else float(value)

    def printed_gap(self, combine, ours, theirs):
        """The least of ours against the most of theirs in the paper's tables, or None.

        Both are lists of (family, fit, column, source).
        """

        def rows(cells):
            return {(family, self.rows.get(fit), *rest) for family, fit, *rest in cells}

        one, other = ([self.print_of(*cell) for cell in cells] for cells in (ours, theirs))
        if None in one + other or rows(ours) == rows(theirs):
            return None  # not printed, or one row of the paper against itself
        return float(combine(min(one), max(other)))

    # draws of the synthetic data

    @cache  # noqa: B019, many claims ask for the same
    def drawn(self, scale, fit, column="auc"):
        """A row for each draw, a column for each sigma3 and source.

        ADVI is slow and need not be among the draws: on the small data it has traces.
        """
        table = self.draws
        if len(table):
            table = table[(table["scale"] == scale) & (table["fit"] == fit)]
        if table.empty and (scale, fit, column) == ("small", "advi-bjmd", "auc"):
            ends = {draw: auc_at(trace, np.inf) for draw, trace in self.traces().items()}
            columns = pd.MultiIndex.from_product(
                [[self.sigma3], [1, 2, 3]], names=["sigma3", "source"]
            )
            return pd.DataFrame.from_dict(ends, orient="index", columns=columns)
        if table.empty:
            raise Missing(f"draws of {fit} on the {scale} data")
        wide = table.pivot(index="draw", columns=["sigma3", "source"], values=column)
        wide = wide.dropna().sort_index(axis=1)
        if len(wide) < 2:
            raise Missing(f"two draws of {fit} on the {scale} data")
        if column == "objective":
            wide = wide / (3 * SCALES[scale].n_features * SCALES[scale].samples_per_source)
        return wide.set_axis([f"{scale} {draw}" for draw in wide.index])

    def curve(self, scale, fit, column="auc", source="mean"):
        """A row for each draw and a column for each sigma3, in one source or the mean over them."""
        wide = self.drawn(scale, fit, column)
        if source == "mean":
            return wide.T.groupby(level="sigma3").mean().T
        return wide.xs(source, axis=1, level="source")

    # starts on one data set

    def fit_runs(self, family, fit):
        """A row for every start and source."""
        table = self.runs.get(family)
        if table is None or table.empty or fit not in set(table["fit"]):
            raise Missing(f"{fit} on {family}")
        return table[table["fit"] == fit]

    def starts(self, family, fit, column="auc"):
        """A column of all starts by source.

        "auc" and "matched" are those of the memberships as they are or scaled to sum to one,
        whichever is better in the mean over the chosen runs.
        """
        if column in ("auc", "matched"):
            both = (self._starts(family, fit, name) for name in (column, f"{column}_scaled"))
            return max(both, key=lambda starts: starts.estimate.mean())
        return self._starts(family, fit, column)

    @cache  # noqa: B019, many claims ask for the same
    def _starts(self, family, fit, column):
        table = self.fit_runs(family, fit)
        if table["seed"].nunique() < FEWEST_STARTS:
            raise Missing(f"{FEWEST_STARTS} starts of {fit} on {family}")
        wide = table.pivot(index="seed", columns=["source", "source_name"], values=column)
        wide = wide.sort_index(axis=1).droplevel("source", axis=1)
        chosen = wide.loc[table["seed"][table["chosen"].astype(bool)].unique()]
        return Starts(wide, chosen.median() if column == "seconds" else chosen.mean())

    # traces of ADVI

    def traces(self):
        """The trace of every draw, with rows in the order of the iterations."""
        if self.advi.empty or self.advi["draw"].nunique() < 2:
            raise Missing("traces of ADVI on two draws")
        groups = self.advi.groupby("draw")
        return {f"small {draw}": trace.sort_values("iteration") for draw, trace in groups}


def auc_at(trace, iteration):
    """The AUC in every source at the last record of a trace up to an iteration."""
    row = max(int((trace["iteration"] <= iteration).sum()) - 1, 0)
    return trace.iloc[row][["auc_1", "auc_2", "auc_3"]].to_numpy(float)
