"""What a fit explains of every source, and what it leaves (docs/model.md, section 11).

The variance explained is shared between the components.  Seen from the means of its source,
d_ij = x_ij - mean_i, and the fit is a sum over components,

    g_ij = w_i'h_j + o_i - mean_i = sum_k h_kj v_ik,      v_ik = w_ik + o_i - mean_i,

because memberships sum to one.  Component k is credited with its Shapley value,

    share_k = sum_ij h_kj v_ik (2 d_ij - g_ij) / sum_ij d_ij^2
    sum_k share_k = 1 - sum (d - g)^2 / sum d^2 = R^2.

Sums run over observed entries.  They follow from the products that a sweep needs, so data stay
sparse, or on disk.
"""

import numpy as np
import pandas as pd

from bjmd.data.sources import Sources
from bjmd.data.view import View
from bjmd.numerics import threads
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition

CONFOUNDED = 0.1
"""Share of the variance of memberships between sources, after offsets, that deserves a word: on
real data it was 0.01 to 0.09 where offsets did no harm, and 0.11 to 0.31 where source and class are
confounded.
"""

FAR = 5.0  #: noise standard deviations beyond which residuals are counted


def explained(sources: Sources, result: Decomposition) -> np.ndarray:
    """The share of the variance of every source that each component explains, sources x K.

    A row sums to the R^2 of its source, which is 0 for a source whose features do not vary.
    """
    with threads.blas_on_one_thread():
        return np.array([_explained(x, result, c) for c, x in enumerate(sources.data)])


def _explained(x, result, c):
    h = result.memberships[c]
    mean = x.means_of_rows
    view = View(x, origin=mean)
    v = result.components + predictive.offsets(result, c)[0] - mean[:, None]
    product = view.times_memberships(h)
    if x.n_missing:  # where an entry is missing, there is no g to be counted
        view.fill(v.T, h)
        product += view.times_memberships(h)
    else:
        product *= 2
    credit = np.einsum("ik,ki->k", v, product)
    credit -= ((v.T @ v) * (h @ h.T)).sum(axis=1)
    return credit / (view.squares_of_rows().sum() or np.inf)


def confounded(share: float) -> str:
    """What it may mean that so much of the variance of memberships lies between sources."""
    return (
        f"{100 * share:.0f} % of the variance of the memberships lies between the sources, "
        "despite offsets: either the sources hold different kinds of samples, or the offsets "
        "have absorbed part of what distinguishes them; fit without offsets as well (--offsets no, "
        "in Python offsets=False), and compare"
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


def residuals(sources: Sources, result: Decomposition) -> pd.DataFrame:
    """How large the residuals are, a row for each source, in noise sds of the source.

    The columns are source; features_from and features_to, the root mean square residuals between
    which nine in ten features lie; samples_from and samples_to, the same of samples; n_far, the
    number of residuals above FAR; largest, the largest residual, and the feature and sample where
    it is.
    """
    rows = []
    for c, x in enumerate(sources.data):
        sd = np.asarray(result.noise)[c]
        of_features = np.zeros(x.shape[0])
        of_samples = []
        n_far = 0
        tops = []
        for part in predictive.blocks(x.shape[1], x.shape[0]):
            z = (x.columns(part) - predictive.mean(result, c, part)) / sd
            z = np.abs(np.nan_to_num(z))  # missing entries have no residual
            of_features += (z**2).sum(axis=1)
            of_samples.append((z**2).sum(axis=0))
            n_far += int((z > FAR).sum())
            i, j = np.unravel_index(z.argmax(), z.shape)
            tops.append((z[i, j], i, part.start + j))
        largest, i, j = max(tops)
        features = np.sqrt(of_features / np.maximum(x.counts_of_rows, 1))
        samples = np.sqrt(np.concatenate(of_samples) / x.counts_of_columns)
        rows.append(
            {
                "source": sources.names[c],
                **_nine_in_ten("features", features[x.counts_of_rows > 0]),
                **_nine_in_ten("samples", samples),
                "n_far": n_far,
                "largest": largest,
                "feature": sources.feature_names[i],
                "sample": sources.sample_names[c][j],
            }
        )
    return pd.DataFrame(rows)


def _nine_in_ten(what: str, sizes: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(sizes, [0.05, 0.95])
    return {f"{what}_from": low, f"{what}_to": high}
