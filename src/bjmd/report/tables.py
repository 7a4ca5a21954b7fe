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
from bjmd.model import LEARNED
from bjmd.results.decomposition import Decomposition

if TYPE_CHECKING:
    from bjmd.analysis.check import Finding
    from bjmd.analysis.consensus import Consensus

LEVEL = 0.9
"""Of all credible intervals in figures and tables."""


class Named(Protocol):
    """What a report needs to know about the data; `Sources` has it, and so has a fit that was read
    from its folder.
    """

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
    """Numbers with a named row for each sample or feature (`what`) and a column for each component."""
    return pd.DataFrame(
        values, pd.Index(rows, name=what), [f"C{k + 1}" for k in range(values.shape[1])]
    )


def shares(memberships: np.ndarray) -> np.ndarray:
    """Memberships that sum to 1 in every sample; those of BJMD do already, those of NMF and its kin
    are scaled.
    """
    total = memberships.sum(axis=0)
    return memberships / np.where(total > 0, total, 1)


def polygon(n: int) -> np.ndarray:
    """The corners of a regular polygon around 0, the first at the top and the others clockwise, n x
    2.
    """
    angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angles), np.sin(angles)])


def top_features(components: np.ndarray, component: int, n_features: int) -> np.ndarray:
    """The features that set a component apart, by their distance from the mean over the other
    components.

    Not the largest entries: where the data have an offset, those are the same features in every
    component.
    """
    others = mean_of_others(components, component)
    return np.argsort(-np.abs(components[:, component] - others), kind="stable")[:n_features]


def top_features_table(data: Named, best: Decomposition, n_features: int = 20) -> pd.DataFrame:
    """The features that set each component apart, those that do so most first, with intervals where
    there are any.
    """
    low, high = (
        best.posterior.components.interval(LEVEL)
        if best.posterior
        else 2 * [np.full_like(best.components, np.nan)]
    )
    w = best.components
    rows = []
    for k, name in enumerate(component_names(best)):
        tops = top_features(w, k, n_features)
        rows += [
            (name, data.feature_names[i], w[i, k], low[i, k], high[i, k], mean_of_others(w, k)[i])
            for i in tops
        ]
    return pd.DataFrame(
        rows, columns=["component", "feature", "value", "low", "high", "mean_of_others"]
    )


def mean_of_others(components: np.ndarray, component: int) -> np.ndarray:
    """The mean of every feature over the other components; 0 if there is no other."""
    others = np.delete(components, component, axis=1)
    return others.mean(axis=1) if others.shape[1] else np.zeros(len(components))


def noise(data: Named, best: Decomposition) -> pd.DataFrame:
    """source, noise, sd, low, high: the last three from the posterior, NaN for a point estimate;
    degrees_of_freedom.
    """
    factor = best.posterior and best.posterior.noise
    sd, (low, high) = (factor.sd, factor.interval(LEVEL)) if factor else (np.nan, (np.nan, np.nan))
    table = pd.DataFrame(
        {"source": data.names, "noise": best.noise, "sd": sd, "low": low, "high": high}
    )
    if best.model is not None and best.model.degrees_of_freedom is not None:
        table["degrees_of_freedom"] = best.model.degrees_of_freedom
    return table


def beyond_the_paper(data: Named, best: Decomposition) -> dict[str, pd.DataFrame]:
    """What a fit with another noise model, offsets or a learned Dirichlet knows besides, by name."""
    model = best.model
    found: dict[str, pd.DataFrame] = {}
    if model is None:
        return found
    if model.feature_precision is not None:
        found["feature_noise"] = pd.DataFrame(
            {"feature": data.feature_names, "times": model.feature_precision**-0.5}
        )
    if model.sample_precision is not None:
        sources = [
            name
            for name, samples in zip(data.names, data.sample_names, strict=True)
            for _ in samples
        ]
        samples = [sample for samples in data.sample_names for sample in samples]
        times = np.concatenate(model.sample_precision) ** -0.5
        found["sample_noise"] = pd.DataFrame({"source": sources, "sample": samples, "times": times})
    if model.offsets is not None and model.offsets_sd is not None:
        rows = pd.MultiIndex.from_product(
            [data.names, data.feature_names], names=["source", "feature"]
        )
        offsets = {"offset": model.offsets.ravel(), "sd": model.offsets_sd.ravel()}
        found["offsets"] = pd.DataFrame(offsets, rows).reset_index()
    if best.options.get("alpha0") == LEARNED:
        found["dirichlet"] = by_component(model.alpha0, data.names, "source").reset_index()
    return found


def variance_explained(data: Named, shares: np.ndarray) -> pd.DataFrame:
    """source, total and a column for each component; shares as in analysis/variance.py."""
    table = by_component(shares, data.names, "source")
    table.insert(0, "total", shares.sum(axis=1))
    return table.reset_index()


def consensus(best: Decomposition, found: Consensus) -> pd.DataFrame:
    """What the restarts agree on, one row a component."""
    columns = {
        "share": found.share,
        "spread": found.spread,
        "likeness_to_best": match(found.result, best)[1],
    }
    return pd.DataFrame({"component": component_names(best), **columns})


def findings(findings: list[Finding]) -> pd.DataFrame:
    """What a check found."""
    fields = ("name", "alarm", "statistic", "threshold", "p_value", "where", "sentence")
    table = pd.DataFrame([{field: getattr(one, field) for field in fields} for one in findings])
    return table.assign(where=table["where"].str.join("; ")).rename(columns={"name": "finding"})


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
            intervals = [f"{row.low:.4g} to {row.high:.4g}" for row in levels.itertuples()]
            columns[f"{100 * LEVEL:.0f} % credible interval"] = intervals
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


def markdown(table: pd.DataFrame) -> str:
    """A table of text cells in Markdown."""
    lines = [table.columns, ["---"] * table.shape[1], *table.to_numpy().tolist()]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def harmless(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a ' before every text that a spreadsheet would run as a formula."""

    def quoted(value: Any) -> Any:
        return (
            f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
        )

    texts = {
        name: table[name].map(quoted)
        for name in table
        if not pd.api.types.is_numeric_dtype(table[name])
    }
    return table.assign(**texts).rename(index=quoted)
