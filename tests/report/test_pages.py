"""Parts of a web page: text is escaped, and long cells are marked."""

import pandas as pd

from bjmd.report import pages

LONG = "x" * 41
SHORT = "y" * 40


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
