import numpy as np
import scipy.sparse
from sklearn.cluster import KMeans

from bjmd.data.sources import Sources
from bjmd.inference import registry


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


def test_a_seed_may_be_larger_than_scikit_learn_allows(make_sources):
    result = registry.fit("kmeans", make_sources(), 2, seed=2**70 + 3)
    same = registry.fit("kmeans", make_sources(), 2, seed=3)
    np.testing.assert_array_equal(result.components, same.components)
