"""The sentences of a report that depend on what a fit found, and the parts of a web page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bjmd.analysis import intervals
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.report import pages


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


def test_intervals_that_were_not_widened_are_called_too_narrow(learned):
    sources, result = learned
    assert "independent, so they are too narrow" in words(sources, result)
    wider = words(sources, intervals.widened(sources, result))
    assert "allow, to first order" in wider and "independent, so they" not in wider


@pytest.mark.parametrize(("pure", "said"), [(0.4, False), (0.6, True)])
def test_intervals_of_nearly_pure_samples_get_a_caution(learned, pure, said):
    sources, result = learned
    memberships = np.full((3, 60), 1 / 3)
    memberships[:, : int(60 * pure)] = np.array([[0.98], [0.01], [0.01]])
    text = words(sources, replace(result, memberships=[memberships]))
    assert ("contain the truth less often" in text) is said


def test_vanishing_is_measured_against_the_noise_not_the_unit(learned):
    _, result = learned
    for unit in (1e-8, 1.0, 1e8):
        there = with_scales(
            replace(result, noise=unit * result.noise), unit * np.array([1.0, 1e-6, 1.0])
        )
        assert there.vanished().tolist() == [1]
    assert not len(replace(result, model=None).vanished())
    alone = with_scales(replace(result, components=result.components[:, :1]), np.array([1e-9]))
    assert not len(alone.vanished())  # it is the mean of the data


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("x" * 41, f'<td class="long">{"x" * 41}</td>'),
        ("y" * 40, f"<td>{'y' * 40}</td>"),
        ("<b>", '<td class="short">&lt;b&gt;</td>'),
        ("19.2 %", '<td class="short">19.2\N{NO-BREAK SPACE}%</td>'),
        (pages.Link("a b.tsv"), '<td class="short"><a href="a%20b.tsv">a b.tsv</a></td>'),
    ],
)
def test_cells_are_escaped_marked_by_length_and_linked(cell, expected):
    box = pages.table('"label"', pd.DataFrame([[cell]], columns=["a & b"]))
    assert expected in box and "<th>a &amp; b</th>" in box
    assert 'aria-label="&quot;label&quot;"' in box


def test_two_levels_of_column_names_share_cells():
    columns = pd.MultiIndex.from_tuples(
        [("", "name"), ("a", "ours"), ("a", "paper"), ("b", "ours"), ("b", "ours")]
    )
    box = pages.table("label", pd.DataFrame([list("12345")], columns=columns))
    assert "<tr><th></th><th colspan=2>a</th><th colspan=2>b</th></tr>" in box
    assert "<tr><th>name</th><th>ours</th><th>paper</th><th>ours</th><th>ours</th></tr>" in box


def test_the_contents_list_sections_and_their_parts():
    first = pages.section("What & why?", [pages.heading("A part"), pages.heading("<b>")])
    page = pages.page("title", [first, pages.section("Files", [])])
    assert (
        '<a href="#what-why">What &amp; why?</a><a href="#a-part" class="part">A part</a>' in page
    )
    assert '<section id="what-why">' in page and '<h3 id="a-part">A part</h3>' in page
    assert '<a href="#files">Files</a></nav>' in page
    assert "<nav" not in pages.page("title", [first]), "one section needs no contents"
