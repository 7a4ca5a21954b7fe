"""Joint NMF and its kinds: intNMF, iNMF, sparse NMF and iONMF."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import non_negative_factorization

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry, restarts
from bjmd_paper.baselines.inmf import IntegrativeNMF
from bjmd_paper.baselines.joint_nmf import JointNMF, random_factors


def assert_stationary(pairs, atol):
    """Slopes are zero where a factor is positive and not negative where it is zero."""
    for factor, slope in pairs:
        assert np.abs(slope[factor > 1e-6]).max(initial=0) <= atol
        assert slope[factor <= 1e-6].min(initial=0) >= -atol


def test_the_best_start_is_as_good_as_scikit_learns(nonnegative):
    """Local minima differ between starts, hence the best of ten on either side."""
    x = np.hstack(nonnegative.matrices)

    def error_of_scikit_learn(seed):
        w, h, _ = non_negative_factorization(
            x, n_components=3, init="random", tol=1e-8, max_iter=20_000, random_state=seed
        )
        return ((x - w @ h) ** 2).sum()

    results = restarts.run("jnmf", nonnegative, 3, n_restarts=10)
    assert all(result.converged for result in results)
    (best,) = restarts.best(results, 1)
    assert best.objective <= (1 + 1e-4) * min(error_of_scikit_learn(seed) for seed in range(10))
    np.testing.assert_allclose(
        best.objective, ((x - best.components @ np.hstack(best.memberships)) ** 2).sum(), rtol=1e-10
    )


def test_sparse_data_stay_sparse(rng):
    """Dense they would be 20 GB."""
    x = scipy.sparse.random_array((50_000, 50_000), density=4e-7, rng=rng)
    result = registry.fit("jnmf", Sources([x]), 2, max_sweeps=3)
    assert result.objective < (x.data**2).sum()


@pytest.mark.parametrize(
    ("name", "theta", "options"),
    [("jnmf", [1.0, 1.0], {}), ("intnmf", [0.2, 5.0], {"weights": [0.2, 5.0]})],
)
def test_the_solution_is_stationary_and_has_the_weighted_error(nonnegative, name, theta, options):
    result = registry.fit(name, nonnegative, 3, tol=1e-14, max_sweeps=100_000, **options)
    w = result.components
    blocks = list(zip(theta, nonnegative.matrices, result.memberships, strict=True))
    slope_of_w = sum(t * (w @ h - x) @ h.T for t, x, h in blocks)
    pairs = [(w, slope_of_w), *((h, w.T @ (w @ h - x)) for _, x, h in blocks)]
    assert_stationary(pairs, 1e-4)
    error = sum(t * ((x - w @ h) ** 2).sum() for t, x, h in blocks)
    np.testing.assert_allclose(result.objective, error, rtol=1e-8)


def test_equal_weights_are_joint_nmf(nonnegative):
    plain = registry.fit("jnmf", nonnegative, 3, seed=1)
    weighted = registry.fit("intnmf", nonnegative, 3, seed=1, weights=[1, 1])
    np.testing.assert_array_equal(plain.components, weighted.components)
    np.testing.assert_array_equal(np.hstack(plain.memberships), np.hstack(weighted.memberships))


def test_the_default_weights_are_one_over_the_variance(nonnegative):
    by_hand = [1 / np.var(x) for x in nonnegative.matrices]
    one, other = (
        registry.fit("intnmf", nonnegative, 3, weights=weights) for weights in ("variance", by_hand)
    )
    np.testing.assert_allclose(one.components, other.components, rtol=1e-8, atol=1e-10)
    sources = Sources([nonnegative.matrices[0], np.full((12, 4), 0.1)])
    with pytest.raises(InputError, match="all entries of source 'source 2' are equal"):
        registry.fit("intnmf", sources, 3)


@pytest.mark.parametrize("weights", ["noise", [1.0], [1.0, 0.0]])
def test_bad_weights_are_refused(nonnegative, weights):
    with pytest.raises(InputError, match=r"it must be .* for each of the 2 sources"):
        registry.fit("intnmf", nonnegative, 3, weights=weights)


def settled(sources, lambda_, n_sweeps, seed=0):
    """The state after many sweeps, with V, which a result does not have; and the error."""
    algorithm = IntegrativeNMF(sources, *random_factors(sources, 3, seed), lambda_)
    state = algorithm.start()
    for _ in range(n_sweeps):
        state, error = algorithm.sweep(state)
    return state.wt.T, [vt.T for vt in state.vts], algorithm.memberships(state), error


def test_the_error_of_inmf_is_what_the_formula_says(nonnegative):
    w, vs, hs, error = settled(nonnegative, 2.0, 5)
    literal = sum(
        ((x - (w + v) @ h) ** 2).sum() + 2.0 * ((v @ h) ** 2).sum()
        for x, v, h in zip(nonnegative.matrices, vs, hs, strict=True)
    )
    np.testing.assert_allclose(error, literal, rtol=1e-10)
    assert max(v.max() for v in vs) > 0.01 * w.max(), (
        "the sources differ, so that V has something to say"
    )


def test_the_solution_of_inmf_is_stationary(nonnegative):
    lambda_ = 2.0
    w, vs, hs, _ = settled(nonnegative, lambda_, 5000)
    errors = [(w + v) @ h - x for x, v, h in zip(nonnegative.matrices, vs, hs, strict=True)]
    pairs = [(w, sum(e @ h.T for e, h in zip(errors, hs, strict=True)))]
    for v, h, e in zip(vs, hs, errors, strict=True):
        pairs += [(v, (e + lambda_ * v @ h) @ h.T), (h, (w + v).T @ e + lambda_ * v.T @ v @ h)]
    assert_stationary(pairs, 1e-4)


def test_a_large_lambda_gives_joint_nmf_sweep_by_sweep(nonnegative):
    *_, error = settled(nonnegative, 1e12, 20, seed=3)
    pooled = nonnegative.concatenated()
    joint = JointNMF(pooled, *random_factors(pooled, 3, 3))
    state = joint.start()
    for _ in range(20):
        state, expected = joint.sweep(state)
    np.testing.assert_allclose(error, expected, rtol=1e-8)


def test_private_versions_explain_what_one_version_cannot(rng):
    """With hardly a penalty, sources that share nothing but K are fitted exactly."""
    sources = Sources([rng.random((12, 3)) @ rng.random((3, 30)) for _ in range(2)])
    free = registry.fit("inmf", sources, 3, lambda_=1e-9, tol=1e-12, max_sweeps=2000)
    joint = registry.fit("jnmf", sources, 3)
    assert free.objective < 0.01 * joint.objective


def test_sparse_nmf_is_stationary_in_the_penalised_error_in_any_unit(nonnegative):
    l1 = 0.02
    options = {"l1": l1, "tol": 1e-12, "max_sweeps": 20_000}
    result = registry.fit("sparse-nmf", nonnegative, 3, **options)
    x = np.hstack(nonnegative.matrices)
    unit = np.sqrt((x**2).mean())
    w = result.components / unit
    h = np.hstack(result.memberships)
    error = w @ h - x / unit
    slopes = [(w, error @ h.T + l1 * x.shape[1]), (h, w.T @ error + l1 * x.shape[0])]
    assert_stationary(slopes, 1e-4)
    penalty = l1 * (x.shape[1] * w.sum() + x.shape[0] * h.sum())
    np.testing.assert_allclose(result.objective, (error**2).sum() / 2 + penalty)
    plain = registry.fit("sparse-nmf", nonnegative, 3, **options | {"l1": 1e-9})
    assert (h == 0).sum() > (np.hstack(plain.memberships) == 0).sum()
    scaled = Sources([1024 * matrix for matrix in nonnegative.matrices])
    again = registry.fit("sparse-nmf", scaled, 3, **options)
    np.testing.assert_allclose(again.components, 1024 * result.components, rtol=1e-6, atol=1e-6)


def test_ionmf_is_stationary_in_the_penalised_error(nonnegative):
    weight = 0.01
    options = {"orthogonality": weight, "tol": 1e-14, "max_sweeps": 50_000}
    result = registry.fit("ionmf", nonnegative, 3, **options)
    w = result.components
    pairs = []
    slope_of_w = 0.0
    total = 0.0
    for x, h in zip(nonnegative.matrices, result.memberships, strict=True):
        error = w @ h - x
        theta = weight * (x**2).sum()
        off = h @ h.T - np.eye(3)
        slope_of_w += error @ h.T
        pairs.append((h, w.T @ error + 2 * theta * off @ h))
        total += (error**2).sum() + theta * (off**2).sum()
    np.testing.assert_allclose(result.objective, total, rtol=1e-9)
    assert_stationary([(w, slope_of_w), *pairs], 1e-3 * np.abs(w.T @ x).max())


def test_a_large_weight_makes_the_memberships_of_ionmf_orthogonal(nonnegative):
    result = registry.fit("ionmf", nonnegative, 3, orthogonality=100.0, max_sweeps=5000, tol=1e-9)
    for h in result.memberships:
        np.testing.assert_allclose(h @ h.T, np.eye(3), atol=0.02)
