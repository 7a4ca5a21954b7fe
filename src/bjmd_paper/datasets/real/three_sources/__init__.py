"""3Sources: term counts of news stories from the BBC, the Guardian and Reuters (docs/data.md).

A story may be told by one, two or all three of them, and may belong to several of six topics.  The
three term lists differ; the features are their union, and a term that a source never uses is an
empty row there.  Everything stays sparse: 97 % of the entries are zero.
"""

from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from bjmd.data.sources import Sources

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
        [_over(all_terms, *view) for view in zip(terms, counts, strict=True)],
        names=SOURCES,
        feature_names=all_terms,
        sample_names=stories,
        labels=[
            np.array([[story in members for story in told] for members in topics.values()])
            for told in stories
        ],
        class_names=topics,
    )


def _over(all_terms, terms, counts):
    """The counts of one source with a row for each of `all_terms`."""
    place = {term: i for i, term in enumerate(all_terms)}
    counts = scipy.sparse.coo_array(counts)
    rows = np.array([place[term] for term in terms])[counts.row]
    return scipy.sparse.csc_array(
        (counts.data, (rows, counts.col)), shape=(len(all_terms), counts.shape[1]), dtype=float
    )


def read_topics(path):
    """Topic -> its stories, from lines like `sport: 003,011`."""
    lines = [line.split(": ") for line in _read_lines(path)]
    return {topic: set(stories.split(",")) for topic, stories in lines}


def _read_lines(path):
    """The lines of a text file that are not blank."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").split("\n"))
    return [line for line in lines if line]
