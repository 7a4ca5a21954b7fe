import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import non_negative_factorization

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry, restarts


@pytest.fixture
def nonnegative(make_sources):
    return Sources([np.abs(x) for x in make_sources(n_samples=(20, 15)).matrices])


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


def test_the_error_never_rises(make_sources):
    for trial in range(30):
        sources = Sources([np.abs(x) for x in make_sources(trial, n_samples=(20, 15)).matrices])
        result = registry.fit("jnmf", sources, 1 + trial % 5, seed=trial, tol=1e-300, max_sweeps=80)
        assert (np.diff(result.trace) <= 1e-9 * result.trace[:-1]).all(), f"trial {trial}"
        assert result.components.min() >= 0 and min(h.min() for h in result.memberships) >= 0


def test_the_unit_of_the_data_does_not_matter(nonnegative):
    plain = registry.fit("jnmf", nonnegative, 3)
    scaled = registry.fit("jnmf", Sources([2.0**20 * x for x in nonnegative.matrices]), 3)
    np.testing.assert_allclose(scaled.trace, 2.0**40 * plain.trace, rtol=1e-6)


def test_sparse_data_stay_sparse(rng):
    """Dense they would be 20 GB."""
    x = scipy.sparse.random_array((50_000, 50_000), density=4e-7, rng=rng)
    result = registry.fit("jnmf", Sources([x]), 2, max_sweeps=3)
    assert result.objective < (x.data**2).sum()


def test_the_solution_is_stationary(nonnegative):
    """Slopes are zero where the factor is positive and not negative where it is zero."""
    result = registry.fit("jnmf", nonnegative, 3, tol=1e-14, max_sweeps=100_000)
    x = np.hstack(nonnegative.matrices)
    w = result.components
    h = np.hstack(result.memberships)
    for factor, slope in ((w, (w @ h - x) @ h.T), (h, w.T @ (w @ h - x))):
        assert np.abs(slope[factor > 0]).max() <= 1e-5
        assert slope[factor == 0].min(initial=0) >= -1e-5


def test_rank_one_data_are_found_exactly(rng):
    x = np.outer(rng.random(8), rng.random(11))
    result = registry.fit("jnmf", Sources([x]), 1, tol=1e-12)
    np.testing.assert_allclose(result.components @ result.memberships[0], x, rtol=1e-6)


def test_sparse_equals_dense(nonnegative):
    cut = [np.where(x > 0.5, x, 0.0) for x in nonnegative.matrices]
    dense, sparse = (
        registry.fit("jnmf", Sources([make(x) for x in cut]), 3)
        for make in (np.asarray, scipy.sparse.csr_array)
    )
    np.testing.assert_allclose(dense.components, sparse.components, atol=1e-6)
    np.testing.assert_allclose(dense.objective, sparse.objective, rtol=1e-8)


def test_running_out_of_sweeps_is_not_convergence(nonnegative):
    result = registry.fit("jnmf", nonnegative, 3, max_sweeps=2)
    assert not result.converged
    assert result.reason == "stopped at max_sweeps = 2"


@pytest.mark.parametrize("name", ["jnmf", "bnmf", "intnmf", "inmf"])
@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_negative_entries_are_refused(nonnegative, name, make):
    bad = nonnegative.matrices[1].copy()
    bad[2, 3] = -1e-9
    with pytest.raises(InputError) as refusal:
        registry.fit(name, Sources([make(nonnegative.matrices[0]), make(bad)]), 3)
    assert str(refusal.value) == (
        f"method '{name}' needs non-negative data but source 'source 2' has negative entries; "
        "shift, clip or exponentiate it first"
    )
