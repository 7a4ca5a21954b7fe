from itertools import chain, combinations
from math import factorial

import numpy as np
import pytest
import scipy.sparse

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


def test_the_shares_of_a_source_add_up_to_its_r_squared(shifted):
    sources, result = shifted
    shares = variance.explained(sources, result)
    for c, x in enumerate(sources.matrices):
        fit = predictive.mean(result, c, slice(None))
        total = 1 - left(x, fit) / left(x, np.nanmean(x, axis=1, keepdims=True))
        assert shares[c].sum() == pytest.approx(total, abs=1e-12)
        assert 0.1 < total < 1


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

        for k in range(3):
            others = [other for other in range(3) if other != k]
            subsets = chain.from_iterable(combinations(others, n) for n in range(3))
            value = sum(
                factorial(len(s))
                * factorial(2 - len(s))
                / factorial(3)
                * (worth([*s, k]) - worth(s))
                for s in subsets
            )
            assert shares[c, k] == pytest.approx(value, abs=1e-12)


def test_unit_and_origin_do_not_matter_and_an_unused_component_explains_nothing(make_sources):
    sources = make_sources(n_samples=(30, 20))
    result = bjmd.fit("cavi-bjmd", sources, 3)
    shift = np.arange(12.0)[:, None]
    moved = Sources([5 * x + shift for x in sources.matrices])
    result.memberships[1][:] = [[1.0], [0.0], [0.0]]
    shares = variance.explained(sources, result)
    assert (shares[1, 1:] == 0).all() and (shares[0] > 0).all()
    result.components = 5 * result.components + shift
    np.testing.assert_allclose(variance.explained(moved, result), shares, atol=1e-10)


def test_sparse_and_streamed_data_give_the_same_without_being_loaded(
    make_sources, tmp_path, monkeypatch
):
    matrices = [np.where(np.abs(x) > 0.7, x, 0.0) for x in make_sources().matrices]
    sources = Sources(matrices)
    result = bjmd.fit("cavi-bjmd", sources, 3)
    expected = variance.explained(sources, result)
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", shape=matrices[1].shape)
    mapped[:] = matrices[1]
    sparse = scipy.sparse.csc_array(matrices[0])
    monkeypatch.setattr(scipy.sparse.csc_array, "toarray", None)
    other = Sources([sparse, np.load(tmp_path / "x.npy", mmap_mode="r")])
    np.testing.assert_allclose(variance.explained(other, result), expected, atol=1e-12)


def test_a_source_that_does_not_vary_has_nothing_to_explain():
    sources = Sources([np.ones((4, 6)), np.random.default_rng(0).standard_normal((4, 8))])
    shares = variance.explained(sources, bjmd.fit("map-bjmd", sources, 2, max_sweeps=5))
    assert (shares[0] == 0).all() and np.isfinite(shares).all()
