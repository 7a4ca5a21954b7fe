"""The sentences of a report that depend on what a fit found, and the parts of a web page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.report import pages

LONG = "x" * 41
SHORT = "y" * 40


@pytest.fixture(scope="module")
def learned():
    """Three components where there are two, with learned scales."""
    rng = np.random.default_rng(3)
    x = rng.laplace(size=(40, 2)) @ rng.dirichlet([0.5, 0.5], 60).T + 0.3 * rng.standard_normal(
        (40, 60)
    )
    sources = Sources([x])
    return sources, registry.fit("cavi-bjmd", sources, 3, seed=0, lambda_="learned")


def words(sources, result):
    return " ".join(
        p
        for part in pages.sections(sources, [result], {}, n_restarts=1, files={})
        for p in part.paragraphs
    )


def with_scales(result, scales):
    return replace(result, model=replace(result.model, component_scales=np.array(scales)))


def test_components_that_vanished_are_named(learned):
    sources, result = learned
    assert "do not need C2:" in words(sources, with_scales(result, [1.0, 1e-6, 1.0]))
    assert "need C" not in words(sources, with_scales(result, [1.0, 0.9, 1.0]))
    none = words(sources, with_scales(result, [1e-9, 1e-6, 1e-7]))
    assert "Warning: all components have vanished" in none and "do not need" not in none


def test_vanishing_is_measured_against_the_noise_not_the_unit(learned):
    _, result = learned
    for unit in (1e-8, 1.0, 1e8):
        there = with_scales(
            replace(result, noise=unit * result.noise), unit * np.array([1.0, 1e-6, 1.0])
        )
        assert there.vanished().tolist() == [1]
    assert not len(replace(result, model=None).vanished())


def test_long_cells_keep_a_width_that_reads_well():
    cells = pd.DataFrame([[SHORT, LONG]], columns=["a", "b"])
    box = pages.table("label", cells)
    assert f'<td class="long">{LONG}</td>' in box
    assert f"<td>{SHORT}</td>" in box


def test_two_levels_of_column_names_share_cells():
    columns = pd.MultiIndex.from_tuples(
        [("", "name"), ("a", "ours"), ("a", "paper"), ("b", "ours"), ("b", "ours")]
    )
    box = pages.table("label", pd.DataFrame([list("12345")], columns=columns))
    assert "<tr><th></th><th colspan=2>a</th><th colspan=2>b</th></tr>" in box
    assert "<tr><th>name</th><th>ours</th><th>paper</th><th>ours</th><th>ours</th></tr>" in box


def test_text_is_escaped():
    cells = pd.DataFrame([["<b>"]], columns=["a & b"])
    box = pages.table('"label"', cells)
    assert '<td class="short">&lt;b&gt;</td>' in box and "<th>a &amp; b</th>" in box
    assert 'aria-label="&quot;label&quot;"' in box
    assert pages.paragraph("1 < 2") == "<p>1 &lt; 2</p>"


def test_names_of_files_are_links():
    cells = pd.DataFrame([[pages.Link("a b.tsv")]], columns=["File"])
    assert '<a href="a%20b.tsv">a b.tsv</a>' in pages.table("files", cells)


def test_a_number_stays_on_one_line_with_its_per_cent():
    assert pages.paragraph("19.2 % of it") == "<p>19.2\N{NO-BREAK SPACE}% of it</p>"
    assert "19.2\N{NO-BREAK SPACE}%" in pages.table(
        "shares", pd.DataFrame([["19.2 %"]], columns=["share"])
    )


def test_the_contents_list_sections_and_their_parts():
    first = pages.section("What & why?", [pages.heading("A part"), pages.heading("<b>")])
    page = pages.page("title", [first, pages.section("Files", [])])
    assert (
        '<a href="#what-why">What &amp; why?</a><a href="#a-part" class="part">A part</a>' in page
    )
    assert '<section id="what-why">' in page and '<h3 id="a-part">A part</h3>' in page
    assert '<a href="#files">Files</a></nav>' in page
    assert "<nav" not in pages.page("title", [first]), "one section needs no contents"
