import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.numerics.nonnegative import multiply
from bjmd_paper.baselines import semi_nmf


def literal_sweep(x, h):
    """Ding, Li and Jordan's two updates, entry by entry, with G = H'."""
    w = x @ h.T @ np.linalg.inv(h @ h.T)
    b = w.T @ x
    q = w.T @ w
    out = np.empty_like(h)
    for k in range(h.shape[0]):
        for j in range(h.shape[1]):
            up = max(b[k, j], 0) + sum(max(-q[k, m], 0) * h[m, j] for m in range(len(q)))
            down = max(-b[k, j], 0) + sum(max(q[k, m], 0) * h[m, j] for m in range(len(q)))
            out[k, j] = h[k, j] * np.sqrt(up / down)
    return w, out


def sweep(x, h):
    algorithm = semi_nmf.SemiNMF(Sources([x]), h)
    return algorithm.sweep(algorithm.start())


def test_a_sweep_against_the_literal_update(rng):
    x = rng.standard_normal((7, 9))
    h = rng.random((3, 9))
    w, expected = literal_sweep(x, h)
    state, error = sweep(x, h)
    np.testing.assert_allclose(state.wt.T, w, rtol=1e-10)
    np.testing.assert_allclose(state.h, expected, rtol=1e-10)
    np.testing.assert_allclose(error, ((x - w @ expected) ** 2).sum(), rtol=1e-10)


def test_what_nothing_pulls_down_stays_as_it_is():
    """B- + lowered is 0 where a component is zero, and there is nothing to divide by."""
    h = np.array([[2.0, 3.0]])
    multiply(np.array([[0.0, -1.0]]), np.array([[0.0, 4.0]]), np.zeros((1, 2)), h)
    np.testing.assert_allclose(h, [[2, 6]])


def test_the_solution_is_stationary(make_sources):
    sources = make_sources(n_samples=(20, 15))
    result = registry.fit("semi-nmf", sources, 2, tol=1e-300, max_sweeps=20_000)
    x = np.hstack(sources.matrices)
    w = result.components
    h = np.hstack(result.memberships)
    slope = w.T @ (w @ h - x)
    scale = np.abs(w.T @ x).max()
    assert np.abs(h * slope).max() <= 1e-4 * scale
    assert slope[h < 1e-8].min(initial=0) >= -1e-3 * scale


def test_the_start_is_k_means_plus_an_offset(make_sources):
    sources = make_sources(n_samples=(20, 15)).concatenated()
    clusters = registry.fit("kmeans", sources, 3, seed=6).memberships[0]
    _, expected = literal_sweep(sources.matrices[0], clusters + 0.2)
    result = registry.fit("semi-nmf", sources, 3, seed=6, max_sweeps=1)
    np.testing.assert_allclose(result.memberships[0], expected, rtol=1e-8)


def test_equal_components_do_not_break_the_least_squares(rng):
    """HH' is singular: the pseudo-inverse shares W between the two equal components."""
    x = rng.standard_normal((5, 8))
    row = rng.random(8)
    wt = sweep(x, np.array([row, row]))[0].wt
    np.testing.assert_allclose(wt[0], x @ row / (row @ row) / 2, rtol=1e-10)
    np.testing.assert_allclose(wt[0], wt[1], rtol=1e-10)
