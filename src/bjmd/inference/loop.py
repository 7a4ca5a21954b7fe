"""The loop of iterative methods: stopping rule, trace, momentum, what is watched.

A method supplies an `Algorithm`: where to start, one sweep, and what its last state says.  ADVI and
the Gibbs sampler count draws, not sweeps, and have loops of their own.

Momentum (docs/derivation.md, 4.8): sweeps of coordinate ascent creep along valleys when components
overlap.  Each new sweep therefore starts not where the last one ended but beyond it, by a share of
the way from the end of the sweep before.  The share grows while that goes well.  Where it raises
the objective, the loop goes back, and the share and its ceiling become smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from bjmd.errors import FitError, positive_number, whole_number
from bjmd.numerics import threads
from bjmd.results.decomposition import Decomposition, FittedModel
from bjmd.results.posterior import Posterior

Watch = Callable[[list[np.ndarray]], Mapping[str, Any]]
"""Called with the memberships after every sweep; the result's history keeps what it returns."""

after_sweep: list[Callable[[], None]] = []
"""Called after every sweep of every fit, in its thread, for progress bars (restarts.py)."""

ROUNDING = 1e-9
"""The relative rise of an objective that is taken for rounding."""

FIRST_SHARE = 0.5
HIGHEST_SHARE = 1.0
GROWTH = 1.05
GROWTH_OF_CEILING = 1.01
SHRINKAGE = 1.5
"""How share and ceiling grow with every step, and how the share shrinks after a harmful one."""
LONGEST = 2.0
"""The most that momentum may change an entry beyond the sweep itself."""

State = TypeVar("State")
"""What one sweep hands to the next; with momentum it has vector(), and at(vector), a moved copy."""


@dataclass(frozen=True)
class Estimates:
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

    def finish(self, state: State) -> Estimates: ...


class Momentum:
    def __init__(self):
        self._last = None
        self._share = self._used = FIRST_SHARE
        self._ceiling = HIGHEST_SHARE

    def beyond(self, end):
        """Where to start the next sweep, given where the last one ended."""
        last = self._last
        self._last = end
        if last is None:
            return end
        self._used = self._share
        self._ceiling = min(HIGHEST_SHARE, GROWTH_OF_CEILING * self._ceiling)
        self._share = min(self._ceiling, GROWTH * self._share)

        def part(a, b):
            last[a:b] = end[a:b] + np.clip(self._used * (end[a:b] - last[a:b]), -LONGEST, LONGEST)

        threads.each(part, _parts(end))
        return last

    def undo(self):
        """The end of the last sweep; the share that did harm becomes the ceiling."""
        self._ceiling = self._used
        self._share = self._used / SHRINKAGE
        return self._last


@dataclass
class Course:
    """Where a fit stands between two sweeps, so that it can go on as if it had never stopped."""

    state: Any = None
    """Where the next sweep starts."""
    best: Any = None
    """Where the last sweep that was kept ended, and its objective."""
    reached: float = np.inf
    momentum: Momentum = field(default_factory=Momentum)
    extrapolated: bool = False
    end: tuple[bool, str] | None = None
    """Whether the fit converged, and the reason, if it cannot go on."""
    trace: list[float] = field(default_factory=list)
    changes: list[tuple[float, float]] = field(default_factory=list)
    """Change of the objective, and what it is relative to, of every sweep that was kept."""
    needed: int = 1
    """How many small changes in a row end the fit."""

    def is_settled(self, tol: float) -> bool:
        last = self.changes[-self.needed :]
        return len(last) == self.needed and all(change <= tol * size for change, size in last)

    def ending(self, tol: float, objective: str, kind: str) -> tuple[bool, str]:
        """Whether the fit has converged, and why it ended."""
        if self.end:
            converged, reason = self.end
            return converged, f"the {objective} {reason}"
        n_sweeps = len(self.trace)
        if self.is_settled(tol):
            return True, f"converged in sweep {n_sweeps} ({kind} below {tol:g})"
        return False, f"stopped at max_sweeps = {n_sweeps}"

    def keep(self, state: Any, value: float, change: tuple[float, float], patience: int) -> None:
        """Go on from the end of a sweep."""
        self.state = self.best = state
        self.reached = value
        self.trace.append(value)
        self.changes.append(change)
        # an extrapolated sweep may gain little by chance, but hardly twice in a row
        self.needed = max(2, patience) if self.extrapolated else patience

    def extrapolate(self, wanted: bool) -> None:
        """Let the next sweep start beyond the end of the last one."""
        self.extrapolated = wanted
        if wanted:
            self.state = self.best.at(self.momentum.beyond(self.best.vector()))

    def undo(self, value: float) -> None:
        """Go back to the end of the last sweep that was kept; the trace repeats its objective."""
        self.trace.append(self.reached)
        if self.extrapolated:
            self.state = self.best.at(self.momentum.undo())
            self.extrapolated = False
            return
        # a plain sweep would rise again and again
        rise = value - self.reached
        if rise <= _rounding(value):
            self.end = True, f"changes by rounding only in sweep {len(self.trace)}"
        else:
            self.end = False, f"rose by {rise:.2g} through rounding in sweep {len(self.trace)}"
            self.trace[-1] = value  # the state goes back, but the trace shows what happened


def _rounding(value):
    return ROUNDING * max(1.0, abs(value))


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
    """Sweep until the objective changes by at most `tol` in `patience` sweeps in a row.

    The change is relative to the objective, or to the number of entries `per_entry`, which does not
    depend on the unit.  Changes count after the first `wait` sweeps.

    After sweep `momentum_from`, each sweep starts beyond the end of the last (`Momentum`), and at
    least two small changes in a row are needed.  What is `monotone` never rises: an extrapolated
    sweep that raised it is undone, and the trace repeats the value before it.  A plain sweep that
    raises it, which only rounding can do, ends the fit.

    A `course` keeps where the fit ends; another run with it and a smaller `tol` continues to what a
    single run would have given, to the bit.
    """
    positive_number("tol", tol, least=0)
    whole_number("max_sweeps", max_sweeps, least=1)
    is_continued = course is not None
    course = course or Course()
    if course.state is None:
        course.state = course.best = algorithm.start()
    watched: list[Mapping[str, Any]] = []
    while not course.end and not course.is_settled(tol) and len(course.trace) < max_sweeps:
        sweep = len(course.trace) + 1
        after, value = algorithm.sweep(course.state)
        for tell in after_sweep:
            tell()
        if not np.isfinite(value):
            raise FitError(
                f"the {objective} became {value} in sweep {sweep}; rescale the data or the priors"
            )
        counts = sweep > wait + 1
        before = course.reached
        if monotone and value - before > (0.0 if counts else _rounding(value)):
            course.undo(value)
            watched += watched[-1:]
            continue
        change = (abs(before - value), per_entry or abs(before)) if counts else (np.inf, 1.0)
        course.keep(after, value, change, patience)
        if watch is not None:
            watched.append(watch(algorithm.memberships(after)))
        course.extrapolate(momentum_from is not None and sweep >= momentum_from)

    kind = "change per entry" if per_entry else "relative change"
    converged, reason = course.ending(tol, objective, kind)
    if not is_continued:  # free the memory: nobody continues from here
        course.state = None
        course.momentum = Momentum()

    estimates = algorithm.finish(course.best)
    final = min(course.reached, estimates.objective)
    trace = np.array(course.trace)
    if trace[-1] == course.reached:
        trace[-1] = final
    if watch is not None:
        watched[-1] = watch(estimates.memberships)
    return Decomposition(
        components=estimates.components,
        memberships=estimates.memberships,
        noise=estimates.noise,
        posterior=estimates.posterior,
        model=estimates.model,
        objective=final,
        trace=trace,
        converged=converged,
        reason=reason,
        history=series(watched),
    )


def series(watched: list[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """What was watched, a series by name."""
    names = watched[0] if watched else ()
    return {name: np.array([entry[name] for entry in watched]) for name in names}


def logarithms(arrays):
    """Positive numbers as logarithms in one vector."""
    vector = np.maximum(np.concatenate([array.ravel() for array in arrays]), np.finfo(float).tiny)
    threads.each(lambda a, b: np.log(vector[a:b], out=vector[a:b]), _parts(vector))
    return vector


def exponentials(vector, shapes):
    """The arrays of such shapes whose logarithms are in the vector."""
    numbers = np.empty_like(vector)
    threads.each(lambda a, b: np.exp(vector[a:b], out=numbers[a:b]), _parts(vector))
    arrays = []
    first = 0
    for shape in shapes:
        last = first + math.prod(shape)
        arrays.append(numbers[first:last].reshape(shape))
        first = last
    return arrays


def _parts(vector):
    return threads.parts(len(vector), 32 * len(vector))  # about what a logarithm costs
