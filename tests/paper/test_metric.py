import itertools

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bjmd.analysis.associations import mixing
from bjmd_paper import metric
from bjmd_paper.metric import auc_per_class, auc_per_source, auc_table, matched_per_class, scaled


@pytest.mark.parametrize("decimals", [12, 1, 0], ids=["no ties", "many ties", "almost all tied"])
def test_agrees_with_scikit_learn(decimals, rng):
    h = rng.random((4, 60)).round(decimals)
    labels = rng.random((3, 60)) < 0.4  # a sample may be in none, one or several classes
    expected = [[roc_auc_score(y, row) for row in h] for y in labels]
    np.testing.assert_allclose(auc_table(h, labels), expected, rtol=1e-13)


def test_a_class_without_an_auc_is_left_out():
    h = np.array([[0.9, 0.8, 0.1], [0.1, 0.2, 0.9]])
    labels = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(auc_per_class(h, labels), [1, np.nan, np.nan])
    np.testing.assert_array_equal(matched_per_class(h[:1], labels[1:]), [np.nan, np.nan])
    np.testing.assert_array_equal(matched_per_class(h[:1], labels[:2]), [1, np.nan])
    np.testing.assert_array_equal(auc_per_source([h, h], [labels, labels[1:]]), [1, np.nan])


@pytest.mark.parametrize(("n_components", "n_classes"), [(4, 4), (5, 3), (2, 4)])
def test_the_matching_is_the_best_of_all(n_components, n_classes, rng):
    h = rng.random((n_components, 30))
    labels = rng.random((n_classes, 30)) < 0.4
    table = auc_table(h, labels)
    n_pairs = min(n_components, n_classes)
    best = max(
        table[list(classes), list(components)].sum() + 0.5 * (n_classes - n_pairs)
        for classes in itertools.combinations(range(n_classes), n_pairs)
        for components in itertools.permutations(range(n_components), n_pairs)
    )
    np.testing.assert_allclose(matched_per_class(h, labels).sum(), best)


def test_scaled_columns_sum_to_one_whatever_the_unit_of_the_components():
    h = np.array([[2.0, 0.0, 1.0], [6.0, 0.0, 0.0]])
    w = np.array([[0.5, 0.25], [0.5, 0.75]])
    for unit in (np.ones(2), np.array([4.0, 0.1])):
        (found,) = scaled([h / unit[:, None]], w * unit)
        np.testing.assert_allclose(found, [[0.25, 0.5, 1], [0.75, 0.5, 0]])
    for same in (np.array([[0.1, 0.7], [0.9, 0.3]]), np.array([[-1.0, 2.0], [3.0, 0.0]])):
        assert scaled([same], w)[0] is same, "they sum to one, or have a sign"


def test_the_sign_of_a_factor_means_nothing(rng):
    labels = rng.random((3, 60)) < 0.4
    factors = rng.standard_normal((2, 60))
    one, other = (
        auc_per_class(metric.both_ends([h])[0], labels) for h in (factors, factors * [[1], [-1]])
    )
    np.testing.assert_array_equal(one, other)


def two_sources(rng, apart=0.0):
    """Two sources of 60 samples in three classes, whose memberships agree up to `apart` in
    component 4.
    """
    labels = [np.eye(3, dtype=bool)[:, np.arange(60) % 3] for _ in range(2)]
    h = [
        np.vstack([y + 0.05 * rng.random(y.shape), np.full(60, c * apart)])
        for c, y in enumerate(labels)
    ]
    return h, labels


def test_classes_that_are_components_are_found_and_carry_over(rng):
    h, labels = two_sources(rng)
    np.testing.assert_allclose(metric.strongest(h, labels), 1)
    np.testing.assert_allclose(metric.transferred(h, labels), 1)
    shuffled = [h[0], h[1][:, rng.permutation(60)]]
    assert np.abs(metric.strongest(shuffled, labels)[0, 1]) < 0.1
    assert metric.transferred(shuffled, labels)[1] < 0.6


def test_mixing_is_one_by_chance_and_zero_for_sources_that_lie_apart(rng):
    np.testing.assert_allclose(mixing(two_sources(rng)[0]), 1, atol=0.25)
    np.testing.assert_allclose(mixing(two_sources(rng, apart=10.0)[0]), 0)
    assert np.isnan(mixing([np.ones((2, 5))])).all()
    hard = np.eye(2)[:, np.arange(200) % 2]  # all of a component are equally near
    np.testing.assert_allclose(mixing([hard, hard]), 1, atol=0.15)


def test_classes_that_no_other_source_has_and_samples_of_two_classes_do_not_count(rng):
    h, labels = two_sources(rng)
    labels[1][2] = False  # source 2 keeps two classes
    labels[0][:, 0] = True
    h[0][:, 0] = 100.0
    np.testing.assert_allclose(metric.transferred(h, labels), 1)
    labels[1][1] = False
    assert np.isnan(metric.transferred(h, labels)).all()
