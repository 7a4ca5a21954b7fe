"""Time and memory of reading a METABRIC-sized expression text, as ratios to pandas' fastest CSV
reader.

    python benchmarks/metabric_reading.py

Generates 24,000 rows x 1,980 patients in a temporary folder, then reads it in one process each.
Ours does more: it keeps the 1,711 patients of the study's groups, averages the rows of a gene and
makes Sources.  The aim is at most 3 times the time and at most a third of the memory.
"""

import importlib.util
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_ROWS = 24_000
N_GENES = 20_400
N_PATIENTS = 1_980
GROUP_SIZES = {"low": 163, "moderate": 650, "high": 898}
MOST_TIME = 3
MOST_MEMORY = 1 / 3
REPEATS = 3


def generate(path):
    """Log2-like values with all the digits of a double; a few hundred different rows, over and over
    again.
    """
    rng = np.random.default_rng(0)
    rows = ["\t".join(map(repr, row)) for row in rng.normal(7, 1.5, (300, N_PATIENTS)).tolist()]
    with path.open("w") as file:
        file.write(
            "\t".join(
                ["Hugo_Symbol", "Entrez_Gene_Id", *(f"MB-{j:04d}" for j in range(N_PATIENTS))]
            )
            + "\n"
        )
        for i in range(N_ROWS):
            file.write(f"GENE{i % N_GENES}\t{i}\t{rows[i % len(rows)]}\n")


def read_with_bjmd(path):
    from bjmd_paper.datasets.real import metabric

    groups = [group for group, size in GROUP_SIZES.items() for _ in range(size)]
    patients = {f"MB-{j:04d}": (group, metabric.CLASSES[j % 5]) for j, group in enumerate(groups)}
    return metabric.read_expression(path, patients)


def read_with_pandas(path):
    import pandas as pd

    if importlib.util.find_spec("pyarrow"):
        return pd.read_csv(path, sep="\t", engine="pyarrow")
    # Faster than low_memory=True, and smaller too with so many columns.
    return pd.read_csv(path, sep="\t", engine="c", low_memory=False)


READERS = {"bjmd": read_with_bjmd, "pandas": read_with_pandas}


def measure(reader, path):
    """Seconds of the read and peak MB of its whole process; the best of a few runs."""
    runs = []
    for _ in range(REPEATS):
        answer = subprocess.run(
            [sys.executable, __file__, reader, path], check=True, capture_output=True, text=True
        )
        runs.append([float(word) for word in answer.stdout.split()])
    return [min(values) for values in zip(*runs, strict=True)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data_mrna_illumina_microarray.txt"
        generate(path)
        print(f"{N_ROWS} rows x {N_PATIENTS} patients, {path.stat().st_size / 1e6:.0f} MB of text")
        figures = {reader: measure(reader, path) for reader in READERS}
    for reader, (seconds, megabytes) in figures.items():
        print(f"{reader:8} {seconds:6.2f} s {megabytes:8.0f} MB")
    time_ratio, memory_ratio = (
        ours / theirs for ours, theirs in zip(*figures.values(), strict=True)
    )
    print(
        f"bjmd / pandas: time {time_ratio:.2f} (at most {MOST_TIME}), "
        f"memory {memory_ratio:.2f} (at most {MOST_MEMORY:.2f})"
    )
    return time_ratio > MOST_TIME or memory_ratio > MOST_MEMORY


if __name__ == "__main__":
    if len(sys.argv) == 3:
        started = time.perf_counter()
        READERS[sys.argv[1]](Path(sys.argv[2]))
        print(
            time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        )
    else:
        sys.exit(main())
