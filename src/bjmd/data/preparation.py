"""Bring sources to one scale."""

import numpy as np
import scipy.sparse

from bjmd.checks import one_of
from bjmd.data.streamed import Streamed
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
        sums = [
            x.sums_of_rows().sum()
            if isinstance(x, Streamed)
            else np.nansum(x.data if scipy.sparse.issparse(x) else x, dtype=float)
            for x in sources.matrices
        ]
        values = np.divide(sums, sources.n_observed)
    for value, name in zip(values, sources.names, strict=True):
        if value <= 0:
            raise InputError(
                f"source {name!r} has {way} {value:.3g}, by which it cannot be divided; use another scale"
            )
    return values


def divided(sources, by):
    """The same sources, each divided by its number."""
    each = zip(sources.matrices, by, strict=True)
    return sources.replace(
        matrices=[
            x / value if isinstance(x, Streamed) else (x / value).astype(x.dtype, copy=False)
            for x, value in each
        ]
    )
