"""METABRIC, 489 genes only: z-scores from a public table, for those who do not have the study.

The groups and the classes are those of `metabric`.
"""

import numpy as np
import pandas as pd

from bjmd_paper.datasets.real.metabric import by_group, known_patients, paths


def read(folder):
    """The sources from a folder with the table, in any of its forms."""
    (path,) = paths("metabric-489", folder)
    read_file = _read_arrays if path.suffix == ".npz" else _read_table
    expression, patients = read_file(path)
    # Four decimals were published; rounding removes what single precision added.
    return by_group(expression.astype(float).round(4), patients)


def _read_arrays(path):
    """Genes x patients, and the known patients, from the .npz."""
    with np.load(path, allow_pickle=False) as arrays:
        expression = pd.DataFrame(arrays["Z"], arrays["genes"], arrays["sample_id"])
        patients = known_patients(arrays["sample_id"], arrays["cellularity"], arrays["subtype"])
    return expression, patients


def _read_table(path):
    """The same from the CSV, whose genes stand between clinical and mutation columns."""
    table = pd.read_csv(path, low_memory=False)
    table.index = [f"MB-{number:04d}" for number in table["patient_id"]]
    patients = known_patients(
        table.index, table["cellularity"], table["pam50_+_claudin-low_subtype"]
    )
    expression = table.loc[:, "death_from_cancer":].iloc[:, 1:]
    expression = expression.loc[:, ~expression.columns.str.endswith("_mut")]
    return expression.rename(columns=str.upper).T, patients
