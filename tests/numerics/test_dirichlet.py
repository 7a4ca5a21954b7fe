"""The membership subproblem against its own formula, finite differences, sampling and a
general-purpose optimiser.
"""

import numpy as np
import pytest
import scipy.stats
from scipy.optimize import minimize
from scipy.special import gammaln, psi

from bjmd.numerics import dirichlet, moments
from bjmd.numerics.lanes import gamma_functions


def problem(n_components, n_columns, *, precision=2.0, alpha0=1.1, seed=0):
    rng = np.random.default_rng(seed)
    components = rng.standard_normal((12, n_components))
    data = components @ rng.dirichlet(np.full(n_components, 0.5), n_columns).T
    data += rng.standard_normal(data.shape) / np.sqrt(precision)
    gram = components.T @ components + 0.3 * np.eye(n_components)
    return gram, components.T @ data, precision, np.full(n_components, float(alpha0))


def f(g, gram, b, precision, alpha0):
    """One column's part of the ELBO in the form of docs/derivation.md, 4.4, through the moments of
    h.
    """
    s = g.sum()
    m = g / s
    explained = b @ m - (s * m @ gram @ m + np.diag(gram) @ m) / (2 * (s + 1))
    log_h = psi(g) - psi(s)
    entropy = gammaln(g).sum() - gammaln(s) - (g - 1) @ log_h
    return precision * explained + (alpha0 - 1) @ log_h + entropy


def derivatives(gram, linear, precision, alpha0, g, gaps=None):
    """f, its gradient and its curvature in ln g from the parts of the compiled function, for every
    column of g.
    """
    size, n = g.shape
    precision = np.array(np.broadcast_to(np.asarray(precision, dtype=float), (n,)))
    gaps = np.empty((0, n)) if gaps is None else gaps
    point = np.vstack([g, np.empty(n)])
    functions = np.empty((4, size + 1, n))
    state = np.empty((size + 2, n))
    value = np.empty(n)
    gradient = np.empty((size, n))
    matrix = np.empty((size, size, n))
    dirichlet._sum_up(linear, point, state)
    gamma_functions(point, functions)
    dirichlet._evaluate(gram, gaps, precision, alpha0, point, functions, state, value)
    dirichlet._gradient(linear, precision, alpha0, point, functions, state, gradient)
    dirichlet._curvature(
        gram, gaps, linear, precision, alpha0, point, functions, state, gradient, matrix
    )
    natural = np.empty_like(matrix)
    dirichlet._natural_curvature(
        gram, gaps, precision, point, functions, state, np.zeros(n), natural
    )
    return value, gradient, symmetric(matrix), symmetric(natural)


def symmetric(lower):
    lower = np.tril(lower.transpose(2, 0, 1))
    return lower + np.tril(lower, -1).transpose(0, 2, 1)


def some_points(n_components, n_columns, seed=1):
    return 10 ** np.random.default_rng(seed).uniform(-1.5, 2, size=(n_components, n_columns))


@pytest.mark.parametrize("n_components", [1, 2, 6])
def test_value_and_gradient(n_components):
    gram, linear, precision, alpha0 = problem(n_components, 20)
    g = some_points(n_components, 20)
    value, gradient, _, _ = derivatives(gram, linear, precision, alpha0, g)
    for j in range(20):
        arguments = gram, linear[:, j], precision, alpha0
        np.testing.assert_allclose(value[j], f(g[:, j], *arguments), rtol=1e-9, atol=1e-9)
        numeric = np.empty(n_components)
        for k in range(n_components):
            step = 1e-4 * g[k, j] * np.eye(n_components)[k]
            ends = f(g[:, j] + step, *arguments) - f(g[:, j] - step, *arguments)
            numeric[k] = ends / (2 * step[k])
        # in ln g, where all entries are on one scale
        scale = np.abs(g[:, j] * numeric).max() + 1
        np.testing.assert_allclose(g[:, j] * gradient[:, j], g[:, j] * numeric, atol=1e-6 * scale)


@pytest.mark.parametrize("n_components", [1, 2, 6])
def test_curvature_is_minus_the_second_derivative_in_log_g(n_components):
    gram, linear, precision, alpha0 = problem(n_components, 20)
    g = some_points(n_components, 20)
    _, _, curvature, _ = derivatives(gram, linear, precision, alpha0, g)

    def slope(at):
        return at * derivatives(gram, linear, precision, alpha0, at)[1]

    for k in range(n_components):
        step = np.ones((n_components, 1))
        step[k] = np.exp(1e-5)
        numeric = -(slope(g * step) - slope(g / step)) / 2e-5
        scale = np.abs(curvature).max(axis=(1, 2)) + 1  # with one component f is constant
        np.testing.assert_allclose(curvature[:, k].T / scale, numeric / scale, atol=1e-7)


def test_natural_curvature_is_positive_definite_where_f_is_not_concave():
    gram, linear, precision, alpha0 = problem(4, 300)
    _, _, curvature, natural = derivatives(gram, linear, precision, alpha0, some_points(4, 300))
    assert (np.linalg.eigvalsh(curvature)[:, 0] < 0).any()
    assert (np.linalg.eigvalsh(natural)[:, 0] > 0).all()


def test_natural_curvature_is_the_formula():
    gram, linear, precision, alpha0 = problem(3, 5)
    g = some_points(3, 5)
    _, _, _, natural = derivatives(gram, linear, precision, alpha0, g)
    trigamma = lambda x: (psi(x * (1 + 1e-6)) - psi(x * (1 - 1e-6))) / (2e-6 * x)  # noqa: E731
    for j in range(5):
        s = g[:, j].sum()
        m = g[:, j] / s
        v = gram @ m
        ones = np.ones(3)
        data = gram - np.outer(ones, v) - np.outer(v, ones) + m @ v
        full = np.diag(trigamma(g[:, j])) - trigamma(s) + precision / (s * (s + 1)) * data
        np.testing.assert_allclose(
            natural[j], full * np.outer(g[:, j], g[:, j]), rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("missing", [False, True])
def test_what_a_column_explains_and_how_far_it_moved(missing):
    """L(g) = b.E[h] - <G - gap, E[hh']> / 2, whatever the precision; and the largest change of an
    E[h].
    """
    gram, linear, _, alpha0 = problem(3, 150)
    start = np.ones((3, 150))
    precision = np.linspace(0.1, 2, 150)
    gaps = 0.2 * moments.column_moments(np.ones((3, 150))).T.copy() if missing else None
    best = dirichlet.maximise(
        gram, linear, precision, alpha0, start, tol=1e-4, max_steps=1, gaps=gaps
    )
    m = dirichlet.mean(best.g)
    s = best.g.sum(axis=0)
    np.testing.assert_allclose(
        best.explained, moments.explained(linear, gram, gaps, m, s / (s + 1)), rtol=1e-12
    )
    assert dirichlet.move(best.g, start) == np.abs(m - 1 / 3).max() > 0.01


@pytest.mark.parametrize("alpha0", [1.0, 1.1, 3.0])
@pytest.mark.parametrize("precision", [1e-3, 1.0, 100.0])
def test_maximum_agrees_with_a_general_purpose_optimiser(alpha0, precision):
    gram, linear, precision, weights = problem(3, 12, precision=precision, alpha0=alpha0)
    solution = dirichlet.maximise(
        gram, linear, precision, weights, np.ones((3, 12)), tol=1e-12, max_steps=500
    )
    for j in range(12):
        brute = max(
            -minimize(
                lambda log_g, j=j: -f(np.exp(log_g), gram, linear[:, j], precision, weights),
                start,
                method="Nelder-Mead",
                options={"xatol": 1e-8, "fatol": 1e-10, "maxiter": 5000, "maxfev": 5000},
            ).fun
            for start in (np.zeros(3), np.log(solution.g[:, j]) + 0.1)
        )
        assert solution.value[j] >= brute - 1e-6
        np.testing.assert_allclose(
            solution.value[j],
            f(solution.g[:, j], gram, linear[:, j], precision, weights),
            rtol=1e-9,
            atol=1e-8,
        )


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
    before = derivatives(gram, linear, precision, alpha0, g)[0]
    for _ in range(60):
        solution = dirichlet.maximise(gram, linear, precision, alpha0, g, tol=0.0, max_steps=1)
        assert (solution.value >= before).all()
        before = solution.value
        g = solution.g
    assert (g > 0).all()
    assert np.isfinite(g).all()


def test_a_column_that_gains_nothing_stays_where_it_is():
    gram, linear, precision, alpha0 = problem(4, 100)
    best = dirichlet.maximise(
        gram, linear, precision, alpha0, np.ones((4, 100)), tol=1e-10, max_steps=200
    )
    assert best.promise.max() <= 1e-10
    again = dirichlet.maximise(gram, linear, precision, alpha0, best.g, tol=1e-10, max_steps=200)
    np.testing.assert_array_equal(again.g, best.g)


def test_near_the_top_a_step_gains_what_it_promises(rng):
    gram, linear, precision, alpha0 = problem(4, 100)
    best = dirichlet.maximise(
        gram, linear, precision, alpha0, np.ones((4, 100)), tol=1e-13, max_steps=200
    )
    near = best.g * np.exp(0.003 * rng.standard_normal((4, 100)))
    there = dirichlet.maximise(
        gram, linear, precision, alpha0, near, tol=np.inf, max_steps=1
    )  # takes no step
    np.testing.assert_allclose(there.promise, best.value - there.value, rtol=0.05)


def test_the_start_is_not_overwritten():
    gram, linear, precision, alpha0 = problem(4, 10)
    start = np.ones((4, 10))
    dirichlet.maximise(gram, linear, precision, alpha0, start, tol=1e-10, max_steps=5)
    assert (start == 1).all()


def test_a_column_does_not_depend_on_its_neighbours():
    gram, linear, precision, alpha0 = problem(5, 200)
    start = some_points(5, 200)
    run = lambda b, g: dirichlet.maximise(gram, b, precision, alpha0, g, tol=1e-6, max_steps=20).g  # noqa: E731
    together = run(linear, start)
    backwards = run(linear[:, ::-1].copy(), start[:, ::-1].copy())
    np.testing.assert_allclose(backwards, together[:, ::-1], rtol=1e-9)
    np.testing.assert_allclose(
        run(linear[:, :1].copy(), start[:, :1].copy()), together[:, :1], rtol=1e-9
    )


def test_moments_against_sampling():
    g = np.array([[0.4, 3.0], [1.5, 20.0], [2.5, 7.0]])
    rng = np.random.default_rng(0)
    draws = [rng.dirichlet(column, 200_000) for column in g.T]
    np.testing.assert_allclose(dirichlet.mean(g).T, [d.mean(axis=0) for d in draws], atol=2e-3)
    np.testing.assert_allclose(
        dirichlet.second_moment(g), sum(d.T @ d / len(d) for d in draws), atol=4e-3
    )


def test_columns_with_a_precision_and_a_gap_each_are_problems_of_their_own():
    """Each column by itself, its G less its gap: value, derivatives and the maximum."""
    rng = np.random.default_rng(5)
    components = rng.standard_normal((12, 4))
    present = rng.random((12, 70)) < 0.6
    linear = components.T @ (present * rng.standard_normal((12, 70)))
    precision = rng.uniform(0.1, 30, 70)
    alpha0 = np.array([0.05, 1.0, 1.1, 3.0])
    gram = components.T @ components
    grams = np.einsum("ij,ik,il->jkl", present.astype(float), components, components)
    gaps = np.ascontiguousarray((gram - grams)[:, *np.tril_indices(4)].T)
    g = some_points(4, 70)
    ours = derivatives(gram, linear, precision, alpha0, g, gaps)
    options = {"tol": 1e-13, "max_steps": 300}
    best = dirichlet.maximise(gram, linear, precision, alpha0, g, gaps=gaps, **options)
    for j in range(70):
        one = np.s_[:, [j]]
        alone = derivatives(grams[j], linear[one], precision[j], alpha0, g[one])
        for part, expected in zip(ours, alone, strict=True):
            found = part[:, j] if part is ours[1] else part[j]
            np.testing.assert_allclose(found, expected.reshape(found.shape), rtol=1e-7, atol=1e-9)
        single = dirichlet.maximise(grams[j], linear[one], precision[j], alpha0, g[one], **options)
        np.testing.assert_allclose(best.value[j], single.value[0], rtol=1e-9, atol=1e-9)


def test_weighted_second_moments():
    g = some_points(3, 6)
    weights = np.arange(6.0)
    single = sum(w * dirichlet.second_moment(g[:, [j]]) for j, w in enumerate(weights))
    np.testing.assert_allclose(dirichlet.second_moment(g, weights), single, rtol=1e-12)


def test_logarithms_and_prior_against_sampling():
    """E[ln h], the prior's part of the ELBO and its normaliser, by draws and SciPy's density."""
    g = np.array([[0.5, 2.0], [3.0, 1.0], [1.5, 8.0]])
    rng = np.random.default_rng(0)
    draws = np.stack([rng.dirichlet(column, 200_000) for column in g.T])
    logs = np.log(draws).mean(axis=1)
    np.testing.assert_allclose(dirichlet.mean_log(g), logs.mean(axis=0), atol=0.01)
    alpha0 = np.array([1.2, 2.0, 0.7])
    np.testing.assert_allclose(
        dirichlet.prior_part(g, alpha0), ((alpha0 - 1) * logs).sum(), atol=0.02
    )
    point = np.array([0.2, 0.3, 0.5])
    expected = scipy.stats.dirichlet(alpha0).logpdf(point) - ((alpha0 - 1) * np.log(point)).sum()
    np.testing.assert_allclose(dirichlet.log_normaliser(alpha0), expected)
