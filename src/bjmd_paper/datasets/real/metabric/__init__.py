"""METABRIC: gene expression of breast tumours, grouped by cellularity, classes by PAM50 subtype.

This is the whole study as cBioPortal distributes it: log2 intensities of all genes, a text of
690 MB that is read in pieces.  Releases differ in file names, column order, letter case, line ends
and in how a missing value is written; see docs/data.md.
"""

import csv
import io
import logging
from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.data.sources import Sources
from bjmd.errors import InputError

log = logging.getLogger(__name__)

GROUPS = ("low", "moderate", "high")
CLASSES = ("Basal", "Her2", "LumA", "LumB", "Normal")

EXPRESSION_FILES = (
    "data_mrna_illumina_microarray.txt",
    "data_mrna_agilent_microarray.txt",
    "data_expression_median.txt",
    "data_expression.txt",
)
"""The names that the log2 intensities have had, newest first."""
CLINICAL_FILES = ("data_clinical_patient.txt", "data_clinical.txt")
ROWS_AT_A_TIME = 1000


def read(folder):
    """The sources from a folder with the expression and the clinical file of the study."""
    patients = read_patients(first_existing(folder, CLINICAL_FILES))
    return by_group(read_expression(first_existing(folder, EXPRESSION_FILES), patients), patients)


def read_patients(path):
    """The group and the class of every patient who has both, from the clinical file."""
    # In text mode every line end reads as \n.
    lines = path.read_text(encoding="utf-8-sig", errors="replace").split("\n")
    text = "\n".join(line for line in lines if not line.startswith("#"))
    table = pd.read_csv(io.StringIO(text), sep="\t", dtype=str, keep_default_na=False).fillna("")
    table.columns = table.columns.str.upper()

    def column(*names):
        name = next((name for name in names if name in table), None)
        if name is None:
            raise InputError(f"{path} has no column {' or '.join(names)}")
        return table[name]

    # The five-class call where a release has it; elsewhere claudin-low takes its place.
    subtype = column("PAM50_SUBTYPE", "PAM50SUBTYPE", "CLAUDIN_SUBTYPE")
    return known_patients(column("PATIENT_ID", "SAMPLE_ID"), column("CELLULARITY"), subtype)


def known_patients(ids, cellularity, subtype):
    """A table of the patients with a known cellularity and one of the five classes."""
    classes = {name.lower(): name for name in CLASSES}
    groups = [str(group).strip().lower() for group in cellularity]
    called = [classes.get(str(name).strip().lower()) for name in subtype]
    table = pd.DataFrame({"group": groups, "class": called}, index=list(ids))
    return table[table["group"].isin(GROUPS) & table["class"].notna()]


def read_expression(path, patients):
    """Genes x patients: the mean of each gene's rows that have a value for every known patient."""
    header = pd.read_csv(path, sep="\t", nrows=0).columns
    gene_columns = [name for name in header if name.lower() in ("hugo_symbol", "entrez_gene_id")]
    known = {name: _patient_id(name) for name in header if _patient_id(name) in patients.index}
    n_rows = 0
    pieces = []
    for piece in pd.read_csv(
        path,
        sep="\t",
        quoting=csv.QUOTE_NONE,
        chunksize=ROWS_AT_A_TIME,
        usecols=[*gene_columns, *known],
        converters=dict.fromkeys(gene_columns, str.strip),
    ):
        # The symbol, or the Entrez number of a gene that has none.
        names = piece[gene_columns].itertuples(index=False)
        genes = [next(filter(None, row), "") for row in names]
        values = piece.drop(columns=gene_columns).to_numpy(float)
        pieces.append(pd.DataFrame(values, genes, known.values()).dropna())
        n_rows += len(piece)
    complete = pd.concat(pieces)
    if len(complete) < n_rows:
        log.info("%s: %d rows lack a value for some patient", path, n_rows - len(complete))
    return complete.groupby(level=0, sort=False).mean()


def by_group(expression, patients):
    """The expression of the known patients as sources, one for each group."""
    chosen = [
        [name for name in expression.columns if patients["group"].get(name) == group]
        for group in GROUPS
    ]
    for group, names in zip(GROUPS, chosen, strict=True):
        if not names:
            raise InputError(f"no patient of group {group!r} has expression values")
    return Sources(
        [np.ascontiguousarray(expression[names]) for names in chosen],
        names=GROUPS,
        feature_names=expression.index,
        sample_names=chosen,
        labels=[
            np.array([patients.loc[names, "class"] == name for name in CLASSES]) for names in chosen
        ],
        class_names=CLASSES,
    )


def _patient_id(name):
    """MB-0362, also from the BRCA.METABRIC.S1.MB.0362 of early releases."""
    return name.replace(".", "-").removeprefix("BRCA-METABRIC-S1-")


def first_existing(folder, names):
    """The first of some files that a folder has."""
    for name in names:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise InputError(f"{folder} holds none of {', '.join(names)}; put one of them there")


def draw(sources, title, n_genes=40):
    """The centred genes that differ most between classes; a panel a group, patients by class."""
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
    # Correlated genes are neighbours.
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
