from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bjmd.data.sources import Sources
from bjmd.results.decomposition import Decomposition
from bjmd_paper import scores, table_files, tables
from bjmd_paper.datasets import catalogue

LABELS = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
FITS = {
    "a": {"label": "A & co", "paper_row": "A"},
    "b": {"label": "B"},
    "truth": {"label": "True H"},
}


def run(seed, objective, h, noise=2.0):
    return Decomposition(
        np.ones((3, 2)),
        [h],
        np.array([noise]),
        objective,
        np.array([9.0, objective]),
        True,
        "",
        seconds=1.5,
        seed=seed,
    )


@pytest.fixture
def runs():
    sources = Sources([np.ones((3, 4))], names=["only"], labels=[LABELS])
    perfect = LABELS.astype(float)
    useless = np.full((2, 4), 0.5)
    unequal = np.where(LABELS, 0.7, 0.3) * [1, 5, 1, 5]
    results = {
        "a": [run(0, 3.0, useless), run(1, 1.0, perfect), run(2, 2.0, useless)],
        "b": [run(0, 5.0, unequal)],
    }
    table = scores.runs_table(sources, results, {"a": 2, "b": 1})
    return scores.with_truth(table, sources, run(None, np.nan, perfect))


def test_the_best_by_objective_are_chosen_and_averaged(runs):
    assert runs[(runs["fit"] == "a") & runs["chosen"]]["seed"].tolist() == [1, 2]
    summary = scores.summary(runs).set_index("fit")
    assert summary.loc["a", "auc"] == 75
    assert summary.loc["a", "auc_sd"] == pytest.approx(np.std([100, 50], ddof=1))
    assert (summary.loc["a", "n_chosen"], summary.loc["a", "n_restarts"]) == (2, 3)
    assert summary.loc["truth", "auc"] == 100
    assert summary.loc["b", list(scores.SCORES)].tolist() == [75, 100, 75, 100]
    assert summary.loc["truth", "condition"] == 1


def test_rows_keep_the_order_of_fits_restarts_and_sources():
    """Neither names nor seeds nor numbers of sources are in an order of their own here."""
    sources = Sources(
        [np.ones((3, 4)), np.zeros((3, 4))], names=["y", "x"], labels=[LABELS, LABELS]
    )
    h = LABELS.astype(float)

    def two(seed, objective):
        one = run(seed, objective, h)
        return replace(one, memberships=[h, h[::-1]], noise=np.array([3.0, 2.0]))

    results = {"b": [two(7, 1.0), two(3, 2.0)], "a": [two(5, 1.0)]}
    table = scores.runs_table(sources, results, {"b": 2, "a": 1})
    columns = ["fit", "seed", "source_name", "noise"]
    assert table[columns].to_numpy().tolist() == [
        ["b", 7, "y", 3],
        ["b", 7, "x", 2],
        ["b", 3, "y", 3],
        ["b", 3, "x", 2],
        ["a", 5, "y", 3],
        ["a", 5, "x", 2],
    ]
    summary = scores.summary(table)[["fit", "source"]]
    assert summary.to_numpy().tolist() == [["b", 1], ["b", 2], ["a", 1], ["a", 2]]
    np.testing.assert_array_equal(scores.mean_noise(table, "b"), [3, 2])


def test_the_table_shows_the_printed_number_and_the_difference(runs, tmp_path, monkeypatch):
    printed = {
        "data": ["toy"],
        "row": ["A"],
        "source": [1],
        "auc": [80.0],
        "seconds": [7.0],
        "noise": [1.0],
    }
    monkeypatch.setattr(catalogue, "printed", lambda: pd.DataFrame(printed))
    table = tables.performance(runs, "toy", FITS)
    assert table.data.set_index("fit").loc["a", "difference"] == -5
    output = SimpleNamespace(
        **{kind: tmp_path / kind for kind in ("csv", "markdown", "fragment", "html")}
    )
    table_files.write(table, "Toy", "About toys.", output)
    markdown = output.markdown.read_text().splitlines()
    assert markdown[0].startswith(
        "| Algorithm | only AUC | only paper | only diff. | Processor time (s) ours |"
    )
    assert markdown[2] == "| A & co | 75.00 ± 35.36 | 80.00 | -5.00 | 1.5 | 7.0 | 100 % | 2 of 3 |"
    assert markdown[3].startswith("| B | 75.00 | – | – | 1.5 |")
    assert markdown[4].startswith("| B, columns scaled | 100.00 | – | – |  |")
    assert markdown[5].startswith("| True H |"), "its columns sum to one"
    assert markdown[-3:-1] == ["| B | 75.00 |", "| B, columns scaled | 100.00 |"], (
        "matched one to one"
    )
    fragment = output.fragment.read_text()
    assert "<th colspan=3>only</th>" in fragment and "A &amp; co</td>" in fragment
    assert fragment in output.html.read_text()


def test_the_chosen_runs_and_the_truth_have_measures_of_integration():
    sources = Sources([np.ones((3, 4))] * 2, labels=[LABELS] * 2)
    perfect = LABELS.astype(float)
    useless = np.full((2, 4), 0.5)
    fits = {
        "a": [
            replace(run(s, s, h), memberships=[h, h], noise=None)
            for s, h in enumerate((perfect, useless))
        ]
    }
    table = scores.runs_table(sources, fits, {"a": 1}, integration=True)
    assert table.groupby("seed")["ari"].mean().isna().tolist() == [False, True]
    truth = replace(run(None, np.nan, perfect), memberships=[perfect, perfect], noise=None)
    table = scores.with_truth(table, sources, truth)
    found = tables.integration([table], ["small"], FITS)
    assert found.data["fit"].tolist() == ["a", "truth"]
    assert (found.data[["ari", "nmi", "transfer"]] == [1, 1, 100]).all(axis=None)
    assert found.shown[1]["Accuracy across sources (%)"].tolist() == ["100.0", "100.0"]
    assert found.shown[1]["Runs"].tolist() == ["1 of 2", "1 of 1"]
