"""The overview: scores and ranks."""

import pandas as pd
import pytest

from bjmd_paper import overview

FITS = {
    name: {"method": method, "label": label}
    for name, method, label in [
        ("map", "map-bjmd", "MAP"),
        ("pooled", "map-catbjmd", "MAP-cat"),
        ("nmf", "jnmf", "NMF"),
        ("advi", "advi-bjmd", "ADVI"),
        ("random", "random", "Random H"),
    ]
}


def runs(**auc):
    """A run of two sources for each fit, 2 points apart, and one more with a worse objective, which
    does not count.
    """
    same = (
        "noise",
        "objective",
        "iterations",
        "seconds",
        "converged",
        "condition",
        "matched",
        "matched_scaled",
    )
    one = dict.fromkeys(same, 1.0) | {"source_name": "s"}
    rows = [
        {
            **one,
            "fit": fit,
            "seed": seed,
            "source": source,
            "chosen": seed == 0,
            "auc": raw + side if seed == 0 else 99.0,
            "auc_scaled": scaled + side if seed == 0 else 99.0,
        }
        for fit, (raw, scaled) in auc.items()
        for seed in (0, 1)
        for source, side in ((1, -1), (2, 1))
    ]
    return pd.DataFrame(rows)


@pytest.fixture
def made():
    easy = runs(
        map=(90, 90),
        pooled=(88, 88),
        nmf=(70, 90.02),
        advi=(80, 80),
        random=(55, 55),
        truth=(100, 100),
    )
    hard = runs(map=(60, 60), pooled=(61, 61), nmf=(75, 70), random=(80, 80))
    clear = runs(map=(70, 70), pooled=(60, 60), nmf=(50, 50), random=(40, 40))
    return overview.table([easy, hard, clear], ["easy", "hard", "clear"], FITS)


def test_a_method_counts_with_the_better_of_its_two_scores_over_the_sources(made):
    auc = made.data.set_index(["data", "fit"])["auc"]
    assert auc["easy", "nmf"] == pytest.approx(90.02) and auc["hard", "nmf"] == pytest.approx(75)
    assert "truth" not in set(made.data["fit"])


def test_ranks_are_shared_by_methods_that_agree_to_a_tenth_and_the_control_has_none(made):
    rank = made.data.set_index(["data", "fit"])["rank"]
    assert rank["easy"].drop("random").to_dict() == {"map": 1, "nmf": 1, "pooled": 3, "advi": 4}
    assert rank["hard"].drop("random").to_dict() == {"nmf": 1, "pooled": 2, "map": 3}
    assert rank.xs("random", level="fit").isna().all()


def test_the_best_are_framed_and_those_not_run_everywhere_come_before_the_control(made):
    grid = made.shown[0]
    assert list(grid.cells["Method"]) == ["MAP", "NMF", "MAP-cat", "ADVI", "Random H"]
    assert list(grid.cells["hard"]) == ["60.0 (3)", "75.0 (1)", "61.0 (2)", "–", "80.0"]
    assert list(grid.marks["Method"]) == ["ours", "", "", "ours", ""]
    framed = {
        column: list(grid.cells["Method"][grid.marks[column].str.contains("best")])
        for column in grid.cells
    }
    assert {column: names for column, names in framed.items() if names} == {
        "easy": ["MAP", "NMF"],
        "hard": ["NMF"],
        "clear": ["MAP"],
    }
    assert grid.cells.loc[0, ["Mean rank", "Behind the best", "At worst"]].tolist() == [
        "1.7",
        "5.0",
        "15.0",
    ]
    assert grid.cells.loc[3, "Mean rank"] == "–", "its mean is over other data"
