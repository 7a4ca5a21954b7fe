"""Entries that a fit never saw: which to hold out, how well a fit predicts them, and how sure a difference is."""

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.fits import predictive
from bjmd.fits.decomposition import Decomposition

BLOCK = 2**22  # numbers in the largest temporary array of predictions


def require_dense(sources: Sources) -> None:
    """Refuse data in which no entry can be left out."""
    sources.require_in_memory("holding out entries")
    for x, name in zip(sources.matrices, sources.names, strict=True):
        if scipy.sparse.issparse(x):
            raise InputError(
                f"source {name!r} is sparse, and a sparse matrix has no place for held-out entries; give a dense one, "
                "with a part of the features if need be"
            )


def hide(sources: Sources, share: float, rng: np.random.Generator) -> list[np.ndarray]:
    """Which entries to hold out, by source: a drawn share of the observed, never the last of a sample or feature."""
    hidden = []
    for x, n_observed, name in zip(sources.matrices, sources.n_observed, sources.names, strict=True):
        missing = np.isnan(x)
        draw = rng.random(x.shape)
        draw[missing] = -1
        last_of_feature, last_of_sample = draw.argmax(axis=1), draw.argmax(axis=0)
        draw[missing] = 2
        draw[np.arange(x.shape[0]), last_of_feature] = 2
        draw[last_of_sample, np.arange(x.shape[1])] = 2
        n_hidden = round(share * n_observed)
        if not 1 <= n_hidden <= np.count_nonzero(draw < 2):
            raise InputError(
                f"source {name!r} has too few observed entries ({n_observed}) to hold out a share of {share:g} and "
                "keep one of every sample and feature; change held_out, or leave the source out"
            )
        where = np.zeros(x.size, dtype=bool)
        where[np.argpartition(draw, n_hidden - 1, axis=None)[:n_hidden]] = True
        hidden.append(where.reshape(x.shape))
    return hidden


def without(sources: Sources, hidden: list[np.ndarray]) -> Sources:
    """The data with the held-out entries missing."""
    visible = [np.where(where, np.nan, x) for x, where in zip(sources.matrices, hidden, strict=True)]
    return sources.replace(matrices=visible)


def log_densities(result: Decomposition, sources: Sources, hidden: list[np.ndarray]) -> np.ndarray:
    """The log predictive density of the held-out entries, summed within each sample; samples of all sources in turn."""
    sums = []
    with threadpool_limits(1):  # the same bits whatever else the machine does
        for c, (x, where) in enumerate(zip(sources.matrices, hidden, strict=True)):
            step = max(1, BLOCK // len(x))
            for first in range(0, x.shape[1], step):
                part = slice(first, first + step)
                density = predictive.log_density(result, c, part, x[:, part])
                sums.append(np.where(where[:, part], density, 0).sum(axis=0))
    return np.concatenate(sums)


def difference(sums: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """Mean over all entries and its standard error, from sums and numbers of entries within independent samples."""
    mean, n = sums.sum() / count.sum(), len(sums)
    return mean, np.sqrt(n / max(n - 1, 1) * ((sums - count * mean) ** 2).sum()) / count.sum()
