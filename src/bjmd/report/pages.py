"""Web pages that are one file each, with their pictures inside.

A page reads from top to bottom on any screen; what is wider than a phone scrolls in its own box.
"""

import base64
import html
import itertools
from pathlib import Path
from string import Template

from bjmd import __version__

_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def page(title, sections):
    """A whole page of sections."""
    return _PAGE.substitute(title=html.escape(title), body="\n".join(sections), version=__version__)


def section(title, content):
    return f"<section>\n<h2>{html.escape(title)}</h2>\n" + "\n".join(content) + "\n</section>"


def paragraph(text):
    return f"<p>{html.escape(text)}</p>"


def table(label, cells):
    """A table of text cells; `label` is read out where the table cannot be seen.

    Columns may have two levels of names; equal neighbours of the upper level share a cell.
    """
    *upper, lower = zip(*cells.columns, strict=True) if cells.columns.nlevels > 1 else [cells.columns]
    rows = [[(name, len(list(same))) for name, same in itertools.groupby(names)] for names in upper]
    rows.append([(name, 1) for name in lower])
    head = "".join(f"<tr>{''.join(_header_cell(*cell) for cell in row)}</tr>" for row in rows)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in cells.to_numpy().tolist())
    return scrolling(label, f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")


def _header_cell(name, width):
    return f"<th{f' colspan={width}' if width > 1 else ''}>{html.escape(name)}</th>"


def _cell(text):
    """A cell of a table; a long text keeps a width that reads well."""
    return f"<td{' class=long' if len(text) > 40 else ''}>{html.escape(text)}</td>"


def picture(png, alt, caption):
    """A picture, given the bytes of its PNG."""
    image = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'
    return f"<figure>{scrolling(alt, image)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def scrolling(label, content):
    """A box that scrolls sideways, reachable by the keyboard."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{html.escape(label)}">{content}</div>'
