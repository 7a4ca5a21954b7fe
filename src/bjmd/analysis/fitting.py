"""The one way to a fit, and what is asked of every finished one.

`fit` is restarts or a search, the best with its intervals, and the consensus; `summarise` computes
once what report, files and figures show.  The estimator, the command and the workflow call both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bjmd.analysis import variance
from bjmd.analysis.associations import associations, by_source
from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts
from bjmd.numerics import threads
from bjmd.results.decomposition import Decomposition

if TYPE_CHECKING:
    from bjmd.analysis.consensus import Consensus


@dataclass(frozen=True)
class Fits:
    """All runs in the order of their seeds, and what the restarts agree on, if that was asked."""

    results: list[Decomposition]
    consensus: Consensus | None = None

    @property
    def best(self) -> Decomposition:
        return restarts.best(self.results, 1)[0]


def fit(
    name: str,
    sources: Sources,
    n_components: int,
    *,
    n_restarts: int,
    seed: int = 0,
    jobs: int = 1,
    search: bool = True,
    agree: bool = False,
    **options: Any,
) -> Fits:
    """Fit from many starts; the best has its intervals by linear response (intervals.py).

    `search` allows a search in place of plain restarts (restarts.py).  With `agree`, all restarts
    run to the tolerance and their consensus is found.  The rest is as for `restarts.run`.
    """
    from bjmd.analysis import intervals  # which imports numba

    results = restarts.run(
        name,
        sources,
        n_components,
        n_restarts=n_restarts,
        seed=seed,
        jobs=jobs,
        search=search and not agree,
        **options,
    )
    (best,) = restarts.best(results, 1)
    with threads.limited(jobs):
        wider = intervals.widened(sources, best)
    results = [wider if result is best else result for result in results]
    if not agree:
        return Fits(results)
    from bjmd.analysis.consensus import consensus  # with all of projection, which few fits need

    return Fits(results, consensus(sources, results))


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
    data: Any,
    results: Sequence[Decomposition],
    *,
    explained: np.ndarray | None = None,
    metadata: Sequence[pd.DataFrame | None] = (),
    consensus: Consensus | None = None,
) -> Summary:
    """Rank the restarts, describe the best one, and relate it to what is known about the samples.

    That is the metadata and, as a column `class`, the labels.  `data` are `Sources`; the names
    alone (`tables.Named`) do if the variance explained is known, but leave residuals out.
    """
    ranked = restarts.best(results, len(results))
    best = ranked[0]
    if not registry.get(best.method).infers_bjmd:
        return Summary(ranked)
    about_samples = [_about_samples(data, c, metadata) for c in range(len(data.names))]
    associated = associations(best.memberships, about_samples)
    return Summary(
        ranked,
        variance_explained=variance.explained(data, best) if explained is None else explained,
        residuals=variance.residuals(data, best) if isinstance(data, Sources) else None,
        by_source=by_source(best, data.names) if len(data.names) > 1 else None,
        associations=associated if len(associated) else None,
        consensus=consensus,
    )


def _about_samples(data: Any, c: int, metadata: Sequence[pd.DataFrame | None]) -> pd.DataFrame:
    """The metadata of a source and the classes of its samples; those of several are joined."""
    table = metadata[c] if len(metadata) else None
    if table is None:
        table = pd.DataFrame(index=data.sample_names[c])
    if data.labels is None:
        return table
    names = np.array(data.class_names)
    classes = [", ".join(names[sample]) or None for sample in data.labels[c].T]
    # labels that came from the metadata are there already
    known = table.astype(object).where(table.notna(), None).astype(str)
    if any(column.tolist() == [str(name) for name in classes] for _, column in known.items()):
        return table
    return table.assign(**{"class": classes})
