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
