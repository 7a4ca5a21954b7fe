"""A million samples from disk: time and peak memory of one fit, in a process of its own.

    python benchmarks/million.py [--samples 1000000] [--folder FOLDER] [--components 20]
    [--in-memory]

Writes samples x 2,000 features, 5 % not zero, with 20 components to be found, block by block to an
.h5ad file in FOLDER (0.8 GB for a million samples; by default a temporary folder, and the file is
removed at the end; a file that is there already is used again).  Then it is fitted by `bjmd.fit`,
with one start and the default tolerance, from disk or, with --in-memory, once it is loaded as
sparse float32.

wall, cpu   seconds by the clock and of the processor from opening the file to the result, compilation aside
reading     share of the processor time that goes into reading and checking blocks, products aside
products    share of the processor time that goes into the two products, and into reading for them
peak        largest resident memory of the process
found       mean of the largest correlation of every true component with a found one
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse

N_FEATURES = 2000
N_TRUE = 20
N_DRAWS = 106
BLOCK = 50_000
GOAL_SECONDS = 360
GOAL_MEMORY = 3e9


def programmes():
    """How often each component uses each feature: a common background, and 60 features of its own."""
    rng = np.random.default_rng(1)
    w = np.tile(rng.gamma(2.0, size=N_FEATURES), (N_TRUE, 1))
    for k in range(N_TRUE):
        w[k, rng.choice(N_FEATURES, 60, replace=False)] += rng.gamma(2.0, 10.0, 60)
    return w / w.sum(axis=1, keepdims=True)


def generate(path, n_samples):
    """Every sample is a number of draws from its components; its values are ln(1 + count)."""
    import anndata
    import h5py
    import pandas as pd

    rng = np.random.default_rng(0)
    below = (np.cumsum(programmes(), axis=1) + np.arange(N_TRUE)[:, None]).ravel()
    with h5py.File(path, "w") as file:
        write = anndata.io.write_elem
        write(file, "obs", pd.DataFrame(index=[f"s{j}" for j in range(n_samples)]))
        write(file, "var", pd.DataFrame(index=[f"g{i}" for i in range(N_FEATURES)]))
        for name in ("obsm", "varm", "uns", "layers"):
            write(file, name, {})
        file.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
        x = file.create_group("X")
        starts = [np.zeros(1, int)]
        x.attrs.update(
            {
                "encoding-type": "csr_matrix",
                "encoding-version": "0.1.0",
                "shape": [n_samples, N_FEATURES],
            }
        )
        for name, dtype in (("data", np.float32), ("indices", np.int32)):
            x.create_dataset(name, (0,), dtype, maxshape=(None,), chunks=(2**18,))
        for first in range(0, n_samples, BLOCK):
            n = min(BLOCK, n_samples - first)
            draws = rng.multinomial(N_DRAWS, rng.dirichlet(np.full(N_TRUE, 0.1), n))
            component = np.repeat(np.tile(np.arange(N_TRUE), n), draws.ravel())
            feature = np.searchsorted(below, component + rng.random(len(component))) % N_FEATURES
            of = np.repeat(np.arange(n), N_DRAWS)
            block = scipy.sparse.coo_array(
                (np.ones(len(of), np.float32), (of, feature)), (n, N_FEATURES)
            ).tocsr()
            for name, part in (("data", np.log1p(block.data)), ("indices", block.indices)):
                x[name].resize(x[name].shape[0] + block.nnz, axis=0)
                x[name][-block.nnz :] = part
            starts.append(starts[-1][-1] + block.indptr[1:].astype(int))
        x["indptr"] = np.concatenate(starts)


def peak_memory():
    """Of this process; not ru_maxrss, which counts what it was before it became Python."""
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    return peak


def fit(path, n_components, in_memory):
    """In a process of its own: what is measured as JSON."""
    import anndata  # noqa: F401
    import h5py

    import bjmd
    from bjmd.data.matrix import Sparse
    from bjmd.data.on_disk import OnDisk
    from bjmd.files.readers import read_sources
    from bjmd.numerics import threads

    few = OnDisk(h5py.File(path)["X"], path, np.arange(30))
    for x in (few, scipy.sparse.random_array((20, 30), rng=0, dtype=np.float32)):
        bjmd.fit("cavi-bjmd", bjmd.Sources([x]), 3, max_sweeps=12)  # compiles
    spent = dict.fromkeys(("reading", "products"), 0.0)

    def timed(owner, name, what):
        function = getattr(owner, name)

        def call(*arguments):
            started = threads.seconds()
            try:
                return function(*arguments)
            finally:
                spent[what] += threads.seconds() - started

        setattr(owner, name, call)

    timed(OnDisk, "read", "reading")
    kind = Sparse if in_memory else OnDisk
    timed(kind, "times_memberships", "products")
    timed(kind, "times_components", "products")
    wall = time.perf_counter()
    processor = time.process_time()
    sources, _ = read_sources(path, on_disk=not in_memory)
    opened = time.process_time() - processor
    result = bjmd.fit("cavi-bjmd", sources, n_components)
    wall = time.perf_counter() - wall
    processor = time.process_time() - processor
    correlation = np.corrcoef(programmes(), result.components.T)[:N_TRUE, N_TRUE:]
    measured = {
        "wall": wall,
        "cpu": processor,
        "opening": opened,
        "sweeps": len(result.trace),
        "reason": result.reason,
        **{name: seconds / processor for name, seconds in spent.items()},
        "peak": peak_memory(),
        "noise": float(result.noise[0]),
        "objective": result.objective,
        "found": float(correlation.max(axis=1).mean()),
    }
    print(json.dumps(measured))


def run(path, n_components, in_memory=False):
    command = [sys.executable, __file__, "--fit", path, str(n_components), str(int(in_memory))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(arguments, folder):
    path = Path(folder) / f"samples_{arguments.samples}.h5ad"
    if not path.exists():
        started = time.perf_counter()
        generate(path, arguments.samples)
        print(f"written  in {time.perf_counter() - started:.0f} s")
    of = run(path, arguments.components, arguments.in_memory)
    where = "in memory" if arguments.in_memory else "from disk"
    size = f"{arguments.samples:,} x {N_FEATURES:,}, {path.stat().st_size / 1e9:.2f} GB"
    print(f"data     {size}, {where}, K = {arguments.components}")
    print(
        f"wall     {of['wall']:.0f} s, {of['cpu']:.0f} s of the processor; goal for a million: {GOAL_SECONDS} s"
    )
    print(f"sweeps   {of['sweeps']} ({of['reason']})")
    print(
        f"reading  {of['reading']:.2f} of the processor time; products and their reading {of['products']:.2f}"
    )
    print(f"peak     {of['peak'] / 1e9:.2f} GB; goal for a million: {GOAL_MEMORY / 1e9:g} GB")
    print(f"found    {of['found']:.3f}, noise {of['noise']:.4f}, objective {of['objective']:.8g}")
    return of["wall"] > GOAL_SECONDS or of["peak"] > GOAL_MEMORY


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1")
        sys.exit()
    parser = argparse.ArgumentParser(description="Fit a million samples from disk.")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--in-memory", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(given, given.folder or temporary))
