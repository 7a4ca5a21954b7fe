"""A small, fixed share of what `make prove` tries on many thousand cases; hypothesis chooses, the
same every time.
"""

import logging

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from prove import fits, inputs, stress

from bjmd.numerics import dirichlet, simplex

fixed = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", range(len(fits.KINDS)), ids=list(fits.KINDS))
@settings(fixed, max_examples=8)
@given(number=st.integers(0, 10**6))
def test_random_fits_keep_their_promises(kind, number):
    assert fits.check(number * len(fits.KINDS) + kind)[1] == []


# fmt: off
ONCE_WRONG = {
    # a slope with two signs at one end; and a source of one sample with less than 1e-15 of the
    # other's noise variance, whose sum no float64 holds
    fits: (16362, 1212, 26846),
    # a traceback, or half a page
    inputs: (
        4184, 7135, 9458, 9612, 10388, 10412, 10886, 11193, 12463, 12856, 13683, 15716, 19549,
        23559, 66166,
    ),
    # a0 = 1e70 leaves no noise, and columns that are not numbers
    stress: (38, 178),
}
# fmt: on


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "number"), [(kind, number) for kind in ONCE_WRONG for number in ONCE_WRONG[kind]]
)
def test_what_once_went_wrong(kind, number):
    assert kind.check(number)[1] == []


@pytest.mark.filterwarnings("ignore")
@settings(fixed, max_examples=200)
@given(number=st.integers(0, 10**9))
def test_damaged_inputs_are_refused_in_a_sentence(number):
    assert inputs.check(number)[1] == []


@pytest.mark.filterwarnings("ignore")
@settings(fixed, max_examples=20)
@given(number=st.integers(0, len(stress.CASES) - 1))
def test_numbers_of_any_size_give_numbers_or_a_sentence(number):
    assert stress.check(number)[1] == []


@fixed
@given(
    components=arrays(
        float, st.tuples(st.just(7), st.integers(1, 6)), elements=st.floats(-1e3, 1e3)
    ),
    data=arrays(float, (7, 5), elements=st.floats(-1e3, 1e3)),
    alpha=st.sampled_from([0.0, 1e-9, 0.1, 10.0]),
)
def test_any_membership_problem_is_solved_from_anywhere(components, data, alpha):
    """Cold, warm, and from the solution of the opposite problem."""
    gram = components.T @ components
    linear = components.T @ data
    cold = simplex.minimise(gram, linear, alpha)
    assert cold.residual.max() <= 1e-8
    assert (cold.h > 0).all() and np.abs(cold.h.sum(axis=0) - 1).max() <= 1e-12
    there = simplex.minimise(gram, -linear, alpha)
    assert simplex.minimise(gram, linear, alpha, start=there).residual.max() <= 1e-8


@fixed
@given(
    components=arrays(
        float, st.tuples(st.just(7), st.integers(1, 6)), elements=st.floats(-1e3, 1e3)
    ),
    data=arrays(
        float,
        array_shapes(min_dims=1, max_dims=1, min_side=7, max_side=7),
        elements=st.floats(-1e3, 1e3),
    ),
    precision=st.floats(1e-6, 1e6),
    alpha=st.floats(0.01, 10),
)
def test_any_dirichlet_problem_rises_and_ends(components, data, precision, alpha):
    size = components.shape[1]
    gram = components.T @ components
    linear = (components.T @ data)[:, None]
    alpha0 = np.full(size, alpha)
    start = np.full((size, 1), alpha)
    assume(np.isfinite(linear).all())
    before = dirichlet.maximise(gram, linear, precision, alpha0, start, tol=np.inf, max_steps=1)
    after = dirichlet.maximise(gram, linear, precision, alpha0, start, tol=1e-10, max_steps=200)
    assert (after.g > 0).all() and np.isfinite(after.g).all()
    assert after.value >= before.value - 1e-9 * np.abs(before.value)
