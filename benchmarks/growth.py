"""Time and memory against the number of samples, for bjmd and its peers, and of bjmd against K.

    python benchmarks/growth.py --folder FOLDER [--only bjmd NMF MiniBatchNMF mofapy2 components]
        [--peers-python PYTHON]

Fits the data of million.py, 2,000 features, 5 % not zero, with K = 20 and every method's default
tolerance, each in a process of its own: bjmd (cavi-bjmd) from disk, scikit-learn's NMF and
MiniBatchNMF on the sparse float32 matrix in memory, and mofapy2, which takes dense data and is
skipped where it is not installed; PYTHON may be another interpreter, that of an environment with
the peers and anndata.  A peer that needs more than CAP seconds of processor time is stopped and
gets no larger data.  `components` fits 10,000 samples with K from 5 to 80.  Files of data are kept
in FOLDER, and what is measured in FOLDER/growth.csv: a run that was broken off goes on where it
was.  FOLDER/growth.png shows time and memory against the number of samples, and the limit CAP.

cpu    seconds of the processor from opening the file to the result, compilation and imports aside
peak   largest resident memory of the process
"""

import argparse
import contextlib
import io
import json
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import million
import numpy as np
import pandas as pd

N_COMPONENTS = 20
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PEERS = ("NMF", "MiniBatchNMF", "mofapy2")
CAP = 120
NUMBERS_OF_COMPONENTS = (5, 10, 20, 40, 80)
N_FOR_COMPONENTS = 10_000


def peer(name, path):
    """One fit of a peer, in a process of its own: what is measured as JSON."""
    import anndata
    from threadpoolctl import threadpool_limits

    if name == "mofapy2":
        from mofapy2.run.entry_point import entry_point
    else:
        import sklearn.decomposition
    resource.setrlimit(
        resource.RLIMIT_CPU, (CAP + int(time.process_time()), resource.RLIM_INFINITY)
    )
    wall = time.perf_counter()
    processor = time.process_time()
    x = anndata.read_h5ad(path).X
    quiet = warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO())
    with (
        threadpool_limits(1),
        quiet[0],
        quiet[1],
    ):  # threads of BLAS that wait for each other take processor time too
        if name == "mofapy2":
            model = entry_point()
            model.set_data_matrix([[x.toarray()]])
            model.set_model_options(factors=N_COMPONENTS)
            model.set_train_options(seed=0, quiet=True)
            model.build()
            model.run()
            n_sweeps = len(model.model.getTrainingStats()["elbo"])
        else:
            model = getattr(sklearn.decomposition, name)(N_COMPONENTS, random_state=0)
            model.fit_transform(x)
            n_sweeps = model.n_iter_
    wall = time.perf_counter() - wall
    processor = time.process_time() - processor
    print(
        json.dumps(
            {"wall": wall, "cpu": processor, "peak": million.peak_memory(), "sweeps": n_sweeps}
        )
    )


def measured(name, path, n_components, python):
    """Time, memory and sweeps of one fit; NaN where it was stopped, None where the peer is not
    installed.
    """
    if name == "bjmd":
        found = million.run(path, n_components)
        return {key: found[key] for key in ("wall", "cpu", "peak", "sweeps")}
    run = subprocess.run([python, __file__, "--peer", name, path], capture_output=True, text=True)
    if run.returncode == -signal.SIGXCPU:
        return dict.fromkeys(("wall", "cpu", "peak", "sweeps"), np.nan)
    if "No module named" in run.stderr:
        print(f"{name} is not installed, so it is skipped")
        return None
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def draw(table, path):
    """Time and memory against the number of samples."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    from bjmd.report.style import COLOURS, MARKERS, STYLE

    labels = {
        "bjmd": "bjmd, from disk",
        "NMF": "scikit-learn NMF",
        "MiniBatchNMF": "scikit-learn MiniBatchNMF",
    }
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
        for name, colour, marker in zip(("bjmd", *PEERS), COLOURS, MARKERS, strict=False):
            rows = table[
                (table["method"] == name) & (table["components"] == N_COMPONENTS)
            ].sort_values("samples")
            for axis, column, unit in zip(axes, ("cpu", "peak"), (1, 1e9), strict=True):
                how = {"marker": marker, "color": colour, "label": labels.get(name, name)}
                if len(rows):
                    axis.loglog(rows["samples"], rows[column] / unit, **how)
        for axis, title in zip(axes, ("processor time (s)", "peak memory (GB)"), strict=True):
            axis.set(xlabel="samples", title=title)
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.grid(alpha=0.3)
        axes[0].axhline(CAP, color="0.5", linestyle=":", label="limit for the others")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(path)


def main(given):
    given.folder.mkdir(parents=True, exist_ok=True)
    csv = given.folder / "growth.csv"
    rows = pd.read_csv(csv).to_dict("records") if csv.exists() else []
    wanted = [(name, n, N_COMPONENTS) for n in SIZES for name in ("bjmd", *PEERS)]
    wanted += [("bjmd", N_FOR_COMPONENTS, k) for k in NUMBERS_OF_COMPONENTS]
    for name, n, k in dict.fromkeys(wanted):
        of_method = [row for row in rows if row["method"] == name]
        known = any((row["samples"], row["components"]) == (n, k) for row in of_method)
        stopped = any(np.isnan(row["cpu"]) for row in of_method)
        part = "components" if k != N_COMPONENTS else name
        if known or stopped or (given.only is not None and part not in given.only):
            continue
        path = given.folder / f"samples_{n}.h5ad"
        if not path.exists():
            million.generate(path, n)
        found = measured(name, path, k, given.peers_python)
        if found is not None:
            rows.append({"method": name, "samples": n, "components": k, **found})
            pd.DataFrame(rows).to_csv(csv, index=False, float_format="%.6g")
            taken = f"{found['cpu']:8.1f} s, {found['peak'] / 1e9:.2f} GB, {found['sweeps']} sweeps"
            end = f"stopped after {CAP} s" if np.isnan(found["cpu"]) else taken
            print(f"{name:13}{n:>9,} samples, K = {k:<3} {end}", flush=True)
    draw(pd.DataFrame(rows), given.folder / "growth.png")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], sys.argv[3])
        sys.exit()
    parser = argparse.ArgumentParser(
        description="Time and memory against the number of samples and components."
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=["bjmd", *PEERS, "components"])
    parser.add_argument(
        "--peers-python", default=sys.executable, help="the interpreter that runs the peers"
    )
    main(parser.parse_args())
