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
    by_source: pd.DataFrame | None = None
    associations: pd.DataFrame | None = None
    consensus: Consensus | None = None


def summarise(
    sources: Sources,
    results: Sequence[Decomposition],
    *,
    metadata: Sequence[pd.DataFrame | None] = (),
    consensus: Consensus | None = None,
) -> Summary:
    """Rank the restarts, describe the best one, and relate it to what is known about the samples.

    That is the metadata and, as a column `class`, the labels.
    """
    ranked = restarts.best(results, len(results))
    best = ranked[0]
    if not registry.get(best.method).infers_bjmd:
        return Summary(ranked)
    associated = between = None
    if sources.labels is not None or any(table is not None for table in metadata):
        from bjmd.analysis.associations import associations

        about_samples = [_about_samples(sources, c, metadata) for c in range(len(sources))]
        associated = associations(best.memberships, about_samples)
    if len(sources) > 1:
        from bjmd.analysis.by_source import by_source

        between = by_source(best, sources.names)
    return Summary(
        ranked,
        variance_explained=variance.explained(sources, best),
        residuals=variance.residuals(sources, best),
        by_source=between,
        associations=associated if associated is not None and len(associated) else None,
        consensus=consensus,
    )


def _about_samples(
    sources: Sources, c: int, metadata: Sequence[pd.DataFrame | None]
) -> pd.DataFrame:
    """The metadata of a source and the classes of its samples; those of several are joined."""
    import pandas as pd

    table = metadata[c] if len(metadata) else None
    if table is None:
        table = pd.DataFrame(index=sources.sample_names[c])
    if sources.labels is None:
        return table
    names = np.array(sources.class_names)
    classes = [", ".join(names[sample]) or None for sample in sources.labels[c].T]
    # labels that came from the metadata are there already
    known = table.astype(object).where(table.notna(), None).astype(str)
    if any(column.tolist() == [str(name) for name in classes] for _, column in known.items()):
        return table
    return table.assign(**{"class": classes})
