"""The measurements of a run, as every claim reads them."""

import zlib
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
import pandas as pd

from bjmd_paper import tables
from bjmd_paper.claims import statistics
from bjmd_paper.datasets import catalogue
from bjmd_paper.datasets.synthetic import SCALES

FEWEST_RESTARTS = 3
"""Below this, resampling the restarts says nothing."""
FEWEST_LEVELS = 4
"""Below this number of sigma3, draws are not a sweep."""


class Missing(Exception):
    """What a claim needs and the run did not make."""


@dataclass(frozen=True)
class Resampled:
    """A number for each source over the best restarts of one fit, and its resamples."""

    point: np.ndarray
    samples: np.ndarray
    names: tuple[str, ...]
    chosen: np.ndarray
    """The number of every chosen run."""

    def mean(self):
        """The mean over the sources, as if it were one source."""
        samples = self.samples.mean(axis=1, keepdims=True)
        return Resampled(self.point.mean(keepdims=True), samples, ("",), self.chosen)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that a run measured, the paper's row of every fit, and the printed numbers."""

    rows: dict[str, str]
    """A fit -> the row of the paper's tables that it stands for."""
    sigma3: float
    """The noise of source 3 in the tables."""
    runs: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Restarts by family of data."""
    draws: pd.DataFrame = field(default_factory=pd.DataFrame)
    advi: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Traces of ADVI."""
    features: pd.DataFrame = field(default_factory=pd.DataFrame)
    feature_auc: pd.DataFrame = field(default_factory=pd.DataFrame)
    printed: pd.DataFrame = field(default_factory=tables.printed)

    # the paper's numbers

    @cached_property
    def _prints(self):
        return {
            (*key, column): table.sort_values("source")[column].to_numpy(dtype=float)
            for key, table in self.printed.groupby(["data", "row"])
            for column in ("auc", "seconds", "noise")
            if table[column].notna().all()
        }

    def print_of(self, family, fit, column="auc"):
        """The printed numbers by source, or None."""
        return self._prints.get((family, self.rows.get(fit), column))

    @cached_property
    def margins(self):
        """What the paper calls the same, from its own tables."""
        auc = self.printed.pivot(index=["data", "source"], columns="row", values="auc")
        noise = self.printed.pivot(index=["data", "source"], columns="row", values="noise")
        seconds = self.printed[self.printed["data"] == "yale-b"].groupby("row")["seconds"].first()
        not_bayesian = ["K-means", "Joint-NMF", "Semi-NMF"]
        real = auc.drop(index=["small", "large"], level="data")
        best = real[[*not_bayesian, "BNMF"]].max(axis=1)
        return {
            # MAP and VI on the small data: their largest gap
            "about the same": (auc["VI-BJMD"] - auc["MAP-BJMD"])["small"].abs().max(),
            # the largest deficit of MAP or VI to a competitor in a source of real data
            "similar": max((best - real[row]).max() for row in ("MAP-BJMD", "VI-BJMD")),
            # the largest gap in per cent between the noise levels of VI and MAP
            "noise": 100 * (noise["VI-BJMD"] / noise["MAP-BJMD"] - 1).abs().max(),
            # the log of the ratio of times of MAP and the slowest method that is not Bayesian
            "comparable time": np.log(seconds["MAP-BJMD"] / seconds[not_bayesian].max()),
        }

    def printed_gap(self, combine, ours, theirs, columns, sources):
        """The least of ours against the most of theirs in the paper's tables, or None.

        Both are lists of (family, fit).  The result is by source, or for the mean over sources.
        """
        sides = []
        for extreme, cells, column in zip((np.min, np.max), (ours, theirs), columns, strict=True):
            prints = [self.print_of(name, fit, column) for name, fit in cells]
            if any(one is None for one in prints):
                return None
            if sources == "mean":
                prints = [one.mean(keepdims=True) for one in prints]
            sides.append(extreme(prints, axis=0))
        one, other = (
            [(family, self.rows[fit]) for family, fit in cells] for cells in (ours, theirs)
        )
        return None if one == other else combine(*sides)  # one row of the paper against itself

    def families(self, data):
        """The names of some data; "real" means the paper's real data, filtered ones too."""
        if data == "real":
            entries = {name: catalogue.family(name) for name in self.runs}
            return [
                name
                for name, entry in entries.items()
                if entry.kind != "synthetic" and entry.paper is not None
            ]
        if isinstance(data, str):
            return [data]
        return [name for part in data for name in self.families(part)]

    # draws of the synthetic data

    @cached_property
    def _draws(self):
        return dict(list(self.draws.groupby(["scale", "fit"]))) if len(self.draws) else {}

    @cache  # noqa: B019, many claims ask for the same
    def drawn(self, scale, fit, column="auc"):
        """A row for each draw, a column for each sigma3 and source."""
        if (scale, fit) not in self._draws:
            raise Missing(f"draws of {fit} on the {scale} data")
        table = self._draws[scale, fit]
        wide = table.pivot(index="draw", columns=["sigma3", "source"], values=column)
        wide = wide.dropna().sort_index(axis=1)
        if len(wide) < 2:
            raise Missing(f"two draws of {fit} on the {scale} data")
        if column == "objective":
            wide = wide / (3 * SCALES[scale].n_features * SCALES[scale].samples_per_source)
        return wide.set_axis([f"{scale} {draw}" for draw in wide.index])

    def at_table(self, scale, fit, column="auc"):
        """A row for each draw and a column for each source, at the sigma3 of the tables."""
        wide = self.drawn(scale, fit, column)
        if self.sigma3 not in wide.columns.get_level_values("sigma3"):
            raise Missing(f"sigma3 = {self.sigma3:g} of {fit} on the {scale} data")
        return wide[self.sigma3]

    def sweep(self, scale, fit, column="auc", source="mean"):
        """A row for each draw and a column for each sigma3, of one source or of their mean."""
        wide = self.drawn(scale, fit, column)
        if wide.columns.get_level_values("sigma3").nunique() < FEWEST_LEVELS:
            raise Missing(f"a sweep over sigma3 of {fit} on the {scale} data")
        if source == "mean":
            return wide.T.groupby(level="sigma3").mean().T
        return wide.xs(source, axis=1, level="source")

    def curve(self, scale, fit, column, source, *, whole):
        """The sweep, or of it only the sigma3 of the tables."""
        if whole:
            return self.sweep(scale, fit, column, source)
        table = self.at_table(scale, fit, column)
        values = table.mean(axis=1) if source == "mean" else table[source]
        return values.to_frame(self.sigma3)

    # restarts on one data set

    def fit_runs(self, family, fit):
        table = self.runs.get(family)
        if table is None or table.empty or fit not in set(table["fit"]):
            raise Missing(f"{fit} on {family}")
        return table[table["fit"] == fit]

    def restarts(self, family, fit, column):
        """The mean of a column over the best restarts, by source, and its resamples.

        "auc" and "matched" are those of the memberships as they are or scaled to sum to one,
        whichever is better in the mean.
        """
        if column in ("auc", "matched"):
            raw = self._resampled(family, fit, column)
            scaled = self._resampled(family, fit, f"{column}_scaled")
            return scaled if scaled.point.mean() > raw.point.mean() else raw
        return self._resampled(family, fit, column)

    @cache  # noqa: B019, many claims ask for the same
    def _resampled(self, family, fit, column):
        table = self.fit_runs(family, fit)
        wide = table.pivot(index="seed", columns="source", values=column)
        if len(wide) < FEWEST_RESTARTS:
            raise Missing(f"{FEWEST_RESTARTS} restarts of {fit} on {family}")
        first = table.drop_duplicates("seed").set_index("seed").loc[wide.index]
        seed = [statistics.SEED, zlib.crc32(f"{family} {fit}".encode())]
        chosen = wide[first["chosen"].astype(bool)].to_numpy()
        samples = statistics.resample_best(first["objective"], wide, len(chosen), seed)
        names = table.drop_duplicates("source").sort_values("source")["source_name"].astype(str)
        return Resampled(chosen.mean(axis=0), samples, tuple(names), chosen)

    def extreme(self, extreme, cells, column, sources):
        """The least (np.min) or the most (np.max) of some (family, fit), and the best fit.

        It is chosen again in every resample, so that chance helps the others and not us.  Only the
        fits that the run has are compared for the most; for the least all are needed.
        """
        scores = {}
        for family, fit in cells:
            try:
                scores[fit] = self.restarts(family, fit, column)
            except Missing:
                if extreme is np.min or len(cells) == 1:
                    raise
        if not scores:
            raise Missing(f"competitors on {cells[0][0]}")
        name = max(scores, key=lambda fit: scores[fit].point.mean())
        several = [one.mean() if sources == "mean" else one for one in scores.values()]
        point = extreme([one.point for one in several], axis=0)
        samples = extreme([one.samples for one in several], axis=0)
        return name, Resampled(point, samples, several[0].names, several[0].chosen)

    # traces of ADVI

    def traces(self):
        """The trace of every draw, with rows in the order of the iterations."""
        if self.advi.empty or self.advi["draw"].nunique() < 2:
            raise Missing("traces of ADVI on two draws")
        groups = self.advi.groupby("draw")
        return {f"small {draw}": trace.sort_values("iteration") for draw, trace in groups}
