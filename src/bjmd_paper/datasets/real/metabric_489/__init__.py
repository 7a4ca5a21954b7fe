"""METABRIC, 489 genes only: z-scores from a public table, for those who do not have the study.

The groups and the classes are those of `metabric`.
"""

import pandas as pd

from bjmd_paper.datasets.real.metabric import by_group, known_patients, paths


def read(folder):
    """The sources from a folder with the table, whose genes follow the clinical columns."""
    (path,) = paths("metabric-489", folder)
    table = pd.read_csv(path, low_memory=False)
    table.index = [f"MB-{number:04d}" for number in table["patient_id"]]
    patients = known_patients(
        table.index, table["cellularity"], table["pam50_+_claudin-low_subtype"]
    )
    expression = table.loc[:, "death_from_cancer":].iloc[:, 1:]
    expression = expression.loc[:, ~expression.columns.str.endswith("_mut")]
    # four decimals were published
    return by_group(expression.rename(columns=str.upper).T.astype(float).round(4), patients)
