"""Bring sources to one scale."""

import numpy as np
from threadpoolctl import threadpool_limits

from bjmd.checks import one_of
from bjmd.errors import InputError

SCALES = ("none", "mean", "rms")


def scales(sources, way):
    """What to divide each source by.

    none    1
    mean    the mean of its entries, as the paper does with images; for data that are not negative
    rms     the root of the mean square of its entries
    """
    if one_of("scale", way, SCALES) == "none":
        return np.ones(len(sources))
    if way == "rms":
        values = np.sqrt(np.divide(sources.squared_norms, sources.n_observed))
    else:
        with threadpool_limits(1):  # the same bits on any number of cores
            sums = [x.sums_of_rows().sum() for x in sources.data]
        values = np.divide(sums, sources.n_observed)
    for value, name in zip(values, sources.names, strict=True):
        if value <= 0:
            raise InputError(
                f"source {name!r} has {way} {value:.3g}, by which it cannot be divided; use another scale"
            )
    return values


def divided(sources, by):
    """The same sources, each divided by its number."""
    return sources.replace(
        matrices=[x / number for x, number in zip(sources.data, by, strict=True)]
    )
