"""What a fit found, in plain words: one text, written once, shown as Markdown (summary.md), as a web page, and as plain
text in a terminal.
"""

import re
import textwrap
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bjmd import __version__
from bjmd.fits import registry
from bjmd.fits.matching import similarities
from bjmd.report import figures, pages, tables

ALIKE = 0.9  # correlation of memberships from which on two components are called the same

# What each picture shows (read out where it cannot be seen), and how to read it.
PICTURES = {
    "noise": (
        "Dot plot of the noise standard deviation of every source",
        "The noise sd that was estimated for each source. A source weighs in with one over its square.",
    ),
    "components": (
        "Bar charts of the features that set each component apart",
        "Values of these features in each component, with credible intervals where the method has them; orange: their "
        "mean over the other components.",
    ),
    "memberships": (
        "Heat map of the memberships of all samples",
        "Memberships of the samples, ordered by their strongest component. Black, where classes are known: the sample "
        "is of that class.",
    ),
    "membership_bars": ("Stacked bars of the memberships of all samples", "The same as one stacked bar a sample."),
    "simplex": (
        "Samples placed between the components",
        "Every sample at the mean of the corners weighted by its memberships: the nearer to a corner, the more of that "
        "component. With more than three components several mixtures share a place.",
    ),
    "convergence": (
        "Objective of every restart, sweep by sweep and in the end",
        "How far each restart was above the best one, on the way and in the end. Lower is better.",
    ),
    "stability": (
        "Heat map of how alike the components of the restarts are",
        "How well each component of the best restart was found again by the others: the correlation of its memberships "
        "with those of its partner. Near 1: found again.",
    ),
}


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs of plain text, a table of text cells (or None), and names of pictures."""

    title: str
    paragraphs: list[str]
    table: pd.DataFrame | None = None
    pictures: tuple[str, ...] = ()


def title(sources, results):
    best = results[0]
    return f"{_count(best.n_components, 'component')} of {_count(len(sources.names), 'source')}"


def sections(sources, results, *, notes=(), pictures=()):
    """Everything there is to say about the restarts of one fit, best first, with those of the pictures that exist."""
    best = results[0]
    parts = [
        Section("What was fitted", [*_fitted(sources, results), *notes]),
        Section("Sources and noise", _noise_words(best), _source_table(sources, best), ("noise",)),
        Section("Components", _component_words(best), _component_table(sources, best), ("components",)),
        Section("Memberships", _membership_words(best), None, ("memberships", "membership_bars", "simplex")),
        Section("Restarts", _restart_words(results), None, ("convergence", "stability")),
        Section("Files", [], pd.DataFrame(_FILES.items(), columns=["File", "What is in it"])),
    ]
    return [
        Section(part.title, part.paragraphs, part.table, tuple(name for name in part.pictures if name in pictures))
        for part in parts
    ]


def markdown(heading, parts):
    """The text for summary.md; the pictures are those in figures/ beside it."""
    lines = [f"# {_markdown_text(heading)}", ""]
    for part in parts:
        lines += [f"## {part.title}", ""]
        for paragraph in part.paragraphs:
            lines += [_markdown_text(paragraph), ""]
        if part.table is not None:
            lines += [tables.markdown(part.table.map(_markdown_text)), ""]
        for name in part.pictures:
            lines += [f"![{PICTURES[name][0]}](figures/{name}.png)", "", PICTURES[name][1], ""]
    return "\n".join([*lines, f"Written by bjmd {__version__}.", ""])


def plain(parts, width=100):
    """The text for a terminal, without pictures; the last column of a table is wrapped."""
    lines = []
    for part in parts:
        if part.paragraphs or part.table is not None:
            lines += [part.title.upper(), ""]
            for paragraph in part.paragraphs:
                lines += [textwrap.fill(paragraph, width), ""]
            if part.table is not None:
                lines += [*_plain_table(part.table, width), ""]
    return "\n".join(lines)


def _plain_table(table, width):
    rows = [list(table.columns), *table.to_numpy().tolist()]
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    indent = sum(widths) + 2 * len(widths)
    for row in rows:
        start = "".join(f"{cell:<{w}}  " for cell, w in zip(row, widths, strict=False))
        yield textwrap.fill(row[-1], max(width, indent + 30), initial_indent=start, subsequent_indent=" " * indent)


def page(heading, parts, pngs):
    """The text as one web page; `pngs` has the bytes of every picture by name."""
    body = []
    for part in parts:
        content = [pages.paragraph(text) for text in part.paragraphs]
        if part.table is not None:
            content.append(pages.table(part.title, part.table))
        content += [pages.picture(pngs[name], *PICTURES[name]) for name in part.pictures]
        body.append(pages.section(part.title, content))
    return pages.page(heading, body)


def _fitted(sources, results):
    best = results[0]
    method = registry.get(best.method)
    n_samples = sum(len(names) for names in sources.sample_names)
    options = ", ".join(f"{name} = {value}" for name, value in best.options.items())
    words = [
        f"{_count(n_samples, 'sample')} of {_count(len(sources.names), 'source')}, measured on "
        f"{_count(len(sources.feature_names), 'feature')}, were decomposed into "
        f"{_count(best.n_components, 'component')} by {method.label} ({method.name}"
        f"{', ' + options if options else ''}), best of {_count(len(results), 'restart')} (seed {best.seed}). "
        "A component is a pattern over the features; a sample is a mixture of components, and its memberships say of "
        "how much of each."
    ]
    if any(sources.n_missing):
        n_entries = n_samples * len(sources.feature_names)
        share = 100 * sum(sources.n_missing) / n_entries
        words.append(
            f"{sum(sources.n_missing):,} of {n_entries:,} entries ({share:.2g} %) are missing. The fit takes them "
            "for unknown; with many of them, credible intervals are too narrow."
        )
    return words


def noise_table(sources, best, level=0.9):
    """source, noise, sd, low, high: the last three from the posterior, and missing for a point estimate."""
    marginals = best.posterior and best.posterior.noise
    nothing = np.full(len(sources.names), np.nan)
    low, high = (nothing, nothing) if marginals is None else marginals.interval(level)
    sd = nothing if marginals is None else marginals.sd
    return pd.DataFrame({"source": sources.names, "noise": best.noise, "sd": sd, "low": low, "high": high})


def _source_table(sources, best):
    columns = {"Source": list(sources.names), "Samples": [f"{len(names):,}" for names in sources.sample_names]}
    if any(sources.n_missing):
        columns["Missing entries"] = [f"{n:,}" for n in sources.n_missing]
    if best.noise is not None:
        noise = noise_table(sources, best)
        columns["Noise sd"] = [f"{sd:.4g}" for sd in noise["noise"]]
        if noise["low"].notna().all():
            columns["90 % credible interval"] = [f"{row.low:.4g} to {row.high:.4g}" for row in noise.itertuples()]
    return pd.DataFrame(columns)


def _noise_words(best):
    label = registry.get(best.method).label
    if best.noise is None:
        return [f"{label} has no noise model."]
    if registry.get(best.method).concatenate:
        return [f"{label} sees all samples as one source, so it has one noise level for all."]
    return []


def _component_words(best):
    words = [
        "The share of a component is its mean membership. Its features are those that set it apart, with their values "
        "in it: those farthest from their mean over the other components."
        if best.n_components > 1
        else "Listed are the features with the largest values."
    ]
    if (best.posterior and best.posterior.components) is not None:
        words.append(
            "Credible intervals of single values leave out that patterns and memberships can make up for each other; "
            "they are somewhat too narrow."
        )
    return words


def _component_table(sources, best, n_features=8):
    memberships = np.hstack([figures.shares(h) for h in best.memberships])
    rows = []
    for k, name in enumerate(figures.component_names(best)):
        top = figures.top_features(best.components, k, n_features)
        features = ", ".join(f"{sources.feature_names[i]} ({best.components[i, k]:.3g})" for i in top)
        rows.append((name, f"{100 * memberships[k].mean():.1f} %", features))
    return pd.DataFrame(rows, columns=["Component", "Share", "Features"])


def _membership_words(best):
    if all(np.allclose(h.sum(axis=0), 1) for h in best.memberships):
        return []
    label = registry.get(best.method).label
    return [f"{label} does not make memberships sum to 1; for the pictures they are scaled so, in the tables not."]


def _restart_words(results):
    best, others = results[0], results[1:]
    n_converged = sum(result.converged for result in results)
    words = []
    if not best.converged:
        words.append(
            f"Take care: the best restart did not converge ({best.reason}). Give it more sweeps before you use it."
        )
    if not others:
        how = "converged" if best.converged else "did not converge"
        return [*words, f"There was one restart, which {how}. Run several to see whether they find the same."]
    words.append(f"{_of(n_converged, len(results), 'restart')} converged.")
    alike = similarities(results)
    n_same = int((alike.min(axis=1) >= ALIKE).sum())
    words.append(
        f"{_of(n_same, len(others), 'other restart')} found the same components as the best one "
        f"(memberships of every component correlate by at least {ALIKE})."
    )
    mean = alike.mean(axis=0)
    doubtful = [f"C{k + 1} ({mean[k]:.2f})" for k in np.flatnonzero(mean < ALIKE)]
    if doubtful:
        words.append(
            f"On average not found again so well, with their mean correlation: {', '.join(doubtful)}. "
            "Take these with care, try more restarts, or fewer components."
        )
    return words


def _of(n, total, what):
    return f"All {_count(total, what)}" if n == total > 1 else f"{n or 'None'} of {_count(total, what)}"


def _count(n, what):
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _markdown_text(text):
    """Names may hold what Markdown would take for markup."""
    return re.sub(r"([\\`*<|])", r"\\\1", " ".join(text.split()))


_FILES = {
    "fit.npz": "all restarts, best first, with everything that was estimated",
    "memberships_<source>.tsv": "memberships of the samples of one source, samples x components",
    "components.tsv": "the patterns, features x components; components_sd.tsv their posterior sd if there is one",
    "noise.tsv": "noise sd of every source, its posterior sd and 90 % credible interval, if the method has them",
    "restarts.tsv": "seed, objective and end of every restart",
    "names.json": "names of sources, features, samples and classes",
    "settings.json": "the files that were read, and how their data were prepared",
    "figures/": "all pictures, as .png and .svg",
    "summary.md, report.html": "this text; the page has the pictures inside",
}
