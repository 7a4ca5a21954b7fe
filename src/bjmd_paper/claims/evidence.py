"""The measurements of a run, as every claim reads them."""

import zlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from bjmd_paper import tables
from bjmd_paper.claims import statistics
from bjmd_paper.claims.rules import Margins, Missing
from bjmd_paper.claims.statistics import Effect, points, times
from bjmd_paper.datasets import catalogue

TABLE_SIGMA3 = 4.0
"""The noise of source 3 in the paper's tables."""
FEWEST_RESTARTS = 3
"""Below this, resampling the restarts says nothing."""
PAIRS = {
    "JMD": ("jmd", "glad"),
    "VI": ("cavi-bjmd", "cavi-catbjmd"),
    "MAP": ("map-bjmd", "map-catbjmd"),
    "MAP as printed": ("map-bjmd-printed", "map-catbjmd-printed"),
}
"""Methods that know the noise of each source, and their blind versions."""
ROWS = {
    "map-bjmd": "MAP-BJMD",
    "map-bjmd-printed": "MAP-BJMD",
    "map-bjmd-held": "MAP-BJMD",
    "map-catbjmd": "MAP-catBJMD",
    "map-catbjmd-printed": "MAP-catBJMD",
    "cavi-bjmd": "VI-BJMD",
    "cavi-catbjmd": "VI-catBJMD",
    "advi-bjmd": "VI-BJMD",
    "advi-catbjmd": "VI-catBJMD",
    "jmd": "JMD",
    "glad": "GLAD",
    "kmeans": "K-means",
    "jnmf": "Joint-NMF",
    "semi-nmf": "Semi-NMF",
    "bnmf": "BNMF",
}
"""A fit -> the row of the paper's tables that it stands for."""
MODES = ("map-bjmd", "map-bjmd-printed", "map-bjmd-held")
COMPETITORS = ("kmeans", "jnmf", "semi-nmf", "bnmf")
"""Those of the paper."""
MORE_COMPETITORS = (*COMPETITORS, "intnmf", "jmd", "glad", "map-catbjmd", "cavi-catbjmd")
"""With those that we add."""


@dataclass(frozen=True)
class Resampled:
    """A number for each source over the best restarts of one fit, and its resamples."""

    point: np.ndarray
    samples: np.ndarray
    names: tuple[str, ...]
    chosen: np.ndarray
    """The same of every chosen run."""

    def mean(self):
        """The mean over the sources, as if it were one."""
        return Resampled(
            self.point.mean(keepdims=True),
            self.samples.mean(axis=1, keepdims=True),
            ("",),
            self.chosen,
        )


def best_of(several):
    """The largest in each source, chosen again in every resample, so that chance helps the others
    and not us.
    """
    return _picked(np.max, several)


def worst_of(several):
    return _picked(np.min, several)


def _picked(extreme, several):
    point, samples = (
        extreme([getattr(one, name) for one in several], axis=0) for name in ("point", "samples")
    )
    return Resampled(point, samples, several[0].names, several[0].chosen)


def restart_effects(label, function, *resampled, printed=None, form=points):
    """An effect for every source: a function of numbers over restarts."""
    names = resampled[0].names
    values = function(*(one.samples for one in resampled))
    point = function(*(one.point for one in resampled))
    return [
        Effect(
            f"{label} {name}".strip(),
            values[:, c],
            None if printed is None else float(printed[c]),
            form,
            "restarts",
            point[c],
        )
        for c, name in enumerate(names)
    ]


def found(cells):
    """Effects of all cells that the run has, and what it lacks; `cells` are functions, each of
    which may be missing.
    """
    effects = []
    lacking = []
    for cell in cells:
        try:
            effects += cell()
        except Missing as error:
            lacking.append(str(error))
    if not effects:
        raise Missing(", ".join(dict.fromkeys(lacking)) or "any data that this is about")
    return effects, f"not made in this run: {', '.join(dict.fromkeys(lacking))}" if lacking else ""


@dataclass(frozen=True)
class Evidence:
    """Restarts by family, draws of the synthetic data, traces of ADVI, the feature test, and the
    printed numbers.
    """

    runs: dict[str, pd.DataFrame] = field(default_factory=dict)
    draws: pd.DataFrame = field(default_factory=pd.DataFrame)
    advi: pd.DataFrame = field(default_factory=pd.DataFrame)
    features: pd.DataFrame = field(default_factory=pd.DataFrame)
    feature_auc: pd.DataFrame = field(default_factory=pd.DataFrame)
    printed: pd.DataFrame = field(default_factory=tables.printed)
    _kept: dict = field(default_factory=dict, init=False, repr=False)
    """What many claims ask for, computed once."""

    @cached_property
    def margins(self):
        return Margins(self.printed)

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
        return self._prints.get((family, ROWS.get(fit), column))

    def print_gap(self, family, one, other, column="auc"):
        """The printed difference of two fits by source, or None; of times, the difference of the
        logarithms.
        """
        first = self.print_of(family, one, column)
        second = self.print_of(family, other, column)
        if first is None or second is None:
            return None
        return np.log(first / second) if column == "seconds" else first - second

    # draws of the synthetic data

    @cached_property
    def _draws(self):
        return dict(list(self.draws.groupby(["scale", "fit"]))) if len(self.draws) else {}

    def curves(self, scale, fit, column="auc"):
        """A row for each draw, a column for each sigma3 and source."""
        key = "draws", scale, fit, column
        if key not in self._kept:
            self._kept[key] = self._curves(scale, fit, column)
        return self._kept[key]

    def _curves(self, scale, fit, column):
        if (scale, fit) not in self._draws:
            raise Missing(f"draws of {fit} on the {scale} data")
        wide = self._draws[scale, fit].pivot(
            index="draw", columns=["sigma3", "source"], values=column
        )
        wide = wide.dropna().sort_index(axis=1)
        if len(wide) < 2:
            raise Missing(f"two draws of {fit} on the {scale} data")
        return wide.set_axis([f"{scale} {draw}" for draw in wide.index])

    def sweep(self, scale, fit, column="auc", source=None):
        """A row for each draw and a column for each sigma3, of one source or of their mean."""
        wide = self.curves(scale, fit, column)
        if wide.columns.get_level_values("sigma3").nunique() < 4:
            raise Missing(f"a sweep over sigma3 of {fit} on the {scale} data")
        return (
            wide.T.groupby(level="sigma3").mean().T
            if source is None
            else wide.xs(source, axis=1, level="source")
        )

    def at_table(self, scale, fit, column="auc"):
        """A row for each draw and a column for each source, at the sigma3 of the paper's tables."""
        wide = self.curves(scale, fit, column)
        if TABLE_SIGMA3 not in wide.columns.get_level_values("sigma3"):
            raise Missing(f"sigma3 = {TABLE_SIGMA3:g} of {fit} on the {scale} data")
        return wide[TABLE_SIGMA3]

    def gaps(self, scale, one, other, label="", column="auc"):
        """One fit over another in each source, draw by draw, at the sigma3 of the tables."""
        gap = (self.at_table(scale, one, column) - self.at_table(scale, other, column)).dropna()
        printed = self.print_gap(scale, one, other)
        return [
            Effect(
                f"{label} source {c}".strip(),
                gap[c],
                None if printed is None else float(printed[i]),
            )
            for i, c in enumerate(gap.columns)
        ]

    def time_ratios(self, scale, slow, fast):
        """The logarithm of the ratio of times, draw by draw, at the sigma3 of the tables."""
        ratio = np.log(
            self.at_table(scale, slow, "seconds")[1] / self.at_table(scale, fast, "seconds")[1]
        ).dropna()
        printed = self.print_gap(scale, slow, fast, "seconds")
        label = f"{slow} / {fast} on {scale}"
        return [Effect(label, ratio, None if printed is None else float(printed[0]), times)]

    # restarts on one data set

    def real_families(self):
        """All real data of the run, filtered ones too."""
        return [name for name in self.runs if catalogue.family(name).kind != "synthetic"]

    def fit_runs(self, family, fit):
        table = self.runs.get(family)
        if table is None or table.empty or fit not in set(table["fit"]):
            raise Missing(f"{fit} on {family}")
        return table[table["fit"] == fit]

    def restarts(self, family, fit, column="auc"):
        """The mean of a column over the best restarts in each source, and its resamples over the
        restarts.
        """
        key = family, fit, column
        if key not in self._kept:
            self._kept[key] = self._resampled(*key)
        return self._kept[key]

    def _resampled(self, family, fit, column):
        table = self.fit_runs(family, fit)
        wide = table.pivot(index="seed", columns="source", values=column)
        if len(wide) < FEWEST_RESTARTS:
            raise Missing(f"{FEWEST_RESTARTS} restarts of {fit} on {family}")
        first = table.drop_duplicates("seed").set_index("seed").loc[wide.index]
        seed = [statistics.SEED, zlib.crc32(f"{family} {fit}".encode())]
        chosen = wide[first["chosen"].astype(bool)].to_numpy()
        samples = statistics.resample_best(first["objective"], wide, len(chosen), seed)
        names = tuple(
            table.drop_duplicates("source").sort_values("source")["source_name"].astype(str)
        )
        return Resampled(chosen.mean(axis=0), samples, names, chosen)

    def score(self, family, fit, *, matched=False):
        """AUC of the memberships as they are or scaled to sum to one, whichever is better in the
        mean.
        """
        name = "matched" if matched else "auc"
        raw, scaled = (self.restarts(family, fit, name + end) for end in ("", "_scaled"))
        return scaled if scaled.point.mean() > raw.point.mean() else raw

    def best_competitor(self, family, names=COMPETITORS, *, matched=False, by_source=False):
        """The best score of the others, and the name of the one that is best in the mean."""
        scores = {}
        for name in names:
            try:
                scores[name] = self.score(family, name, matched=matched)
            except Missing:
                continue
        if not scores:
            raise Missing(f"competitors on {family}")
        best = max(scores, key=lambda name: scores[name].point.mean())
        return best, best_of([one if by_source else one.mean() for one in scores.values()])

    def run_time_ratio(self, family, slow, fast):
        """The logarithm of the ratio of times over the best restarts."""
        printed = self.print_gap(family, slow, fast, "seconds")
        return restart_effects(
            f"{slow} / {fast} on {family}",
            lambda a, b: np.log(a / b),
            *(self.restarts(family, fit, "seconds").mean() for fit in (slow, fast)),
            printed=None if printed is None else printed[:1],
            form=times,
        )

    # traces of ADVI

    def traces(self):
        """The trace of every draw, with rows in the order of the iterations."""
        if self.advi.empty or self.advi["draw"].nunique() < 2:
            raise Missing("traces of ADVI on two draws")
        return {
            f"small {draw}": one.sort_values("iteration") for draw, one in self.advi.groupby("draw")
        }
