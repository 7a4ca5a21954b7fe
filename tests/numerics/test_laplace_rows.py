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


def test_no_step_lowers_a_log_density(rows, monkeypatch):
    """In Python, where one step can be the last."""
    precision, y, w = rows
    monkeypatch.setattr(laplace, "MAX_ROW_STEPS", 1)
    climb = getattr(laplace._climb_rows, "py_func", laplace._climb_rows)
    before = f(precision, y, w)
    climb(precision, y, w, LAMBDA, EPS, np.empty((3, 3, 500)))
    assert (f(precision, y, w) >= before).all()
