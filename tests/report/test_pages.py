"""Parts of a web page: text is escaped, and long cells are marked, whoever made the table."""

import pandas as pd

from bjmd.report import pages

LONG, SHORT = "x" * 41, "y" * 40


def test_long_cells_keep_a_width_that_reads_well():
    cells = pd.DataFrame([[SHORT, LONG]], columns=["a", "b"])
    for box in (pages.table("label", cells), pages.scrolling("label", cells.to_html())):
        assert f"<td class=long>{LONG}</td>" in box
        assert f"<td>{SHORT}</td>" in box


def test_text_is_escaped():
    cells = pd.DataFrame([["<b>"]], columns=["a & b"])
    box = pages.table('"label"', cells)
    assert "<td>&lt;b&gt;</td>" in box and "<th>a &amp; b</th>" in box and 'aria-label="&quot;label&quot;"' in box
    assert pages.paragraph("1 < 2") == "<p>1 &lt; 2</p>"
