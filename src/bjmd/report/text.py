"""What a fit found, in plain words: written once, as sections, and shown as Markdown, a web page or
plain text.
"""

import re
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bjmd import __version__
from bjmd.analysis.check import Finding
from bjmd.analysis.matching import ALIKE, similarities
from bjmd.checks import count
from bjmd.inference import registry
from bjmd.report import interactive, pages, tables
from bjmd.report.tables import Named
from bjmd.results.decomposition import ALL_VANISHED, Decomposition

NEARLY_NORMAL = 50  # degrees of freedom from which on Student's t is called normal
RARE = 0.03  # expected membership below which a source is said to hardly use a component

_ABOUT = tomllib.loads(pages.ours("captions.toml"))
FIGURES = {name: (about["shows"], about["caption"]) for name, about in _ABOUT.items()}
"""What each figure shows (read out to those who cannot see it), and its caption."""


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs of plain text, a table of text cells (or None), and names of figures."""

    title: str
    paragraphs: list[str]
    table: pd.DataFrame | None = None
    figures: tuple[str, ...] = ()
    brief: bool = False
    """Whether it belongs to the few lines that a terminal shows after a fit."""


def title(data: Named, results: list[Decomposition]) -> str:
    """The heading of a report."""
    return f"{count(results[0].n_components, 'component')} from {count(len(data.names), 'source')}"


def sections(
    data: Named,
    results: list[Decomposition],
    notes: Sequence[str],
    files: Mapping[str, str],
    findings: Sequence[Finding] | None = None,
    more: Mapping[str, pd.DataFrame] | None = None,
) -> list[Section]:
    """Everything there is to say about the restarts of one fit, best first.

    `notes` are sentences about the data, `files` says what each file holds, `findings` are about
    the best restart, and `more` has the tables that the fit alone does not tell, by name.
    """
    best = results[0]
    more = more or {}
    noise = [*_about_noise(data, best)]
    pictures = ("noise", "feature_noise", "offsets")
    return [
        Section("What was fitted", [*_fitted(data, results), *notes]),
        Section(
            "Sources and noise", noise, tables.sources_as_text(data, best), pictures, brief=True
        ),
        *([] if findings is None else [about_check(findings)]),
        Section(
            "Components",
            _about_components(best),
            tables.components_as_text(data, best),
            ("components",),
        ),
        *(_about_more(name, table) for name, table in more.items()),
        Section(
            "Memberships",
            _about_memberships(best),
            None,
            ("memberships", "membership_bars", "simplex"),
        ),
        Section(
            "Restarts", _about_restarts(results), None, ("convergence", "stability"), brief=True
        ),
        Section("Files", [], pd.DataFrame(files.items(), columns=["File", "Contents"])),
    ]


def about_check(findings: Sequence[Finding]) -> Section:
    """What contradicts the model, and then what does not."""
    alarms = [finding for finding in findings if finding.alarm]
    calm = " ".join(finding.sentence for finding in findings if not finding.alarm)
    words = [finding.sentence for finding in alarms] or [
        "Nothing in the residuals contradicts the model."
    ]
    return Section(
        "Does the model suit the data?",
        [*words, *([calm] if calm else [])],
        None,
        tuple(figure_of(finding) for finding in alarms),
        brief=bool(alarms),
    )


def figure_of(finding: Finding) -> str:
    """The name of the picture of a finding."""
    return "check_" + finding.name.replace(" ", "_").replace("-", "_")


def markdown(heading: str, parts: Iterable[Section], drawn: Collection[str]) -> str:
    """The text for summary.md, with those of its figures that were drawn, in figures/ beside it."""
    lines = [f"# {_markdown_text(heading)}", ""]
    for part in parts:
        lines += [f"## {part.title}", ""]
        for paragraph in part.paragraphs:
            lines += [_markdown_text(paragraph), ""]
        if part.table is not None:
            lines += [tables.markdown(part.table.map(_markdown_text)), ""]
        for name in filter(drawn.__contains__, part.figures):
            lines += [f"![{FIGURES[name][0]}](figures/{name}.png)", "", FIGURES[name][1], ""]
    return "\n".join([*lines, f"Written by bjmd {__version__}.", ""])


def plain(parts: Iterable[Section], width: int = 100) -> str:
    """The text for a terminal, without figures; the last column of a table is wrapped."""
    lines = []
    for part in parts:
        if part.paragraphs or part.table is not None:
            lines += [part.title.upper(), ""]
            for paragraph in part.paragraphs:
                lines += [textwrap.fill(paragraph, width, break_on_hyphens=False), ""]
            if part.table is not None:
                lines += [*_plain_table(part.table, width), ""]
    return "\n".join(lines)


def _plain_table(table: pd.DataFrame, width: int) -> Iterator[str]:
    rows = [list(table.columns), *table.to_numpy().tolist()]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    indent = sum(widths) + 2 * len(widths)
    for row in rows:
        start = "".join(f"{cell:<{w}}  " for cell, w in zip(row, widths, strict=False))
        yield textwrap.fill(
            row[-1], max(width, indent + 30), initial_indent=start, subsequent_indent=" " * indent
        )


def page(
    heading: str,
    parts: Iterable[Section],
    pngs: Mapping[str, bytes],
    charts: Mapping[str, dict] | None = None,
) -> str:
    """The text as one web page.

    `pngs` has the bytes of the figures that were drawn, `charts` the content of interactive ones to
    stand below them.
    """
    library = interactive.d3() if charts else None
    body = []
    for part in parts:
        content = [pages.paragraph(text) for text in part.paragraphs]
        if part.table is not None:
            content.append(pages.table(part.title, part.table))
        for name in filter(pngs.__contains__, part.figures):
            content.append(pages.picture(pngs[name], *FIGURES[name]))
            if charts and library and name in charts:
                content.append(pages.chart(charts[name], *FIGURES[f"{name}_chart"]))
        body.append(pages.section(part.title, content))
    note = interactive.MISSING if charts and library is None else ""
    return pages.page(heading, body, note, [library, pages.ours("scatter.js")] if library else ())


def _fitted(data: Named, results: list[Decomposition]) -> list[str]:
    best = results[0]
    method = registry.get(best.method)
    n_samples = sum(len(names) for names in data.sample_names)
    options = " and ".join(f"{name} = {value}" for name, value in best.options.items())
    which = f"the best of {len(results)} restarts" if len(results) > 1 else "the only restart"
    words = [
        f"{count(n_samples, 'sample')} from {count(len(data.names), 'source')}, measured on "
        f"{count(len(data.feature_names), 'feature')}, were decomposed into "
        f"{count(best.n_components, 'component')} by {method.label}, method {method.name}"
        f"{f' with {options}' if options else ''}. Shown is {which} (seed {best.seed}). A component is a pattern over "
        "the features. Every sample is a mixture of the components, and its memberships are the shares of that mixture."
    ]
    if any(data.n_missing):
        n_missing = sum(data.n_missing)
        n_entries = n_samples * len(data.feature_names)
        share = f"{n_missing:,} of {n_entries:,} entries ({100 * n_missing / n_entries:.2g} %)"
        words.append(f"{share} are missing. The fit treats them as unknown.")
    return words


def _about_noise(data: Named, best: Decomposition) -> Iterator[str]:
    """Sentences about noise, by feature and sample and robust, about offsets and a learned
    Dirichlet.
    """
    method = registry.get(best.method)
    found = tables.beyond_the_paper(data, best)
    if best.noise is None:
        yield f"{method.label} has no noise model."
    elif method.concatenate:
        yield f"{method.label} pools all samples into one source, so they share one noise level."
    for what in ("feature", "sample"):
        if f"{what}_noise" in found:
            table = found[f"{what}_noise"]
            low, high = table["times"].quantile([0.05, 0.95])
            top = table.nlargest(5, "times")
            labels = top[what] + (" of " + top["source"] if what == "sample" else "")
            names = ", ".join(
                f"{name} ({times:.2g})" for name, times in zip(labels, top["times"], strict=True)
            )
            yield (
                f"The noise differs by {what}: nine in ten {what}s have between {low:.2g} and {high:.2g} times the "
                f"noise of their source. The noisiest are {names}."
            )
    if best.model is not None and best.model.degrees_of_freedom is not None:
        nus = best.model.degrees_of_freedom
        each = ", ".join(f"{nu:.2g} in {name}" for name, nu in zip(data.names, nus, strict=True))
        effect = (
            "outliers are down-weighted" if nus.min() < NEARLY_NORMAL else "it is as good as normal"
        )
        yield f"Degrees of freedom of the noise: {each}; {effect}."
    if "offsets" in found:
        table = found["offsets"]
        squares = (table["offset"] ** 2).groupby(table["source"], sort=False).mean()
        sizes = [f"{square**0.5:.2g} in {name}" for name, square in squares.items()]
        top = table.loc[table["offset"].abs().nlargest(5).index]
        largest = (
            f"{row.feature} in {row.source} ({row.offset:+.2g} ± {row.sd:.1g})"
            for row in top.itertuples()
        )
        yield (
            f"The offsets are of the size {', '.join(sizes)} (root mean square); the largest are {', '.join(largest)}. "
            "Where a kind of sample is found in one source only, its offsets take up part of what sets that kind apart."
        )
    if "dirichlet" in found:
        alpha = found["dirichlet"].set_index("source").to_numpy()
        expected = alpha / alpha.sum(axis=1, keepdims=True)
        rare = [f"{data.names[c]} hardly uses C{k + 1}" for c, k in np.argwhere(expected < RARE)]
        yield f"The Dirichlet of the memberships was learned for each source{': ' if rare else ''}{', '.join(rare)}."
    vanished = best.vanished()
    if len(vanished) == best.n_components:
        yield f"Take care: {ALL_VANISHED}."
    elif len(vanished):
        names = ", ".join(tables.component_names(best)[k] for k in vanished)
        yield f"The data do not need {names}: their learned scale is zero, and they explain nothing."


def _about_components(best: Decomposition) -> list[str]:
    words = [
        "The share of a component is its mean membership. The features listed are those that set the component apart: "
        "their values in it, given in brackets, are farthest from their mean over the other components."
        if best.n_components > 1
        else "The features listed are those with the largest values, which are given in brackets."
    ]
    if best.posterior:
        words.append(
            "Credible intervals allow for components and memberships making up for each other, to first order; they "
            "still are somewhat narrow, and take the model to be right."
        )
    return words


def _about_more(name: str, table: pd.DataFrame) -> Section:
    """A table of numbers with the picture of its name."""
    table = table[table["q_value"] < 0.05][:30] if name == "associations" else table
    cells = table.astype({table.columns[0]: str}).map(
        lambda cell: cell if isinstance(cell, str) else f"{cell:.3g}"
    )
    cells = cells.rename(columns=lambda column: str(column).replace("_", " "))
    return Section(name.replace("_", " ").capitalize(), [_ABOUT[name]["text"]], cells, (name,))


def _about_memberships(best: Decomposition) -> list[str]:
    if all(np.allclose(h.sum(axis=0), 1) for h in best.memberships):
        return []
    label = registry.get(best.method).label
    return [
        f"The memberships of {label} do not sum to 1. The figures scale them so that they do; the tables do not."
    ]


def _about_restarts(results: list[Decomposition]) -> list[str]:
    best = results[0]
    others = results[1:]
    words = []
    if not best.converged:
        care = f"Take care: the best restart did not converge ({best.reason})"
        words.append(f"{care}. Let it run longer before you rely on it.")
    if not others:
        how = "converged" if best.converged else "did not converge"
        return [
            *words,
            f"There was only one restart, and it {how}. Run several to see whether they agree.",
        ]
    tolerances = [result.options.get("tol", 0.0) for result in results]
    if n_further := sum(tol < max(tolerances) for tol in tolerances):  # a search
        words.append(
            f"The best {n_further} of {len(results)} starts were run further, and the best of them much further; "
            "restarts.tsv says how far. All are counted here."
        )
    words.append(
        f"{_of(sum(result.converged for result in results), len(results), 'restart')} converged."
    )
    alike = similarities(results)
    words.append(
        f"{_of(int((alike.min(axis=1) >= ALIKE).sum()), len(others), 'other restart')} found the same components as "
        f"the best one (memberships of every component correlate by at least {ALIKE})."
    )
    mean = alike.mean(axis=0)
    doubtful = [f"C{k + 1} ({mean[k]:.2f})" for k in np.flatnonzero(mean < ALIKE)]
    if doubtful:
        words.append(
            "Some components were not found again reliably. With their mean correlation over the other restarts, they "
            f"are {', '.join(doubtful)}. Treat them with care, run more restarts, or fit fewer components."
        )
    return words


def _of(n: int, total: int, what: str) -> str:
    if n == total:
        return f"All {total:,} {what}s" if total > 1 else f"The {what}"
    return f"{n:,} of the {count(total, what)}" if n else f"None of the {what}s"


def _markdown_text(text: str) -> str:
    """Names may hold what Markdown would take for markup."""
    return re.sub(r"([\\`*<|])", r"\\\1", " ".join(text.split()))
