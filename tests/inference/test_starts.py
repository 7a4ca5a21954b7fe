"""The memberships that fits start from."""

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.view import View
from bjmd.inference import starts

N_FEATURES = 20


def rng(seed=0):
    return np.random.default_rng(seed)


def clusters(n_clusters, n_samples, spread=0.01):
    """A matrix of samples that lie close to some centres, and the cluster of every sample."""
    centres = 10 * rng(1).standard_normal((N_FEATURES, n_clusters))
    cluster = np.arange(n_samples) % n_clusters
    noise = spread * rng(2).standard_normal((N_FEATURES, n_samples))
    return centres[:, cluster] + noise, cluster


def clustered(matrices, n_components, seed=0, shifted=False):
    views = [View(x) for x in matrices]
    return starts.clustered_memberships(views, n_components, rng(seed), shifted)


def require_same_partition(memberships, cluster):
    """Samples have the same strongest component where they have the same cluster."""
    strongest = memberships.argmax(axis=0)
    pairs = set(zip(strongest.tolist(), cluster.tolist(), strict=True))
    assert len(pairs) == len(set(cluster.tolist())) == len(set(strongest.tolist()))


def test_random_memberships_lie_on_the_simplex():
    h = starts.random_memberships(4, 500, rng())
    np.testing.assert_allclose(h.sum(axis=0), 1)
    assert h.min() >= 0 and np.median(h.max(axis=0)) > 0.8


@pytest.mark.parametrize("n_components", [1, 2, 5, 12])
@pytest.mark.parametrize("n_samples", [(1,), (3, 1), (40, 30)])
def test_clustered_memberships_lie_on_the_simplex(n_components, n_samples):
    """More components than samples, samples that are all the same, and one of them alone."""
    same = [np.ones((N_FEATURES, n)) for n in n_samples]
    differ = [rng(n).standard_normal((N_FEATURES, n)) for n in n_samples]
    for matrices in (same, differ):
        for shifted in (False, True):
            memberships = clustered(matrices, n_components, shifted=shifted)
            assert [h.shape for h in memberships] == [(n_components, n) for n in n_samples]
            for h in memberships:
                np.testing.assert_allclose(h.sum(axis=0), 1)
                assert h.min() > 0
                assert (h == h.max(axis=0)).sum() == h.shape[1]


@pytest.mark.parametrize("seed", range(5))
def test_clusters_that_lie_apart_are_found(seed):
    x, cluster = clusters(4, 60)
    (h,) = clustered([x], 4, seed)
    require_same_partition(h, cluster)
    assert np.unique(h).size == 2
    np.testing.assert_allclose(h.max(axis=0), starts.IN_CLUSTER)


def test_clusters_are_shared_by_sources():
    x, cluster = clusters(3, 60)
    memberships = clustered([x[:, :25], x[:, 25:]], 3)
    require_same_partition(np.hstack(memberships), cluster)


def test_shifts_of_sources_do_not_matter_where_there_are_offsets():
    x, cluster = clusters(3, 60)
    shift = 100 * rng(3).standard_normal((N_FEATURES, 1))
    apart = [x[:, :30], x[:, 30:] + shift]
    require_same_partition(np.hstack(clustered(apart, 3, shifted=True)), cluster)
    first, second = (h.argmax(axis=0) for h in clustered(apart, 2))
    assert len({*first, *second}) == 2 and not {*first} & {*second}


def test_of_many_samples_a_share_is_clustered(monkeypatch):
    x, cluster = clusters(3, 200)
    monkeypatch.setattr(starts, "MOST_POINTS", 16)
    (h,) = clustered([x], 3)
    require_same_partition(h, cluster)


def test_sparse_data_start_as_dense_data():
    x = np.where(rng().random((N_FEATURES, 80)) < 0.3, rng(1).gamma(2.0, size=(N_FEATURES, 80)), 0)
    (dense,) = clustered([x], 4)
    (sparse,) = clustered([scipy.sparse.csc_array(x)], 4)
    np.testing.assert_array_equal(dense, sparse)


def test_rounds_bring_centres_closer_to_samples(monkeypatch):
    """Never further, and to the mean of a cluster where it has settled."""
    points = rng().standard_normal((3, 100))
    distances = []
    for n_rounds in range(12):
        monkeypatch.setattr(starts, "ROUNDS", n_rounds)
        centres = starts._centres(points, 5, rng(4))
        literal = ((points[:, None] - centres[:, :, None]) ** 2).sum(axis=0)
        np.testing.assert_allclose(starts._squared_distances(centres, points), literal, atol=1e-12)
        distances.append(literal.min(axis=0).sum())
    assert (np.diff(distances) <= 1e-12).all() and distances[-1] < 0.9 * distances[0]
    monkeypatch.setattr(starts, "ROUNDS", 100)
    centres = starts._centres(points, 5, rng(4))
    nearest = starts._squared_distances(centres, points).argmin(axis=0)
    means = [points[:, nearest == k].mean(axis=1) for k in range(5)]
    np.testing.assert_allclose(centres, np.transpose(means))


@pytest.mark.parametrize("seed", range(6))
def test_centres_of_single_samples_and_of_none(seed):
    points = np.array(
        [[0.0, 1.0, 10.0]]
    )  # from the centres 0 and 1, 10 is alone in the second round
    np.testing.assert_allclose(np.sort(starts._centres(points, 2, rng(seed))), [[0.5, 10.0]])
    same = np.full((2, 5), 3.0)
    np.testing.assert_array_equal(starts._centres(same, 3, rng(seed)), 3.0)


def test_first_centres_are_samples_that_lie_apart(monkeypatch):
    """k-means++ draws the next centre with a chance in proportion to the squared distance."""
    points = 1e-3 * np.array([[0.0, 0.0, 0.0, 1.0, 3.0]])
    monkeypatch.setattr(starts, "ROUNDS", 0)
    drawn = 1e3 * np.array([starts._centres(points, 2, rng(seed))[0] for seed in range(2000)])
    from_zero = drawn[drawn[:, 0] == 0, 1]
    np.testing.assert_allclose(np.unique(from_zero), [1.0, 3.0])
    assert abs((from_zero > 2).mean() - 0.9) < 0.03
