"""Rows under the smoothed Laplace prior; tests/paper/baselines/test_laplace.py has their modes."""

import numpy as np
import pytest

from bjmd.numerics import laplace

LAMBDA = 0.7
EPS = 0.01


@pytest.fixture
def rows(rng):
    """P, y and w of many rows."""
    half = rng.standard_normal((3, 9))
    w = rng.standard_normal((3, 500)) * 10 ** rng.uniform(-3, 2, 500)
    return half @ half.T, 10 * rng.standard_normal((3, 500)), w


def f(precision, y, w):
    """y'w - w'Pw/2 - sum_k sqrt(w_k^2 + eps^2) / lambda of every row."""
    smooth = np.sqrt(w**2 + EPS**2) / LAMBDA
    return (y * w - 0.5 * w * (precision @ w) - smooth).sum(axis=0)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_gain_of_a_step_is_a_difference_of_log_densities(rows, rng, size):
    precision, y, w = rows
    step = size * rng.standard_normal(w.shape)
    gradient = y - precision @ w - w / np.sqrt(w**2 + EPS**2) / LAMBDA
    found = np.empty(500)
    laplace._gain(precision, gradient, w, step, LAMBDA, EPS, found)
    np.testing.assert_allclose(found, f(precision, y, w + step) - f(*rows), rtol=1e-6, atol=1e-9)


@pytest.fixture
def one_step(monkeypatch):
    """In Python, where one step can be the last; nothing may be compiled with that number."""
    climb = getattr(laplace._climb_rows, "py_func", laplace._climb_rows)

    def step(precision, y, w):
        with monkeypatch.context() as patch:
            patch.setattr(laplace, "MAX_ROW_STEPS", 1)
            return climb(precision, y, w, LAMBDA, EPS, np.empty((3, 3, 500)))

    return step


def test_a_step_is_newtons_halved_until_it_keeps_a_tenth_of_its_promise(rows, one_step):
    """The prior is so strong that whole steps leap across its corner at 0."""
    precision = rows[0] / 100
    y = rows[1] / 10
    w = rows[2]
    smooth = np.sqrt(w**2 + EPS**2)
    gradient = y - precision @ w - w / smooth / LAMBDA
    curvature = EPS**2 / smooth**3 / LAMBDA
    bend = precision + curvature.T[:, :, None] * np.eye(3)
    step = np.linalg.solve(bend, gradient.T[:, :, None])[:, :, 0].T
    promise = (gradient * step).sum(axis=0)
    before = f(precision, y, w)
    length = np.ones(500)
    for _ in range(29):
        gain = f(precision, y, w + length * step) - before
        length[gain < 0.1 * length * promise] /= 2
    expected = w + length * step
    assert (length < 0.5).sum() > 20 and (length == 1).sum() > 20
    one_step(precision, y, w)
    np.testing.assert_allclose(w, expected, rtol=1e-7, atol=1e-9)
    assert (f(precision, y, w) >= before).all()


def test_rows_that_have_not_reached_their_mode_are_counted(rows, one_step):
    precision, y, w = rows
    modes = w.copy()
    assert laplace.approximate_rows(precision, y, modes, LAMBDA, EPS)[-1] == 0
    w[:, :200] = modes[:, :200]
    assert one_step(precision, y, w) == 300
