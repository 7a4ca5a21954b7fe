"""The statistics behind the verdicts, against scipy and known answers."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bjmd_paper.claims import statistics
from bjmd_paper.claims.statistics import Effect, overall, paired, single
from bjmd_paper.claims.verdicts import HOLDS, INCONCLUSIVE, REVERSE, SMALLER, judge


def effect(mean, sd=0.1, n=20, printed=None, over="draws", label="x"):
    """An effect whose mean and sd are exactly these."""
    values = stats.norm.ppf((np.arange(n) + 0.5) / n)
    values = (values - values.mean()) / values.std(ddof=1)
    return Effect(label, pd.Series(mean + sd * values), printed, over=over)


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(1, 2, 12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(1 - 0.05 / 9)
    assert Effect("", values).interval(9) == pytest.approx((expected.low, expected.high))


def covered(intervals, truth):
    """Whether some intervals cover the truth as often as 95 % or more, up to chance."""
    low, high = np.transpose(intervals)
    share = np.mean((low <= truth) & (truth <= high))
    error = np.sqrt(0.95 * 0.05 / len(low))
    return 0.95 - 4 * error <= share <= 0.97 + 4 * error


def test_the_interval_of_one_more_draw_covers_it_as_often_as_it_says():
    drawn = np.random.default_rng(2).normal(3, 1, (4000, 7))
    ends = [Effect("", row[:-1], over="next draw").interval() for row in drawn]
    assert covered(ends, drawn[:, -1])


@pytest.mark.parametrize(("n", "m"), [(20, 20), (8, 20), (10, 5)])
def test_the_interval_over_pairs_of_starts_covers_and_is_that_of_mann_and_whitney(n, m):
    """Starts end in several optima, so their scores are far from normal."""
    rng = np.random.default_rng(3)

    def scores(count):
        return rng.choice([86.0, 90.0, 91.0], count) + rng.normal(0, 1.0, count)

    ends = []
    for _ in range(1000):
        ours = scores(n) + 2.0
        theirs = scores(m)
        found = paired("", np.subtract, ours, theirs, ours[0] - theirs[0])
        ends.append(found.interval())
        rejected = stats.mannwhitneyu(ours, theirs, method="asymptotic", use_continuity=False)
        low, high = np.sort(found.values)[[0, -1]]
        assert low <= ends[-1][0] <= ends[-1][1] <= high
        assert (min(ends[-1]) > 0) <= (rejected.pvalue < 0.06)
        assert (rejected.pvalue < 0.04) <= (min(ends[-1]) > 0 or max(ends[-1]) < 0)
    assert covered(ends, 2.0)


def test_few_starts_show_little():
    """Three starts each cannot exclude anything but what lies beyond all of their pairs."""
    found = paired("", np.subtract, [1.0, 2.0, 3.0], [0.0, 0.1, 0.2], 2.0)
    assert found.interval() == pytest.approx((0.8, 3.0), abs=0.01)
    assert judge([found]).verdict == HOLDS
    assert judge([found] * 12).verdict == HOLDS, "there is nothing wider than all pairs"
    assert single("", np.arange(3.0), 1.0).interval() == (0.0, 2.0)


@pytest.mark.parametrize(
    ("all_starts", "chosen", "verdict"),
    [(2, 1, HOLDS), (2, -1, INCONCLUSIVE), (-2, 1, INCONCLUSIVE), (-2, -1, REVERSE)],
)
def test_a_claim_over_starts_has_to_hold_for_the_chosen_ones_and_for_all(
    all_starts, chosen, verdict
):
    ours = all_starts + np.linspace(-0.1, 0.1, 20)
    assert judge([paired("", np.subtract, ours, np.zeros(20), chosen)]).verdict == verdict


def test_equal_methods_are_told_apart_as_often_as_chance_allows():
    rng = np.random.default_rng(4)
    found = []
    for _ in range(400):
        auc = rng.normal(90, 1, (2, 20))
        best = [one[:5].mean() for one in auc]
        found.append(judge([paired("", np.subtract, *auc, best[0] - best[1])]).verdict)
    assert found.count(INCONCLUSIVE) > 0.93 * len(found)
    assert abs(found.count(HOLDS) - found.count(REVERSE)) < 16


def test_slopes_and_roughness_of_curves():
    rng = np.random.default_rng(4)
    curves = pd.DataFrame(rng.normal(size=(3, 9)), columns=np.arange(1.5, 6, 0.5))
    for row in range(3):
        line = stats.linregress(curves.columns, curves.iloc[row])
        assert statistics.slopes(curves)[row] == pytest.approx(line.slope)
        rest = curves.iloc[row] - line.intercept - line.slope * curves.columns
        assert statistics.roughness(curves)[row] == pytest.approx(np.sqrt((rest**2).sum() / 7))


def test_where_a_trace_settles():
    steps = np.arange(1, 121) * 1000
    noise = np.random.default_rng(7).uniform(-1, 1, 120)
    assert statistics.settles(steps, np.where(steps < 30_000, 50, 0) + noise) == 30_000
    assert statistics.settles(steps, noise) == 1000
    assert statistics.settles(steps, steps / 1000.0) > 90_000, "a line never settles"
    outlier = np.where(steps == 50_000, 50, 0)
    assert statistics.settles(steps, noise + outlier) == 1000, "a single value does not count"
    fall = 100 * np.exp(-steps / 10_000)
    assert statistics.settles(steps, fall, share=0.05) == pytest.approx(31_000, abs=2000)


def test_the_mean_over_cells_is_by_draw_if_they_have_the_same_draws():
    values = pd.Series([1.0, 2.0, 4.0], index=["small 0", "small 1", "small 2"])
    mirrored = Effect("", 10 - values)
    assert overall([Effect("", values), mirrored]) == pytest.approx((5.0, 5.0, 5.0))
    elsewhere = Effect("", (10 - values).set_axis(["large 0", "large 1", "large 2"]))
    mean, low, high = overall([Effect("", values), elsewhere])
    assert mean == pytest.approx(5.0)
    assert high - low == pytest.approx(np.ptp(mirrored.interval())), "the ends are averaged"


WIDTH = 0.1 * stats.t.ppf(0.975, 19) / np.sqrt(20)
"""Half of the interval of `effect`."""


@pytest.mark.parametrize(
    ("effects", "test", "margin", "verdict"),
    [
        ([effect(1.0, printed=1.5)], "above", 0, HOLDS),
        ([effect(1.0, printed=5.0)], "above", 0, SMALLER),
        ([effect(1.0, sd=0.5, printed=2.2)], "above", 0, HOLDS),  # half lies in the interval
        ([effect(1.0, printed=-5.0)], "above", 0, HOLDS),
        ([effect(1.0, sd=3.0)], "above", 0, INCONCLUSIVE),
        ([effect(-1.0)], "above", 0, REVERSE),
        ([effect(1.0)], "above", 2.0, REVERSE),
        ([effect(0.0, sd=0.0)], "above", 0, INCONCLUSIVE),  # equal is neither above nor below
        ([effect(1.0), effect(0.0, label="y")], "above", 0, INCONCLUSIVE),
        ([effect(1.0), effect(0.0), effect(-1.0, label="y")], "above", 0, REVERSE),
        ([effect(1.1 * WIDTH)], "above", 0, HOLDS),
        ([effect(1.1 * WIDTH)] * 9, "above", 0, INCONCLUSIVE),  # wider for nine cells
        ([effect(-1.0)], "not below", 1.42, HOLDS),
        ([effect(-1.41)], "not below", 1.42, INCONCLUSIVE),
        ([effect(-1.5)], "not below", 1.42, REVERSE),
        ([effect(1.0)], "within", 1.31, HOLDS),
        ([effect(-1.3)], "within", 1.31, INCONCLUSIVE),
        ([effect(-1.5), effect(0.0)], "within", 1.31, REVERSE),
        ([effect(1.0, printed=5.0)], "at most", 1.31, HOLDS),
        ([effect(1.5)], "at most", 1.31, REVERSE),
        ([effect(1.0), effect(-1.0)], "not always above", 0, HOLDS),
        ([effect(1.0), effect(0.0)], "not always above", 0, INCONCLUSIVE),
        ([effect(1.0), effect(1.0)], "not always above", 0, REVERSE),
        ([effect(-0.3, sd=0.17, n=40, over="next draw")], "reached", 0, HOLDS),
        ([effect(-0.7, sd=0.17, n=40, over="next draw")], "reached", 0, REVERSE),
        ([effect(0.7, sd=0.17, n=40, over="next draw")], "reached", 0, HOLDS),
        ([effect(0.7, sd=0.17, n=40, over="next draw")], "compatible", 0, REVERSE),
    ],
)
def test_verdicts(effects, test, margin, verdict):
    found = judge(effects, test, margin)
    assert found.verdict == verdict
    assert found.intervals == len(effects)


def test_the_numbers_name_the_cells_that_decide():
    cells = [effect(1.0), effect(0.0, label="y"), effect(-1.0, label="z")]
    numbers = judge(cells, "above").numbers
    assert "the reverse is true in z; inconclusive in y; x +1.00 (" in numbers


def test_the_effect_is_shown_as_a_share_of_the_printed_one():
    assert judge([effect(1.0, printed=4.0)]).ours.endswith(", 25 % of the print")
    assert "of the print" not in judge([effect(-1.0, printed=4.0)]).ours
