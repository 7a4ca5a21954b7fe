"""How memberships are associated with what is known about samples: metadata, and the source.

For metadata, sources are strata: a column is never called associated because it differs between
sources, which differ in much else.  Within every source, memberships and numbers become ranks
r / (n + 1), and categories become indicators.  With both centred, a_j the ranks of a component and
b_j those of a number or the indicators of a sample,

    S = sum_c sum_j a_j b_j,    V = sum_c sum_j a_j^2 / (n_c - 1) sum_j b_j b_j'
    Q = S' V^-1 S ~ chi2(rank of V)

is the generalised Cochran-Mantel-Haenszel statistic.  For one source it is that of Kruskal and
Wallis for categories, and n - 1 times the square of Spearman's correlation for numbers.  The
strength of an association is sqrt(Q / (N - C)).

`by_source` has the shares of the components in every source, and how well the sources mix.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc, stdtrit

from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition, component_names

COLUMNS = ["component", "column", "n", "strength", "highest_at", "p_value"]
MOST_SAMPLES = 5000
"""Of more, every second, third, ... has its neighbours looked up."""
NEIGHBOURS = 15
"""How many neighbours of a sample count for mixing; report/pages.py names the number."""


def associations(
    memberships: Sequence[np.ndarray], metadata: Sequence[pd.DataFrame | None]
) -> pd.DataFrame:
    """One row for each component and column, best first; q is p after Benjamini and Hochberg.

    Columns that do not vary within a source, and text that differs in most samples, are left out.
    """
    counts = [h.shape[1] for h in memberships]
    frames = [
        pd.DataFrame(index=range(n)) if frame is None else frame
        for n, frame in zip(counts, metadata, strict=True)
    ]
    h = pd.DataFrame(np.hstack(memberships).T)
    source = np.repeat(np.arange(len(counts)), counts)
    rows = []
    for name, column in pd.concat(frames, ignore_index=True).items():
        is_number = column.dtype.kind in "iuf"
        column = column.dropna()
        if is_number or column.nunique() <= len(column) / 2:
            rows += _rows(str(name), column, is_number, h, source[column.index])
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(
        ["p_value", "strength"], ascending=[True, False], kind="stable", ignore_index=True
    )
    return table.assign(q_value=false_discovery_rates(table["p_value"]))


def false_discovery_rates(p_values: Any) -> np.ndarray:
    """q after Benjamini and Hochberg.  scipy.stats, which has it, takes half a second to import."""
    p = pd.Series(np.asarray(p_values, dtype=float))
    raised = p * len(p) / p.rank(method="max")
    from_largest = p.sort_values(ascending=False).index
    return raised[from_largest].cummin().clip(upper=1).sort_index().to_numpy()


def _rows(name, column, is_number, h, source):
    """The rows of one column for every component with which it can be compared."""
    h = h.loc[column.index]
    n = np.bincount(source)[source][:, None]
    ranks = h.groupby(source).rank() / (n + 1)
    if is_number:
        design = column.to_frame().astype(float)
        scores = design.groupby(source).rank() / (n + 1)
    else:
        design = pd.get_dummies(column.astype(str)).astype(float)
        scores = design
    a, b = (part - part.groupby(source).transform("mean") for part in (ranks, scores))
    freedom = np.maximum(np.bincount(source)[np.unique(source)] - 1, 1)
    weights = (a**2).groupby(source).sum().div(freedom, axis=0)
    within = [block.T.to_numpy() @ block.to_numpy() for _, block in b.groupby(source)]
    tolerance: Any = {"hermitian": True, "rtol": 1e-10}
    for k, sums in enumerate((b.T.to_numpy() @ a.to_numpy()).T):
        variance = np.tensordot(weights[k], within, axes=1)
        rank = np.linalg.matrix_rank(variance, **tolerance)
        if rank:
            q = sums @ np.linalg.pinv(variance, **tolerance) @ sums
            highest_at = str(design.columns[np.argmax(sums / design.sum())])
            if is_number:
                highest_at = "high" if sums[0] > 0 else "low"
            strength = np.sqrt(q / (len(source) - len(within)))
            yield f"C{k + 1}", name, len(source), strength, highest_at, chdtrc(rank, q)


def by_source(result: Decomposition, names: list[str]) -> pd.DataFrame:
    """A row for each component and source: component, source, share, low, high, and the tests.

    The share is the mean membership; low and high are the ends of a 90 % confidence interval for
    independent samples, which counts what the posterior leaves open about each of them.  strength,
    p_value and q_value belong to the component: the Kruskal-Wallis test of whether its
    memberships differ between the sources.  mixing belongs to the source.
    """
    every = np.hstack(result.memberships)
    source = np.repeat(names, [h.shape[1] for h in result.memberships])
    tests = associations([every], [pd.DataFrame({"source": source})]).set_index("component")
    step = ceil(every.shape[1] / MOST_SAMPLES)
    mixed = mixing([h[:, ::step] for h in result.memberships])
    parts = []
    for c, h in enumerate(result.memberships):
        n = h.shape[1]
        variance = np.var(h, axis=1, ddof=1) if n > 1 else np.full(len(h), np.nan)
        if result.posterior is not None and result.posterior.memberships:
            variance += (result.posterior.memberships[c].sd ** 2).mean(axis=1)
        half = stdtrit(max(n - 1, 1), 0.95) * np.sqrt(variance / n)
        share = h.mean(axis=1)
        columns = {
            "component": component_names(len(h)),
            "source": names[c],
            "share": share,
            "low": np.maximum(share - half, 0),
            "high": share + half,
            "mixing": mixed[c],
        }
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts).sort_index(kind="stable", ignore_index=True)
    return table.join(tests[["strength", "p_value", "q_value"]], on="component")


def mixing(memberships: list[np.ndarray]) -> np.ndarray:
    """For each source, the share of nearest neighbours from other sources, relative to chance.

    1 means that the samples are mixed with those of the other sources, 0 that they are apart.
    Samples are shuffled, so that among equal memberships (K-means) the neighbours are random.
    """
    sizes = [h.shape[1] for h in memberships]
    order = np.random.default_rng(0).permutation(sum(sizes))
    source = np.repeat(np.arange(len(sizes)), sizes)[order]
    near = _nearest(np.hstack(memberships).T[order], min(NEIGHBOURS, len(order) - 1))
    scores = np.full(len(sizes), np.nan)
    for c, size in enumerate(sizes):
        if size < len(order):
            chance = (len(order) - size) / (len(order) - 1)
            scores[c] = (source[near[source == c]] != c).mean() / chance
    return scores


def _nearest(points: np.ndarray, n: int) -> np.ndarray:
    """The n nearest others of every point.  Libraries that find them take a second to import."""
    squares = (points**2).sum(axis=1)
    neighbours = []
    for rows in predictive.blocks(len(points), len(points)):
        distance = squares - 2 * points[rows] @ points.T
        np.fill_diagonal(distance[:, rows], np.inf)
        neighbours.append(np.argpartition(distance, n - 1, axis=1)[:, :n])
    return np.concatenate(neighbours)
