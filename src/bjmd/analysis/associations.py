"""Which columns of sample metadata go along with which components.

Sources are strata: a column is never called associated because it differs between sources, which
differ in much else. Within every source, memberships and numbers become ranks r / (n + 1),
categories become indicators.  With both centred, a_j the ranks of a component and b_j those of a
number or the indicators of a sample,

    S = sum_c sum_j a_j b_j,      V = sum_c sum_j a_j^2 / (n_c - 1) sum_j b_j b_j',      Q = S' V^-1 S ~ chi2(rank of V)

is the generalised Cochran-Mantel-Haenszel statistic.  For one source it is that of Kruskal and
Wallis for categories, and n - 1 times the square of Spearman's correlation for numbers.  The
strength of an association is sqrt(Q / (N - C)).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import chdtrc


def associations(
    memberships: Sequence[np.ndarray], metadata: Sequence[pd.DataFrame | None]
) -> pd.DataFrame:
    """One row for each component and column, with p corrected for all of them by Benjamini and
    Hochberg, best first.

    Columns that do not vary within a source, and text that differs in most samples, are left out.
    """
    counts = [h.shape[1] for h in memberships]
    rows = []
    frames = [
        pd.DataFrame(index=range(n)) if m is None else m
        for n, m in zip(counts, metadata, strict=True)
    ]
    table = pd.concat(frames, ignore_index=True)
    every = pd.DataFrame(np.hstack(memberships).T)
    for name, column in table.items():
        column, numeric = column.dropna(), column.dtype.kind in "iuf"
        if not numeric and column.nunique() > len(column) / 2:
            continue
        of = np.repeat(np.arange(len(counts)), counts)[column.index]
        design = (column.to_frame() if numeric else pd.get_dummies(column.astype(str))).astype(
            float
        )
        a = every.loc[column.index].groupby(of)
        b = design.groupby(of)
        n = a.transform("size").to_numpy()[:, None]
        a = a.rank() / (n + 1)
        b = b.rank() / (n + 1) if numeric else design
        a, b = (part - part.groupby(of).transform("mean") for part in (a, b))
        weights = (
            (a**2).groupby(of).sum().div(np.maximum(np.bincount(of)[np.unique(of)] - 1, 1), axis=0)
        )
        within = [own.T.to_numpy() @ own.to_numpy() for _, own in b.groupby(of)]
        for k, sums in enumerate((b.T.to_numpy() @ a.to_numpy()).T):
            variance = np.tensordot(weights[k], within, axes=1)
            how: Any = {"hermitian": True, "rtol": 1e-10}
            freedom = np.linalg.matrix_rank(variance, **how)
            if freedom:
                q = sums @ np.linalg.pinv(variance, **how) @ sums
                best = design.columns[np.argmax(sums / design.sum())]
                at = str(best) if not numeric else "high" if sums[0] > 0 else "low"
                strength = np.sqrt(q / (len(of) - len(within)))
                rows.append((f"C{k + 1}", str(name), len(of), strength, at, chdtrc(freedom, q)))
    result = pd.DataFrame(
        rows, columns=["component", "column", "n", "strength", "highest_at", "p_value"]
    )
    result = result.sort_values(
        ["p_value", "strength"], ascending=[True, False], kind="stable", ignore_index=True
    )
    raised = result["p_value"] * len(result) / (result.index + 1)
    return result.assign(q_value=raised[::-1].cummin().clip(upper=1))
