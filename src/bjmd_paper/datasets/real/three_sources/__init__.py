"""3Sources: term counts of news stories from the BBC, the Guardian and Reuters (docs/data.md).

A story may be told by one, two or all three of them, and may belong to several of six topics.  The
three term lists differ; the features are their union, and a term that a source never uses is an
empty row there.  Everything stays sparse: 97 % of the entries are zero.
"""

import re
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError

SOURCES = {"BBC": "bbc", "Guardian": "guardian", "Reuters": "reuters"}
"""The sources in the paper's order, and how their files are called."""


def read(folder):
    """The sources from a folder with `3sources_<source>.mtx/.terms/.docs` and the topics."""
    folder = Path(folder)
    counts = [scipy.io.mmread(folder / f"3sources_{stem}.mtx") for stem in SOURCES.values()]
    terms = [_read_lines(folder / f"3sources_{stem}.terms") for stem in SOURCES.values()]
    stories = [_read_lines(folder / f"3sources_{stem}.docs") for stem in SOURCES.values()]
    all_terms = sorted(set().union(*terms))
    topics = read_topics(folder / "3sources.overlap.clist")
    return Sources(
        [_over(all_terms, own, matrix) for own, matrix in zip(terms, counts, strict=True)],
        names=SOURCES,
        feature_names=all_terms,
        sample_names=stories,
        labels=[
            np.array([[story in members for story in own] for members in topics.values()])
            for own in stories
        ],
        class_names=topics,
    )


def _over(all_terms, own_terms, counts):
    """The counts of one source with a row for each of `all_terms`."""
    place = {term: i for i, term in enumerate(all_terms)}
    counts = scipy.sparse.coo_array(counts)
    rows = np.array([place[term] for term in own_terms])[counts.row]
    return scipy.sparse.csc_array(
        (counts.data, (rows, counts.col)), shape=(len(all_terms), counts.shape[1]), dtype=float
    )


def read_topics(path):
    """Topic -> its stories, from lines like `sport: 003,011`; some copies have `sport, 003,011`."""
    topics = {}
    for line in _read_lines(path):
        match = re.fullmatch(r"(\D+?)\s*[:,]\s*(\d[\d,\s]*)", line)
        if match is None:
            raise InputError(
                f"{path} has a line {line[:40]!r}; it must read `topic: story,story,...`"
            )
        topics[match[1]] = {story.strip() for story in match[2].split(",")}
    return topics


def _read_lines(path):
    """The lines of a text file that are not blank."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").split("\n"))
    return [line for line in lines if line]


def draw(sources, title, n_terms=20):
    """The most frequent terms of each source; dots mark the same terms in the other sources."""
    from matplotlib.figure import Figure

    per_thousand = []
    for x in sources.matrices:
        totals = x.sum(axis=1)
        per_thousand.append(1000 * totals / totals.sum())
    figure = Figure(figsize=(3.6 * len(sources), 0.24 * n_terms + 1.2), layout="constrained")
    figure.suptitle(
        f"{title}: most frequent word stems (bars), and the same in other sources (dots)"
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
