"""The column problem of the closed form: steps of the oracle, and the maximum that they lead to."""

import time

import numpy as np
import oracle
import pytest
from scipy.optimize import minimize
from scipy.special import psi

from bjmd.numerics import dirichlet
from bjmd.numerics.lanes import gamma_functions


def problem(n_components, n_columns, *, precision=2.0, alpha0=1.1):
    rng = np.random.default_rng(0)
    components = rng.standard_normal((12, n_components))
    data = components @ rng.dirichlet(np.full(n_components, 0.5), n_columns).T
    data += rng.standard_normal(data.shape) / np.sqrt(precision)
    gram = components.T @ components + 0.3 * np.eye(n_components)
    return gram, components.T @ data, precision, np.full(n_components, float(alpha0))


def some_points(n_components, n_columns):
    return 10 ** np.random.default_rng(1).uniform(-1.5, 2, size=(n_components, n_columns))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_components", [2, 4, 7])
def test_a_step_of_every_column_is_that_of_the_oracle(n_components, missing):
    """From anywhere, with a precision and, where entries are missing, a G for each column; with
    more columns than fit in one block of lanes.
    """
    n = 150
    rng = np.random.default_rng(5)
    components = rng.standard_normal((12, n_components))
    present = rng.random((12, n)) < (0.6 if missing else 1.0)
    linear = components.T @ (present * rng.standard_normal((12, n)))
    precision = rng.uniform(0.1, 30, n)
    alpha0 = rng.choice([0.05, 1.0, 1.1, 3.0], n_components)
    gram = components.T @ components
    grams = np.einsum("ij,ik,il->jkl", present.astype(float), components, components)
    gaps = np.ascontiguousarray((gram - grams)[:, *np.tril_indices(n_components)].T)
    start = some_points(n_components, n)
    options = {"tol": 10.0, "max_steps": 1, "gaps": gaps if missing else None}
    found = dirichlet.maximise(gram, linear, precision, alpha0, start, **options)
    for j, t in enumerate(precision):
        column = t * linear[:, j], t * grams[j], alpha0
        g = oracle.column_step(start[:, j], *column, tol=10.0)
        np.testing.assert_allclose(found.g[:, j], g, rtol=1e-7)
        value = oracle.column_objective(g, *column)
        np.testing.assert_allclose(found.value[j], value, rtol=1e-8, atol=1e-8)
        s = g.sum()
        m = g / s
        square = s * m @ grams[j] @ m + np.diag(grams[j]) @ m
        explained = linear[:, j] @ m - square / (2 * (s + 1))
        np.testing.assert_allclose(found.explained[j], explained, rtol=1e-7, atol=1e-9)
        log_sum = (psi(g) - psi(s)).sum()
        np.testing.assert_allclose(found.log_sum[j], log_sum, rtol=1e-7, atol=1e-9)
    assert 5 < (found.g == start).all(axis=0).sum() < n - 50, "some promise too little"
    moved = np.abs(dirichlet.mean(found.g) - start / start.sum(axis=0)).max()
    assert dirichlet.move(found.g, start) == pytest.approx(moved) and moved > 0.01
    np.testing.assert_array_equal(start, some_points(n_components, n))


@pytest.mark.parametrize("alpha0", [1.0, 1.1, 3.0])
@pytest.mark.parametrize("precision", [1e-3, 1.0, 100.0])
def test_maximum_agrees_with_a_general_purpose_optimiser(alpha0, precision):
    gram, linear, precision, weights = problem(3, 12, precision=precision, alpha0=alpha0)
    solution = dirichlet.maximise(
        gram, linear, precision, weights, np.ones((3, 12)), tol=1e-12, max_steps=500
    )
    for j in range(12):
        column = precision * linear[:, j], precision * gram, weights
        for start in (np.zeros(3), np.log(solution.g[:, j]) + 0.1):
            brute = minimize(
                lambda log_g, column=column: -oracle.column_objective(np.exp(log_g), *column),
                start,
                method="Nelder-Mead",
                options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 5000, "maxfev": 5000},
            )
            assert solution.value[j] >= -brute.fun - 1e-6


def test_without_data_the_posterior_is_the_prior():
    alpha0 = np.array([1.0, 1.1, 4.0])
    start = np.full((3, 5), 7.0)
    solution = dirichlet.maximise(
        np.zeros((3, 3)), np.zeros((3, 5)), 1.0, alpha0, start, tol=1e-14, max_steps=100
    )
    np.testing.assert_allclose(solution.g, np.tile(alpha0[:, None], 5), rtol=1e-6)
    np.testing.assert_allclose(solution.value + dirichlet.log_normaliser(alpha0), 0, atol=1e-10)


@pytest.mark.parametrize("n_components", [1, 2, 6, 30])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_no_step_lowers_f(n_components, scale):
    gram, linear, precision, alpha0 = problem(n_components, 150, precision=scale)
    g = some_points(n_components, 150)
    before = -np.inf
    for _ in range(60):
        solution = dirichlet.maximise(gram, linear, precision, alpha0, g, tol=0.0, max_steps=1)
        assert (solution.value >= before).all()
        before = solution.value
        g = solution.g
    assert (g > 0).all()
    assert np.isfinite(g).all()


def test_at_the_top_there_is_no_step_and_none_that_promises_too_little():
    gram, linear, precision, alpha0 = problem(4, 100)
    start = np.ones((4, 100))
    best = dirichlet.maximise(gram, linear, precision, alpha0, start, tol=1e-13, max_steps=200)
    again = dirichlet.maximise(gram, linear, precision, alpha0, best.g, tol=1e-13, max_steps=200)
    np.testing.assert_array_equal(again.g, best.g)
    there = dirichlet.maximise(gram, linear, precision, alpha0, start, tol=np.inf, max_steps=1)
    np.testing.assert_array_equal(there.g, start)


def test_curvatures_take_less_time_than_their_functions_left_to_python():
    gram, _, precision, alpha = problem(8, 1)
    points = some_points(8, 20_000)

    def seconds(function, *arguments):
        start = time.process_time()
        function(*arguments)
        return time.process_time() - start

    def curvatures(g):
        return dirichlet.curvatures(
            g, np.full(g.shape[1], precision), alpha, gram, np.empty((0, 0))
        )

    curvatures(points[:, :2])  # compiles
    in_python = seconds(gamma_functions, points, np.empty((4, *points.shape)))
    assert seconds(curvatures, points) < in_python / 2
