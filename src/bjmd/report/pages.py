"""Web pages that are one file each, with their pictures, style and scripts inside.

A page reads from top to bottom on any screen; what is wider than a phone scrolls in its own box.
"""

import base64
import html
import itertools
import re
import urllib.parse
from pathlib import Path
from string import Template

from bjmd import __version__


class Link(str):
    """The name of a file beside the page, which a table links to."""


def page(title, sections):
    """A whole page of sections and its contents."""
    body = "\n".join(sections)
    return Template(ours("page.html")).substitute(
        title=html.escape(title),
        body=body,
        contents=_contents(body),
        style=ours("page.css"),
        footer=html.escape(f"Written by bjmd {__version__}."),
        script=ours("page.js"),
    )


def ours(name):
    """The text of a file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _contents(body):
    """Links to the sections of a page and to their parts, where there are several sections."""
    found = re.findall(r'<(section|h3) id="([^"]*)">(?:\n<h2>)?(.*?)</h[23]>', body)
    looks = {"section": "", "h3": ' class="part"'}
    links = "".join(f'<a href="#{anchor}"{looks[tag]}>{title}</a>' for tag, anchor, title in found)
    return f'<nav aria-label="Contents">{links}</nav>' if body.count("<section ") > 1 else ""


def section(title, content):
    return (
        f'<section id="{_anchor(title)}">\n<h2>{html.escape(title)}</h2>\n'
        + "\n".join(content)
        + "\n</section>"
    )


def heading(title):
    """The heading of a part of a section."""
    return f'<h3 id="{_anchor(title)}">{html.escape(title)}</h3>'


def _anchor(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def paragraph(text):
    return f"<p>{_text(text)}</p>"


def _text(text):
    """Text in which a number stays on one line with its per cent."""
    return re.sub(r"(\d) %", "\\1\u00a0%", html.escape(text))


def table(label, cells, marks=None):
    """A table of text cells; `label` describes it for screen readers.

    Columns may have two levels of names; equal neighbours of the upper level share a cell.
    `marks`, of the same shape, has the CSS classes of the cells.
    """
    *upper, lower = (
        zip(*cells.columns, strict=True) if cells.columns.nlevels > 1 else [cells.columns]
    )
    rows = [[(name, len(list(same))) for name, same in itertools.groupby(names)] for names in upper]
    rows.append([(name, 1) for name in lower])
    head = "".join(f"<tr>{''.join(_header_cell(*cell) for cell in row)}</tr>" for row in rows)
    looks = cells.map(lambda _: "") if marks is None else marks
    rows_of_both = zip(cells.to_numpy().tolist(), looks.to_numpy().tolist(), strict=True)
    body = "".join(f"<tr>{''.join(map(_cell, *row))}</tr>" for row in rows_of_both)
    return scrolling(label, f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")


def _header_cell(name, width):
    return f"<th{f' colspan={width}' if width > 1 else ''}>{_text(name)}</th>"


def _cell(text, marks=""):
    """A cell of a table; a long text keeps a width that reads well, and a short one its line."""
    marks += " long" * (len(text) > 40) + " short" * (len(text) <= 12)
    look = f' class="{marks.strip()}"' if marks else ""
    content = _text(text)
    if isinstance(text, Link):
        content = f'<a href="{html.escape(urllib.parse.quote(text))}">{content}</a>'
    return f"<td{look}>{content}</td>"


def picture(png, alt, caption):
    """A picture, given the bytes of its PNG."""
    content = base64.b64encode(png).decode()
    image = f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{content}">'
    return f"<figure>{scrolling(alt, image)}<figcaption>{_text(caption)}</figcaption></figure>"


def scrolling(label, content):
    """A box that scrolls sideways, reachable by the keyboard."""
    label = html.escape(label)
    return f'<div class="wide" role="region" tabindex="0" aria-label="{label}">{content}</div>'
