"""How much of the variance of every source each component explains (docs/model.md, section 11).

Seen from the means of its source, d_ij = x_ij - mean_i, and the fit is a sum over components,

    g_ij = w_i'h_j + o_i - mean_i = sum_k h_kj v_ik,      v_ik = w_ik + o_i - mean_i,

because memberships sum to one.  Component k is credited with its Shapley value,

    share_k = sum_ij h_kj v_ik (2 d_ij - g_ij) / sum_ij d_ij^2
    sum_k share_k = 1 - sum (d - g)^2 / sum d^2 = R^2.

Sums run over observed entries.  They follow from the products that a sweep needs, so data stay
sparse, or on disk.
"""

import numpy as np

from bjmd.data.sources import Sources
from bjmd.data.view import View
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition

CONFOUNDED = 0.1
"""Share of the variance of memberships between sources, after offsets, that deserves a word: on
real data it was 0.01 to 0.09 where offsets did no harm, and 0.11 to 0.31 where source and class are
confounded.
"""


def explained(sources: Sources, result: Decomposition) -> np.ndarray:
    """The share of the variance of every source that each component explains, sources x K.

    A row sums to the R^2 of its source, which is 0 for a source whose features do not vary.
    """
    rows = []
    for c, x in enumerate(sources.data):
        h = result.memberships[c]
        mean = x.sums_of_rows() / np.maximum(x.counts_of_rows, 1)
        view = View(x, origin=mean)
        v = result.components + predictive.offsets(result, c)[0] - mean[:, None]
        credit = 2 * np.einsum("ik,ki->k", v, view.times_memberships(h)) - (
            (v.T @ v) * (h @ h.T)
        ).sum(axis=1)
        credit += view.credit_at_missing(v.T, h)  # where there is no g to be counted
        rows.append(credit / (view.squares_of_rows().sum() or np.inf))
    return np.array(rows)


def confounded(share: float) -> str:
    """What it may mean that so much of the variance of memberships lies between sources."""
    return (
        f"{100 * share:.0f} % of the variance of the memberships lies between the sources, in "
        "spite of offsets: either the sources hold different kinds of samples, or the offsets "
        "have absorbed part of what sets a kind apart; fit without offsets as well, and compare"
    )


def between_sources(memberships: list[np.ndarray]) -> float:
    """The share of the variance of the memberships that lies between the sources."""
    every = np.hstack(memberships)
    mean = every.mean(axis=1, keepdims=True)
    total = ((every - mean) ** 2).sum()
    between = sum(
        h.shape[1] * ((h.mean(axis=1, keepdims=True) - mean) ** 2).sum() for h in memberships
    )
    return float(between / total) if total > 0 else 0.0
