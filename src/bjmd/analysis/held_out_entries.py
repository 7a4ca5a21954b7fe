"""Entries that a fit never saw: which to hold out, and how well a fit predicts them."""

from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.matrix import cut
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.numerics import threads
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition

BLOCK = 2**22  # numbers in the largest temporary array of draws
LEAST_SAMPLES = 64  # to draw from at once, for one entry of every feature among them stays


def hide(sources: Sources, share: float, rng: np.random.Generator) -> list[scipy.sparse.csc_array]:
    """Draw entries to hold out of every source, never the last of a sample or feature.

    Of a sparse source, zeros too, but no more than it stores.
    """
    hidden = []
    for x, n_observed, name in zip(sources.data, sources.n_observed, sources.names, strict=True):
        share_here = min(share, len(x.values) / n_observed)
        n_passed = 0
        n_hidden = 0
        blocks = []
        for part in cut(x.shape[1], x.shape[0], max(BLOCK, LEAST_SAMPLES * x.shape[0])):
            missing = np.isnan(x.columns(part))
            n_passed += missing.size - np.count_nonzero(missing)
            where = _drawn(missing, round(share_here * n_passed) - n_hidden, rng)
            n_hidden = round(share_here * n_passed)
            blocks.append(None if where is None else scipy.sparse.csc_array(where))
        if not n_hidden or any(where is None for where in blocks):
            raise InputError(
                f"source {name!r} has too few observed entries ({n_observed}) to hold out a share "
                f"of {share:g} and keep one of every sample and feature; change held_out, or leave "
                "the source out"
            )
        hidden.append(scipy.sparse.hstack(blocks, format="csc"))
    return hidden


def _drawn(missing, n_hidden, rng):
    """So many places that are not missing, at random; None if too few can be spared."""
    draw = rng.random(missing.shape)
    draw[missing] = -1
    last_of_feature = draw.argmax(axis=1)
    last_of_sample = draw.argmax(axis=0)
    draw[missing] = 2
    draw[np.arange(missing.shape[0]), last_of_feature] = 2
    draw[last_of_sample, np.arange(missing.shape[1])] = 2
    if n_hidden > np.count_nonzero(draw < 2):
        return None
    where = np.zeros(missing.size, dtype=bool)
    where[np.argpartition(draw, n_hidden - 1, axis=None)[:n_hidden]] = True
    return where.reshape(missing.shape)


def without(sources: Sources, hidden: list[Any]) -> Sources:
    """The data with the held-out entries missing."""
    each = zip(sources.data, hidden, strict=True)
    return sources.replace(matrices=[x.without(where) for x, where in each])


def log_densities(result: Decomposition, sources: Sources, hidden: list[Any]) -> np.ndarray:
    """The log predictive density of the held-out entries, summed within every sample."""
    sums = []
    with threads.blas_on_one_thread():  # the same bits whatever else the machine does
        for c, (x, where) in enumerate(zip(sources.data, hidden, strict=True)):
            for part in predictive.blocks(x.shape[1], x.shape[0]):
                densities = predictive.log_density(result, c, part, x.columns(part))
                sums.append(np.where(where[:, part].toarray(), densities, 0).sum(axis=0))
    return np.concatenate(sums)


def difference(sums: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """The mean over all entries and its standard error, from sums within independent samples."""
    mean = sums.sum() / count.sum()
    n = len(sums)
    return mean, np.sqrt(n / max(n - 1, 1) * ((sums - count * mean) ** 2).sum()) / count.sum()
