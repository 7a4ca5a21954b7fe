"""Data without negative entries, for the baselines that need them; a data set says how."""

import numpy as np


def nonnegative(sources, way):
    """The same sources without negative entries.

    as-is   they have none, or the method takes them
    clip    negative entries become 0
    shift   each feature is moved up by its smallest value over all sources (dense data only)
    """
    if way == "as-is":
        return sources
    if way == "clip":
        return sources.replace(matrices=[(x + abs(x)) / 2 for x in sources.matrices])
    lowest = np.min([x.min(axis=1) for x in sources.matrices], axis=0)[:, None]
    return sources.replace(matrices=[x - lowest for x in sources.matrices])
