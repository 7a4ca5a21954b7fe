"""Mostly a lower objective in half the time: few starts, and those that promise most are run much
further.

Restarts that end at different objectives are often on their way to the same place: they have
stopped where a sweep gains at most `tol` nats per entry, and on data with millions of entries
hundreds of such sweeps are left.  So instead of n plain restarts there are fewer starts.  In
rounds, the best of them, ever fewer, go on to an ever smaller tolerance (ROUNDS).  docs/options.md
has what that gains, and benchmarks/optimum.py measures it.

Every run is one of `bjmd.fit` with its own seed and `tol`, which its result carries, and can be
repeated by itself.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts
from bjmd.inference.loop import Course
from bjmd.results.decomposition import Decomposition

ROUNDS = (
    (0.4, 3.0),
    (0.2, 1.0),
    (0.05, 0.01),
)  #: runs in each as a share of the restarts, tolerance over `tol`
FEWEST = 20  #: restarts, below which there is nothing to choose among


def run(
    name: str,
    sources: Sources,
    n_components: int,
    *,
    n_restarts: int,
    seed: int = 0,
    jobs: int = 1,
    **options: Any,
) -> list[Decomposition]:
    """Search in place of n plain restarts; all runs, in the order of their seeds, each as far as it
    went.

    The arguments and the seeds are those of restarts.run, which runs where a search makes no sense:
    with fewer than FEWEST restarts, with the paper's priors or its form of them, and for methods
    that do not sweep on the BJMD model. The results do not depend on `jobs`.
    """
    restarts.require_number(n_restarts)
    method = registry.get(name)
    registry.check_options(name, options)
    as_printed = options.get("priors") == "paper" or options.get("prior") == "hierarchical"
    if n_restarts < FEWEST or as_printed or not method.takes("course"):
        return restarts.run(
            name, sources, n_components, n_restarts=n_restarts, seed=seed, jobs=jobs, **options
        )
    tol = options.get("tol", method.options()["tol"])
    courses = {seed + i: Course() for i in range(round(ROUNDS[0][0] * n_restarts))}
    found: dict[int, Decomposition] = {}
    for share, factor in ROUNDS:
        best = sorted(courses, key=lambda s: found[s].objective if found else s)[
            : round(share * n_restarts)
        ]
        courses = {s: courses[s] for s in sorted(best)}  # the others need no memory any more
        fit = partial(registry.fit, name, sources, n_components, **{**options, "tol": factor * tol})
        for result in restarts.reported(
            name, [partial(fit, seed=s, course=courses[s]) for s in courses], jobs
        ):
            result.seconds += found[result.seed].seconds if result.seed in found else 0.0
            found[result.seed] = _judged(result, tol, sum(sources.n_observed))
    return restarts.best_widened(sources, list(found.values()), jobs)


def _judged(result: Decomposition, tol: float, n_entries: int) -> Decomposition:
    """A run that reached its limit of sweeps has converged all the same, if its last sweeps changed
    less than asked.
    """
    changes = -np.diff(
        result.trace[-4:-1]
    )  # the last entry has what the last touches gained as well
    if result.converged or len(changes) < 2 or changes.max() > tol * n_entries:
        return result
    return replace(
        result,
        converged=True,
        reason=f"{result.reason}, with changes per entry below tol = {tol:g}",
    )
