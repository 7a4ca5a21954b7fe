import numpy as np
import pytest

from bjmd.analysis.matching import match
from bjmd.results.decomposition import Decomposition


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
