import numpy as np
import scipy.sparse
from sklearn.decomposition import non_negative_factorization

from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts


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


def test_the_solution_is_stationary(nonnegative):
    """Slopes are zero where the factor is positive and not negative where it is zero."""
    result = registry.fit("jnmf", nonnegative, 3, tol=1e-14, max_sweeps=100_000)
    x = np.hstack(nonnegative.matrices)
    w = result.components
    h = np.hstack(result.memberships)
    for factor, slope in ((w, (w @ h - x) @ h.T), (h, w.T @ (w @ h - x))):
        assert np.abs(slope[factor > 0]).max() <= 1e-5
        assert slope[factor == 0].min(initial=0) >= -1e-5
