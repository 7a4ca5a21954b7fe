from itertools import permutations
from math import factorial

import numpy as np
import pandas as pd
import pytest

import bjmd
from bjmd.analysis import variance
from bjmd.data.sources import Sources
from bjmd.results import predictive


def left(x, fit):
    return np.nansum((x - fit) ** 2)


@pytest.fixture
def shifted(make_sources):
    """Sources of which one is shifted and lacks entries, and a fit with offsets."""
    sources = make_sources(n_samples=(30, 20))
    first, second = sources.matrices
    second = second + np.linspace(-2, 2, 12)[:, None]
    second[3, :7] = second[:9, 4] = np.nan
    sources = Sources([first, second])
    return sources, bjmd.fit("cavi-bjmd", sources, 3, offsets=True)


def test_a_share_is_the_shapley_value_of_putting_the_mean_in_the_place_of_a_component(shifted):
    """By its definition: what a component adds to the variance explained, averaged over all orders
    of adding.
    """
    sources, result = shifted
    shares = variance.explained(sources, result)
    for c, x in enumerate(sources.matrices):
        mean = np.nanmean(x, axis=1, keepdims=True)
        offset = predictive.offsets(result, c)[0]

        def worth(members, x=x, mean=mean, offset=offset, h=result.memberships[c]):
            w = np.where(np.isin(np.arange(3), members), result.components, mean - offset)
            return 1 - left(x, w @ h + offset) / left(x, mean)

        expected = np.zeros(3)
        for order in permutations(range(3)):
            for place, k in enumerate(order):
                gain = worth(order[: place + 1]) - worth(order[:place])
                expected[k] += gain / factorial(3)
        np.testing.assert_allclose(shares[c], expected, atol=1e-12)
        assert 0.1 < shares[c].sum() < 1


def test_unit_and_origin_do_not_matter_and_an_unused_component_explains_nothing(make_sources):
    sources = make_sources(n_samples=(30, 20))
    result = bjmd.fit("cavi-bjmd", sources, 3, offsets=False)
    shift = np.arange(12.0)[:, None]
    moved = Sources([5 * x + shift for x in sources.matrices])
    result.memberships[1][:] = [[1.0], [0.0], [0.0]]
    shares = variance.explained(sources, result)
    assert (shares[1, 1:] == 0).all() and (shares[0] > 0).all()
    result.components = 5 * result.components + shift
    np.testing.assert_allclose(variance.explained(moved, result), shares, atol=1e-10)


def test_a_source_that_does_not_vary_has_nothing_to_explain():
    sources = Sources([np.ones((4, 6)), np.random.default_rng(0).standard_normal((4, 8))])
    shares = variance.explained(sources, bjmd.fit("map-bjmd", sources, 2, max_sweeps=5))
    assert (shares[0] == 0).all() and np.isfinite(shares).all()


def test_residuals_by_a_plain_computation(shifted, monkeypatch):
    sources, result = shifted
    found = variance.residuals(sources, result)
    assert list(found["source"]) == sources.names
    for c, x in enumerate(sources.matrices):
        z = np.abs(x - predictive.mean(result, c, slice(None))) / result.noise[c]
        row = found.loc[c]
        for name, axis in (("features", 1), ("samples", 0)):
            sizes = np.sqrt(np.nanmean(z**2, axis=axis))
            expected = np.quantile(sizes, [0.05, 0.95])
            np.testing.assert_allclose([row[f"{name}_from"], row[f"{name}_to"]], expected)
        i, j = np.unravel_index(np.nanargmax(z), z.shape)
        assert row["largest"] == pytest.approx(z[i, j])
        assert row["feature"] == sources.feature_names[i]
        assert row["sample"] == sources.sample_names[c][j]
        assert row["n_far"] == (z > variance.FAR).sum() == 0
    monkeypatch.setattr(predictive, "BLOCK", 12 * 7)  # seven samples at a time
    pd.testing.assert_frame_equal(variance.residuals(sources, result), found)


def test_residuals_that_are_far_are_counted_and_missing_features_left_out(shifted):
    sources, result = shifted
    first, second = (x.copy() for x in sources.matrices)
    first[[2, 5], [17, 3]] += [20.0, -1000.0]
    second[3] = np.nan
    found = variance.residuals(Sources([first, second]), result)
    assert found["n_far"].tolist() == [2, 0]
    assert found["feature"][0] == sources.feature_names[5]
    assert found["sample"][0] == sources.sample_names[0][3]
    assert found["features_from"][1] > 0.3, "a feature without entries has no residual of size 0"


def test_variance_between_sources(rng):
    """The between-groups share of the sums of squares, 0 for equal means, 1 for nothing else."""
    h = [rng.dirichlet(np.ones(3), n).T for n in (30, 20)]
    every = np.hstack(h)
    within = sum(((x - x.mean(axis=1, keepdims=True)) ** 2).sum() for x in h)
    share = 1 - within / ((every - every.mean(axis=1, keepdims=True)) ** 2).sum()
    assert variance.between_sources(h) == pytest.approx(share)
    assert variance.between_sources([h[0], h[0]]) == pytest.approx(0, abs=1e-12)
    apart = [np.repeat(np.eye(2)[:, [k]], 5, axis=1) for k in range(2)]
    assert variance.between_sources(apart) == pytest.approx(1)
    assert variance.between_sources([np.ones((1, 4)), np.ones((1, 3))]) == 0
