"""JMD and GLAD against slow references: modes by a general optimiser, Hessians by finite
differences.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.inference.starts import random_memberships
from bjmd.numerics.laplace import approximate_columns, approximate_rows
from bjmd.numerics.simplex import minimise


def softmax(eta):
    e = np.exp(eta - eta.max())
    return e / e.sum()


def hessian(f, at, step=1e-3):
    """Central differences of fourth order in the mixed second derivatives, by Richardson."""

    def plain(d):
        n = len(at)
        out = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                a = d * np.eye(n)[i]
                b = d * np.eye(n)[j]
                out[i, j] = (f(at + a + b) - f(at + a - b) - f(at - a + b) + f(at - a - b)) / (
                    4 * d * d
                )
        return out

    return (4 * plain(step) - plain(2 * step)) / 3


def off_the_ones(size):
    """Orthonormal columns that span the directions orthogonal to 1."""
    return np.linalg.svd(np.ones((1, size)))[2][1:].T


def column_reference(gram, b, s2, alpha0):
    """Mode, covariance and negative ELBO terms of one column, in orthonormal coordinates off the
    direction 1.
    """
    axes = off_the_ones(len(b))

    def f(z):
        h = softmax(axes @ z)
        return (b @ h - 0.5 * h @ gram @ h) / s2 + alpha0 @ np.log(h)

    best = minimize(lambda z: -f(z), np.zeros(len(b) - 1), method="BFGS", options={"gtol": 1e-7})
    h = softmax(axes @ best.x)
    covariance = axes @ np.linalg.inv(-hessian(f, best.x)) @ axes.T
    jacobian = np.diag(h) - np.outer(h, h)
    spread = jacobian @ covariance @ jacobian
    entropy = 0.5 * np.linalg.slogdet(axes.T @ covariance @ axes)[1]
    terms = -(alpha0 @ np.log(h)) + 0.5 * alpha0.sum() * np.trace(covariance @ jacobian) - entropy
    return h, spread, terms


def row_reference(precision, y, lambda_, eps):
    def f(w):
        return y @ w - 0.5 * w @ precision @ w - np.sqrt(w**2 + eps**2).sum() / lambda_

    def slope(w):
        return y - precision @ w - w / np.sqrt(w**2 + eps**2) / lambda_

    best = minimize(
        lambda w: -f(w),
        np.linalg.solve(precision, y),
        jac=lambda w: -slope(w),
        method="BFGS",
        options={"gtol": 1e-9, "maxiter": 10_000},
    )
    bend = eps**2 / (best.x**2 + eps**2) ** 1.5 / lambda_
    covariance = np.linalg.inv(precision + np.diag(bend))
    expected = np.sqrt(best.x**2 + eps**2).sum() / lambda_ + 0.5 * np.diag(covariance) @ bend
    return best.x, covariance, expected - 0.5 * np.linalg.slogdet(covariance)[1]


def random_gram(rng, size):
    half = rng.standard_normal((size, size + 2))
    return half @ half.T


def test_columns_against_an_optimiser_and_finite_differences(rng):
    """70 columns, so that the last block of lanes is not full."""
    size = 4
    s2 = 0.7
    alpha0 = np.array([1.1, 1.0, 2.0, 1.5])
    gram = random_gram(rng, size)
    projection = gram @ rng.dirichlet(np.ones(size), 70).T + rng.standard_normal((size, 70))
    h = minimise(gram, projection, s2 * alpha0).h
    spread, deviation, terms = approximate_columns(gram / s2, alpha0, h)
    expected = [column_reference(gram, projection[:, j], s2, alpha0) for j in range(70)]
    np.testing.assert_allclose(h.T, [e[0] for e in expected], atol=1e-6)
    np.testing.assert_allclose(spread, sum(e[1] for e in expected), atol=1e-4)
    np.testing.assert_allclose(deviation.T, [np.sqrt(np.diag(e[1])) for e in expected], atol=1e-5)
    # the determinant of Lambda + 11' counts the direction 1 with the constant factor K
    np.testing.assert_allclose(terms, sum(e[2] + 0.5 * np.log(size) for e in expected), rtol=1e-6)


@pytest.mark.parametrize(("lambda_", "eps"), [(1.0, 0.1), (0.3, 0.003), (5.0, 0.5)])
def test_rows_against_an_optimiser(rng, lambda_, eps):
    precision = random_gram(rng, 4)
    linear = 3 * rng.standard_normal((4, 70))
    wt = np.zeros_like(linear)
    spread, deviation, terms, failed = approximate_rows(precision, linear, wt, lambda_, eps)
    expected = [row_reference(precision, linear[:, i], lambda_, eps) for i in range(70)]
    np.testing.assert_allclose(wt.T, [e[0] for e in expected], atol=1e-6)
    np.testing.assert_allclose(spread, sum(e[1] for e in expected), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        deviation.T, [np.sqrt(np.diag(e[1])) for e in expected], rtol=1e-4, atol=1e-7
    )
    np.testing.assert_allclose(terms, sum(e[2] for e in expected), rtol=1e-6)
    assert failed == 0


def test_rows_reach_their_mode_from_anywhere(rng):
    """Scales of many orders, sharp corners, equal components: the slope of f at the end is nil next
    to its parts.
    """
    for trial in range(200):
        size = int(rng.integers(1, 7))
        h = rng.dirichlet(np.ones(size), 30).T * 10 ** rng.uniform(-2, 3)
        if trial % 3 == 0:
            h[-1] = h[0]
        lambda_ = 10 ** rng.uniform(-2, 2)
        eps = lambda_ * 10 ** rng.uniform(-3, 0)
        precision = h @ h.T
        linear = h @ (rng.standard_normal((30, 40)) * 10 ** rng.uniform(-2, 3))
        wt = rng.standard_normal((size, 40)) * 10 ** rng.uniform(-3, 3)
        assert approximate_rows(precision, linear, wt, lambda_, eps)[-1] == 0
        slope = linear - precision @ wt - wt / np.sqrt(wt**2 + eps**2) / lambda_
        parts = np.abs(linear) + np.abs(precision) @ np.abs(wt) + 1 / lambda_
        assert np.abs(slope / parts).max() <= 1e-4, f"trial {trial}"


def reference_fit(sources, n_components, seed, n_sweeps, alpha0, lambda_, eps):
    """docs/derivation.md, 7, one row and one column at a time."""
    rng = np.random.default_rng(seed)
    h = [random_memberships(n_components, n, rng) for n in sources.n_samples]
    spread = [np.zeros((n_components, n_components)) for _ in h]
    s2 = [(x**2).mean() for x in sources.matrices]
    trace = []
    for _ in range(n_sweeps):
        precision = sum((b @ b.T + v) / s for b, v, s in zip(h, spread, s2, strict=True))
        linear = sum(x @ b.T / s for x, b, s in zip(sources.matrices, h, s2, strict=True))
        rows = [row_reference(precision, y, lambda_, eps) for y in linear]
        w = np.array([row[0] for row in rows])
        total = sum(row[2] for row in rows)
        gram = w.T @ w + sum(row[1] for row in rows)
        for c, x in enumerate(sources.matrices):
            columns = [
                column_reference(gram, w.T @ x[:, j], s2[c], alpha0) for j in range(x.shape[1])
            ]
            h[c] = np.array([column[0] for column in columns]).T
            spread[c] = sum(column[1] for column in columns)
            second = h[c] @ h[c].T + spread[c]
            error = (x**2).sum() - 2 * (x * (w @ h[c])).sum() + (gram * second).sum()
            s2[c] = error / x.size
            total += 0.5 * error / s2[c] + 0.5 * x.size * np.log(s2[c])
            total += sum(column[2] + 0.5 * np.log(n_components) for column in columns)
        trace.append(total)
    return w, h, np.sqrt(s2), trace


def test_three_sweeps_against_the_literal_algorithm(make_sources):
    sources = make_sources()
    alpha0 = np.array([1.1, 1.3, 1.0])
    given = {"alpha0": alpha0, "lambda_": 0.8, "smoothing": 0.2}
    result = registry.fit("jmd", sources, 3, seed=5, max_sweeps=3, tol=1e-300, **given)
    w, h, noise, trace = reference_fit(sources, 3, 5, 3, alpha0, 0.8, 0.2 * 0.8)
    np.testing.assert_allclose(result.trace, trace, rtol=1e-5)
    np.testing.assert_allclose(result.components, w, atol=1e-4)
    np.testing.assert_allclose(result.noise, noise, rtol=1e-5)
    for ours, theirs in zip(result.memberships, h, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_glad_is_jmd_of_one_source(make_sources):
    sources = make_sources()
    glad = registry.fit("glad", sources, 3, seed=2)
    jmd = registry.fit("jmd", sources.concatenated(), 3, seed=2)
    np.testing.assert_array_equal(glad.trace, jmd.trace)
    np.testing.assert_array_equal(glad.components, jmd.components)
    np.testing.assert_array_equal(np.hstack(glad.memberships), jmd.memberships[0])
    assert glad.noise.tolist() == jmd.noise.tolist() * 2


def test_data_without_noise_end_finite(rng):
    """s2 has no prior to hold it up: only the floor does."""
    components = rng.laplace(size=(12, 2)) * 10
    x = components @ rng.dirichlet(np.ones(2), 30).T
    result = registry.fit("jmd", Sources([x]), 2, max_sweeps=200, alpha0=1.0)
    assert np.isfinite(result.trace).all()
    assert result.noise[0] < 0.02 * x.std()


def test_a_source_of_zeros_is_refused(make_sources):
    sources = Sources([make_sources().matrices[0], np.zeros((12, 4))])
    with pytest.raises(
        InputError, match="source 'source 2' is zero everywhere, so its noise cannot be estimated"
    ):
        registry.fit("jmd", sources, 3)
