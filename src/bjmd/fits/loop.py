"""The loop in which iterative methods run.  It owns the stopping rule, the trace, momentum, and what is watched.

A method supplies an `Algorithm`: where to start, one sweep, and what its last state says.  ADVI and the Gibbs sampler
count draws, not sweeps, and have loops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from bjmd.checks import positive_number, whole_number
from bjmd.errors import FitError
from bjmd.fits.decomposition import Decomposition, FittedModel
from bjmd.fits.momentum import Momentum
from bjmd.fits.posterior import Posterior

Watch = Callable[[list[np.ndarray]], Mapping[str, Any]]
"""Called with the memberships after every recorded iteration; what it returns is kept in the result's history."""

ROUNDING = 1e-9
"""The relative rise of an objective that is taken for rounding."""

State = TypeVar("State")
"""What one sweep hands to the next.  With momentum it also has vector(), and at(vector), which gives a moved copy."""


@dataclass(frozen=True)
class Found:
    """What the last state of an algorithm says."""

    components: np.ndarray
    memberships: list[np.ndarray]
    noise: np.ndarray | None = None
    posterior: Posterior | None = None
    model: FittedModel | None = None
    objective: float = np.inf
    """Where the last touches lowered it below the trace."""


class Algorithm(Protocol[State]):
    """One method on one data set."""

    def start(self) -> State: ...

    def sweep(self, state: State) -> tuple[State, float]:
        """The next state, and the objective there."""

    def memberships(self, state: State) -> list[np.ndarray]: ...

    def finish(self, state: State) -> Found: ...


def run(
    algorithm: Algorithm, *, tol: float, max_sweeps: int, watch: Watch | None = None, objective: str = "objective",
    wait: int = 0, patience: int = 1, momentum_from: int | None = None, per_entry: int | None = None,
) -> Decomposition:  # fmt: skip
    """Sweep until the relative change of the objective is at most `tol` in `patience` sweeps in a row.

    With `per_entry`, the number of entries, it is the change per entry instead, which does not depend on the unit.

    Changes count after the first `wait` sweeps.  From sweep `momentum_from` on, each sweep starts beyond the end of the
    last (momentum.py), and the objective never rises: a sweep that raised it is undone, and the trace repeats the value
    before it.  A plain sweep that raises it ends the fit, and is the last of the trace.  An extrapolated sweep may gain
    little by chance, but hardly twice in a row, so there two small changes are asked for.  `objective` is its name in
    messages.
    """
    positive_number("tol", tol, least=0)
    whole_number("max_sweeps", max_sweeps, least=1)
    state = best = algorithm.start()
    momentum, extrapolated, reached = Momentum(), False, np.inf
    trace: list[float] = []
    seen: list[Mapping[str, Any]] = []
    n_small = 0
    converged, reason = False, f"stopped at max_sweeps = {max_sweeps}"
    for sweep in range(1, max_sweeps + 1):
        after, value = algorithm.sweep(state)
        if not np.isfinite(value):
            raise FitError(f"the {objective} became {value} in sweep {sweep}; rescale the data or the priors")
        if momentum_from is not None and trace and value > trace[-1]:
            rise = value - trace[-1]
            trace.append(trace[-1])
            seen += seen[-1:]
            if not extrapolated:  # a plain sweep rises by rounding only, and would do so for ever
                converged, reason = True, f"the {objective} changes by rounding only in sweep {sweep}"
                if rise > ROUNDING * max(1.0, abs(value)):
                    converged, reason = (False, f"the {objective} rose by {rise:.2g} in sweep {sweep}")
                    trace[-1] = value  # the state goes back, but the trace shows what happened
                break
            state, extrapolated = best.at(momentum.undo()), False
            continue
        best, reached = after, value
        trace.append(value)
        if watch is not None:
            seen.append(watch(algorithm.memberships(after)))
        small = sweep > wait + 1 and abs(trace[-2] - value) <= tol * (per_entry or abs(trace[-2]))
        n_small = n_small + 1 if small else 0
        if n_small >= (max(2, patience) if extrapolated else patience):
            change = f"change of the {objective} per entry" if per_entry else f"relative change of the {objective}"
            converged, reason = True, f"{change} at most tol = {tol:g} in sweep {sweep}"
            break
        extrapolated = momentum_from is not None and sweep >= momentum_from
        state = after.at(momentum.beyond(after.vector())) if extrapolated else after

    found = algorithm.finish(best)
    at_end = min(reached, found.objective)
    trace[-1] = at_end if trace[-1] == reached else trace[-1]
    if watch is not None:
        seen[-1] = watch(found.memberships)
    return Decomposition(
        components=found.components, memberships=found.memberships, noise=found.noise, posterior=found.posterior,
        model=found.model, objective=at_end, trace=np.array(trace), converged=converged, reason=reason,
        history=series(seen),
    )  # fmt: skip


def series(seen: list[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """What was watched, a series by name."""
    return {name: np.array([entry[name] for entry in seen]) for name in (seen[0] if seen else ())}
