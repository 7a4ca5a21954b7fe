"""What the interactive figures show is what the fit says."""

import json

import numpy as np
import pytest

from bjmd import Sources
from bjmd.report import interactive, pages, text
from bjmd.results.decomposition import Decomposition

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "\"'&\u2028\u2029", "${y} \\u003c"]


@pytest.fixture
def data():
    """Two sources of 4 and 3 samples on 6 features; one sample has two classes, one has none."""
    rng = np.random.default_rng(1)
    labels = [np.eye(3, 4, dtype=bool), np.eye(3, dtype=bool)]
    labels[1][2, 0] = True
    matrices = [rng.normal(size=(6, 4)), rng.normal(size=(6, 3))]
    return Sources(matrices, labels=labels, class_names=["a", "b", "c"])


@pytest.fixture
def best():
    rng = np.random.default_rng(2)
    h = [rng.dirichlet(np.ones(3), n).T for n in (4, 3)]
    w = rng.normal(size=(6, 3))
    w[4, 1] = 50
    ending = {"converged": True, "reason": "", "method": "map-bjmd", "seed": 0}
    return Decomposition(w, h, np.ones(2), 0.0, np.zeros(1), **ending)


@pytest.fixture
def charts(monkeypatch):
    """What would be drawn, without Bokeh."""
    drawn = {}

    def record(name, columns, levels, values, **options):
        drawn[name] = {"columns": columns, "levels": levels, "values": values, **options}
        return {}

    monkeypatch.setattr(interactive, "_chart", record)
    return drawn


def test_points_stand_with_what_is_known_about_them(data, best, charts):
    assert list(interactive.of_fit(data, best)) == ["components", "simplex"]
    samples = charts["simplex"]
    assert samples["columns"] == {
        "name": [name for names in data.sample_names for name in names],
        "source": [data.names[0]] * 4 + [data.names[1]] * 3,
        "class": ["a", "b", "c", "no class", "a, c", "b", "c"],
    }
    assert samples["levels"] == ["a", "b", "c"]
    np.testing.assert_allclose(samples["values"], np.hstack(best.memberships))
    features = charts["components"]
    assert features["columns"]["name"] == data.feature_names
    assert features["columns"]["sets apart"][4] == "C2" and features["sd"] is None
    np.testing.assert_array_equal(features["values"], best.components.T)


def test_a_page_has_some_of_many_samples_and_features(data, best, charts, monkeypatch):
    monkeypatch.setattr(interactive, "MAX_SAMPLES", 4)
    monkeypatch.setattr(interactive, "MAX_FEATURES", 3)
    interactive.of_fit(data, best)
    ends = [data.sample_names[c][i] for c, i in ((0, 0), (0, 3), (1, 0), (1, 2))]
    assert charts["simplex"]["columns"]["name"] == ends
    assert 1 <= len(charts["components"]["columns"]["name"]) <= 3


@pytest.mark.parametrize(("n_components", "expected"), [(1, []), (2, ["components"])])
def test_few_components_have_fewer_figures(data, best, charts, n_components, expected):
    best.memberships = [h[:n_components] for h in best.memberships]
    best.components = best.components[:, :n_components]
    assert list(interactive.of_fit(data, best)) == expected


def test_the_values_of_a_point_are_its_largest_with_their_sd():
    values = np.array([[0.5, -3.0], [2.0, 1.0]])
    assert interactive._texts(["C1", "C2"], values, None) == ["C2 2, C1 0.5", "C1 -3, C2 1"]
    first, _ = interactive._texts(["C1", "C2"], values, np.full((2, 2), 0.25))
    assert first == "C2 2 ± 0.25, C1 0.5 ± 0.25"


def test_names_are_text_whatever_they_hold():
    page = pages.page("title", [pages.chart({"names": HOSTILE}, HOSTILE[0], HOSTILE[2])])
    content = page.split('<script type="application/json">')[1].split("</script>")[0]
    assert json.loads(content) == {"names": HOSTILE}
    assert page.count("</script>") == 2 and "<!--" not in page, "the data's and the page's own"


def test_the_page_holds_the_library_once_or_says_what_to_install(data, best):
    pytest.importorskip("bokeh")
    parts = text.sections(data, [best], (), {})
    pngs = {"components": b"png", "simplex": b"png"}
    page = text.page("title", parts, pngs, interactive.of_fit(data, best))
    assert page.count('class="chart"') == 2 and interactive.MISSING not in page
    for script in interactive.scripts():
        assert "</script" not in script and page.count(script) == 1
    page = text.page("title", parts, pngs, None)
    assert interactive.MISSING in page and 'class="chart"' not in page and page.count("<img ") == 2
