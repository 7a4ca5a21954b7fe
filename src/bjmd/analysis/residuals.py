"""Facts about the residuals of a fit: how large they are by feature and by sample, and where."""

import numpy as np
import pandas as pd

from bjmd.data.sources import Sources
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition

FAR = 5.0  #: noise standard deviations beyond which residuals are counted
BLOCK = 2**20  #: entries whose residuals are in memory at once


def residuals(sources: Sources, decomposition: Decomposition) -> pd.DataFrame:
    """A row for each source; all sizes are in noise standard deviations of the fit.

    The columns are source; features_from and features_to, the root mean square residuals between
    which nine in ten features lie; samples_from and samples_to, the same of samples; n_far, the
    number of entries more than five noise sds from the fit; largest, the largest residual, and the
    feature and sample where it is.
    """
    rows = []
    for c, x in enumerate(sources.data):
        sd = np.asarray(decomposition.noise)[c]
        of_features = np.zeros(x.shape[0])
        of_samples = []
        n_far = 0
        largest = 0.0
        place = (0, 0)
        for part in blocks(x.shape):
            z = (x.columns(part) - predictive.mean(decomposition, c, part)) / sd
            z = np.abs(np.nan_to_num(z))  # missing entries have no residual
            of_features += (z**2).sum(axis=1)
            of_samples.append((z**2).sum(axis=0))
            n_far += int((z > FAR).sum())
            if z.max() > largest:
                largest = z.max()
                i, j = np.unravel_index(z.argmax(), z.shape)
                place = (int(i), part.start + int(j))
        features = np.sqrt(of_features / np.maximum(x.counts_of_rows, 1))
        samples = np.sqrt(np.concatenate(of_samples) / x.counts_of_columns)
        rows.append(
            {
                "source": sources.names[c],
                **_nine_in_ten("features", features[x.counts_of_rows > 0]),
                **_nine_in_ten("samples", samples),
                "n_far": n_far,
                "largest": largest,
                "feature": sources.feature_names[place[0]],
                "sample": sources.sample_names[c][place[1]],
            }
        )
    return pd.DataFrame(rows)


def _nine_in_ten(what: str, sizes: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(sizes, [0.05, 0.95])
    return {f"{what}_from": low, f"{what}_to": high}


def blocks(shape: tuple[int, int]) -> list[slice]:
    """The samples of a matrix in blocks of at most BLOCK entries."""
    step = max(1, BLOCK // shape[0])
    return [slice(first, min(first + step, shape[1])) for first in range(0, shape[1], step)]
