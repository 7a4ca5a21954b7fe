"""What a run was made with and how long it took, for the report and the reference run."""

import platform
from importlib.metadata import version

import pandas as pd

from bjmd import __version__

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pandas", "pymc", "pytensor", "matplotlib", "snakemake")


def versions():
    """Package -> version, Python and bjmd first."""
    return {"bjmd": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def times(benchmarks):
    """Processor time in minutes of each fit on each kind of data; keys are (family, fit), values seconds."""
    rows = pd.DataFrame([(*key, seconds) for key, seconds in benchmarks], columns=["data", "fit", "seconds"])
    table = rows.pivot_table(index="fit", columns="data", values="seconds", aggfunc="sum", sort=False) / 60
    table["all"] = table.sum(axis=1)
    table.loc["all"] = table.sum()
    return table.reset_index()
