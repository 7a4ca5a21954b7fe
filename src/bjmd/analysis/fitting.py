"""The one way to a fit: restarts or a search, the best with its intervals, and the consensus.

The estimator, the command and the workflow all call it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bjmd.data.sources import Sources
from bjmd.errors import InputError
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
    refuse_auto(options)
    numbers = {"n_restarts": n_restarts, "seed": seed, "jobs": jobs}
    results = restarts.run(
        name, sources, n_components, search=search and not agree, **numbers, **options
    )
    results = with_intervals(sources, results, jobs)
    if not agree:
        return Fits(results)
    from bjmd.analysis.consensus import consensus  # with all of projection, which few fits need

    return Fits(results, consensus(sources, results))


def with_intervals(
    sources: Sources, results: list[Decomposition], jobs: int = 1
) -> list[Decomposition]:
    """The same results, the best of them with intervals by linear response."""
    from bjmd.analysis import intervals  # which imports numba

    (best,) = restarts.best(results, 1)
    with threads.limited(jobs):
        wider = intervals.widened(sources, best)
    return [wider if result is best else result for result in results]


def refuse_auto(options: dict[str, Any]) -> None:
    """Say what became of the option value "auto"."""
    for option in ("noise", "offsets"):
        if isinstance(options.get(option), str) and options[option] == "auto":
            raise InputError(
                f"{option}='auto' was removed because it made results worse on real data; leave "
                f"{option} out, or compare fits with and without it yourself"
            )
