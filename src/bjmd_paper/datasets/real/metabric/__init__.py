"""METABRIC: gene expression of breast tumours, grouped by cellularity, classes by PAM50 subtype;
see docs/data.md.

This is the whole study as cBioPortal distributes it: log2 intensities of all genes.  The text of
690 MB is read twice, in pieces, so that memory holds little more than the result.  Releases differ
in file names, column order, letter case, line ends and in how a missing value is written.
"""

import csv
import io
import logging
import re
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd_paper.datasets.catalogue import described_beside

log = logging.getLogger(__name__)

GROUPS = ("low", "moderate", "high")
CLASSES = ("Basal", "Her2", "LumA", "LumB", "Normal")

EXPRESSION_FILES = (
    "data_mrna_illumina_microarray.txt",
    "data_mrna_agilent_microarray.txt",
    "data_expression_median.txt",
    "data_expression.txt",
)
"""What the log2 intensities have been called, newest first."""
CLINICAL_FILES = ("data_clinical_patient.txt", "data_clinical.txt")

_MISSING = {"", "na", "nan", "null", "none", "not available", "[not available]"}
_NO_CLASS = {"claudin-low", "nc"}
"""Subtypes that are none of the five: current releases put claudin-low in the place of the PAM50
call.
"""
_ROWS_AT_A_TIME = 200


def read(folder):
    """The whole study from a folder with its expression and clinical file, under any of their
    names.
    """
    folder = Path(folder)
    patients = read_patients(first_existing(folder, CLINICAL_FILES))
    return read_expression(first_existing(folder, EXPRESSION_FILES), patients)


def read_patients(path):
    """Patient -> (group, class) for those with a known cellularity and one of the five classes."""
    path = Path(path)
    # Any line end reads as \n here; columns that we do not use may hold anything.
    lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    rows = [
        [cell.strip().strip('"') for cell in line.split("\t")]
        for line in lines
        if line.strip() and not line.startswith("#")
    ]
    header = [name.upper() for name in rows[0]] if rows else []
    identifier = _column(path, header, "PATIENT_ID", "SAMPLE_ID")
    cellularity = _column(path, header, "CELLULARITY")
    # The five-class call itself where a release has it; claudin-low takes its place in the other
    # column.
    subtype = _column(path, header, "PAM50_SUBTYPE", "PAM50SUBTYPE", "CLAUDIN_SUBTYPE")
    table = [row + [""] * (len(header) - len(row)) for row in rows[1:]]
    return known_patients(
        path, *([row[column] for row in table] for column in (identifier, cellularity, subtype))
    )


def read_expression(path, patients):
    """The sources from the expression text, in memory for the result and a few rows more.

    A gene is the mean of its rows.  A row that lacks a value in any of the patients is left out.
    """
    path = Path(path)
    with path.open("rb") as file:
        header = file.readline().decode("utf-8-sig").rstrip("\r\n").split("\t")
        leading = len(
            list(takewhile(lambda name: name.lower() in ("hugo_symbol", "entrez_gene_id"), header))
        )
        if leading == 0:
            raise InputError(
                f"{path} does not begin with Hugo_Symbol; give the expression file of the METABRIC study"
            )
        ids = [_patient_id(name) for name in header[leading:]]
        columns = [
            np.array([j for j, one in enumerate(ids) if group_of(patients, one) == group], int)
            for group in GROUPS
        ]
        used = np.concatenate(columns)

        # As many rows as there could be genes; those that stay empty take no memory because nothing
        # touches them.
        n_rows = _count_lines(path)
        totals = [np.zeros((n_rows, len(group))) for group in columns]
        row_of: dict[str, int] = {}
        n_probes = np.zeros(n_rows)
        left_out = 0
        for genes, values in _pieces(path, file, leading, len(ids)):
            complete = np.isfinite(values[:, used]).all(axis=1)
            left_out += len(genes) - complete.sum()
            for i in np.flatnonzero(complete):
                row = row_of.setdefault(genes[i], len(row_of))
                n_probes[row] += 1
                for total, group in zip(totals, columns, strict=True):
                    total[row] += values[i, group]
    if left_out:
        log.info("%s: %d rows lack a value in some patient and are left out", path, left_out)
    if not row_of:
        raise InputError(f"{path} has no row with a value for every patient; fetch it again")
    matrices = [total[: len(row_of)] for total in totals]
    for matrix in matrices:
        matrix /= n_probes[: len(row_of), None]
    return by_group(matrices, row_of, [[ids[j] for j in group] for group in columns], patients)


def _pieces(path, file, leading, n_patients):
    """The genes and values (rows x patients) of a few rows after the other."""
    rows = (line for line in file if not line.isspace())
    done = 1
    while lines := [
        line.rstrip(b"\r\n").split(b"\t", leading) for line in islice(rows, _ROWS_AT_A_TIME)
    ]:
        for number, fields in enumerate(lines, start=done + 1):
            if len(fields) <= leading or fields[-1].count(b"\t") != n_patients - 1:
                raise InputError(
                    f"{path} has another number of columns in line {number} than in its header; it is cut off or "
                    "damaged, fetch it again"
                )
        # The symbol, or the Entrez number of a gene that has none.
        genes = [
            next((name for name in fields[:-1] if name), b"").decode().strip() for fields in lines
        ]
        # pandas reads one long column several times faster than many short ones.
        column = b"\n".join(fields[-1] for fields in lines).replace(b"\t", b"\n")
        try:
            values = pd.read_csv(
                io.BytesIO(column),
                header=None,
                skip_blank_lines=False,
                dtype=np.float64,
                quoting=csv.QUOTE_NONE,
            )
        except ValueError as error:
            raise InputError(
                f"{path} has a value that is not a number in lines {done + 1} to {done + len(lines)} ({error}); "
                "fetch it again"
            ) from None
        done += len(lines)
        yield genes, values.to_numpy().reshape(len(lines), n_patients)


def by_group(matrices, genes, ids, patients):
    for group, chosen in zip(GROUPS, ids, strict=True):
        if not chosen:
            raise InputError(
                f"no patient of group {group!r} has expression values; the clinical file is of another study"
            )
    return Sources(
        matrices,
        names=GROUPS,
        feature_names=genes,
        sample_names=ids,
        labels=[
            np.array([[patients[one][1] == name for one in chosen] for name in CLASSES])
            for chosen in ids
        ],
        class_names=CLASSES,
    )


def _count_lines(path):
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(2**20), b""))


def _patient_id(name):
    """MB-0362, also from the BRCA.METABRIC.S1.MB.0362 of early releases."""
    return re.sub(r"^BRCA-METABRIC-S1-", "", name.replace(".", "-"))


def group_of(patients, one):
    return patients[one][0] if one in patients else None


def known_patients(path, ids, cellularity, subtype):
    classes = {name.lower(): name for name in CLASSES}
    patients = {}
    for one, group, name in zip(ids, cellularity, subtype, strict=True):
        group, name = (str(value).strip().lower() for value in (group, name))
        if group not in GROUPS and group not in _MISSING:
            raise InputError(
                f"{path} has cellularity {group!r}; it must be one of {', '.join(GROUPS)}, or missing"
            )
        if name not in classes and name not in _NO_CLASS and name not in _MISSING:
            raise InputError(
                f"{path} has subtype {name!r}; it must be one of {', '.join(CLASSES)}, or missing"
            )
        if group in GROUPS and name in classes:
            patients[one] = group, classes[name]
    return patients


def _column(path, header, *names):
    for name in names:
        if name in header:
            return header.index(name)
    raise InputError(
        f"{path} has no column {' or '.join(names)}; give the clinical file of the METABRIC study"
    )


def first_existing(folder, names):
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f"{folder} holds none of {', '.join(names)}; put one there or let the workflow fetch it"
    )


def draw_expression(sources, title, n_genes=40):
    """The genes that differ most between the classes, each centred; one panel a group, patients by
    class.
    """

    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from scipy.cluster.hierarchy import leaves_list, linkage

    n_all = sum(sources.n_samples)
    means = sum(x.sum(axis=1) for x in sources.matrices) / n_all
    sizes = sum(labels.sum(axis=1) for labels in sources.labels)
    class_sums = sum(
        x @ labels.T.astype(float)
        for x, labels in zip(sources.matrices, sources.labels, strict=True)
    )
    between = (class_sums**2 / np.maximum(sizes, 1)).sum(axis=1) - n_all * means**2
    top = np.argsort(-between, kind="stable")[:n_genes]
    blocks = [x[top] - means[top, None] for x in sources.matrices]
    # Genes that go together stand together.
    order = leaves_list(linkage(np.hstack(blocks), method="average", metric="correlation"))
    limit = np.percentile(np.abs(np.hstack(blocks)), 98)

    figure = Figure(figsize=(11, 0.15 * len(top) + 1.8), layout="constrained")
    figure.suptitle(f"{title}: the {len(top)} genes that differ most between the subtypes")
    axes = figure.subplots(
        2,
        len(sources),
        width_ratios=np.sqrt(sources.n_samples),
        height_ratios=[1, 0.9 * len(top)],
        sharex="col",
        squeeze=False,
    )
    classes = ListedColormap([f"C{k}" for k in range(len(sources.class_names))])
    for c, (block, labels) in enumerate(zip(blocks, sources.labels, strict=True)):
        belongs = labels.argmax(axis=0)
        patients = np.argsort(belongs, kind="stable")
        strip, map_ = axes[:, c]
        strip.imshow(
            belongs[None, patients], cmap=classes, vmin=-0.5, vmax=classes.N - 0.5, aspect="auto"
        )
        strip.set_yticks([])
        strip.tick_params(bottom=False, labelbottom=False)
        strip.set_title(f"{sources.names[c]} cellularity: {block.shape[1]} patients", fontsize=10)
        heat = map_.imshow(
            block[order][:, patients], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto"
        )
        map_.set_xticks([])
        map_.set_yticks([])
    axes[1, 0].set_yticks(
        range(len(top)), [sources.feature_names[i] for i in top[order]], fontsize=6
    )
    figure.colorbar(heat, ax=axes, shrink=0.6, aspect=30, label="difference from the gene's mean")
    figure.legend(
        handles=[Patch(color=classes(k), label=name) for k, name in enumerate(sources.class_names)],
        loc="outside lower center",
        ncols=len(sources.class_names),
        frameon=False,
    )
    return figure


DATASET = described_beside(__file__, sources=read, draw=draw_expression)
