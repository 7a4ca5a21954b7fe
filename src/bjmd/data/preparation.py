"""Ways to make data ready for a fit: to bring sources to one scale, and to make them non-negative."""

import numpy as np
import scipy.sparse

from bjmd.checks import one_of
from bjmd.errors import InputError

WAYS = ("as-is", "clip", "shift")
SCALES = ("none", "mean", "rms")


def nonnegative(sources, way):
    """The same sources without negative entries.

    as-is   they have none; refused otherwise by the method itself
    clip    negative entries become 0
    shift   each feature is moved up by its smallest value over all sources (dense data only)
    """
    if one_of("nonnegative", way, WAYS) == "as-is":
        return sources
    sources.require_in_memory(f"nonnegative = {way!r}")
    if way == "clip":
        matrices = [x.maximum(0) if scipy.sparse.issparse(x) else np.maximum(x, 0) for x in sources.matrices]
    else:
        if any(scipy.sparse.issparse(x) for x in sources.matrices):
            raise InputError("nonnegative is 'shift', which would fill sparse data; use 'clip', or dense data")
        lowest = np.min([x.min(axis=1) for x in sources.matrices], axis=0)[:, None]
        matrices = [x - lowest for x in sources.matrices]
    return sources.replace(matrices=matrices)


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
        sums = [x.sum() if scipy.sparse.issparse(x) else np.nansum(x) for x in sources.matrices]
        values = np.divide(sums, sources.n_observed)
    for value, name in zip(values, sources.names, strict=True):
        if value <= 0:
            raise InputError(f"source {name!r} has {way} {value:.3g}, by which it cannot be divided; use another scale")
    return values


def divided(sources, by):
    """The same sources, each divided by its number."""
    return sources.replace(matrices=[x / value for x, value in zip(sources.matrices, by, strict=True)])
