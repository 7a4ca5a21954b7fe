"""The loop's own duties, on an algorithm whose objective is given."""

from dataclasses import dataclass

import numpy as np
import pytest

from bjmd.errors import FitError
from bjmd.inference import loop


@dataclass(frozen=True)
class State:
    place: float

    def vector(self):
        return np.array([self.place])

    def at(self, vector):
        return State(float(vector[0]))


class Given:
    """The objective of every sweep is the next of a list."""

    def __init__(self, *values):
        self.values = list(values)

    def start(self):
        return State(0.0)

    def sweep(self, state):
        return State(state.place + 1), self.values.pop(0)

    def memberships(self, state):
        return [np.full((1, 1), state.place)]

    def finish(self, state):
        return loop.Found(np.zeros((1, 1)), self.memberships(state))


def test_it_stops_when_the_change_is_small_and_not_before():
    result = loop.run(Given(9.0, 5.0, 4.0, 3.9999, 0.0), tol=1e-3, max_sweeps=10)
    assert result.converged and list(result.trace) == [9, 5, 4, 3.9999]
    result = loop.run(Given(9.0, 8.9999, 5.0, 4.9999, 4.9998), tol=1e-3, max_sweeps=10, patience=2)
    assert len(result.trace) == 5


def test_it_says_when_it_did_not_converge():
    result = loop.run(Given(9.0, 5.0, 1.0), tol=1e-3, max_sweeps=3)
    assert not result.converged and result.reason == "stopped at max_sweeps = 3"


@pytest.mark.parametrize("momentum_from", [50, None])
def test_a_plain_sweep_that_raises_the_objective_is_no_convergence(momentum_from):
    """A rise by rounding ends a fit well; one that is more than rounding is reported, and the state
    before it kept.
    """
    fine = loop.run(
        Given(9.0, 5.0, 5.0 + 1e-12), tol=1e-9, max_sweeps=9, momentum_from=momentum_from
    )
    assert fine.converged and "rounding only in sweep 3" in fine.reason
    bad = loop.run(Given(9.0, 5.0, 5.1), tol=0.1, max_sweeps=9, momentum_from=momentum_from)
    assert not bad.converged and "rose by 0.1 through rounding in sweep 3" in bad.reason
    assert (bad.objective, bad.memberships[0][0, 0]) == (5.0, 2.0)
    assert list(bad.trace) == [9, 5, 5.1] and list(fine.trace) == [
        9,
        5,
        5,
    ]  # what happened, but for rounding


def test_an_objective_that_may_rise_by_right_is_left_alone():
    result = loop.run(Given(9.0, 5.0, 6.0, 5.9999), tol=1e-3, max_sweeps=9, monotone=False)
    assert (
        result.converged
        and list(result.trace) == [9, 5, 6, 5.9999]
        and "undone" not in result.history
    )


def test_rounding_ends_no_fit_before_changes_count():
    """While something is still held, the objective may well be as low as it gets without it."""
    result = loop.run(Given(9.0, 5.0, 5.0 + 1e-12, 3.0, 2.9999), tol=1e-3, max_sweeps=9, wait=3)
    assert result.converged and result.objective == 2.9999
    result = loop.run(Given(9.0, 5.0, 5.1, 3.0), tol=1e-3, max_sweeps=9, wait=3)
    assert not result.converged and "rose by 0.1" in result.reason


def test_an_extrapolated_sweep_that_raises_the_objective_is_undone():
    result = loop.run(
        Given(9.0, 5.0, 4.0, 6.0, 3.0, 3.0, 3.0), tol=1e-9, max_sweeps=9, momentum_from=2
    )
    assert list(result.trace[:5]) == [9, 5, 4, 4, 3]
    assert len(result.history["undone"]) == len(result.trace)
    np.testing.assert_array_equal(result.history["undone"][:5], [np.nan, np.nan, np.nan, 6, np.nan])


def test_a_rise_by_rounding_that_ends_a_fit_is_in_the_history():
    result = loop.run(Given(9.0, 5.0, 5.0 + 1e-12), tol=1e-9, max_sweeps=9, momentum_from=50)
    assert result.history["undone"][-1] == 5.0 + 1e-12 > result.trace[-1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_objective_that_is_no_number_ends_the_fit(value):
    with pytest.raises(FitError, match=r"objective became .* in sweep 2"):
        loop.run(Given(1.0, value), tol=1e-3, max_sweeps=9)
