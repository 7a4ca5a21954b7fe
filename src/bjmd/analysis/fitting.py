"""The one way to a fit: restarts or a search, the best with its intervals, and the consensus.

The estimator, the command and the workflow all call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bjmd.data.sources import Sources
from bjmd.inference import restarts
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

    numbers = {"n_restarts": n_restarts, "seed": seed, "jobs": jobs}
    results = restarts.run(
        name, sources, n_components, search=search and not agree, **numbers, **options
    )
    (best,) = restarts.best(results, 1)
    with threads.limited(jobs):
        wider = intervals.widened(sources, best)
    results = [wider if result is best else result for result in results]
    if not agree:
        return Fits(results)
    from bjmd.analysis.consensus import consensus  # with all of projection, which few fits need

    return Fits(results, consensus(sources, results))
