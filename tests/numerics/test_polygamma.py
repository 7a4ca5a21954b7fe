"""The gamma functions against SciPy's."""

import numpy as np
import pytest
from numba import njit
from scipy.special import gammaln, polygamma, psi

from bjmd.numerics.lanes import gamma_functions


@njit
def compiled(x, out):
    gamma_functions(x, out)


def ours(x):
    out = np.empty((4, *x.shape))
    compiled(x, out)
    return out


POINTS = {
    "vanishing": np.geomspace(1e-30, 1e-3, 210),
    "ordinary": np.geomspace(1e-3, 50, 210),
    "large": np.geomspace(50, 1e30, 210),
    # ln Gamma is zero at 1 and 2, psi at 1.46163...
    "near the zeros": np.concatenate(
        [zero + np.linspace(-1e-3, 1e-3, 70) for zero in (1, 2, 1.4616321449683623)]
    ),
}


@pytest.mark.parametrize("name", POINTS)
def test_agrees_with_scipy(name):
    x = POINTS[name].reshape(3, 70)
    expected = [gammaln(x), psi(x), polygamma(1, x), polygamma(2, x)]
    # near its zeros a function can only be right in absolute terms
    absolute = [1e-13, 1e-13, 0, 0]
    for got, want, tolerance in zip(ours(x), expected, absolute, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-13, atol=tolerance)


def test_recurrences_hold():
    """Gamma(x + 1) = x Gamma(x) and what its logarithm's derivatives make of it; independent of
    SciPy.
    """
    x = np.geomspace(1e-2, 1e2, 60).reshape(2, 30)
    step = ours(x + 1) - ours(x)
    for got, want in zip(step, [np.log(x), 1 / x, -1 / x**2, 2 / x**3], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-12)


def test_known_values():
    """Gamma(1/2) = sqrt(pi), psi(1) = -Euler's constant, psi'(1) = pi^2/6, psi''(1) = -2 zeta(3)"""
    half, one = ours(np.array([[0.5, 1.0]])).transpose(2, 0, 1)[:, :, 0]
    np.testing.assert_allclose(half[0], 0.5 * np.log(np.pi), rtol=1e-13)
    np.testing.assert_allclose(
        one, [0, -np.euler_gamma, np.pi**2 / 6, -2 * 1.2020569031595942], rtol=1e-12, atol=1e-13
    )
