"""Which columns of sample metadata are associated with which components.

Sources are strata: a column is never called associated because it differs between sources, which
differ in much else.  Within every source, memberships and numbers become ranks r / (n + 1), and
categories become indicators.  With both centred, a_j the ranks of a component and b_j those of a
number or the indicators of a sample,

    S = sum_c sum_j a_j b_j,    V = sum_c sum_j a_j^2 / (n_c - 1) sum_j b_j b_j'
    Q = S' V^-1 S ~ chi2(rank of V)

is the generalised Cochran-Mantel-Haenszel statistic.  For one source it is that of Kruskal and
Wallis for categories, and n - 1 times the square of Spearman's correlation for numbers.  The
strength of an association is sqrt(Q / (N - C)).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc

COLUMNS = ["component", "column", "n", "strength", "highest_at", "p_value"]


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
