"""The card of a prepared data set: its numbers beside the paper's, and why the two differ."""

import pandas as pd

from bjmd_paper.datasets import catalogue
from bjmd_paper.table_files import Table, text_cells


def card(sources, files, family):
    """Where the data come from, how they compare with the paper's, and the size of every class.

    `files` has a row for each file that was read.
    """
    dataset = catalogue.get(family)
    facts = {
        "data": dataset.title,
        "version": dataset.version,
        "files": _listed(files),
        "from": dataset.page,
        "terms": dataset.terms,
        "please cite": dataset.citation,
    }
    if dataset.note:
        facts["note"] = dataset.note
    several = sum(int((labels.sum(axis=0) > 1).sum()) for labels in sources.labels)
    note = f" ({several} samples have more than one class)" if several else ""
    compared = comparison(family, sources).rename_axis("").reset_index()
    return Table(
        compared,
        [
            pd.DataFrame(facts.items(), columns=["", "about the data"]),
            "As prepared, and in the paper:",
            text_cells(compared),
            f"Samples by class and source{note}:",
            text_cells(class_counts(sources).rename_axis("class").reset_index()),
        ],
    )


def _listed(files):
    """The files that were read, and whether they are of a known version."""
    names = list(files["file"])
    if len(names) > 10:
        names = [f"{len(names)} files, from {names[0]} to {names[-1]}"]
    unknown = [
        f"{row.file} has sha256 {row.sha256}, which is not a known version"
        for row in files[~files["known"]].itertuples()
    ]
    return "; ".join([", ".join(names), *unknown])


def comparison(name, sources):
    """One row a number: as prepared, as in the paper, and the reason if the two differ."""
    dataset = catalogue.get(name)
    paper = dataset.paper
    rows = {
        "features": (sources.n_features, paper and paper.n_features),
        "samples": (sum(sources.n_samples), paper and sum(paper.groups.values())),
        "groups": (len(sources), paper and len(paper.groups)),
        "classes": (len(sources.class_names), paper and dataset.n_classes),
    }
    for group, n in zip(sources.names, sources.n_samples, strict=True):
        rows[f"samples of {group}"] = n, paper and paper.groups[group]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["prepared", "paper"])
    reasons = paper.differences if paper else {}
    table["difference"] = [
        "" if theirs in (None, ours) else reasons.get(row, "Not explained: check the files.")
        for row, (ours, theirs) in rows.items()
    ]
    return table


def summary(data, families):
    """The paper's summary table for these data sets, ours beside the paper's where it has them."""
    rows = []
    for name, sources in zip(families, data, strict=True):
        entry = catalogue.family(name)
        paper = entry.paper if entry.kind == "real" else None
        rows.append(
            {
                "data set": name,
                "features": sources.n_features,
                "samples": sum(sources.n_samples),
                "sources": _sizes(zip(sources.names, sources.n_samples, strict=True)),
                "classes": len(sources.class_names),
                "paper: features": paper and paper.n_features,
                "paper: samples": paper and sum(paper.groups.values()),
                "paper: sources": paper and _sizes(paper.groups.items()),
                "paper: classes": paper and entry.n_classes,
            }
        )
    table = pd.DataFrame(rows, dtype=object)
    return Table(table, [text_cells(table)])


def class_counts(sources):
    """Samples of each class (rows) in each source; with several classes it counts in each."""
    counts = {
        group: labels.sum(axis=1)
        for group, labels in zip(sources.names, sources.labels, strict=True)
    }
    table = pd.DataFrame(counts, index=sources.class_names)
    table["all"] = table.sum(axis=1)
    return table


def _sizes(groups):
    return ", ".join(f"{group} {n}" for group, n in groups)
