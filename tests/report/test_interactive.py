"""What the interactive figures show is what the fit says, and no name in them is anything but text."""

import json
import re

import numpy as np
import pytest

from bjmd import Sources
from bjmd.report import interactive, pages, text
from bjmd.results.decomposition import Decomposition

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"'&\u2028\u2029",
    "$x ${y} \\u003c",
]


@pytest.fixture
def data():
    """Two sources of 4 and 3 samples on 6 features, in 3 classes; one sample has two classes and
    one has none.
    """
    rng = np.random.default_rng(1)
    labels = [np.eye(3, 4, dtype=bool), np.eye(3, dtype=bool)]
    labels[1][2, 0] = True
    return Sources(
        [rng.normal(size=(6, 4)), rng.normal(size=(6, 3))],
        labels=labels,
        class_names=["a", "b", "c"],
    )


@pytest.fixture
def best(data):
    rng = np.random.default_rng(2)
    h = [rng.dirichlet(np.ones(3), n).T for n in (4, 3)]
    w = rng.normal(size=(6, 3))
    return Decomposition(
        w, h, np.ones(2), 0.0, np.zeros(1), converged=True, reason="", method="map-bjmd", seed=0
    )


def content(page):
    return [
        json.loads(found)
        for found in re.findall(r'<script type="application/json">(.*?)</script>', page, re.S)
    ]


def test_samples_stand_with_their_source_classes_and_memberships(data, best):
    chart = interactive.simplex(data, best)
    h = np.hstack(best.memberships)
    assert chart["names"] == [name for names in data.sample_names for name in names]
    assert [label for label, _ in chart["axes"]] == ["C1", "C2", "C3"]
    np.testing.assert_allclose([values for _, values in chart["axes"]], h, rtol=6e-3)
    groups = {label: [levels[code] for code in codes] for label, levels, codes in chart["groups"]}
    assert groups["Class"] == ["a", "b", "c", "no class", "a, c", "b", "c"]
    assert groups["Source"] == [data.names[0]] * 4 + [data.names[1]] * 3
    assert groups["Strongest"] == [f"C{k + 1}" for k in h.argmax(axis=0)]
    corners = np.array([place for _, *place in chart["map"]["corners"]])
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), 1, atol=1e-3)
    np.testing.assert_allclose(
        h.T @ corners, np.column_stack([chart["map"]["x"], chart["map"]["y"]]), atol=2e-3
    )


def test_features_stand_with_their_values_and_what_they_set_apart(data, best):
    best.components[4, 1] = 50
    chart = interactive.components(data, best)
    assert chart["names"] == data.feature_names and chart["sd"] is None and chart["map"] is None
    np.testing.assert_allclose(
        [values for _, values in chart["axes"]], best.components.T, rtol=6e-4
    )
    ((_, levels, codes),) = chart["groups"]
    assert levels[codes[4]] == "C2"


def test_of_many_samples_and_features_a_page_has_some(data, best, monkeypatch):
    monkeypatch.setattr(interactive, "MOST_SAMPLES", 4)
    monkeypatch.setattr(interactive, "MOST_FEATURES", 3)
    assert interactive.simplex(data, best)["names"] == [
        data.sample_names[c][i] for c, i in ((0, 0), (0, 3), (1, 0), (1, 2))
    ]
    assert 1 <= len(interactive.components(data, best)["names"]) <= 3


def test_names_are_text_whatever_they_hold():
    page = pages.page("title", [pages.chart({"names": HOSTILE}, HOSTILE[0], HOSTILE[2])])
    assert content(page) == [{"names": HOSTILE}]
    assert page.count("</script>") == 2 and "<!--" not in page, "the data's and the page's own"
    assert pages.page("title", []).count("</script>") == 1


def test_without_the_library_the_page_says_what_to_install(data, best, monkeypatch):
    charts = interactive.of_fit(data, best)
    parts = text.sections(data, [best], (), {})
    monkeypatch.setattr(interactive, "d3", lambda: None)
    page = text.page("title", parts, {"components": b"png", "simplex": b"png"}, charts)
    assert interactive.MISSING in page and 'class="chart"' not in page and page.count("<img ") == 2
    monkeypatch.setattr(interactive, "d3", lambda: "const d3 = 1;")
    page = text.page("title", parts, {"components": b"png", "simplex": b"png"}, charts)
    assert (
        interactive.MISSING not in page
        and page.count('class="chart"') == 2
        and "const d3 = 1;" in page
    )


def test_one_component_has_no_interactive_figure_and_two_have_that_of_the_features(data, best):
    best.memberships = [h[:2] for h in best.memberships]
    best.components = best.components[:, :2]
    assert list(interactive.of_fit(data, best)) == ["components"]
    best.components = best.components[:, :1]
    assert interactive.of_fit(data, best) == {}


def test_the_library_is_that_of_the_package():
    pytest.importorskip("mpld3")
    script = interactive.d3()
    assert script.startswith("// https://d3js.org v5") and "</script" not in script
