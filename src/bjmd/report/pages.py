"""Web pages that are one file each, with their pictures inside.

A page reads from top to bottom on any screen; what is wider than a phone scrolls in its own box.
"""

import base64
import html
import itertools

from bjmd import __version__


def page(title, sections):
    """A whole page of sections."""
    return _PAGE.format(title=html.escape(title), body="\n".join(sections), version=__version__)


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


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 0 auto;
  padding: 1rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; line-height: 1.2; }}
h2 {{ font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; overflow-wrap: normal; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem 1rem .3rem 0; border-bottom: 1px solid #ddd; }}
thead tr:last-child th {{ border-bottom: 2px solid #333; }}
td.long {{ min-width: 13rem; }}
figure {{ margin: 1.5rem 0; }}
img {{ display: block; width: 100%; min-width: 36rem; height: auto; }}
figcaption {{ color: #444; font-size: .9rem; margin-top: .5rem; }}
footer {{ color: #555; font-size: .85rem; margin-top: 3rem; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
<footer>Written by bjmd {version}.</footer>
</body>
</html>
"""
