"""What is asked of every finished fit, computed once for its report, its files and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bjmd.analysis import variance
from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts
from bjmd.results.decomposition import Decomposition

if TYPE_CHECKING:
    import pandas as pd

    from bjmd.analysis.consensus import Consensus


@dataclass(frozen=True)
class Summary:
    """The restarts of one fit, best first, and answers about the best one.

    An answer is None where the method has no noise model, or where it was not asked for.
    """

    results: list[Decomposition]
    variance_explained: np.ndarray | None = None
    residuals: pd.DataFrame | None = None
    associations: pd.DataFrame | None = None
    consensus: Consensus | None = None


def summarise(
    sources: Sources,
    results: Sequence[Decomposition],
    *,
    metadata: Sequence[pd.DataFrame | None] = (),
    consensus: Consensus | None = None,
) -> Summary:
    """Rank the restarts, describe the best one, and relate it to metadata about the samples."""
    ranked = restarts.best(results, len(results))
    best = ranked[0]
    if not registry.get(best.method).infers_bjmd:
        return Summary(ranked)
    associated = None
    if any(table is not None for table in metadata):
        from bjmd.analysis.associations import associations

        associated = associations(best.memberships, metadata)
    return Summary(
        ranked,
        variance_explained=variance.explained(sources, best),
        residuals=variance.residuals(sources, best),
        associations=associated if associated is not None and len(associated) else None,
        consensus=consensus,
    )
