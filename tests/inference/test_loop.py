"""The loop's own duties, on an algorithm whose objective is given, and its momentum, with the
numbers of docs/derivation.md, 4.8.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from bjmd.errors import FitError
from bjmd.inference import loop
from bjmd.inference.loop import Momentum


@dataclass(frozen=True)
class State:
    place: float

    def vector(self):
        return np.array([self.place])

    def at(self, vector):
        return State(float(vector[0]))


class Given:
    """The objective of every sweep is the next of a list; the end may have a lower one, and is half
    a step further.
    """

    def __init__(self, *values, last=np.inf):
        self.values = list(values)
        self.last = last

    def start(self):
        return State(0.0)

    def sweep(self, state):
        return State(state.place + 1), self.values.pop(0)

    def memberships(self, state):
        return [np.full((1, 1), state.place)]

    def finish(self, state):
        further = self.memberships(State(state.place + 0.5))
        return loop.Estimates(np.zeros((1, 1)), further, objective=self.last)


def test_it_stops_when_the_change_is_small_and_not_before():
    result = loop.run(Given(9.0, 5.0, 4.0, 3.9999, 0.0), tol=1e-3, max_sweeps=10)
    assert result.converged and list(result.trace) == [9, 5, 4, 3.9999]
    result = loop.run(Given(9.0, 8.9999, 5.0, 4.9999, 4.9998), tol=1e-3, max_sweeps=10, patience=2)
    assert len(result.trace) == 5
    result = loop.run(  # one small change of an extrapolated sweep may be chance
        Given(9.0, 5.0, 4.9999, 4.0, 3.9999, 3.9998), tol=1e-3, max_sweeps=10, momentum_from=1
    )
    assert len(result.trace) == 6
    result = loop.run(Given(9.0, 5.0, 1.0), tol=1e-3, max_sweeps=3)
    assert not result.converged and result.reason == "stopped at max_sweeps = 3"
    result = loop.run(Given(9.0, 5.0, 5.0), tol=1e-300, max_sweeps=9)
    assert result.reason.startswith("converged in sweep 3") and len(result.trace) == 3
    result = loop.run(Given(9.0), tol=1e-3, max_sweeps=1)
    assert not result.converged and list(result.trace) == [9]


def test_changes_are_relative_to_the_objective_before_or_to_the_number_of_entries():
    for values in ((-100.0, -101.0, -103.0), (-100.0, -102.0, -103.0)):
        result = loop.run(Given(*values), tol=0.01, max_sweeps=3)
        assert len(result.trace) == (2 if values[1] == -101 else 3)
        result = loop.run(Given(*values), tol=0.1, max_sweeps=3, per_entry=10)
        assert len(result.trace) == (2 if values[1] == -101 else 3)


def test_the_end_may_lower_the_objective():
    """The trace then ends there, unless it says what went wrong."""
    result = loop.run(Given(9.0, 5.0, 4.0, last=3.0), tol=1e-9, max_sweeps=3)
    assert result.objective == 3 and list(result.trace) == [9, 5, 3]
    result = loop.run(Given(9.0, 5.0, 4.0, last=4.5), tol=1e-9, max_sweeps=3)
    assert result.objective == 4 and list(result.trace) == [9, 5, 4]
    result = loop.run(Given(9.0, 5.0, 6.0, last=3.0), tol=1e-9, max_sweeps=3)
    assert result.objective == 3 and list(result.trace) == [9, 5, 6]


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3, 1e6])
def test_a_rise_by_less_than_a_billionth_is_rounding(size):
    """Of the objective, or of 1 where that is larger."""
    for rise, is_rounding in ((0.8e-9, True), (1.5e-9, False)):
        values = 2 * size, size, size + rise * max(1, size)
        result = loop.run(Given(*values), tol=1e-300, max_sweeps=9)
        assert result.converged == is_rounding, rise


def test_what_is_watched_is_repeated_where_a_sweep_is_undone():
    """The entry is the state after the sweep, and the last that of the result; the fourth is
    undone.
    """
    result = loop.run(
        Given(9.0, 5.0, 4.0, 6.0, 3.0),
        tol=1e-300,
        max_sweeps=5,
        momentum_from=2,
        watch=lambda memberships: {"place": memberships[0][0, 0]},
    )
    places = result.history["place"]
    assert list(result.trace) == [9, 5, 4, 4, 3] and len(places) == 5
    assert list(places[:2]) == [1, 2] and places[3] == places[2]
    assert places[4] == places[2] + 1.5 == result.memberships[0][0, 0]


@pytest.mark.parametrize("momentum_from", [50, None])
def test_a_plain_sweep_that_raises_the_objective_is_no_convergence(momentum_from):
    """A rise by rounding ends a fit well; one that is more than rounding is reported, and the state
    before it kept.
    """
    fine = loop.run(
        Given(9.0, 6.0, 5.0, 5.0 + 1e-12), tol=1e-9, max_sweeps=9, momentum_from=momentum_from
    )
    assert fine.converged and "rounding only in sweep 4" in fine.reason
    bad = loop.run(Given(9.0, 6.0, 5.0, 5.1), tol=0.1, max_sweeps=9, momentum_from=momentum_from)
    assert not bad.converged and "rose by 0.1 through rounding in sweep 4" in bad.reason
    assert (bad.objective, bad.memberships[0][0, 0]) == (5.0, 3.5)
    assert list(bad.trace) == [9, 6, 5, 5.1]  # what happened
    assert list(fine.trace) == [9, 6, 5, 5]  # without rounding


def test_an_objective_that_may_rise_by_right_is_left_alone():
    result = loop.run(Given(9.0, 5.0, 6.0, 5.9999), tol=1e-3, max_sweeps=9, monotone=False)
    assert result.converged and list(result.trace) == [9, 5, 6, 5.9999]


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


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_objective_that_is_no_number_ends_the_fit(value):
    with pytest.raises(FitError, match=r"objective became .* in sweep 2"):
        loop.run(Given(1.0, value), tol=1e-3, max_sweeps=9)


def share_of(momentum, step=1e-3):
    """The share that the momentum takes of the next step of one number."""
    end = momentum._last + step
    return ((momentum.beyond(end) - end) / step).item()


@pytest.fixture
def momentum():
    started = Momentum()
    np.testing.assert_array_equal(started.beyond(np.zeros(1)), [0.0])  # the first step is plain
    return started


def test_the_share_grows_while_it_goes_well_and_up_to_its_ceiling(momentum):
    shares = [share_of(momentum) for _ in range(100)]
    np.testing.assert_allclose(shares[:3], 0.5 * 1.05 ** np.arange(3))
    assert max(shares) <= 1 + 1e-9
    np.testing.assert_allclose(shares[-1], 1)


def test_after_harm_the_way_leads_back_and_a_low_ceiling_rises_slowly(momentum):
    harmful = [share_of(momentum) for _ in range(10)][-1]
    end = momentum._last.copy()
    np.testing.assert_array_equal(momentum.undo(), end)
    free = harmful / 1.5 * 1.05 ** np.arange(25)
    ceiling = harmful * 1.01 ** np.arange(25)
    assert (free > ceiling).any() and ceiling[-1] < 1  # or the test would say little
    np.testing.assert_allclose([share_of(momentum) for _ in range(25)], np.minimum(free, ceiling))
    np.testing.assert_allclose([share_of(momentum) for _ in range(200)][-1], 1)


def test_no_entry_moves_further_than_allowed_and_a_fixed_point_is_not_left():
    momentum = Momentum()
    momentum.beyond(np.zeros(2))
    end = np.array([1000.0, -1.0])
    np.testing.assert_allclose(momentum.beyond(end) - end, [2, -0.5])
    resting = Momentum()
    for _ in range(3):
        np.testing.assert_array_equal(resting.beyond(np.ones(2)), np.ones(2))
