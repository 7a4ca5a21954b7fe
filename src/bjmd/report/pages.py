"""What a fit found, in words: written once, and shown as Markdown, a web page or plain text.

A web page is one file, with its pictures, style and scripts inside.  It reads from top to bottom on
any screen; what is wider than a phone scrolls in its own box.
"""

import base64
import html
import itertools
import re
import textwrap
import tomllib
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np
import pandas as pd

from bjmd import __version__
from bjmd.analysis import variance
from bjmd.errors import count
from bjmd.inference import registry
from bjmd.model import BY_SOURCE
from bjmd.report import tables
from bjmd.report.tables import Named, number
from bjmd.results.decomposition import (
    ALIKE,
    ALL_VANISHED,
    Decomposition,
    component_names,
    similarities,
)

NEARLY_PURE = 0.05  # distance from 0 or 1 within which intervals of memberships are too short
WRITTEN_BY = f"Written by bjmd {__version__}."


def ours(name: str) -> str:
    """The text of a file beside this one."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


_ABOUT = tomllib.loads(ours("captions.toml"))
FIGURES = {
    name: (about["shows"], about["caption"]) for name, about in _ABOUT.items() if "shows" in about
}
"""What each figure shows (read out to those who cannot see it), and its caption."""
ANSWERS = [name for name, about in _ABOUT.items() if "text" in about]
"""The tables about a fit that have a section each, in this order."""


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, a table of text cells (or None), and the names of figures."""

    title: str
    paragraphs: list[str]
    table: pd.DataFrame | None = None
    figures: tuple[str, ...] = ()


class Link(str):
    """The name of a file beside the page, which a table links to."""


# What is said


def title(data: Named, results: list[Decomposition]) -> str:
    """The heading of a report."""
    return f"{count(results[0].n_components, 'component')} from {count(len(data.names), 'source')}"


def sections(
    data: Named,
    results: list[Decomposition],
    answers: Mapping[str, pd.DataFrame],
    *,
    n_restarts: int,
    notes: Sequence[str] = (),
    files: Mapping[str, str],
) -> list[Section]:
    """The report on the restarts of one fit, best first.

    `answers` (tables by name, as from `tables.of_summary`) are about the best restart, `n_restarts`
    were asked for, `notes` are sentences about the data, and `files` says what each file beside the
    report holds.
    """
    best = results[0]
    links = [(Link(name), contents) for name, contents in files.items()]
    return [
        Section("What was fitted", [*_fitted(data, best), *notes]),
        Section(
            "Sources and noise",
            [*_about_noise(data, best)],
            tables.sources_as_text(data, best),
            figures=("noise",),
        ),
        Section(
            "Components",
            [*_about_components(best)],
            tables.components_as_text(data, best),
            figures=("components",),
        ),
        *_about_offsets(data, best),
        *(about_answer(name, table) for name, table in answers.items()),
        Section(
            "Memberships",
            [*_about_memberships(best)],
            figures=("memberships", "membership_bars", "simplex"),
        ),
        Section("Restarts", [*_about_restarts(results, n_restarts)]),
        Section("Files", [], pd.DataFrame(links, columns=["File", "Contents"])),
    ]


def in_brief(data: Named, results: list[Decomposition], n_restarts: int) -> list[Section]:
    """What the terminal shows after a fit."""
    best = results[0]
    return [
        Section(
            "Sources and noise", [*_about_noise(data, best)], tables.sources_as_text(data, best)
        ),
        Section("Components", [], tables.components_in_brief(data, best)),
        Section("Restarts", [" ".join(_about_restarts(results, n_restarts))]),
    ]


def _fitted(data: Named, best: Decomposition) -> Iterator[str]:
    method = registry.get(best.method)
    n_samples = sum(len(names) for names in data.sample_names)
    options = "".join(f", {name} = {value}" for name, value in best.options.items())
    yield (
        f"{count(n_samples, 'sample')} from {count(len(data.names), 'source')}, measured on "
        f"{count(len(data.feature_names), 'feature')}, were decomposed into "
        f"{count(best.n_components, 'component')} by {method.name} (seed {best.seed}{options}). "
        "A component is a pattern over the features. Every sample is a "
        "mixture of the components, and its memberships are their shares in it."
    )
    if any(data.n_missing):
        yield "Missing entries are treated as unknown."


def _about_noise(data: Named, best: Decomposition) -> Iterator[str]:
    """Sentences about noise, offsets and scales that were learned."""
    method = registry.get(best.method)
    extensions = tables.extensions(data, best)
    if best.noise is None:
        yield f"{method.label} has no noise model."
    elif method.concatenate:
        yield f"{method.label} pools all samples into one source, so they share one noise level."
    for what in ("feature", "sample"):
        if f"{what}_noise" in extensions:
            yield _about_uneven_noise(extensions[f"{what}_noise"], what)
    if best.model is not None and best.model.degrees_of_freedom is not None:
        yield (
            "Outliers count less, and the fewer degrees of freedom the noise has, the less they "
            "count; from about 50 on, it is practically normal."
        )
    vanished = best.vanished()
    all_vanished = len(vanished) == best.n_components
    if "offsets" in extensions:
        if not len(tables.shifts(data, best)):
            yield "No source is shifted relative to the others: the offsets are practically zero."
        share = variance.between_sources(best.memberships)
        if share > variance.CONFOUNDED and not all_vanished:
            yield f"Warning: {variance.confounded(share)}."
    if all_vanished:
        yield f"Warning: {ALL_VANISHED}."
    elif len(vanished):
        names = ", ".join(component_names(best.n_components)[k] for k in vanished)
        yield f"The data do not need {names}: the learned scale is zero, so nothing is explained."


def _about_uneven_noise(table: pd.DataFrame, what: str) -> str:
    low, high = table["relative_sd"].quantile([0.05, 0.95])
    top = table.nlargest(5, "relative_sd")
    labels = top[what] + (" of " + top["source"] if what == "sample" else "")
    pairs = zip(labels, top["relative_sd"], strict=True)
    return (
        f"The noise differs between {what}s: 90 % of them have {number(low, 2)} to "
        f"{number(high, 2)} times the noise sd of their source. The noisiest are "
        f"{', '.join(f'{name} ({number(relative_sd, 2)})' for name, relative_sd in pairs)}."
    )


def _about_offsets(data: Named, best: Decomposition) -> Iterator[Section]:
    table = tables.shifts(data, best)
    if not len(table):
        return
    mean_squares = (table["offset"] ** 2).groupby(table["source"], sort=False).mean()
    sizes = [f"{number(square**0.5, 2)} in {name}" for name, square in mean_squares.items()]
    sizes += [f"practically 0 in {name}" for name in data.names if name not in mean_squares]
    words = (
        "How far the features of each source are shifted relative to the others. The root mean "
        f"square is {', '.join(sizes)}. The features listed are shifted most, in units of their "
        "uncertainty (offset ± sd); offsets.tsv has all. If a kind of sample occurs in one source "
        "only, the offsets of that source absorb part of what distinguishes it."
    )
    yield Section("Offsets", [words], tables.offsets_as_text(table), figures=("offsets",))


def _about_components(best: Decomposition) -> Iterator[str]:
    by = "in units of their uncertainty" if best.posterior else "in the unit of the data"
    if best.n_components == 1:
        yield "The features listed have the highest and the lowest levels."
    else:
        yield (
            "The share of a component is its mean membership. The features listed set the "
            "component apart: they are most above (up) or below (down) their mean over the other "
            f"components, {by}; ranking.tsv has all of them. In brackets are the difference from "
            "the mean of the data, and the level itself. Components are the corners between which "
            "the samples lie, so levels may be beyond those of any sample, even negative where the "
            "data are not."
        )
    if best.posterior and best.posterior.components.widening is not None:
        yield (
            "Credible intervals allow, to first order, for components and memberships that "
            "compensate for each other. They assume that the model is right, and are still "
            "somewhat too narrow."
        )
    elif best.posterior:
        yield (
            "Credible intervals treat components and memberships as independent, so they are too "
            "narrow."
        )


def about_answer(name: str, table: pd.DataFrame) -> Section:
    """A table, what it says, and the figure of its name."""
    title = _ABOUT[name].get("title", name.replace("_", " ").capitalize())
    paragraphs = [_ABOUT[name]["text"]]
    if name == "associations":
        table = table[table["q_value"] < 0.05][:30]
    if name == "check":
        from bjmd.analysis.check import Check  # with all that it needs to compare fits

        paragraphs.insert(0, str(Check(table)))
    if name == "components_by_source":
        paragraphs.append(_about_mixing(table))
    return Section(title, paragraphs, tables.answer_as_text(name, table), (name,))


def _about_mixing(table: pd.DataFrame) -> str:
    mixed = table.drop_duplicates("source")
    each = ", ".join(f"{row.mixing:.2f} in {row.source}" for row in mixed.itertuples())
    return (
        f"Mixing of the sources: {each}. This is the share of the 15 nearest neighbours of a "
        "sample, by memberships, that come from other sources, relative to chance: 1 if the "
        "sources are mixed, 0 if they lie apart."
    )


def _about_memberships(best: Decomposition) -> Iterator[str]:
    entries = np.hstack(best.memberships)
    largest = np.median(np.hstack([tables.shares(h) for h in best.memberships]).max(axis=0))
    if best.n_components > 1:
        yield f"Half of the samples have at least {100 * largest:.0f} % of one component."
    if best.options.get("alpha0") == BY_SOURCE:
        yield "The Dirichlet prior of the memberships was learned for each source (dirichlet.tsv)."
    elif best.model is not None and best.posterior is not None:
        yield f"The concentration of their Dirichlet prior is {best.model.alpha0[0][0]:.2g}."
    if not np.allclose(entries.sum(axis=0), 1):
        yield (
            f"The memberships of {registry.get(best.method).label} do not sum to 1. They are "
            "scaled to do so in the figures, but not in the tables."
        )
    elif best.posterior and np.mean(np.abs(entries - 0.5) > 0.5 - NEARLY_PURE) >= 0.5:
        yield (
            "Many memberships are close to 0 or 1. Their credible intervals contain the truth less "
            "often than they should: rely on the means and on the order of the samples."
        )


def _about_restarts(results: list[Decomposition], n_restarts: int) -> Iterator[str]:
    best, *others = results
    if not best.converged:
        yield (
            f"Warning: the best restart did not converge ({best.reason}). Let it run longer "
            "before you rely on it."
        )
    if not others:
        how = "converged" if best.converged else "did not converge"
        yield f"There was only one restart, and it {how}. Run several to see whether they agree."
        return
    tolerances = [result.options.get("tol", 0.0) for result in results]
    n_continued = sum(tol < max(tolerances) for tol in tolerances)
    if n_continued:
        yield (
            f"Instead of {n_restarts:,} full restarts, a search made {len(results):,} random "
            f"starts and continued the best {n_continued:,} to convergence (see restarts.tsv)."
        )
    n_converged = sum(result.converged for result in results)
    found = similarities(results) >= ALIKE
    n_same = int(found.all(axis=1).sum())
    yield f"{_how_many(n_converged, len(results), 'restart')} converged."
    yield (
        f"{_how_many(n_same, len(others), 'other restart')} found the same components as the best "
        f"one (memberships with a correlation of at least {ALIKE})."
    )
    n_found = found.sum(axis=0)
    n_others = len(others)
    missed = [f"C{k + 1} ({n:,} of {n_others:,})" for k, n in enumerate(n_found) if n < n_others]
    if missed:
        yield f"Not found by all of them: {', '.join(missed)}."
    if (n_found < n_others / 2).any():
        yield (
            "Interpret components that few restarts found with caution, run more restarts, or fit "
            "fewer components."
        )


def _how_many(n: int, total: int, what: str) -> str:
    """All 8 restarts, both restarts, 3 of 8 restarts, or no restart."""
    if n == total:
        return {1: f"The {what}", 2: f"Both {what}s"}.get(total, f"All {total:,} {what}s")
    return f"{n:,} of {total:,} {what}s" if n else f"No {what}"


# How it is shown


def markdown(heading: str, parts: Iterable[Section], drawn: Collection[str]) -> str:
    """The text of summary.md, with the figures that were drawn, in figures/ beside it."""
    blocks = [f"# {_markdown_text(heading)}"]
    for part in parts:
        blocks += [f"## {part.title}", *map(_markdown_text, part.paragraphs)]
        if part.table is not None:
            blocks.append(tables.markdown(part.table.map(_markdown_text)))
        for name in filter(drawn.__contains__, part.figures):
            shows, caption = FIGURES[name]
            blocks += [f"![{shows}](figures/{name}.png)", caption]
    return "\n\n".join([*blocks, WRITTEN_BY]) + "\n"


def _markdown_text(text: str) -> str:
    """Names may hold what Markdown would take for markup; names of files are links."""
    if isinstance(text, Link):
        return f"[{text}]({urllib.parse.quote(text)})"
    return re.sub(r"([\\`*<|])", r"\\\1", " ".join(text.split()))


def plain(parts: Iterable[Section], width: int = 100) -> str:
    """The text for a terminal, without figures; the last column of tables is wrapped."""
    blocks = []
    for part in parts:
        if part.paragraphs or part.table is not None:
            blocks.append(part.title.upper())
            blocks += [textwrap.fill(p, width, break_on_hyphens=False) for p in part.paragraphs]
        if part.table is not None:
            blocks.append("\n".join(_plain_table(part.table, width)))
    return "\n\n".join(blocks) + "\n"


def _plain_table(table: pd.DataFrame, width: int) -> Iterator[str]:
    rows = [list(table.columns), *table.to_numpy().tolist()]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    indent = sum(widths) + 2 * len(widths)
    for row in rows:
        start = "".join(f"{cell:<{w}}  " for cell, w in zip(row, widths, strict=False))
        yield textwrap.fill(
            row[-1],
            max(width, indent + 30),
            initial_indent=start,
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )


def report(heading: str, parts: Iterable[Section], pngs: Mapping[str, bytes]) -> str:
    """The text as one web page; `pngs` has the bytes of the figures that were drawn."""
    body = []
    for part in parts:
        content = [paragraph(text) for text in part.paragraphs]
        if part.table is not None:
            content.append(table(part.title, part.table))
        drawn = filter(pngs.__contains__, part.figures)
        content += [picture(pngs[name], *FIGURES[name]) for name in drawn]
        body.append(section(part.title, content))
    return page(heading, body)


# The parts of a web page


def page(title: str, sections: Iterable[str]) -> str:
    """A whole page of sections and its contents."""
    body = "\n".join(sections)
    return Template(ours("page.html")).substitute(
        title=html.escape(title),
        body=body,
        contents=_contents(body),
        style=ours("page.css"),
        footer=html.escape(WRITTEN_BY),
        script=ours("page.js"),
    )


def _contents(body: str) -> str:
    """Links to the sections of a page and to their parts, where there are several sections."""
    headings = re.findall(r'<(section|h3) id="([^"]*)">(?:\n<h2>)?(.*?)</h[23]>', body)
    marks = {"section": "", "h3": ' class="part"'}
    links = "".join(f'<a href="#{id}"{marks[tag]}>{title}</a>' for tag, id, title in headings)
    return f'<nav aria-label="Contents">{links}</nav>' if body.count("<section ") > 1 else ""


def section(title: str, content: Iterable[str]) -> str:
    body = "\n".join(content)
    return f'<section id="{_anchor(title)}">\n<h2>{html.escape(title)}</h2>\n{body}\n</section>'


def heading(title: str) -> str:
    """The heading of a part of a section."""
    return f'<h3 id="{_anchor(title)}">{html.escape(title)}</h3>'


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _text(text: str) -> str:
    """Text in which a number stays on one line with its per cent."""
    return re.sub(r"(\d) %", "\\1\u00a0%", html.escape(text))


def table(label: str, cells: pd.DataFrame, marks: pd.DataFrame | None = None) -> str:
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
    classes = cells.map(lambda _: "") if marks is None else marks
    rows_of_both = zip(cells.to_numpy().tolist(), classes.to_numpy().tolist(), strict=True)
    body = "".join(f"<tr>{''.join(map(_cell, *row))}</tr>" for row in rows_of_both)
    return _scrolling(label, f"<table><thead>{head}</thead><tbody>{body}</tbody></table>")


def _header_cell(name: str, width: int) -> str:
    return f"<th{f' colspan={width}' if width > 1 else ''}>{_text(name)}</th>"


def _cell(text: str, marks: str) -> str:
    """A cell of a table; a long text keeps a width that reads well, and a short one its line."""
    marks += " long" * (len(text) > 40) + " short" * (len(text) <= 12)
    classes = f' class="{marks.strip()}"' if marks else ""
    content = _text(text)
    if isinstance(text, Link):
        content = f'<a href="{html.escape(urllib.parse.quote(text))}">{content}</a>'
    return f"<td{classes}>{content}</td>"


def picture(png: bytes, alt: str, caption: str) -> str:
    """A picture, given the bytes of its PNG."""
    content = base64.b64encode(png).decode()
    width = int.from_bytes(png[16:20]) * 2 // 3  # at 200 dpi, 9 pt are as large as the text around
    image = f'<img alt="{html.escape(alt)}" width="{width}" src="data:image/png;base64,{content}">'
    return f"<figure>{_scrolling(alt, image)}<figcaption>{_text(caption)}</figcaption></figure>"


def _scrolling(label: str, content: str) -> str:
    """A box that scrolls sideways, reachable by the keyboard."""
    label = html.escape(label)
    return f'<div class="wide" role="region" tabindex="0" aria-label="{label}">{content}</div>'
