"""3Sources: term counts of news stories from the BBC, the Guardian and Reuters; docs/data.md says
more.

A story may be told by one, two or all three of them, and may belong to several of six topics.  The
three term lists differ; the features are their union, and a term that a source never uses is an
empty row there.  Everything stays sparse: 97 % of the entries are zero.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd_paper.datasets.catalogue import described_beside

SOURCES = {"BBC": "bbc", "Guardian": "guardian", "Reuters": "reuters"}
"""The sources in the paper's order, and what their files are called."""


def read(folder):
    """The sources from a folder that holds `3sources_<source>.mtx/.terms/.docs` and
    `3sources.overlap.clist`.
    """
    folder = Path(folder)
    views = [_read_view(folder, stem) for stem in SOURCES.values()]
    terms = sorted(set().union(*(view.terms for view in views)))
    topics = _read_topics(folder / "3sources.overlap.clist")
    return Sources(
        [view.over(terms) for view in views],
        names=SOURCES,
        feature_names=terms,
        sample_names=[view.stories for view in views],
        labels=[
            np.array([[story in members for story in view.stories] for members in topics.values()])
            for view in views
        ],
        class_names=topics,
    )


@dataclass
class _View:
    """One source as its files have it: counts (terms x stories) over its own terms."""

    counts: scipy.sparse.coo_array
    terms: list[str]
    stories: list[str]

    def over(self, all_terms):
        """The counts with one row for each of `all_terms`."""
        place = {term: i for i, term in enumerate(all_terms)}
        rows = np.array([place[term] for term in self.terms])[self.counts.row]
        shape = len(all_terms), len(self.stories)
        return scipy.sparse.csc_array(
            (self.counts.data, (rows, self.counts.col)), shape=shape, dtype=float
        )


def _read_view(folder, stem):
    path = _existing(folder / f"3sources_{stem}.mtx")
    try:
        counts = scipy.io.mmread(path)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a Matrix Market file ({error}); fetch it again") from None
    terms = _read_lines(folder / f"3sources_{stem}.terms")
    stories = _read_lines(folder / f"3sources_{stem}.docs")
    if counts.shape != (len(terms), len(stories)):
        raise InputError(
            f"{path} is {counts.shape[0]} x {counts.shape[1]} but beside it are {len(terms)} terms and {len(stories)} "
            "documents; fetch the three files again"
        )
    return _View(scipy.sparse.coo_array(counts), terms, stories)


def _read_topics(path):
    """Topic -> its stories, from lines like `sport: 003,011`; some copies have a comma in place of
    the colon.
    """
    topics = {}
    for line in _read_lines(path):
        found = re.fullmatch(r"(\D+?)\s*[:,]\s*(\d[\d,\s]*)", line)
        if not found:
            raise InputError(
                f"{path} has a line {line[:40]!r}; each line must read `topic: story,story,...`"
            )
        topics[found[1]] = {story.strip() for story in found[2].split(",")}
    return topics


def _read_lines(path):
    """The lines of a text file that are not blank."""
    lines = (line.strip() for line in _existing(path).read_text(encoding="utf-8").split("\n"))
    return [line for line in lines if line]


def _existing(path):
    if not path.is_file():
        raise InputError(
            f"{path} is missing; unpack 3sources.zip into {path.parent} or let the workflow fetch it"
        )
    return path


def draw_terms(sources, title, n_terms=20):
    """The most frequent terms of each source, in tokens per thousand; dots mark the same terms in
    the other sources.
    """

    from matplotlib.figure import Figure

    per_thousand = []
    for x in sources.matrices:
        totals = x.sum(axis=1)
        per_thousand.append(1000 * totals / totals.sum())
    figure = Figure(figsize=(3.6 * len(sources), 0.24 * n_terms + 1.2), layout="constrained")
    figure.suptitle(
        f"{title}: most frequent word stems (bars), and how often the other two sources use them (dots)"
    )
    axes = figure.subplots(1, len(sources), sharex=True)
    for c, axis in enumerate(axes):
        top = np.argsort(-per_thousand[c], kind="stable")[:n_terms]
        axis.barh(range(n_terms), per_thousand[c][top], color=f"C{c}", alpha=0.75)
        for other in range(len(sources)):
            if other != c:
                axis.plot(per_thousand[other][top], range(n_terms), "o", ms=3.5, color=f"C{other}")
        axis.set_yticks(range(n_terms), [sources.feature_names[i] for i in top])
        axis.invert_yaxis()
        axis.set_title(
            f"{sources.names[c]}: {sources.n_samples[c]} documents", color=f"C{c}", fontsize=10
        )
        axis.set_xlabel("per 1000 tokens")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


DATASET = described_beside(__file__, sources=read, draw=draw_terms)
