"""The card of a prepared data set: what it holds, beside the numbers in the paper, and why the two differ."""

from dataclasses import dataclass, field

import pandas as pd

from bjmd.paper.datasets import catalogue


@dataclass(frozen=True)
class Paper:
    """What the paper's summary table and text say about a data set, and what to say where ours differs."""

    features: int
    groups: dict[str, int]
    classes: int
    differences: dict[str, str] = field(default_factory=dict)
    """Row of the card -> the explanation that stands there if the numbers are not the same."""


_CLAUDIN_LOW = (
    "The study has {all} patients of this group with a subtype other than NC, the paper {paper}{apart}. {claudin} of "
    "the {all} are called claudin-low in place of a PAM50 class, have none of the five classes, and are left out."
)
_APART = ", one patient apart (perhaps another set of NC calls in the early release)"
_WITHOUT_CLAUDIN_LOW = "See the groups: patients called claudin-low have none of the five classes."
_NO_EXPRESSION = (
    "Only 1904 patients are in the public table. It has {all} of this group with a subtype other than NC (the paper: "
    "{paper}); {claudin} of them are called claudin-low, have none of the five classes, and are left out."
)

_METABRIC_GROUPS = {"low": 214, "moderate": 735, "high": 962}

PAPER = {
    "3sources": Paper(4750, {"BBC": 352, "Guardian": 302, "Reuters": 294}, 6),
    "yale-b": Paper(2016, {"center": 567, "side": 677}, 38),
    "metabric": Paper(
        19466,
        _METABRIC_GROUPS,
        5,
        {
            "features": "The paper does not say from which release, or by which mapping of probes, it has 19466 genes; "
            "here they are all genes of the release that have a value in every patient.",
            "samples": _WITHOUT_CLAUDIN_LOW,
            "samples of low": _CLAUDIN_LOW.format(all=213, paper=214, apart=_APART, claudin=50),
            "samples of moderate": _CLAUDIN_LOW.format(all=736, paper=735, apart=_APART, claudin=86),
            "samples of high": _CLAUDIN_LOW.format(all=962, paper=962, apart=" too", claudin=64),
        },
    ),
    "metabric-489": Paper(
        19466,
        _METABRIC_GROUPS,
        5,
        {
            "features": "Only 489 genes, as z-scores: a public excerpt that stands in where the study cannot be had.",
            "samples": _WITHOUT_CLAUDIN_LOW,
            "samples of low": _NO_EXPRESSION.format(all=198, paper=214, claudin=43),
            "samples of moderate": _NO_EXPRESSION.format(all=710, paper=735, claudin=80),
            "samples of high": _NO_EXPRESSION.format(all=936, paper=962, claudin=61),
        },
    ),
}


def comparison(name, sources):
    """One row a number: as prepared, as in the paper, and the reason if the two differ."""
    paper = PAPER[name]
    rows = {
        "features": (sources.n_features, paper.features),
        "samples": (sum(sources.n_samples), sum(paper.groups.values())),
        "groups": (len(sources), len(paper.groups)),
        "classes": (len(sources.class_names), paper.classes),
    }
    for group, n in zip(sources.names, sources.n_samples, strict=True):
        rows[f"samples of {group}"] = n, paper.groups[group]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["prepared", "paper"])
    table["difference"] = [
        "" if ours == theirs else paper.differences.get(row, "Not explained: check the files.")
        for row, (ours, theirs) in rows.items()
    ]
    return table


def summary(prepared):
    """The paper's summary table for these data sets (name -> sources), ours beside the paper's where it has them."""
    rows = []
    for name, sources in prepared.items():
        paper = PAPER.get(name)
        rows.append(
            {
                "data set": name,
                "features": sources.n_features,
                "samples": sum(sources.n_samples),
                "sources": ", ".join(
                    f"{source} {n}" for source, n in zip(sources.names, sources.n_samples, strict=True)
                ),
                "classes": len(sources.class_names),
                "paper: features": paper and paper.features,
                "paper: samples": paper and sum(paper.groups.values()),
                "paper: sources": paper and ", ".join(f"{group} {n}" for group, n in paper.groups.items()),
                "paper: classes": paper and paper.classes,
            }
        )
    return pd.DataFrame(rows, dtype=object)


def class_counts(sources):
    """Samples of each class (rows) in each source; a sample of several classes counts in each of them."""
    counts = {group: labels.sum(axis=1) for group, labels in zip(sources.names, sources.labels, strict=True)}
    table = pd.DataFrame(counts, index=sources.class_names)
    table["all"] = table.sum(axis=1)
    return table


def markdown(name, sources):
    """The whole card as text."""
    dataset = catalogue.get(name)
    several = sum(int((labels.sum(axis=0) > 1).sum()) for labels in sources.labels)
    counted = (
        f"Samples by class and group ({several} samples have more than one class)"
        if several
        else "Samples by class and group"
    )
    return "\n".join(
        [
            f"# {dataset.title}",
            "",
            f"- Version: {dataset.version}",
            f"- From: <{dataset.page}>",
            f"- Terms: {dataset.terms}",
            f"- Cite: {dataset.citation}",
            "",
            *_markdown_table(comparison(name, sources), ""),
            "",
            f"## {counted}",
            "",
            *_markdown_table(class_counts(sources), "class"),
            "",
        ]
    )


def _markdown_table(table, corner):
    yield f"| {' | '.join([corner, *table.columns])} |"
    yield f"|{'---|' * (len(table.columns) + 1)}"
    for row in table.itertuples():
        yield f"| {' | '.join(map(str, row))} |"
