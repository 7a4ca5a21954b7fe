"""The statistics behind the verdicts, against scipy, brute force and known answers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bjmd_paper.claims import statistics
from bjmd_paper.claims.statistics import Effect, average
from bjmd_paper.claims.verdicts import FAILS, HOLDS, SMALLER, above, not_below, reached, within


def effect(mean, sd=0.1, n=20, printed=None, over="draws", label="x"):
    """An effect whose mean and sd are exactly these."""
    values = np.random.default_rng(0).normal(size=n)
    values = (values - values.mean()) / values.std(ddof=1)
    return Effect(label, pd.Series(mean + sd * values), printed, over=over)


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(1, 2, 12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(1 - 0.05 / 9)
    assert Effect("", values).interval(9) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_one_more_draw_covers_it_as_often_as_it_says():
    rng = np.random.default_rng(2)
    drawn = rng.normal(3, 1, (4000, 7))
    ends = np.array([Effect("", row[:-1], over="one draw").interval() for row in drawn])
    covered = np.mean((ends[:, 0] <= drawn[:, -1]) & (drawn[:, -1] <= ends[:, 1]))
    assert covered == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 4000))


def test_restarts_are_resampled_and_chosen_again():
    rng = np.random.default_rng(3)
    objective = rng.normal(size=7)
    values = rng.normal(size=(7, 2))
    found = statistics.resample_best(objective, values, 3, seed=8)
    drawn = np.random.default_rng(8).integers(7, size=(statistics.RESAMPLES, 7))
    for row in (0, 1, 999):
        best = sorted(drawn[row], key=lambda run: objective[run])[:3]
        np.testing.assert_allclose(found[row], values[best].mean(axis=0))


def test_slopes_and_roughness_against_polyfit():
    rng = np.random.default_rng(4)
    curves = pd.DataFrame(rng.normal(size=(3, 9)), columns=np.arange(1.5, 6, 0.5))
    for row in range(3):
        (slope, _), residual, *_ = np.polyfit(curves.columns, curves.iloc[row], 1, full=True)
        assert statistics.slopes(curves)[row] == pytest.approx(slope)
        assert statistics.roughness(curves)[row] == pytest.approx(np.sqrt(residual[0] / 7))


@pytest.mark.parametrize("bend", [2.0, 2.5, 4.0, 5.0])
def test_the_knee_of_a_known_curve(bend):
    x = np.arange(1.5, 6, 0.5)
    y = 90 - 0.1 * x - 5 * np.maximum(x - bend, 0)
    assert statistics.knee(x, y) == pytest.approx((bend, -0.1, -5.1))


def test_the_knee_is_found_under_noise():
    rng = np.random.default_rng(5)
    x = np.arange(1.5, 6, 0.5)
    found = [
        statistics.knee(x, 90 - 4 * np.maximum(x - 3.5, 0) + 0.3 * rng.normal(size=9))[0]
        for _ in range(50)
    ]
    middle, low, high = statistics.median_interval(found)
    assert middle == 3.5
    assert low <= 3.5 <= high


def test_where_a_trace_settles():
    steps = np.arange(1, 121) * 1000
    noise = np.random.default_rng(7).uniform(-1, 1, 120)
    assert statistics.settles(steps, np.where(steps < 30_000, 50, 0) + noise) == 30_000
    assert statistics.settles(steps, noise) == 1000
    assert statistics.settles(steps, steps / 1000.0) > 90_000, "a line never settles"


def test_a_ratio_of_means_is_resampled_in_pairs():
    under = np.arange(1.0, 9.0)
    np.testing.assert_allclose(statistics.ratio_of_means(0.5 * under, under), 0.5)


def test_an_average_needs_the_same_draws():
    one = Effect("", pd.Series([1.0, 2.0], index=["small 0", "small 1"]))
    other = Effect("", pd.Series([3.0, 4.0], index=["large 0", "large 1"]))
    assert average([one, other]) is None
    assert list(average([one, one]).values) == [1.0, 2.0]


def test_above_gives_each_verdict():
    assert above([effect(1.0, printed=1.5)]).verdict == HOLDS
    assert above([effect(1.0, printed=5.0)]).verdict == SMALLER
    assert above([effect(1.0, sd=3.0, printed=2.2)]).verdict == FAILS
    assert above([effect(1.0), effect(0.0, label="y")]).verdict == FAILS, "every cell counts"
    assert "not shown in y" in above([effect(1.0), effect(0.0, label="y")]).numbers
    assert "the reverse is true in x" in above([effect(-1.0)]).numbers


def test_between_half_and_its_interval_a_claim_holds():
    """Only if the whole interval is below half of the print is the effect much smaller."""
    assert above([effect(1.0, sd=0.5, printed=2.2)]).verdict == HOLDS
    assert above([effect(1.0, sd=0.01, printed=2.2)]).verdict == SMALLER


def test_more_cells_need_wider_intervals():
    width = 0.1 * stats.t.ppf(0.975, 19) / np.sqrt(20)
    assert above([effect(1.1 * width)]).verdict == HOLDS
    assert above([effect(1.1 * width)] * 9).verdict == FAILS


def test_the_same_means_within_the_margin_on_both_sides():
    assert within([effect(1.0)], 1.31).verdict == HOLDS
    assert within([effect(1.3)], 1.31).verdict == FAILS
    assert within([effect(-1.3)], 1.31).verdict == FAILS
    assert not_below([effect(-1.0)], 1.42).verdict == HOLDS
    assert not_below([effect(5.0)], 1.42).verdict == HOLDS
    assert not_below([effect(-1.41)], 1.42).verdict == FAILS


def test_a_printed_number_is_reached_up_to_the_spread_of_a_draw():
    assert reached([effect(-0.3, sd=0.17, n=40, over="one draw")]).verdict == HOLDS
    assert reached([effect(-0.7, sd=0.17, n=40, over="one draw")]).verdict == FAILS
    assert "above it" in reached([effect(0.7, sd=0.17, n=40, over="one draw")]).numbers
