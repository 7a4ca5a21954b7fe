"""The loop in which iterative methods run.  It owns the stopping rule, the trace, momentum, and
what is watched.

A method supplies an `Algorithm`: where to start, one sweep, and what its last state says.  ADVI and
the Gibbs sampler count draws, not sweeps, and have loops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from bjmd.checks import positive_number, whole_number
from bjmd.errors import FitError
from bjmd.inference.momentum import Momentum
from bjmd.results.decomposition import Decomposition, FittedModel
from bjmd.results.posterior import Posterior

Watch = Callable[[list[np.ndarray]], Mapping[str, Any]]
"""Called with the memberships after every recorded iteration; what it returns is kept in the
result's history.
"""

ROUNDING = 1e-9
"""The relative rise of an objective that is taken for rounding."""

State = TypeVar("State")
"""What one sweep hands to the next.  With momentum it also has vector(), and at(vector), which
gives a moved copy.
"""


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


@dataclass
class Course:
    """Where a fit stands between two sweeps, so that it can go on as if it had never stopped."""

    state: Any = None
    best: Any = None
    momentum: Momentum = field(default_factory=Momentum)
    extrapolated: bool = False
    reached: float = np.inf
    end: tuple[bool, str] | None = (
        None  #: whether it converged, and the reason, where it cannot go on
    )
    trace: list[float] = field(default_factory=list)
    undone: list[float] = field(default_factory=list)
    changes: list[tuple[float, float]] = field(default_factory=list)
    """Change of the objective, and what it is relative to, of every sweep that was not undone."""
    needed: int = 1  #: so many small ones in a row end the fit

    def is_settled(self, tol: float) -> bool:
        last = self.changes[-self.needed :]
        return len(last) == self.needed and all(change <= tol * size for change, size in last)


def run(
    algorithm: Algorithm,
    *,
    tol: float,
    max_sweeps: int,
    watch: Watch | None = None,
    objective: str = "objective",
    wait: int = 0,
    patience: int = 1,
    momentum_from: int | None = None,
    per_entry: int | None = None,
    monotone: bool = True,
    course: Course | None = None,
) -> Decomposition:
    """Sweep until the relative change of the objective is at most `tol` in `patience` sweeps in a
    row.

    With `per_entry`, the number of entries, it is the change per entry instead, which does not
    depend on the unit.

    Changes count after the first `wait` sweeps.  From sweep `momentum_from` on, each sweep starts
    beyond the end of the last (momentum.py).  What is `monotone` never rises: an extrapolated sweep
    that raised it is undone, and the trace repeats the value before it; the value that was undone
    is in the history, under "undone", which is NaN elsewhere.  A plain sweep that raises it, which
    only rounding can do, ends the fit, and is the last of the trace.  An extrapolated sweep may
    gain little by chance, but hardly twice in a row, so there two small changes are asked for.

    With a `course`, where the fit ends is kept there, and another run with it and a smaller `tol`
    goes on from there to what a single run would have given, to the bit.
    """
    positive_number("tol", tol, least=0)
    whole_number("max_sweeps", max_sweeps, least=1)
    on = Course() if course is None else course
    if on.state is None:
        on.state = on.best = algorithm.start()
    trace = on.trace
    undone = on.undone
    seen: list[Mapping[str, Any]] = []
    converged, reason = on.end or (False, f"stopped at max_sweeps = {max_sweeps}")
    for sweep in range(len(trace) + 1, 1 + (0 if on.end or on.is_settled(tol) else max_sweeps)):
        after, value = algorithm.sweep(on.state)
        if not np.isfinite(value):
            raise FitError(
                f"the {objective} became {value} in sweep {sweep}; rescale the data or the priors"
            )
        rise = value - trace[-1] if monotone and trace else 0.0
        rounding = ROUNDING * max(1.0, abs(value))
        if rise > (0.0 if sweep > wait + 1 else rounding):
            trace.append(trace[-1])
            undone.append(value)
            seen += seen[-1:]
            if not on.extrapolated:  # it would do so for ever
                how = (
                    "changes by rounding only"
                    if rise <= rounding
                    else f"rose by {rise:.2g} through rounding"
                )
                converged, reason = on.end = (
                    bool(rise <= rounding),
                    f"the {objective} {how} in sweep {sweep}",
                )
                if not converged:
                    trace[-1] = value  # the state goes back, but the trace shows what happened
                break
            on.state = on.best.at(on.momentum.undo())
            on.extrapolated = False
            continue
        on.best = after
        on.reached = value
        trace.append(value)
        undone.append(np.nan)
        if watch is not None:
            seen.append(watch(algorithm.memberships(after)))
        counts = sweep > wait + 1
        on.changes.append(
            (abs(trace[-2] - value), per_entry or abs(trace[-2])) if counts else (np.inf, 1.0)
        )
        on.needed = max(2, patience) if on.extrapolated else patience
        on.extrapolated = momentum_from is not None and sweep >= momentum_from
        on.state = after  # the state before need not stay in memory while the next one is made
        if on.extrapolated:
            on.state = after.at(on.momentum.beyond(after.vector()))
        if on.is_settled(tol):
            break
    if on.is_settled(tol) and not on.end:
        change = (
            f"change of the {objective} per entry"
            if per_entry
            else f"relative change of the {objective}"
        )
        converged = True
        reason = f"{change} at most tol = {tol:g} in sweep {len(trace)}"

    if course is None:  # nobody goes on from here
        on.state = None
        on.momentum = Momentum()
    found = algorithm.finish(on.best)
    at_end = min(on.reached, found.objective)
    last = at_end if trace[-1] == on.reached else trace[-1]
    if watch is not None:
        seen[-1] = watch(found.memberships)
    return Decomposition(
        components=found.components,
        memberships=found.memberships,
        noise=found.noise,
        posterior=found.posterior,
        model=found.model,
        objective=at_end,
        trace=np.array([*trace[:-1], last]),
        converged=converged,
        reason=reason,
        history=series(seen) | ({"undone": np.array(undone)} if monotone else {}),
    )


def series(seen: list[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """What was watched, a series by name."""
    return {name: np.array([entry[name] for entry in seen]) for name in (seen[0] if seen else ())}
