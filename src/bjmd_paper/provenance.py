"""What a run was made with and how long it took, for the report and the reference run."""

import platform
from importlib.metadata import version

import pandas as pd

from bjmd import __version__
from bjmd_paper.tables import Table, text_cells

PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "pandas",
    "pymc",
    "pytensor",
    "matplotlib",
    "snakemake",
)


def provenance(runs, datasets, fits_table, seed):
    """Versions, the fits with their options, and the processor time of each; `datasets` has the
    family of each run.
    """
    settings = {"seed": seed, "bjmd": __version__, "python": platform.python_version()}
    settings |= {name: version(name) for name in PACKAGES}
    minutes = times(zip(datasets.values(), runs, strict=True))
    return Table(
        minutes,
        [
            "The fits:",
            text_cells(pd.DataFrame(fits_table)),
            "Processor time of all restarts of each fit, in minutes:",
            text_cells(minutes.round(2)),
            "The seed and the versions:",
            pd.DataFrame(settings.items(), columns=["what", "value"]).astype(str),
        ],
    )


def times(runs):
    """Processor time in minutes of each fit on each family of data, given pairs of a family and a
    table of runs.
    """
    rows = pd.concat([one[one["source"] == 1].assign(data=family) for family, one in runs])
    rows = rows[rows["fit"] != "truth"]
    table = (
        rows.pivot_table(index="fit", columns="data", values="seconds", aggfunc="sum", sort=False)
        / 60
    )
    table["all"] = table.sum(axis=1)
    table.loc["all"] = table.sum()
    return table.reset_index()
