import numpy as np
import pytest
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from bjmd.data.sources import Sources
from bjmd.inference import registry


def test_two_clusters_by_hand():
    """Samples 0, 2 and 10, 12, 14 in one feature: centres 1 and 12, inertia 1 + 1 + 4 + 0 + 4."""
    # the constant feature is there because one feature alone carries one component
    sources = Sources([[[0.0, 10.0, 12.0], [1.0, 1.0, 1.0]], [[14.0, 2.0], [1.0, 1.0]]])
    result = registry.fit("kmeans", sources, 2, seed=0)
    order = np.argsort(result.components[0])
    np.testing.assert_allclose(result.components[:, order], [[1, 12], [1, 1]])
    np.testing.assert_array_equal(result.memberships[0][order], [[1, 0, 0], [0, 1, 1]])
    np.testing.assert_array_equal(result.memberships[1][order], [[0, 1], [1, 0]])
    assert result.objective == 10
    assert result.converged
    assert result.noise is None


def test_samples_are_with_their_nearest_centre_and_centres_are_means(make_sources):
    sources = make_sources(n_samples=(60, 40))
    result = registry.fit("kmeans", sources, 4, seed=1, tol=0.0)
    x = np.hstack(sources.matrices)
    h = np.hstack(result.memberships)
    distances = ((x[:, None, :] - result.components[:, :, None]) ** 2).sum(axis=0)
    np.testing.assert_array_equal(h, distances == distances.min(axis=0))
    np.testing.assert_allclose(result.components, x @ h.T / h.sum(axis=1))
    np.testing.assert_allclose(result.objective, ((x - result.components @ h) ** 2).sum())


def test_sparse_equals_dense_and_stays_sparse(make_sources, monkeypatch):
    cut = [np.where(np.abs(x) > 0.5, x, 0.0) for x in make_sources(n_samples=(60, 40)).matrices]
    dense = registry.fit("kmeans", Sources(cut), 3, seed=2)
    seen = []
    plain_fit = KMeans.fit
    monkeypatch.setattr(KMeans, "fit", lambda self, x: seen.append(x) or plain_fit(self, x))
    sparse = registry.fit("kmeans", Sources([scipy.sparse.csc_array(x) for x in cut]), 3, seed=2)
    assert [scipy.sparse.issparse(x) for x in seen] == [True]
    np.testing.assert_array_equal(np.hstack(dense.memberships), np.hstack(sparse.memberships))
    np.testing.assert_allclose(dense.components, sparse.components, atol=1e-10)


def test_fewer_distinct_samples_than_clusters():
    x = np.tile(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]]), 5)
    with pytest.warns(ConvergenceWarning, match="smaller than n_clusters"):
        result = registry.fit("kmeans", Sources([x]), 3, seed=0)
    assert result.objective == 0
    assert sorted(result.memberships[0].sum(axis=1)) == [0, 5, 5]


def test_a_seed_may_be_larger_than_scikit_learn_allows(make_sources):
    result = registry.fit("kmeans", make_sources(), 2, seed=2**70 + 3)
    same = registry.fit("kmeans", make_sources(), 2, seed=3)
    np.testing.assert_array_equal(result.components, same.components)
