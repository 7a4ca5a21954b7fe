"""METABRIC: gene expression of breast tumours, grouped by cellularity, classes by PAM50 subtype; see docs/data.md.

This is the whole study as cBioPortal distributes it: log2 intensities of all genes.  The text of 690 MB is read twice,
in pieces, so that memory holds little more than the result.  Releases differ in file names, column order, letter case,
line ends and in how a missing value is written.
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
from bjmd.paper.datasets.catalogue import Dataset, Member, Paper, Printed

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
"""Subtypes that are none of the five: current releases put claudin-low in the place of the PAM50 call."""
_ROWS_AT_A_TIME = 200


def read(folder):
    """The whole study from a folder with its expression and clinical file, under any of their names."""
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
    # The five-class call itself where a release has it; claudin-low takes its place in the other column.
    subtype = _column(path, header, "PAM50_SUBTYPE", "PAM50SUBTYPE", "CLAUDIN_SUBTYPE")
    table = [row + [""] * (len(header) - len(row)) for row in rows[1:]]
    return known_patients(path, *([row[column] for row in table] for column in (identifier, cellularity, subtype)))


def read_expression(path, patients):
    """The sources from the expression text, in memory for the result and a few rows more.

    A gene is the mean of its rows.  A row that lacks a value in any of the patients is left out.
    """
    path = Path(path)
    with path.open("rb") as file:
        header = file.readline().decode("utf-8-sig").rstrip("\r\n").split("\t")
        leading = len(list(takewhile(lambda name: name.lower() in ("hugo_symbol", "entrez_gene_id"), header)))
        if leading == 0:
            raise InputError(f"{path} does not begin with Hugo_Symbol; give the expression file of the METABRIC study")
        ids = [_patient_id(name) for name in header[leading:]]
        columns = [
            np.array([j for j, one in enumerate(ids) if group_of(patients, one) == group], int) for group in GROUPS
        ]
        used = np.concatenate(columns)

        # As many rows as there could be genes; those that stay empty take no memory because nothing touches them.
        n_rows = _count_lines(path)
        totals = [np.zeros((n_rows, len(group))) for group in columns]
        row_of, n_probes, left_out = {}, np.zeros(n_rows), 0
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
    while lines := [line.rstrip(b"\r\n").split(b"\t", leading) for line in islice(rows, _ROWS_AT_A_TIME)]:
        for number, fields in enumerate(lines, start=done + 1):
            if len(fields) <= leading or fields[-1].count(b"\t") != n_patients - 1:
                raise InputError(
                    f"{path} has another number of columns in line {number} than in its header; it is cut off or "
                    "damaged, fetch it again"
                )
        # The symbol, or the Entrez number of a gene that has none.
        genes = [next((name for name in fields[:-1] if name), b"").decode().strip() for fields in lines]
        # pandas reads one long column several times faster than many short ones.
        column = b"\n".join(fields[-1] for fields in lines).replace(b"\t", b"\n")
        try:
            values = pd.read_csv(
                io.BytesIO(column), header=None, skip_blank_lines=False, dtype=np.float64, quoting=csv.QUOTE_NONE
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
        labels=[np.array([[patients[one][1] == name for one in chosen] for name in CLASSES]) for chosen in ids],
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
            raise InputError(f"{path} has cellularity {group!r}; it must be one of {', '.join(GROUPS)}, or missing")
        if name not in classes and name not in _NO_CLASS and name not in _MISSING:
            raise InputError(f"{path} has subtype {name!r}; it must be one of {', '.join(CLASSES)}, or missing")
        if group in GROUPS and name in classes:
            patients[one] = group, classes[name]
    return patients


def _column(path, header, *names):
    for name in names:
        if name in header:
            return header.index(name)
    raise InputError(f"{path} has no column {' or '.join(names)}; give the clinical file of the METABRIC study")


def first_existing(folder, names):
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{folder} holds none of {', '.join(names)}; put one there or let the workflow fetch it")


def draw_expression(sources, title, n_genes=40):
    """The genes that differ most between the classes, each centred; one panel a group, patients by class."""

    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from scipy.cluster.hierarchy import leaves_list, linkage

    n_all = sum(sources.n_samples)
    means = sum(x.sum(axis=1) for x in sources.matrices) / n_all
    sizes = sum(labels.sum(axis=1) for labels in sources.labels)
    class_sums = sum(x @ labels.T.astype(float) for x, labels in zip(sources.matrices, sources.labels, strict=True))
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
        strip.imshow(belongs[None, patients], cmap=classes, vmin=-0.5, vmax=classes.N - 0.5, aspect="auto")
        strip.set_yticks([])
        strip.tick_params(bottom=False, labelbottom=False)
        strip.set_title(f"{sources.names[c]} cellularity: {block.shape[1]} patients", fontsize=10)
        heat = map_.imshow(block[order][:, patients], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
        map_.set_xticks([])
        map_.set_yticks([])
    axes[1, 0].set_yticks(range(len(top)), [sources.feature_names[i] for i in top[order]], fontsize=6)
    figure.colorbar(heat, ax=axes, shrink=0.6, aspect=30, label="difference from the gene's mean")
    figure.legend(
        handles=[Patch(color=classes(k), label=name) for k, name in enumerate(sources.class_names)],
        loc="outside lower center",
        ncols=len(sources.class_names),
        frameon=False,
    )
    return figure


PAPER_GROUPS = {"low": 214, "moderate": 735, "high": 962}
_CLAUDIN_LOW = (
    "The study has {all} patients of this group with a subtype other than NC, the paper {paper}{apart}. {claudin} of "
    "the {all} are called claudin-low in place of a PAM50 class, have none of the five classes, and are left out."
)
_APART = ", one patient apart (perhaps another set of NC calls in the early release)"
WITHOUT_CLAUDIN_LOW = "See the groups: patients called claudin-low have none of the five classes."

DATASET = Dataset(
    name="metabric",
    title="METABRIC",
    version="cBioPortal study brca_metabric, archive of 2026; files of earlier releases are accepted too",
    page="https://www.cbioportal.org/study/summary?id=brca_metabric",
    terms="Distributed publicly by cBioPortal under its data-use terms (ODbL unless a study says otherwise).",
    citation="C. Curtis et al., Nature 486, 2012; B. Pereira et al., Nature Communications 7, 2016; "
    "O. Rueda et al., Nature 567, 2019.",
    sources=read,
    n_classes=5,
    folder="metabric",
    archive="brca_metabric.tar.gz",
    addresses=(
        "https://datahub.assets.cbioportal.org/brca_metabric.tar.gz",
        "https://cbioportal-datahub.s3.amazonaws.com/brca_metabric.tar.gz",
        "http://download.cbioportal.org/brca_metabric.tar.gz",
    ),
    most_bytes=3_000_000_000,
    sha256=("6d4683477d6b37a2d7edbedc0df610f67bc456f99e5e1bef6219f37b633a55f7",),
    members=(
        Member(
            EXPRESSION_FILES,
            689_254_853,
            sha256=(
                "4470069455a4ed38ffed5d12513e468bbf5b9a57d66fa1162e7bd9a64889ab7a",
                "61e5930d1fef5bde93e8f5870088443f595e555e321550f7a9b6f72979991003",
                "b8aa84ea4d205483e4b2c2794a5eac6e73d4644e0f13e74c940f8e3d81d93dd6",
                "5f8a209b657b2b3b8c4b53028cd8324732d53065987e15a1409745215587e00e",
                "ecddab04110a14392377ce521aee69fe450bae5af87849686a959e60e452fbae",
                "b2d863d746512460750d1839c64ed14fad017030f8135ecb0b8707823d6d2a6e",
                "ac9d2576735f561cb49fe44217c6514b8c676f64b06bb444cbe5f6cf11349f2b",
            ),
        ),
        Member(
            ("data_clinical_patient.txt",),
            408_387,
            sha256=(
                "2a6bbadc6e4b2b07c0505559d438da959fc5c9aba55c7194abc394e2d6454995",
                "f01fde122007c133af67fc92e2b50d569c63295fe9b8e7d65ea8e89afe5dc47f",
                "a057bf73b373c85902e5748984e0fa4ad9b3f32eeee75162f176ee2e08021262",
                "c0fffa0e294aca542b2278be1b160af37ce2717dd26989c26cd459fa777e3340",
                "76085f4de94900e531fb5e88c01124583927a4c283fe384711eb5405acf08a7c",
            ),
        ),
    ),
    draw=draw_expression,
    feature_test=True,
    paper=Paper(
        n_features=19466,
        groups=PAPER_GROUPS,
        differences={
            "features": "The paper does not say from which release, or by which mapping of probes, it has 19466 genes; "
            "here they are all genes of the release that have a value in every patient.",
            "samples": WITHOUT_CLAUDIN_LOW,
            "samples of low": _CLAUDIN_LOW.format(all=213, paper=214, apart=_APART, claudin=50),
            "samples of moderate": _CLAUDIN_LOW.format(all=736, paper=735, apart=_APART, claudin=86),
            "samples of high": _CLAUDIN_LOW.format(all=962, paper=962, apart=" too", claudin=64),
        },
        printed={
            "K-means": Printed((62.99, 66.82, 72.73), 24.74),
            "Joint-NMF": Printed((65.81, 71.85, 75.07), 45.58),
            "Semi-NMF": Printed((58.90, 55.02, 53.48), 311.24),
            "BNMF": Printed((64.56, 66.27, 68.59), 423.15),
            "MAP-BJMD": Printed((82.22, 79.05, 81.45), 27.17, noise=(0.3455, 0.3454, 0.3684)),
        },
        printed_filtered={
            "K-means": Printed((67.01, 70.16, 78.85), 5.53),
            "Joint-NMF": Printed((82.70, 79.93, 82.51), 18.76),
            "Semi-NMF": Printed((63.18, 62.89, 59.89), 76.28),
            "BNMF": Printed((82.71, 80.32, 85.43), 101.96),
            "VI-BJMD": Printed((84.93, 81.81, 85.16), 3623.24, noise=(0.5987, 0.5998, 0.6348)),
            "MAP-BJMD": Printed((84.34, 79.55, 84.03), 20.70, noise=(0.5987, 0.5987, 0.6346)),
        },
    ),
)
