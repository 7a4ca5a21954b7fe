"""What a table of the paper's run is, and how it is written to files."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bjmd.report import pages
from bjmd.report.tables import markdown


@dataclass(frozen=True)
class Table:
    """A table as numbers, and as the sentences and tables of text cells that people read."""

    data: pd.DataFrame
    shown: list


@dataclass(frozen=True)
class Marked:
    """A table of text cells, with a CSS class of page.css, or nothing, for each cell."""

    cells: pd.DataFrame
    marks: pd.DataFrame


def text_cells(table):
    """The same table as text, with a dash where there is no value."""
    return table.astype(object).where(table.notna(), "–").astype(str)


def write(table, title, caption, output):
    """Write a table as CSV, Markdown, an HTML fragment for the report, and an HTML page."""
    table.data.to_csv(output.csv, index=False, float_format="%.7g")
    formats = zip(*(_in_formats(title, part) for part in table.shown), strict=True)
    text, fragment = map("\n".join, formats)
    Path(output.markdown).write_text(text)
    Path(output.fragment).write_text(fragment)
    Path(output.html).write_text(pages.page(title, [pages.paragraph(caption), fragment]))


def _in_formats(title, part):
    """A sentence or a table of text cells in Markdown and HTML."""
    if isinstance(part, str):
        return f"{part}\n", pages.paragraph(part)
    cells, marks = (part.cells, part.marks) if isinstance(part, Marked) else (part, None)
    heads = [" ".join(filter(None, [head] if isinstance(head, str) else head)) for head in cells]
    return markdown(cells.set_axis(heads, axis=1)), pages.table(title, cells, marks)
