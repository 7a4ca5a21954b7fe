"""A fit of a source larger than the memory allowed to it: where the time goes, and how much memory
it takes.

    python benchmarks/larger_than_memory.py [--scale 0.1 | --full]

Writes 40,000 features x 100,000 samples of float32 (16 GB, with --full; else a share of the
samples, --scale) to a temporary file, which is removed at the end, and fits it memory-mapped with K
= 10 for 5 sweeps, in a process whose own memory is limited by RLIMIT_DATA to an eighth of the file
(at least 0.5 GB, because Python and its libraries take some).

cached   the system may keep the file in its page cache, and does where the machine has enough memory
disk     the file is dropped from the page cache before every pass over it, as if memory were far too small
share    of the fit's time, Sources included, that goes into reading and multiplying
peak     resident memory of the whole process at most, the file's pages that it has mapped included
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N_FEATURES = 40_000
N_SAMPLES = 100_000
N_COMPONENTS = 10
N_SWEEPS = 5
NOISE = 1.0
METHOD = "cavi-bjmd"
LEAST_LIMIT = 512 * 2**20
LEAST_SHARE = 0.6


def generate(path, n_samples):
    """W H + noise, some rows at a time."""
    rng = np.random.default_rng(0)
    h = rng.dirichlet(np.full(N_COMPONENTS, 0.3), n_samples).T.astype(np.float32)
    x = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_FEATURES, n_samples))
    for rows in np.split(x, N_FEATURES // 200):
        rng.standard_normal(out=(block := np.empty(rows.shape, np.float32)), dtype=np.float32)
        rows[:] = NOISE * block + rng.laplace(size=(len(rows), N_COMPONENTS)).astype(np.float32) @ h
    x.flush()


def fit(path, limit, from_disk):
    """In a process of its own: time, share and peak as JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    from bjmd.data import streamed
    from bjmd.data.sources import Sources
    from bjmd.inference import registry

    registry.fit(
        METHOD, Sources([np.random.default_rng(0).random((20, 30))]), 3, max_sweeps=2
    )  # compiles
    busy = 0.0
    n_passes = 0

    def timed(function):
        def call(*arguments):
            nonlocal busy, n_passes
            if from_disk:
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            started = time.perf_counter()
            result = function(*arguments)
            busy = busy + time.perf_counter() - started
            n_passes = n_passes + 1
            return result

        return call

    for name in ("times_memberships", "times_components"):
        setattr(streamed.Mapped, name, timed(getattr(streamed.Mapped, name)))
    started = time.perf_counter()
    result = registry.fit(
        METHOD,
        Sources([np.load(path, mmap_mode="r")]),
        N_COMPONENTS,
        max_sweeps=N_SWEEPS,
        tol=1e-15,
    )
    seconds = time.perf_counter() - started
    # not ru_maxrss, which counts what this process was before it became Python
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    print(json.dumps([seconds, busy / seconds, n_passes, peak, float(result.noise[0])]))


def main(n_samples):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.npy"
        generate(path, n_samples)
        size = path.stat().st_size
        limit = max(size // 8, LEAST_LIMIT)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        print(
            f"{METHOD}, {N_SWEEPS} sweeps, {N_FEATURES} x {n_samples} float32: {size / 1e9:.1f} GB on disk, a limit of "
            f"{limit / 1e9:.1f} GB, a machine with {memory / 1e9:.0f} GB",
            flush=True,
        )
        good = True
        for kind in ("cached", "disk"):
            command = [
                sys.executable,
                __file__,
                "--fit",
                path,
                str(limit),
                str(int(kind == "disk")),
            ]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, share, n_passes, peak, noise = json.loads(answer)
            rate = n_passes * size / 1e9 / (seconds * share)
            print(f"{kind:8} {seconds:.1f} s, {n_passes} passes over the file at {rate:.2f} GB/s")
            print(
                f"share    {share:.2f} of the time reading or multiplying; goal: at least {LEAST_SHARE}"
            )
            print(
                f"peak     {peak / 1e9:.2f} GB, {peak / size:.3f} of the file; noise {noise:.3f} (truly {NOISE:g})",
                flush=True,
            )
            good &= share >= LEAST_SHARE
    return not good


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1")
    else:
        parser = argparse.ArgumentParser(description="Fit a source larger than the memory allowed.")
        parser.add_argument(
            "--scale", type=float, default=0.1, help="share of the samples (default 0.1)"
        )
        parser.add_argument("--full", action="store_true", help="all samples; needs 16 GB of disk")
        arguments = parser.parse_args()
        sys.exit(main(N_SAMPLES if arguments.full else round(N_SAMPLES * arguments.scale)))
