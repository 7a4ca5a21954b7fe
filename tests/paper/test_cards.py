import numpy as np
import pandas as pd
import pytest

from bjmd.data.sources import Sources
from bjmd.report.tables import markdown
from bjmd_paper import cards
from bjmd_paper.datasets import catalogue


@pytest.fixture
def metabric():
    """As many patients as the study leaves, with a few genes."""
    sizes = {"low": 163, "moderate": 650, "high": 898}
    return Sources(
        [np.ones((3, n)) for n in sizes.values()],
        names=sizes,
        labels=[np.arange(n) % 5 == np.arange(5)[:, None] for n in sizes.values()],
        class_names=["Basal", "Her2", "LumA", "LumB", "Normal"],
    )


def test_numbers_beside_the_papers_with_reasons(metabric):
    table = cards.comparison("metabric", metabric)
    assert list(table.columns) == ["prepared", "paper", "difference"]
    assert list(table.loc["samples of low", ["prepared", "paper"]]) == [163, 214]
    for group, numbers in {
        "low": ("213", "214", "50"),
        "moderate": ("736", "735", "86"),
        "high": ("962", "64"),
    }.items():
        assert all(number in table.loc[f"samples of {group}", "difference"] for number in numbers)
    same = table["prepared"] == table["paper"]
    assert list(table.index[same]) == ["groups", "classes"]
    assert (table.loc[same, "difference"] == "").all()
    assert "19466" in table.loc["features", "difference"]
    fewer = Sources(metabric.matrices[:2], names=["low", "moderate"], labels=metabric.labels[:2])
    assert "Not explained" in cards.comparison("metabric", fewer).loc["groups", "difference"]


def test_samples_of_several_classes_count_in_each():
    labels = [np.array([[1, 1, 0], [0, 1, 1]]), np.array([[1, 0], [1, 1]])]
    sources = Sources(
        [np.ones((2, 3)), np.ones((2, 2))], names=["a", "b"], labels=labels, class_names=["x", "y"]
    )
    assert cards.class_counts(sources).to_dict("list") == {"a": [2, 2], "b": [1, 2], "all": [3, 4]}


FILES = pd.DataFrame(
    {"file": ["data_expression.txt", "data_clinical.txt"], "sha256": "4470", "known": [True, False]}
)


def test_text(metabric):
    facts, *texts = (
        part if isinstance(part, str) else markdown(part)
        for part in cards.card(metabric, FILES, "metabric").shown
    )
    assert "data_expression.txt, data_clinical.txt; data_clinical.txt has sha256 4470, " in facts
    dataset = catalogue.get("metabric")
    for part in (dataset.title, dataset.page, dataset.terms, dataset.citation):
        assert part in facts
    text = "\n".join(texts)
    assert "| classes | 5 | 5 |  |" in text
    assert "| LumA | 33 | 130 | 180 | 343 |" in text


def test_data_that_the_paper_does_not_have():
    sources = Sources([np.ones((2, 3))], names=["30 pg"], labels=[np.eye(3)])
    facts, *_ = cards.card(sources, FILES, "mixology").shown
    assert "H2228_prop" in facts.set_index("")["about the data"]["note"]
    assert (cards.comparison("mixology", sources)["difference"] == "").all()


def test_data_sets_of_the_paper_have_its_numbers():
    for name in catalogue.names():
        dataset = catalogue.get(name)
        if dataset.paper is None:
            continue
        for rows in (dataset.paper.printed, dataset.paper.printed_filtered):
            for row in rows.values():
                assert len(row["auc"]) == len(row.get("noise", row["auc"]))
                assert len(row["auc"]) == len(dataset.paper.groups)
