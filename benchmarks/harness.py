"""What the benchmarks share: data, the best of several starts, scores, times and Markdown tables.

With the environment variable QUICK every benchmark takes tiny sizes.  Its numbers then mean
nothing; it only shows that the benchmark runs:

    QUICK=1 python benchmarks/options.py
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

import bjmd
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source

QUICK = bool(os.environ.get("QUICK"))


def size(full, tiny):
    """A size of the benchmark, or its tiny one under QUICK."""
    return tiny if QUICK else full


def paper_data(scale="small", sigma3=4.0, seed=4):
    """The paper's synthetic data with their truth; the small ones only under QUICK."""
    return synthetic.generate(size(scale, "small"), sigma3, seed)


def real_data(name):
    """A data set of the paper as `bjmd datasets NAME` writes it, or None if it is not available."""
    from bjmd.results import storage

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "data.npz")
        command = [sys.executable, "-m", "bjmd.cli", "datasets", name, "-o", path]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name} is left out: {done.stderr.strip()}", file=sys.stderr)
            return None
        return storage.load_sources(path)


def with_missing(sources, share, rng):
    matrices = [np.where(rng.random(x.shape) < share, np.nan, x) for x in sources.matrices]
    return sources.replace(matrices=matrices)


def fits_from_starts(method, sources, n_components, n_starts, **options):
    """Fits with the seeds 0, 1, ..., the one of lowest objective first."""
    fits = [bjmd.fit(method, sources, n_components, seed, **options) for seed in range(n_starts)]
    return sorted(fits, key=lambda result: result.objective)


def auc(memberships, labels):
    """AUC x 100 of every source."""
    return 100 * auc_per_source(memberships, labels)


def matched(components, truth):
    """For every fitted component (a column) the number of the true one that it is."""
    distance = ((components[:, :, None] - truth[:, None, :]) ** 2).sum(axis=0)
    fitted, true = linear_sum_assignment(distance)
    return true[np.argsort(fitted)]


def seconds(function):
    """Processor time of one call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def best_seconds(*functions):
    """The least processor time of each function over some rounds in which they take turns."""
    for function in functions:
        function()  # compiles, and fills the caches
    times = [[seconds(function) for function in functions] for _ in range(size(5, 1))]
    return np.min(times, axis=0)


def peak_memory():
    """Bytes; ru_maxrss would count what the process was before it became Python."""
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    return peak


def numbers(values, digits=1):
    return " / ".join(f"{value:.{digits}f}" for value in values)


def row(*cells):
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def header(*cells):
    row(*cells)
    print("|" + "---|" * len(cells), flush=True)


def run_tables(description, tables, only_by_name=()):
    """Print the tables named on the command line, or all but `only_by_name`, on one BLAS thread."""
    by_name = {table.__name__: table for table in tables}
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="table", help=", ".join(by_name))
    names = parser.parse_args().tables
    unknown = [name for name in names if name not in by_name]
    if unknown:
        parser.error(f"there is no table {unknown[0]}; choose from {', '.join(by_name)}")
    for name in names or [name for name in by_name if name not in only_by_name]:
        print(f"\n{name}\n")
        with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
            by_name[name]()
