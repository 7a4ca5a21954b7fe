"""METABRIC, 489 genes only: z-scores from a public table, a stand-in for those who do not have the study itself.

The groups, the classes and the picture are those of `metabric`.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.errors import InputError
from bjmd.paper.datasets.catalogue import Dataset, Member, Paper
from bjmd.paper.datasets.real.metabric import (
    GROUPS,
    PAPER_GROUPS,
    WITHOUT_CLAUDIN_LOW,
    by_group,
    draw_expression,
    first_existing,
    group_of,
    known_patients,
)

FILES = ("METABRIC_RNA_Mutation.csv", "METABRIC_RNA_Mutation.csv.gz", "metabric_489genes_zscores.npz")


def read(folder):
    """z-scores of 489 genes from the first of FILES that is there."""
    path = first_existing(Path(folder), FILES)
    values, genes, ids, cellularity, subtype = _read_arrays(path) if path.suffix == ".npz" else _read_table(path)
    patients = known_patients(path, ids, cellularity, subtype)
    columns = [[j for j, one in enumerate(ids) if group_of(patients, one) == group] for group in GROUPS]
    # Four decimals are all that was published; rounding takes away what single precision added.
    matrices = [np.round(values[:, group].astype(float), 4) for group in columns]
    return by_group(matrices, genes, [[ids[j] for j in group] for group in columns], patients)


def _read_arrays(path):
    """Values, genes, patients, cellularity and subtype from the .npz."""
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["Z"], *(arrays[name].tolist() for name in ("genes", "sample_id", "cellularity", "subtype"))


def _read_table(path):
    """The same from the public CSV, whose gene columns stand between the clinical and the mutation columns."""
    table = pd.read_csv(path, low_memory=False)
    try:
        first = table.columns.get_loc("death_from_cancer") + 1
        genes = [name for name in table.columns[first:] if not name.endswith("_mut")]
        ids = [f"MB-{number:04d}" for number in table["patient_id"]]
        cellularity, subtype = table["cellularity"], table["pam50_+_claudin-low_subtype"]
    except KeyError as error:
        raise InputError(f"{path} has no column {error}; give the table METABRIC_RNA_Mutation.csv") from None
    return table[genes].to_numpy(float).T, [gene.upper() for gene in genes], ids, cellularity, subtype


_NO_EXPRESSION = (
    "Only 1904 patients are in the public table. It has {all} of this group with a subtype other than NC (the paper: "
    "{paper}); {claudin} of them are called claudin-low, have none of the five classes, and are left out."
)

DATASET = Dataset(
    name="metabric-489",
    title="METABRIC, 489 genes only (z-scores)",
    version="public table of 1904 patients, 489 genes",
    page="https://www.kaggle.com/datasets/raghadalharbi/breast-cancer-gene-expression-profiles-metabric",
    terms="A public excerpt of the METABRIC study; its terms are those of the study.",
    citation="C. Curtis et al., Nature 486, 2012; B. Pereira et al., Nature Communications 7, 2016.",
    sources=read,
    n_classes=5,
    folder="metabric",
    # no address: the page asks for an account, so this one is always fetched by hand
    members=(
        Member(
            FILES,
            20_000_000,
            sha256=(
                "318e2b4ad3506f509b7fc73a43050a7261f1638fc96f3eea1ee8a916242f60ae",
                "5a6b2b2183ecc48a23f87dd385a32c89c51501655d9329681d103253ada79c87",
            ),
            # The page's own file is known by its git blob; the others hold the same values without rounding tails.
            git_blob=("22457106cc7282fdddd3ecd4c79a4130aa100e06",),
        ),
    ),
    draw=draw_expression,
    nonnegative="shift",
    feature_test=True,
    paper=Paper(
        n_features=19466,
        groups=PAPER_GROUPS,
        differences={
            "features": "Only 489 genes, as z-scores: a public excerpt for those who do not have the whole study.",
            "samples": WITHOUT_CLAUDIN_LOW,
            "samples of low": _NO_EXPRESSION.format(all=198, paper=214, claudin=43),
            "samples of moderate": _NO_EXPRESSION.format(all=710, paper=735, claudin=80),
            "samples of high": _NO_EXPRESSION.format(all=936, paper=962, claudin=61),
        },
    ),
)
