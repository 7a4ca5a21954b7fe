"""The tables of one fit: the data frames behind its files, its figures and its text.

Components are called C1, C2, ... in the order of the result.  `results` are the restarts of one
method, best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from bjmd.analysis.matching import match
from bjmd.model import BY_SOURCE
from bjmd.results.decomposition import Decomposition

if TYPE_CHECKING:
    from bjmd.analysis.consensus import Consensus
    from bjmd.analysis.summary import Summary

LEVEL = 0.9
"""Of all credible intervals in figures and tables."""
NO_SHIFT = 0.01
"""Offsets of less than this share of the noise sd are not worth showing."""
INTERVAL = f"{100 * LEVEL:.0f} % credible interval"


class Named(Protocol):
    """What a report needs to know about the data: `Sources` has it, and so does a loaded output."""

    names: list[str]
    feature_names: list[str]
    sample_names: list[list[str]]
    n_missing: list[int]
    labels: list[np.ndarray] | None
    class_names: list[str]


def component_names(result: Decomposition) -> list[str]:
    """C1, C2, ... in the order of the result."""
    return [f"C{k + 1}" for k in range(result.n_components)]


def by_component(values: np.ndarray, rows: Sequence, what: str) -> pd.DataFrame:
    """Numbers with a row for each sample or feature (`what`) and a column for each component."""
    columns = [f"C{k + 1}" for k in range(values.shape[1])]
    return pd.DataFrame(values, pd.Index(rows, name=what), columns)


def shares(memberships: np.ndarray) -> np.ndarray:
    """Memberships that sum to 1 in every sample; those of BJMD do, those of NMF are scaled."""
    total = memberships.sum(axis=0)
    return memberships / np.where(total > 0, total, 1)


def polygon(n: int) -> np.ndarray:
    """The corners of a regular polygon around 0, clockwise from the top, n x 2."""
    angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


def top_features(components: np.ndarray, component: int, n_features: int) -> np.ndarray:
    """The features that set a component apart: those farthest from their mean over the others.

    The largest entries would not do: where the data have an offset, they are the same features in
    every component.
    """
    others = mean_of_others(components, component)
    return np.argsort(-np.abs(components[:, component] - others), kind="stable")[:n_features]


def mean_of_others(components: np.ndarray, component: int) -> np.ndarray:
    """The mean of every feature over the other components; 0 if there is no other."""
    others = np.delete(components, component, axis=1)
    return others.mean(axis=1) if others.shape[1] else np.zeros(len(components))


def is_shifted(best: Decomposition) -> bool:
    """Whether any source has offsets that are worth showing."""
    if best.model is None or best.model.offsets is None:
        return False
    sizes = np.sqrt((best.model.offsets**2).mean(axis=1))
    return bool((sizes >= NO_SHIFT * np.asarray(best.noise)).any())


def of_fit(data: Named, results: list[Decomposition]) -> dict[str, pd.DataFrame]:
    """The tables of a fit other than its components and memberships, by name."""
    best = results[0]
    found = {"top_features": top_features_table(data, best), "restarts": restarts(results)}
    if best.posterior:
        sd = best.posterior.components.sd
        found["components_sd"] = by_component(sd, data.feature_names, "feature")
    if best.noise is not None:
        found["noise"] = noise(data, best)
    return found | extensions(data, best)


def of_summary(data: Named, summary: Summary) -> dict[str, pd.DataFrame]:
    """What was asked about a fit, as tables by name."""
    found = {}
    if summary.variance_explained is not None:
        found["variance_explained"] = variance_explained(data, summary.variance_explained)
    if summary.associations is not None:
        found["associations"] = summary.associations
    if summary.residuals is not None:
        found["residuals"] = summary.residuals
    if summary.consensus is not None:
        found["consensus"] = consensus(summary.results[0], summary.consensus)
    return found


def top_features_table(data: Named, best: Decomposition, n_features: int = 20) -> pd.DataFrame:
    """The features that set each component apart, with intervals where there are any."""
    w = best.components
    low = high = np.full_like(w, np.nan)
    if best.posterior:
        low, high = best.posterior.components.interval(LEVEL)
    parts = []
    for k, name in enumerate(component_names(best)):
        top = top_features(w, k, n_features)
        columns = {
            "component": name,
            "feature": [data.feature_names[i] for i in top],
            "value": w[top, k],
            "low": low[top, k],
            "high": high[top, k],
            "mean_of_others": mean_of_others(w, k)[top],
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def noise(data: Named, best: Decomposition) -> pd.DataFrame:
    """source, noise, and its posterior sd and interval (NaN for a point estimate).

    With robust noise there are also the degrees of freedom.
    """
    table = pd.DataFrame({"source": data.names, "noise": best.noise})
    factor = best.posterior and best.posterior.noise
    table["sd"] = factor.sd if factor else np.nan
    table["low"], table["high"] = factor.interval(LEVEL) if factor else (np.nan, np.nan)
    if best.model is not None and best.model.degrees_of_freedom is not None:
        table["degrees_of_freedom"] = best.model.degrees_of_freedom
    return table


def extensions(data: Named, best: Decomposition) -> dict[str, pd.DataFrame]:
    """What a fit with another noise model, offsets or a learned Dirichlet estimates besides."""
    model = best.model
    found: dict[str, pd.DataFrame] = {}
    if model is None:
        return found
    if model.feature_precision is not None:
        relative_sd = model.feature_precision**-0.5
        columns = {"feature": data.feature_names, "relative_sd": relative_sd}
        found["feature_noise"] = pd.DataFrame(columns)
    if model.sample_precision is not None:
        parts = []
        for c, (name, samples) in enumerate(zip(data.names, data.sample_names, strict=True)):
            relative_sd = model.sample_precision[c] ** -0.5
            columns = {"source": name, "sample": samples, "relative_sd": relative_sd}
            parts.append(pd.DataFrame(columns))
        found["sample_noise"] = pd.concat(parts, ignore_index=True)
    if model.offsets is not None and model.offsets_sd is not None:
        levels = [data.names, data.feature_names]
        rows = pd.MultiIndex.from_product(levels, names=["source", "feature"])
        columns = {"offset": model.offsets.ravel(), "sd": model.offsets_sd.ravel()}
        found["offsets"] = pd.DataFrame(columns, rows).reset_index()
    if best.options.get("alpha0") == BY_SOURCE:
        found["dirichlet"] = by_component(model.alpha0, data.names, "source").reset_index()
    return found


def variance_explained(data: Named, shares: np.ndarray) -> pd.DataFrame:
    """source, total and a column for each component; shares as in analysis/variance.py."""
    table = by_component(shares, data.names, "source")
    table.insert(0, "total", shares.sum(axis=1))
    return table.reset_index()


def consensus(best: Decomposition, agreed: Consensus) -> pd.DataFrame:
    """What the restarts agree on, one row per component."""
    return pd.DataFrame(
        {
            "component": component_names(best),
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
        columns["Noise sd"] = [f"{sd:.4g}" for sd in levels["noise"]]
        if levels["low"].notna().all():
            columns[INTERVAL] = [f"{row.low:.4g} to {row.high:.4g}" for row in levels.itertuples()]
        if "degrees_of_freedom" in levels:
            columns["Degrees of freedom"] = [f"{nu:.3g}" for nu in levels["degrees_of_freedom"]]
    return pd.DataFrame(columns)


def components_as_text(data: Named, best: Decomposition, n_features: int = 8) -> pd.DataFrame:
    """The components, their shares and the features that set them apart, in text cells."""
    memberships = np.hstack([shares(h) for h in best.memberships])
    rows = []
    for k, name in enumerate(component_names(best)):
        top = top_features(best.components, k, n_features)
        features = ", ".join(f"{data.feature_names[i]} ({best.components[i, k]:.3g})" for i in top)
        rows.append((name, f"{100 * memberships[k].mean():.1f} %", features))
    return pd.DataFrame(rows, columns=["Component", "Share", "Features"])


def answer_as_text(name: str, table: pd.DataFrame) -> pd.DataFrame:
    """A table of `of_summary`, or of a check, in text cells under headings in words."""

    def cells(column: str, form: str) -> list[str]:
        return [format(value, form) for value in table[column]]

    def ranges(what: str) -> list[str]:
        ends = zip(cells(f"{what}_from", ".2f"), cells(f"{what}_to", ".2f"), strict=True)
        return [f"{low} to {high}" for low, high in ends]

    match name:
        case "variance_explained":
            columns = {"Source": table["source"], "Total": cells("total", ".1%")}
            columns |= {component: cells(component, ".1%") for component in table.columns[2:]}
        case "residuals":
            columns = {
                "Source": table["source"],
                "Features, 90 % between": ranges("features"),
                "Samples, 90 % between": ranges("samples"),
                "Beyond 5 sd": cells("n_far", ","),
                "Largest": cells("largest", ".1f"),
                "Where": [f"{row.feature}, {row.sample}" for row in table.itertuples()],
            }
        case "associations":
            columns = {
                "Component": table["component"],
                "Metadata": table["column"],
                "Samples": cells("n", ","),
                "Strength": cells("strength", ".2f"),
                "Highest at": table["highest_at"],
                "p": cells("p_value", ".2g"),
                "q": cells("q_value", ".2g"),
            }
        case "consensus":
            columns = {
                "Component": table["component"],
                "Restarts with it": cells("share", ".0%"),
                "Spread": cells("spread", ".2f"),
                "Correlation with best": cells("correlation_with_best", ".2f"),
            }
        case _:  # a check
            gains = zip(cells("density_gain", "+.4f"), cells("standard_error", ".4f"), strict=True)
            columns = {
                "Option": table["option"],
                "Memberships move": cells("moved", ".2f"),
                "Density gain": [f"{gain} ± {error}" for gain, error in gains],
                "t": cells("t", ".1f"),
                "R²": cells("r2", ".2f"),
                "Verdict": table["verdict"],
            }
    text = pd.DataFrame(columns).astype(str)
    return text.map(lambda cell: cell.replace("%", " %") if cell.endswith("%") else cell)


def markdown(table: pd.DataFrame) -> str:
    """A table of text cells in Markdown."""
    lines = [table.columns, ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a ' before every text that a spreadsheet would run as a formula."""

    def quoted(value: Any) -> Any:
        is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@")
        return f"'{value}" if is_formula else value

    texts = {
        name: table[name].map(quoted)
        for name in table
        if not pd.api.types.is_numeric_dtype(table[name])
    }
    return table.assign(**texts).rename(index=quoted)
