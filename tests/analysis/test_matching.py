import numpy as np
import pytest

from bjmd.results.decomposition import Decomposition, match


def result(*memberships):
    k = len(memberships[0])
    return Decomposition(np.zeros((4, k)), list(memberships), None, 0.0, np.zeros(1), True, "", 0.0)


def test_shuffled_components_are_found_again(rng):
    first = [rng.dirichlet(np.ones(4), n).T for n in (30, 20)]
    order = [2, 0, 3, 1]
    partner, similarity = match(result(*[h[order] for h in first]), result(*first))
    assert [order[k] for k in partner] == [0, 1, 2, 3]
    np.testing.assert_allclose(similarity, 1)


def test_similarity_is_the_correlation_over_the_samples_of_all_sources(rng):
    a = [rng.dirichlet(np.ones(2), n).T for n in (30, 20)]
    b = [h + 0.05 * rng.standard_normal(h.shape) for h in a]
    _, similarity = match(result(*b), result(*a))
    expected = [np.corrcoef(np.hstack(a)[k], np.hstack(b)[k])[0, 1] for k in range(2)]
    np.testing.assert_allclose(similarity, expected)


def test_the_pairs_have_the_largest_sum_not_each_the_largest_partner(rng):
    x, y = rng.standard_normal((2, 500))
    reference = np.vstack([x, x + 0.3 * y])
    other = np.vstack([x + 0.1 * y, y])  # both rows of the reference are nearest to its first row
    partner, _ = match(result(other), result(reference))
    assert sorted(partner) == [0, 1]


def test_constant_memberships_are_alike_to_each_other_and_to_nothing_else(rng):
    ones = np.ones((1, 10))
    assert match(result(ones), result(ones))[1] == pytest.approx([1])
    assert match(result(rng.random((1, 10))), result(ones))[1] == pytest.approx([0])


def test_components_that_are_almost_the_same_are_matched_at_once():
    """As several that vanished are; scipy's sparse matching never ends on such correlations."""
    rng = np.random.default_rng(1)
    h = rng.dirichlet(np.full(6, 0.3), 50).T
    reference = h[[0, 1, 2, 3, 0, 4, 5, 0]] + 1e-9 * rng.random((8, 50))
    other = h[[4, 0, 2, 1, 0, 5, 3, 5]] + 0.1 * rng.random((8, 50))
    other[4] = other[1] + 1e-5 * rng.random(50)
    partner, _ = match(result(other), result(reference))
    np.testing.assert_array_equal(partner[[1, 2, 3, 5]], [3, 2, 6, 0])
    assert {1, 4} < {*partner[[0, 4, 7]]}
