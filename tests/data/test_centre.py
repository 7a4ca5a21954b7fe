"""The unit and the origin of awkward data: zeros that are most of them, sources of one sample,
samples that are all the same, in any unit.
"""

import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.data.view import centre

UNITS = [10.0**power for power in range(-80, 81, 20)]


def zeros_in_most_entries(rng):
    return [np.where(rng.random((12, n)) < 0.7, 0.0, 1 + rng.random((12, n))) for n in (30, 20)]


def one_sample(rng):
    """A source of one sample that lacks a feature."""
    lone = 7 + rng.standard_normal((12, 1))
    lone[0] = np.nan
    return [lone, 7 + rng.standard_normal((12, 40))]


def constant_samples(rng):
    return [np.repeat(rng.standard_normal((12, 1)), 6, axis=1), rng.standard_normal((12, 40))]


def half_empty(rng):
    return [
        np.where(rng.random((12, n)) < 0.5, np.nan, rng.standard_normal((12, n))) for n in (40, 30)
    ]


KINDS = [zeros_in_most_entries, one_sample, constant_samples, half_empty]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def matrices(request):
    return request.param(np.random.default_rng(1))


@pytest.mark.parametrize("robust", [False, True])
def test_unit_and_origin_are_of_the_size_of_the_data_in_any_unit(matrices, robust):
    unit, origin = centre(Sources(matrices), robust)
    everything = np.hstack(matrices)
    spread = np.sqrt(np.nanmean((everything - np.nanmean(everything, axis=1)[:, None]) ** 2))
    assert spread / 4 < unit < 4 * spread
    distance = np.abs(origin - np.nanmean(everything, axis=1))
    assert distance.max() < 1.6 * spread  # a median of zeros is zero
    for factor in UNITS:
        scaled_unit, scaled_origin = centre(Sources([factor * x for x in matrices]), robust)
        np.testing.assert_allclose(scaled_unit / factor, unit, rtol=1e-9)
        np.testing.assert_allclose(scaled_origin / factor, origin, rtol=1e-9, atol=1e-9 * spread)


@pytest.mark.parametrize("n_samples", [1, 6])
def test_a_source_that_seems_to_be_certain_counts_little_more_than_its_samples(n_samples):
    """Samples of no spread weigh at most as many times as there are, not infinitely."""
    rng = np.random.default_rng(2)
    other = rng.standard_normal((50, 40))
    certain = np.repeat(5 + rng.standard_normal((50, 1)), n_samples, axis=1)
    _, origin = centre(Sources([certain, other]))
    share = (origin - other.mean(axis=1)) / (certain[:, 0] - other.mean(axis=1))
    np.testing.assert_allclose(share, n_samples**2 / (n_samples**2 + 40), rtol=0.1)


def test_the_robust_unit_of_normal_data_is_their_sd(rng):
    unit, origin = centre(Sources([5 + 3 * rng.standard_normal((40, 1001))]), robust=True)
    np.testing.assert_allclose(unit, 3, rtol=0.02)
    np.testing.assert_allclose(origin, 5, atol=0.6)


@pytest.mark.parametrize(("spread", "unit"), [(1.2e-14, 1.2e-14), (0.8e-14, 1e-6)])
def test_a_spread_of_less_than_1e_14_is_rounding(spread, unit):
    """About fifty times the distance of two numbers near 1."""
    x = 1 + spread * np.where(np.arange(12) % 2, 1.0, -1.0)
    np.testing.assert_allclose(centre(Sources([np.tile(x, (3, 1))]))[0], unit, rtol=0.02)


def test_data_that_are_all_the_same_have_a_small_share_of_their_size_for_a_unit():
    for factor in (1e-80, 1.0, 1e80):
        for robust in (False, True):
            unit, origin = centre(Sources([np.full((4, 5), 3 * factor)]), robust)
            np.testing.assert_allclose([unit / factor, origin[0] / factor], [3e-6, 3])
    assert centre(Sources([np.zeros((4, 5))]))[0] == 1
