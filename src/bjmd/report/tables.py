"""The tables of one fit: the data frames behind its files, its figures and its text.

Components are called C1, C2, ... in the order of the result.  `results` are the restarts of one
method, best first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import compress
from math import floor, log10
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from bjmd.analysis import ranking as ranks
from bjmd.model import BY_SOURCE
from bjmd.results.decomposition import Decomposition, component_names, match

if TYPE_CHECKING:
    from bjmd.analysis.consensus import Consensus
    from bjmd.analysis.fitting import Summary

LEVEL = 0.9
"""Of all credible intervals in figures and tables."""
NO_SHIFT = 0.01
"""Offsets of less than this share of the noise sd are not worth showing."""
SMALLEST_P = 1e-16
FORMULA_MARKS = tuple("=+-@|\uff1d\uff0b\uff0d\uff20")
"""With which a formula may begin in a spreadsheet; the last four are full-width = + - @."""
INTERVAL = f"{100 * LEVEL:.0f} % credible interval"
CELLS = {
    "variance_explained": {"Source": "{source}", "Total": "{total:z.1%}"},
    "residuals": {
        "Source": "{source}",
        "Features, 90 % between": "{features_from:.2f} to {features_to:.2f}",
        "Samples, 90 % between": "{samples_from:.2f} to {samples_to:.2f}",
        "Beyond 5 sd": "{n_far:,}",
        "Largest": "{largest:.1f}",
        "Where": "{feature}, {sample}",
    },
    "associations": {
        "Component": "{component}",
        "Metadata": "{column}",
        "Samples": "{n:,}",
        "Strength": "{strength:.2f}",
        "Highest at": "{highest_at}",
        "p": "{p_value}",
        "q": "{q_value}",
    },
    "consensus": {
        "Component": "{component}",
        "Restarts with it": "{share:.0%}",
        "Spread": "{spread:.2f}",
        "Correlation with best": "{correlation_with_best:.2f}",
    },
    "check": {
        "Option": "{option}",
        "Memberships move": "{moved:.2f}",
        "Density gain": "{density_gain:+z.4f} ± {standard_error:.4f}",
        "t": "{t:z.1f}",
        "R²": "{r2:.2f}",
        "Verdict": "{verdict}",
    },
}
"""The cells of the tables in the text, from the columns of those in the files."""


@dataclass
class Named:
    """What a report needs to know about the data; `Sources` would do as well."""

    names: list[str]
    feature_names: list[str]
    sample_names: list[list[str]]
    n_missing: list[int]
    labels: list[np.ndarray] | None
    class_names: list[str]

    @classmethod
    def of(cls, data: Any) -> Self:
        return cls(**{field.name: getattr(data, field.name) for field in fields(Named)})

    def to_json(self) -> dict[str, Any]:
        """For json; the labels as lists of the classes of every sample, by number."""
        content = {field.name: getattr(self, field.name) for field in fields(Named)}
        if self.labels is not None:
            content["labels"] = [
                [np.flatnonzero(sample).tolist() for sample in block.T] for block in self.labels
            ]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        named = cls(**{field.name: content[field.name] for field in fields(Named)})
        classes = range(len(named.class_names))
        if named.labels is not None:
            named.labels = [
                np.array([[k in sample for sample in block] for k in classes])
                for block in named.labels
            ]
        return named


def by_component(values: np.ndarray, rows: Sequence, what: str) -> pd.DataFrame:
    """Numbers with a row for each sample or feature (`what`) and a column for each component."""
    return pd.DataFrame(values, pd.Index(rows, name=what), component_names(values.shape[1]))


def shares(memberships: np.ndarray) -> np.ndarray:
    """Memberships that sum to 1 in every sample; those of BJMD do, those of NMF are scaled."""
    total = memberships.sum(axis=0)
    return memberships / np.where(total > 0, total, 1)


def number(value: float, digits: int = 3) -> str:
    """A number as people write it: 4,000 and 0.0021, and 1.2e-09 only where it is tiny or huge.

    What was rounded shows all its digits: 0.7998 is 0.80.
    """
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    rounded = float(f"{value:.{digits}g}")
    if rounded == value:
        return f"{rounded:,}".removesuffix(".0")
    decimals = digits - 1 - floor(log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


def p_value(p: float) -> str:
    return f"< {SMALLEST_P:g}" if p < SMALLEST_P else number(p, 2)


def shifts(data: Named, best: Decomposition) -> pd.DataFrame:
    """The offsets of the sources that have any worth showing."""
    if best.model is None or best.model.offsets is None:
        return pd.DataFrame()
    sizes = np.sqrt((best.model.offsets**2).mean(axis=1))
    is_shifted = sizes >= NO_SHIFT * np.asarray(best.noise)
    of_source = dict(iter(extensions(data, best)["offsets"].groupby("source")))
    shifted = [of_source[name] for name in compress(data.names, is_shifted)]
    return pd.concat(shifted) if shifted else pd.DataFrame()


def of_fit(data: Named, results: list[Decomposition]) -> dict[str, pd.DataFrame]:
    """The tables of a fit other than its components and memberships, by name."""
    best = results[0]
    ranked = ranking(data, best)
    frames = {
        "ranking": ranked,
        "top_features": top_features(ranked),
        "restarts": restarts(results),
        **extensions(data, best),
    }
    if best.posterior:
        sd = best.posterior.components.sd
        frames["components_sd"] = by_component(sd, data.feature_names, "feature")
    if best.noise is not None:
        frames["noise"] = noise(data, best)
    return frames


def of_summary(data: Named, summary: Summary) -> dict[str, pd.DataFrame]:
    """What was asked about a fit, as tables by name."""
    explained = summary.variance_explained
    agreed = summary.consensus
    frames = {
        "components_by_source": summary.by_source,
        "variance_explained": None if explained is None else variance_explained(data, explained),
        "associations": summary.associations,
        "residuals": summary.residuals,
        "consensus": None if agreed is None else consensus(summary.results[0], agreed),
    }
    return {name: table for name, table in frames.items() if table is not None}


def ranking(data: Named, best: Decomposition) -> pd.DataFrame:
    """All features of every component: those above the other components, then those below.

    Each direction begins with the features that differ most.
    """
    w = best.components
    others = ranks.mean_of_others(w)
    scores = ranks.scores(best)
    low = high = z = np.full_like(w, np.nan)
    if best.posterior:
        low, high = best.posterior.components.interval(LEVEL)
        z = scores
    columns = {
        "difference": w - others,
        "z": z,
        "value": w,
        "low": low,
        "high": high,
        "mean_of_others": others,
    }
    n_features, n_components = w.shape
    scores = scores.T.ravel()
    table = pd.DataFrame(
        {
            "component": np.repeat(component_names(n_components), n_features),
            "direction": np.where(scores > 0, "up", "down"),
            "feature": np.tile(np.array(data.feature_names, dtype=object), n_components),
            **{name: values.T.ravel() for name, values in columns.items()},
        }
    )
    component = np.repeat(np.arange(n_components), n_features)
    order = np.lexsort((-np.abs(scores), scores <= 0, component))
    table = table.iloc[order].reset_index(drop=True)
    table.insert(2, "rank", table.groupby(["component", "direction"]).cumcount() + 1)
    return table


def highest_ranked(data: Named, best: Decomposition, n_features: int) -> pd.DataFrame:
    """So many features of every component up, and so many down, and their mean in the data."""
    table = ranking(data, best)
    table = table[table["rank"] <= n_features]
    mean = pd.Series(ranks.mean_sample(best), data.feature_names)
    return table.assign(mean=table["feature"].map(mean))


def scores(ranked: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The features of every component and their scores, z or the difference, the highest first."""
    scored = ranked.assign(score=ranked["z"].fillna(ranked["difference"]))
    scored = scored.sort_values("score", ascending=False, kind="stable")
    return {name: part[["feature", "score"]] for name, part in scored.groupby("component")}


def top_features(ranked: pd.DataFrame, n_features: int = 20) -> pd.DataFrame:
    """The features of a ranking that set each component apart, whichever way."""
    size = ranked["z"].fillna(ranked["difference"]).abs()
    order = np.lexsort((-size, ranked["component"].str[1:].astype(int)))
    top = ranked.iloc[order].groupby("component").head(n_features)
    columns = ["component", "feature", "value", "low", "high", "mean_of_others"]
    return top[columns].reset_index(drop=True)


def noise(data: Named, best: Decomposition) -> pd.DataFrame:
    """The noise sd of every source, with its posterior sd and interval where known."""
    factor = best.posterior and best.posterior.noise
    table = pd.DataFrame({"source": data.names, "noise": best.noise})
    table["sd"] = factor.sd if factor else np.nan
    table["low"], table["high"] = factor.interval(LEVEL) if factor else (np.nan, np.nan)
    if best.model is not None and best.model.degrees_of_freedom is not None:
        table["degrees_of_freedom"] = best.model.degrees_of_freedom
    return table


def extensions(data: Named, best: Decomposition) -> dict[str, pd.DataFrame]:
    """What a fit with another noise model, offsets or a learned Dirichlet estimates besides."""
    model = best.model
    frames: dict[str, pd.DataFrame] = {}
    if model is None:
        return frames
    if model.feature_precision is not None:
        frames["feature_noise"] = pd.DataFrame(
            {"feature": data.feature_names, "relative_sd": model.feature_precision**-0.5}
        )
    if model.sample_precision is not None:
        frames["sample_noise"] = pd.DataFrame(
            {
                "source": np.repeat(data.names, [len(names) for names in data.sample_names]),
                "sample": [name for names in data.sample_names for name in names],
                "relative_sd": np.concatenate(model.sample_precision) ** -0.5,
            }
        )
    if model.offsets is not None and model.offsets_sd is not None:
        frames["offsets"] = offsets(data, model.offsets, model.offsets_sd)
    if best.options.get("alpha0") == BY_SOURCE:
        frames["dirichlet"] = by_component(model.alpha0, data.names, "source").reset_index()
    return frames


def offsets(data: Named, means: np.ndarray, sds: np.ndarray) -> pd.DataFrame:
    """source, feature, offset, sd and z; the largest z first."""
    columns = {"offset": means, "sd": sds, "z": means / np.where(sds > 0, sds, np.inf)}
    table = pd.DataFrame(
        {
            "source": np.repeat(data.names, means.shape[1]),
            "feature": np.tile(np.array(data.feature_names, dtype=object), len(means)),
            **{name: values.ravel() for name, values in columns.items()},
        }
    )
    return table.iloc[np.argsort(-np.abs(table["z"]), kind="stable")].reset_index(drop=True)


def variance_explained(data: Named, shares: np.ndarray) -> pd.DataFrame:
    """source, total and a column for each component; shares as in analysis/variance.py."""
    table = by_component(shares, data.names, "source")
    table.insert(0, "total", shares.sum(axis=1))
    return table.reset_index()


def consensus(best: Decomposition, agreed: Consensus) -> pd.DataFrame:
    """What the restarts agree on, one row per component."""
    return pd.DataFrame(
        {
            "component": component_names(best.n_components),
            "share": agreed.share,
            "spread": agreed.spread,
            "correlation_with_best": match(agreed.result, best)[1],
        }
    )


def restarts(results: list[Decomposition]) -> pd.DataFrame:
    """How every restart ended."""
    fields = ("seed", "objective", "converged", "reason", "seconds")
    return pd.DataFrame([{field: getattr(result, field) for field in fields} for result in results])


def sources_as_text(data: Named, best: Decomposition) -> pd.DataFrame:
    """The sources and their noise, in text cells."""
    columns = {
        "Source": list(data.names),
        "Samples": [f"{len(names):,}" for names in data.sample_names],
    }
    if any(data.n_missing):
        columns["Missing entries"] = [f"{n:,}" for n in data.n_missing]
    if best.noise is not None:
        levels = noise(data, best)
        columns["Noise sd"] = [number(sd, 4) for sd in levels["noise"]]
        if levels["low"].notna().all():
            ends = zip(levels["low"], levels["high"], strict=True)
            columns[INTERVAL] = [f"{number(low, 4)} to {number(high, 4)}" for low, high in ends]
        if "degrees_of_freedom" in levels:
            columns["Degrees of freedom"] = [number(nu) for nu in levels["degrees_of_freedom"]]
    return pd.DataFrame(columns)


def components_in_brief(data: Named, best: Decomposition) -> pd.DataFrame:
    """The components, their shares and the names of the features most above the others."""
    top = highest_ranked(data, best, 6)
    up = top[top["direction"] == "up"].groupby("component")["feature"].agg(", ".join)
    names = component_names(best.n_components)
    return pd.DataFrame(
        {
            "Component": names,
            "Share": [f"{100 * share:.1f} %" for share in mean_shares(best)],
            "Features that are up": [up.get(name, "–") for name in names],
        }
    )


def mean_shares(best: Decomposition) -> np.ndarray:
    """The mean share of every component in the samples."""
    return np.hstack([shares(h) for h in best.memberships]).mean(axis=1)


def components_as_text(data: Named, best: Decomposition) -> pd.DataFrame:
    """The components, their shares and the features that set them apart, in text cells."""
    share_of = dict(zip(component_names(best.n_components), mean_shares(best), strict=True))
    top = highest_ranked(data, best, 6)
    rows = []
    for (component, direction), part in top.groupby(["component", "direction"], sort=False):
        features = ", ".join(
            f"{row.feature} ({_signed(row.value - row.mean)}; {number(row.value, 2)})"
            for row in part.itertuples()
        )
        rows.append((component, f"{100 * share_of[component]:.1f} %", direction, features))
    return pd.DataFrame(rows, columns=["Component", "Share", "Direction", "Features"])


def offsets_as_text(table: pd.DataFrame, n_features: int = 8) -> pd.DataFrame:
    """The features in which each source is shifted most, in text cells."""
    rows = []
    for source, part in table.groupby("source", sort=False):
        for direction, is_so in (("up", part["offset"] > 0), ("down", part["offset"] < 0)):
            words = [
                f"{row.feature} ({_signed(row.offset)} ± {row.sd:.1g})"
                for row in part[is_so][:n_features].itertuples()
            ]
            rows.append((source, direction, ", ".join(words) or "–"))
    return pd.DataFrame(rows, columns=["Source", "Shifted", "Features"])


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{number(value, 2)}"


def answer_as_text(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table of `of_summary`, or of a check, in text cells under headings in words."""
    if name == "components_by_source":
        return _by_source_as_text(table)
    cells = dict(CELLS[name])
    if name == "variance_explained":
        cells |= {component: f"{{{component}:z.1%}}" for component in table.columns[2:]}
    for column in {"p_value", "q_value"}.intersection(table):
        table = table.assign(**{column: table[column].map(p_value)})
    rows = [
        {heading: cell.format(**row) for heading, cell in cells.items()}
        for row in table.to_dict("records")
    ]
    text = pd.DataFrame(rows, columns=list(cells))
    return text.map(lambda cell: cell.replace("%", " %") if cell.endswith("%") else cell)


def _by_source_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each component; with many sources there is no room for intervals."""
    sources = table["source"].unique()
    percent = 100 * table[["share", "low", "high"]]
    cell = "{:.1f} % ({:.1f} to {:.1f})" if len(sources) <= 4 else "{:.1f} %"
    cells = [cell.format(*row) for row in percent.itertuples(index=False)]
    text = pd.DataFrame(np.reshape(cells, (-1, len(sources))), columns=sources)
    tests = table.drop_duplicates("component", ignore_index=True)
    text.insert(0, "Component", tests["component"])
    return text.assign(
        Strength=tests["strength"].map("{:.2f}".format), q=tests["q_value"].map(p_value)
    )


def markdown(table: pd.DataFrame) -> str:
    """A table of text cells in Markdown."""
    lines = [table.columns, ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a ' before every text that a spreadsheet would run as a formula."""

    def quoted(value: Any) -> Any:
        is_formula = isinstance(value, str) and value.startswith(FORMULA_MARKS)
        return f"'{value}" if is_formula else value

    texts = table.select_dtypes(exclude="number").map(quoted)
    return table.assign(**texts).rename(index=quoted)
