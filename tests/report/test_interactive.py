"""What the interactive figure shows is what the fit says."""

import json

import numpy as np
import pandas as pd
import pytest

from bjmd import Sources
from bjmd.report import interactive, pages, tables, text
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
    ending = {"converged": True, "reason": "", "method": "map-bjmd", "seed": 0}
    return Decomposition(w, h, np.ones(2), 0.0, np.zeros(1), **ending)


def test_samples_stand_with_what_is_known_about_them(data, best):
    columns = pd.DataFrame(interactive.samples(data, best)).set_index("sample")
    for c, names in enumerate(data.sample_names):
        part = columns.loc[names]
        assert (part["source"] == data.names[c]).all()
        places = best.memberships[c].T @ tables.polygon(3)
        np.testing.assert_allclose(part[["x", "y"]], places, atol=1e-4)
    names = [name for block in data.sample_names for name in block]
    assert list(columns["class"][names]) == ["a", "b", "c", "no class", "a, c", "b", "c"]
    h = best.memberships[0][:, 0]
    largest = h.argmax()
    assert columns["memberships"][names[0]].startswith(f"C{largest + 1} {h[largest]:.3g}, ")


def test_a_page_has_some_of_many_samples(data, best, monkeypatch):
    monkeypatch.setattr(interactive, "MAX_SAMPLES", 4)
    ends = [data.sample_names[c][i] for c, i in ((0, 0), (0, 3), (1, 0), (1, 2))]
    assert sorted(interactive.samples(data, best)["sample"]) == sorted(ends)


def test_names_are_text_whatever_they_hold():
    page = pages.page("title", [pages.chart({"names": HOSTILE}, HOSTILE[0], HOSTILE[2])])
    content = page.split('<script type="application/json">')[1].split("</script>")[0]
    assert json.loads(content) == {"names": HOSTILE}
    assert page.count("</script>") == 2 and "<!--" not in page, "the data's and the page's own"


def test_the_page_holds_the_library_once_or_says_what_to_install(data, best):
    pytest.importorskip("bokeh")
    parts = text.sections(data, [best], (), {})
    pngs = {"components": b"png", "simplex": b"png"}
    page = text.page("title", parts, pngs, interactive.simplex(data, best))
    assert page.count('class="chart"') == 1 and interactive.MISSING not in page
    for script in interactive.scripts():
        assert "</script" not in script and page.count(script) == 1
    page = text.page("title", parts, pngs, None)
    assert interactive.MISSING in page and 'class="chart"' not in page and page.count("<img ") == 2
