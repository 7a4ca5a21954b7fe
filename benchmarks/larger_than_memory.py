"""How long does a fit of a file larger than the memory take, over plain passes over that file?

    python benchmarks/larger_than_memory.py [--scale 0.1]

Writes 40,000 features x 100,000 samples of float32 (16 GB at --scale 1, by default a tenth of the
samples) to a temporary file, which is removed at the end.  Fits it memory-mapped with K = 10 for 5
sweeps, in a process whose own memory RLIMIT_DATA limits to an eighth of the file (at least 0.5 GB,
because Python and its libraries take some).

cached  the system may keep the file in its page cache, if the machine has enough memory
disk    the file is dropped from the page cache every second, as if memory were far too small
ratio   time of the fit over that of its 2 products a sweep, each one plain pass: read some rows,
        multiply them
peak    largest resident memory of the process, including the pages of the file that it has mapped
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from harness import peak_memory, size

N_FEATURES = size(40_000, 400)
N_SAMPLES = 100_000
N_COMPONENTS = 10
N_SWEEPS = 5
NOISE = 1.0
ROWS = size(200, 100)
LEAST_LIMIT = 512 * 2**20


def generate(path, n_samples):
    """W H + noise, some rows at a time."""
    rng = np.random.default_rng(0)
    h = rng.dirichlet(np.full(N_COMPONENTS, 0.3), n_samples).T.astype(np.float32)
    x = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_FEATURES, n_samples))
    for rows in np.split(x, N_FEATURES // ROWS):
        noise = rng.standard_normal(rows.shape, dtype=np.float32)
        w = rng.laplace(size=(len(rows), N_COMPONENTS)).astype(np.float32)
        rows[:] = w @ h + NOISE * noise
    x.flush()


def keep_out_of_cache(path):
    """Drop the file from the page cache every second, for the rest of the process."""

    def drop():
        with open(path, "rb") as file:
            while True:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                time.sleep(1)

    threading.Thread(target=drop, daemon=True).start()


def plain_pass(path):
    """Seconds to read the file and multiply it once, some rows at a time."""
    started = time.perf_counter()
    x = np.load(path, mmap_mode="r")
    h = np.ones((x.shape[1], N_COMPONENTS))
    for rows in np.split(x, N_FEATURES // ROWS):
        np.asarray(rows, float) @ h
    return time.perf_counter() - started


def fit(path, limit, from_disk):
    """In a process of its own: seconds of the fit and of a pass, peak memory and noise, as JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import bjmd

    small = bjmd.Sources([np.random.default_rng(0).random((20, 30))])
    bjmd.fit("cavi-bjmd", small, 3, max_sweeps=12)  # compiles
    if from_disk:
        keep_out_of_cache(path)
    one_pass = min(plain_pass(path) for _ in range(2))
    started = time.perf_counter()
    sources = bjmd.Sources([np.load(path, mmap_mode="r")])
    options = {"max_sweeps": N_SWEEPS, "tol": 1e-15}
    result = bjmd.fit("cavi-bjmd", sources, N_COMPONENTS, **options)
    seconds = time.perf_counter() - started
    print(json.dumps([seconds, one_pass, peak_memory(), float(result.noise[0])]))


def main(n_samples):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.npy"
        generate(path, n_samples)
        bytes_on_disk = path.stat().st_size
        limit = max(bytes_on_disk // 8, LEAST_LIMIT)
        print(f"{N_FEATURES} x {n_samples} float32, {bytes_on_disk / 1e9:.1f} GB on disk", end=", ")
        print(f"a limit of {limit / 1e9:.1f} GB, {N_SWEEPS} sweeps of cavi-bjmd", flush=True)
        for kind in ("cached", "disk"):
            command = [sys.executable, __file__, "--fit", path, str(limit), kind]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, one_pass, peak, noise = json.loads(answer)
            ratio = seconds / (2 * N_SWEEPS * one_pass)
            print(f"{kind:7} {seconds:.1f} s, ratio {ratio:.2f}", end=", ")
            print(f"peak {peak / 1e9:.2f} GB, {peak / bytes_on_disk:.3f} of the file", end=", ")
            print(f"noise {noise:.3f} (truly {NOISE:g})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "disk")
    else:
        parser = argparse.ArgumentParser(
            description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--scale", type=float, default=size(0.1, 0.01), help="of the samples")
        main(round(N_SAMPLES * parser.parse_args().scale))
