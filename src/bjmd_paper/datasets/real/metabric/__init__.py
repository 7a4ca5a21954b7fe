"""METABRIC: gene expression of breast tumours, grouped by cellularity, classes by PAM50 subtype.

This is the whole study as cBioPortal distributes it: log2 intensities of all genes, a text of
690 MB that is read in pieces.  Releases differ in file names, column order, letter case, line ends
and in how a missing value is written; see docs/data.md.
"""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd_paper.datasets import catalogue

GROUPS = ("low", "moderate", "high")
CLASSES = ("Basal", "Her2", "LumA", "LumB", "Normal")

ROWS_AT_A_TIME = 1000


def read(folder):
    """The sources from a folder with the expression and the clinical file of the study."""
    expression, clinical = paths("metabric", folder)
    patients = read_patients(clinical)
    return by_group(read_expression(expression, patients), patients)


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
    return pd.concat(pieces).groupby(level=0, sort=False).mean()


def by_group(expression, patients):
    """The expression of the known patients as sources, one for each group."""
    chosen = [
        [name for name in expression.columns if patients["group"].get(name) == group]
        for group in GROUPS
    ]
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


def paths(dataset, folder):
    """The files of a data set in a folder, each by the first of its names that is there."""
    return [
        next(path for name in member.names if (path := Path(folder) / name).is_file())
        for member in catalogue.get(dataset).members
    ]
