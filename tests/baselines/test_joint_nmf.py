import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import non_negative_factorization

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.fits import registry


@pytest.fixture
def nonnegative(make_sources):
    return Sources([np.abs(x) for x in make_sources(n_samples=(20, 15)).matrices])


@pytest.mark.parametrize("init", ["random", "nndsvda"])
@pytest.mark.parametrize("solver", ["cd", "mu"])
def test_it_is_scikit_learns_own_answer_on_the_sources_side_by_side(nonnegative, init, solver):
    result = registry.fit("jnmf", nonnegative, 3, seed=4, init=init, solver=solver)
    x = np.hstack(nonnegative.matrices)
    w, h, n_sweeps = non_negative_factorization(
        x, n_components=3, init=init, solver=solver, tol=1e-4, max_iter=1000, random_state=4
    )
    np.testing.assert_array_equal(result.components, w)
    np.testing.assert_array_equal(np.hstack(result.memberships), h)
    np.testing.assert_allclose(result.objective, ((x - w @ h) ** 2).sum(), rtol=1e-10)
    assert result.converged
    assert f"in sweep {n_sweeps}" in result.reason


def test_the_solution_is_stationary(nonnegative):
    """Slopes are zero where the factor is positive and not negative where it is zero."""
    result = registry.fit("jnmf", nonnegative, 3, tol=1e-10, max_sweeps=100_000)
    x, w, h = np.hstack(nonnegative.matrices), result.components, np.hstack(result.memberships)
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
        registry.fit("jnmf", Sources([make(x) for x in cut]), 3) for make in (np.asarray, scipy.sparse.csr_array)
    )
    np.testing.assert_allclose(dense.components, sparse.components, atol=1e-6)
    np.testing.assert_allclose(dense.objective, sparse.objective, rtol=1e-8)


def test_running_out_of_sweeps_is_not_convergence(nonnegative):
    result = registry.fit("jnmf", nonnegative, 3, max_sweeps=2)
    assert not result.converged
    assert result.reason == "stopped at max_sweeps = 2"


@pytest.mark.parametrize("name", ["jnmf", "bnmf", "intnmf"])
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": "zeros"}, "init is 'zeros'; it must be one of random, nndsvda"),
        ({"solver": "sgd"}, "solver is 'sgd'; it must be one of cd, mu"),
    ],
)
def test_refusals(nonnegative, options, message):
    with pytest.raises(InputError, match=message):
        registry.fit("jnmf", nonnegative, 3, **options)
