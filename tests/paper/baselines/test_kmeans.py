import numpy as np

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


def test_a_seed_may_be_larger_than_scikit_learn_allows(make_sources):
    result = registry.fit("kmeans", make_sources(), 2, seed=2**70 + 3)
    same = registry.fit("kmeans", make_sources(), 2, seed=3)
    np.testing.assert_array_equal(result.components, same.components)
