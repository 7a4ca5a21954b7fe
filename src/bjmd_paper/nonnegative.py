"""Data without negative entries, for the baselines that need them; a fit in the config says how."""

import numpy as np

from bjmd.errors import InputError, one_of

WAYS = ("as-is", "clip", "shift")


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
        matrices = [(x + abs(x)) / 2 for x in sources.matrices]
    else:
        if any(sources.is_sparse):
            raise InputError(
                "nonnegative is 'shift', which would fill sparse data; use 'clip', or dense data"
            )
        lowest = np.min([x.min(axis=1) for x in sources.matrices], axis=0)[:, None]
        matrices = [x - lowest for x in sources.matrices]
    return sources.replace(matrices=matrices)
