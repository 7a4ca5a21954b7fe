"""3Sources: term counts of news stories from the BBC, the Guardian and Reuters; docs/data.md says more.

A story may be told by one, two or all three of them, and may belong to several of six topics.  The three term lists
differ; the features are their union, and a term that a source never uses is an empty row there.  Everything stays
sparse: 97 % of the entries are zero.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.paper.datasets.catalogue import Dataset, Member, Paper, Printed

SOURCES = {"BBC": "bbc", "Guardian": "guardian", "Reuters": "reuters"}
"""The sources in the paper's order, and what their files are called."""


def read(folder):
    """The sources from a folder that holds `3sources_<source>.mtx/.terms/.docs` and `3sources.overlap.clist`."""
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
            np.array([[story in members for story in view.stories] for members in topics.values()]) for view in views
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
        return scipy.sparse.csc_array((self.counts.data, (rows, self.counts.col)), shape=shape, dtype=float)


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
    """Topic -> its stories, from lines like `sport: 003,011`; some copies have a comma in place of the colon."""
    topics = {}
    for line in _read_lines(path):
        found = re.fullmatch(r"(\D+?)\s*[:,]\s*(\d[\d,\s]*)", line)
        if not found:
            raise InputError(f"{path} has a line {line[:40]!r}; each line must read `topic: story,story,...`")
        topics[found[1]] = {story.strip() for story in found[2].split(",")}
    return topics


def _read_lines(path):
    """The lines of a text file that are not blank."""
    lines = (line.strip() for line in _existing(path).read_text(encoding="utf-8").split("\n"))
    return [line for line in lines if line]


def _existing(path):
    if not path.is_file():
        raise InputError(f"{path} is missing; unpack 3sources.zip into {path.parent} or let the workflow fetch it")
    return path


def draw_terms(sources, title, n_terms=20):
    """The most frequent terms of each source, in tokens per thousand; dots mark the same terms in the other sources."""

    from matplotlib.figure import Figure

    per_thousand = []
    for x in sources.matrices:
        totals = x.sum(axis=1)
        per_thousand.append(1000 * totals / totals.sum())
    figure = Figure(figsize=(3.6 * len(sources), 0.24 * n_terms + 1.2), layout="constrained")
    figure.suptitle(f"{title}: most frequent word stems (bars), and how often the other two sources use them (dots)")
    axes = figure.subplots(1, len(sources), sharex=True)
    for c, axis in enumerate(axes):
        top = np.argsort(-per_thousand[c], kind="stable")[:n_terms]
        axis.barh(range(n_terms), per_thousand[c][top], color=f"C{c}", alpha=0.75)
        for other in range(len(sources)):
            if other != c:
                axis.plot(per_thousand[other][top], range(n_terms), "o", ms=3.5, color=f"C{other}")
        axis.set_yticks(range(n_terms), [sources.feature_names[i] for i in top])
        axis.invert_yaxis()
        axis.set_title(f"{sources.names[c]}: {sources.n_samples[c]} documents", color=f"C{c}", fontsize=10)
        axis.set_xlabel("per 1000 tokens")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


DATASET = Dataset(
    name="3sources",
    title="3Sources",
    version="948 articles of February to April 2009, raw term counts",
    page="http://mlg.ucd.ie/datasets/3sources.html",
    terms="Non-commercial and research purposes only; rights in the articles stay with their authors.",
    citation="D. Greene and P. Cunningham, A matrix factorization approach for integrating multiple data views, "
    "ECML PKDD 2009.",
    sources=read,
    n_classes=6,
    folder="3sources",
    archive="3sources.zip",
    addresses=("http://mlg.ucd.ie/files/datasets/3sources.zip",),
    most_bytes=10_000_000,
    members=(
        Member(
            ("3sources.overlap.clist",), 1_924, ("8ed624049d276a3445fc879e50991ce6f103d2ea518c6535ee131c6ab68ccf78",)
        ),
        Member(("3sources_bbc.docs",), 1_408, ("4a1090ea173194d35cc8c3e3372e047bed7f3efb5ef3146e9f8563cea1222f87",)),
        Member(("3sources_bbc.mtx",), 725_173, ("1a5c78fbf34b885769c55b965c75cf60c83ff26f8822f6684e0a592a7b99b918",)),
        Member(("3sources_bbc.terms",), 23_800, ("08b56df9a41e4f102712c79d5278112947e46809b0923906f259ff2f01dd778b",)),
        Member(
            ("3sources_guardian.docs",), 1_208, ("b7c4dd740e85d3ffd02c8d3a45af40894de31cfd83dd52c2723543915acc1343",)
        ),
        Member(
            ("3sources_guardian.mtx",), 706_181, ("4d116076e905919727e494833c36cf42a81caca2937b3ae23a49de1c7dc1b56a",)
        ),
        Member(
            ("3sources_guardian.terms",), 24_336, ("ea903a64e56b71e7003d872a2ea526b9da7669ac57217dc104cb4e2f9998172f",)
        ),
        Member(
            ("3sources_reuters.docs",), 1_176, ("30fafd04987ccd2625e541587c4e01f9f36c35e438f01cb105fd04b891cc50eb",)
        ),
        Member(
            ("3sources_reuters.mtx",), 548_365, ("88e128379e62223023781b8c1ab1268d1841b9f91ea959fbe2231602a950285e",)
        ),
        Member(
            ("3sources_reuters.terms",), 20_220, ("90d76e7bdf961f13d0dbf066a201bc8d9006b1e02ea49e0fc7514ec552287a25",)
        ),
    ),
    draw=draw_terms,
    paper=Paper(
        n_features=4750,
        groups={"BBC": 352, "Guardian": 302, "Reuters": 294},
        printed={
            "K-means": Printed((65.60, 66.14, 65.60), 4.40),
            "Joint-NMF": Printed((80.95, 80.61, 80.94), 0.65),
            "Semi-NMF": Printed((76.42, 73.70, 76.42), 41.99),
            "BNMF": Printed((82.84, 83.51, 82.87), 77.37),
            "VI-BJMD": Printed((90.25, 90.78, 90.33), 2274.80, noise=(0.3226, 0.3390, 0.2922)),
            "MAP-BJMD": Printed((90.57, 88.82, 89.46), 6.55, noise=(0.3210, 0.3370, 0.2909)),
        },
    ),
)
