"""The simplex solver against its optimality conditions, closed forms and a general solver."""

import numpy as np
import pytest
from scipy.optimize import minimize, nnls
from scipy.special import softmax

from bjmd.numerics import simplex
from bjmd.numerics.simplex import _keep_what_did_not_fall, minimise


def problem(
    n_components, n_columns, alpha, *, scale=1.0, rank=None, far=1.0, n_features=30, seed=0
):
    rng = np.random.default_rng(seed)
    components = rng.standard_normal((n_features, n_components))
    if rank is not None:
        components = components[:, :rank] @ rng.standard_normal((rank, n_components))
    memberships = rng.dirichlet(np.full(n_components, 0.3), n_columns).T
    data = scale * far * (components @ memberships + rng.standard_normal((n_features, n_columns)))
    components = scale * components
    return components.T @ components, components.T @ data, np.full(n_components, alpha * scale**2)


def kkt_residual(gram, linear, alpha, solution):
    """The conditions of the module's docstring, written out for the whole matrix at once."""
    gradient = gram @ solution.h - linear - solution.slack
    multiplier = (solution.h * gradient).sum(axis=0) / solution.h.sum(axis=0)
    scale = np.maximum(max(np.abs(gram).max(), alpha.max()), np.abs(linear).max(axis=0))
    dual = np.abs(gradient - multiplier).max(axis=0) / scale
    complementarity = np.abs(solution.h * solution.slack - alpha[:, None]).max(axis=0) / scale
    return np.maximum(np.maximum(dual, complementarity), np.abs(solution.h.sum(axis=0) - 1))


CASES = {
    "ordinary": {"n_components": 5, "alpha": 0.1},
    "plain QP": {"n_components": 5, "alpha": 0.0},
    "almost plain QP": {"n_components": 5, "alpha": 1e-9},
    "strong prior": {"n_components": 5, "alpha": 100.0},
    "one component": {"n_components": 1, "alpha": 0.1},
    "one component, plain QP": {"n_components": 1, "alpha": 0.0},
    "two components": {"n_components": 2, "alpha": 0.1},
    "two components, plain QP": {"n_components": 2, "alpha": 0.0},
    "fifty components": {"n_components": 50, "alpha": 0.1, "n_features": 80},
    "fifty components, singular": {"n_components": 50, "alpha": 0.1},
    "fifty components, singular, plain QP": {"n_components": 50, "alpha": 0.0},
    "singular": {"n_components": 8, "alpha": 0.1, "rank": 3},
    "singular, plain QP": {"n_components": 8, "alpha": 0.0, "rank": 3},
    "zero gram": {"n_components": 4, "alpha": 0.1, "rank": 0},
    "corners": {"n_components": 6, "alpha": 0.1, "far": 100.0},
    "far corners": {"n_components": 6, "alpha": 0.1, "far": 1e6},
    "corners, plain QP": {"n_components": 6, "alpha": 0.0, "far": 100.0},
    "tiny data": {"n_components": 5, "alpha": 0.1, "scale": 1e-6},
    "tiny data, plain QP": {"n_components": 5, "alpha": 0.0, "scale": 1e-6},
    "vanishing data, plain QP": {"n_components": 5, "alpha": 0.0, "scale": 1e-60},
    "huge data": {"n_components": 5, "alpha": 0.1, "scale": 1e6},
    "huge data, plain QP": {"n_components": 5, "alpha": 0.0, "scale": 1e6},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_optimality_conditions_hold_on_every_column(case):
    gram, linear, alpha = problem(n_columns=300, **case)
    solution = minimise(gram, linear, alpha)
    residual = kkt_residual(gram, linear, alpha, solution)
    assert residual.max() <= 1e-8
    np.testing.assert_allclose(solution.residual, residual, rtol=0.05, atol=1e-12)
    assert (solution.h > 0).all()
    assert (solution.slack > 0).all()
    assert np.abs(solution.h.sum(axis=0) - 1).max() <= 1e-12


def test_where_steps_run_out_the_residual_is_that_of_the_columns_returned(monkeypatch):
    """In Python, where the last step can be another."""
    monkeypatch.setattr(simplex, "MAX_STEPS", 3)
    in_python = getattr(simplex._minimise, "py_func", simplex._minimise)
    monkeypatch.setattr(simplex, "_minimise", in_python)
    gram, linear, alpha = problem(4, 10, 0.1)
    solution = minimise(gram, linear, alpha)
    residual = kkt_residual(gram, linear, alpha, solution)
    assert residual.min() > 1e-6
    np.testing.assert_allclose(solution.residual, residual, rtol=0.05)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 5.0])
def test_agrees_with_a_general_purpose_solver(alpha):
    """SciPy's BFGS in softmax coordinates, where the constraints are gone."""
    gram, linear, weight = problem(4, 25, alpha)
    ours = minimise(gram, linear, weight).h

    def value_and_gradient(logits, b):
        h = softmax(logits)
        slope = gram @ h - b - weight / h
        return 0.5 * h @ gram @ h - b @ h - weight @ np.log(h), h * (slope - h @ slope)

    for j in range(linear.shape[1]):
        theirs = minimize(
            value_and_gradient, np.zeros(4), linear[:, j], "BFGS", jac=True, options={"gtol": 1e-9}
        )
        np.testing.assert_allclose(ours[:, j], softmax(theirs.x), atol=1e-6)


def test_plain_quadratic_programme_agrees_with_nonnegative_least_squares():
    rng = np.random.default_rng(3)
    components = rng.standard_normal((20, 6))
    data = rng.standard_normal((20, 40))
    ours = minimise(components.T @ components, components.T @ data, 0.0).h
    heavy = 1e5  # the weight of one more equation that asks the sum to be 1
    for j in range(data.shape[1]):
        theirs, _ = nnls(np.vstack([components, np.full(6, heavy)]), np.append(data[:, j], heavy))
        np.testing.assert_allclose(ours[:, j], theirs, atol=1e-6)


def test_without_data_the_prior_decides():
    alpha = np.array([1.0, 2.0, 5.0])
    h = minimise(np.zeros((3, 3)), np.zeros((3, 4)), alpha).h
    np.testing.assert_allclose(h, np.tile((alpha / alpha.sum())[:, None], 4), atol=1e-8)


def test_a_column_does_not_depend_on_its_neighbours():
    gram, linear, alpha = problem(5, 200, 0.1)
    together = minimise(gram, linear, alpha).h
    np.testing.assert_array_equal(minimise(gram, linear[:, ::-1], alpha).h, together[:, ::-1])
    np.testing.assert_array_equal(minimise(gram, linear[:, :1], alpha).h, together[:, :1])


@pytest.mark.parametrize("far", [1.0, 100.0])
def test_a_start_from_the_wrong_face_is_left(far):
    """The solution of a plain quadratic programme is on a face of the simplex, from which no step
    leads far away.
    """
    gram, linear, _ = problem(20, 60, 0.0, far=far, n_features=20)
    there = minimise(gram, -linear, 0.0)
    back = minimise(gram, linear, 0.0, start=there)
    assert back.residual.max() <= 1e-10
    np.testing.assert_allclose(back.h, minimise(gram, linear, 0.0).h, atol=1e-6)


def test_what_is_begun_anew_does_not_end_above_its_start():
    """From the optimum itself, with a slack from which no step leads anywhere."""
    gram, linear, _ = problem(20, 60, 0.0, n_features=20)
    best = minimise(gram, linear, 0.0, tol=1e-14)
    lost = simplex.Solution(best.h, 1e200 * best.slack, best.residual)
    again = minimise(gram, linear, 0.0, start=lost)
    assert again.residual.max() <= 1e-10
    np.testing.assert_array_equal(again.h, best.h)


def test_repeated_warm_starts_of_a_plain_programme_stay_off_the_boundary():
    """Products h s go no lower than a floor; without it they would underflow, and no step would be
    taken any more.
    """
    gram, linear, _ = problem(5, 40, 0.0)
    solution = None
    for step in range(30):
        solution = minimise(
            gram, linear * (1 + 0.01 * np.sin(step)), 0.0, start=solution, tol=1e-15
        )
    assert (solution.h * solution.slack).min() > 5e-14 * np.abs(gram).max()


def test_only_the_columns_of_a_part_go_back_and_only_those_that_rose():
    gram, linear, alpha = problem(4, 70, 0.1)
    best = minimise(gram, linear, alpha).h
    worse = 0.5 * best + 0.125
    after = np.where(np.arange(70) % 2, worse, best)
    before = np.where(np.arange(70) % 2, best, worse)
    expected = after.copy()
    expected[:, 5:66] = best[:, 5:66]
    _keep_what_did_not_fall(5, 66, gram, linear, alpha, before, after)
    np.testing.assert_array_equal(after, expected)
