"""METABRIC, 489 genes only: z-scores from a public table, a stand-in for those who do not have the
study itself.

The groups, the classes and the picture are those of `metabric`.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.errors import InputError
from bjmd_paper.datasets.catalogue import described_beside
from bjmd_paper.datasets.real.metabric import (
    GROUPS,
    by_group,
    draw_expression,
    first_existing,
    group_of,
    known_patients,
)

FILES = (
    "METABRIC_RNA_Mutation.csv",
    "METABRIC_RNA_Mutation.csv.gz",
    "metabric_489genes_zscores.npz",
)


def read(folder):
    """z-scores of 489 genes from the first of FILES that is there."""
    path = first_existing(Path(folder), FILES)
    values, genes, ids, cellularity, subtype = (
        _read_arrays(path) if path.suffix == ".npz" else _read_table(path)
    )
    patients = known_patients(path, ids, cellularity, subtype)
    columns = [
        [j for j, one in enumerate(ids) if group_of(patients, one) == group] for group in GROUPS
    ]
    # Four decimals are all that was published; rounding takes away what single precision added.
    matrices = [np.round(values[:, group].astype(float), 4) for group in columns]
    return by_group(matrices, genes, [[ids[j] for j in group] for group in columns], patients)


def _read_arrays(path):
    """Values, genes, patients, cellularity and subtype from the .npz."""
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["Z"], *(
            arrays[name].tolist() for name in ("genes", "sample_id", "cellularity", "subtype")
        )


def _read_table(path):
    """The same from the public CSV, whose gene columns stand between the clinical and the mutation
    columns.
    """
    table = pd.read_csv(path, low_memory=False)
    try:
        first = table.columns.get_loc("death_from_cancer") + 1
        genes = [name for name in table.columns[first:] if not name.endswith("_mut")]
        ids = [f"MB-{number:04d}" for number in table["patient_id"]]
        cellularity = table["cellularity"]
        subtype = table["pam50_+_claudin-low_subtype"]
    except KeyError as error:
        raise InputError(
            f"{path} has no column {error}; give the table METABRIC_RNA_Mutation.csv"
        ) from None
    return (
        table[genes].to_numpy(float).T,
        [gene.upper() for gene in genes],
        ids,
        cellularity,
        subtype,
    )


DATASET = described_beside(__file__, sources=read, draw=draw_expression)
