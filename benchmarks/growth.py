"""Time and memory against the number of samples, for bjmd and its peers, and of bjmd against K.

    python benchmarks/growth.py --folder FOLDER [--most 100000] [--only bjmd NMF MiniBatchNMF mofapy2 components]

Fits the data of million.py, 2,000 features, 5 % not zero, with K = 20 and every method's default tolerance, each in a
process of its own: bjmd (cavi-bjmd) from disk, scikit-learn's NMF and MiniBatchNMF on the sparse float32 matrix in
memory, and mofapy2, which takes dense data and is skipped where it is not installed.  `components` fits 10,000 samples
with K from 5 to 80.  Files of data are kept in FOLDER, and what is measured in FOLDER/growth.csv: a run that was broken
off goes on where it was.  FOLDER/growth.png shows time and memory against the number of samples.

cpu    seconds of the processor from opening the file to the result, compilation and imports aside
peak   largest resident memory of the process
"""

import argparse
import contextlib
import io
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path

import million
import numpy as np
import pandas as pd

N_COMPONENTS, SIZES = 20, (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
MOST = {"bjmd": 1_000_000, "NMF": 100_000, "MiniBatchNMF": 100_000, "mofapy2": 3_000}
"""The most samples that each can be asked for in reasonable time."""
NUMBERS_OF_COMPONENTS, N_FOR_COMPONENTS = (5, 10, 20, 40, 80), 10_000


def peer(name, path):
    """One fit of a peer, in a process of its own: what is measured as JSON."""
    import anndata

    if name == "mofapy2":
        from mofapy2.run.entry_point import entry_point
    else:
        import sklearn.decomposition
    wall, processor = time.perf_counter(), time.process_time()
    x = anndata.read_h5ad(path).X
    with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        if name == "mofapy2":
            model = entry_point()
            model.set_data_matrix([[x.toarray()]])
            model.set_model_options(factors=N_COMPONENTS)
            model.set_train_options(seed=0, quiet=True)
            model.build()
            model.run()
            n_sweeps = int(np.isfinite(model.model.getTrainingStats()["elbo"]).sum())
        else:
            model = getattr(sklearn.decomposition, name)(N_COMPONENTS, random_state=0)
            model.fit_transform(x)
            n_sweeps = model.n_iter_
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(json.dumps({"wall": wall, "cpu": processor, "peak": million.peak_memory(), "sweeps": n_sweeps}))


def measured(name, path, n_components):
    if name == "bjmd":
        found = million.run(path, n_components)
        return {key: found[key] for key in ("wall", "cpu", "peak", "sweeps")}
    run = subprocess.run([sys.executable, __file__, "--peer", name, path], capture_output=True, text=True)
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

    labels = {"bjmd": "bjmd, from disk", "NMF": "scikit-learn NMF", "MiniBatchNMF": "scikit-learn MiniBatchNMF"}
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
        for name, colour, marker in zip(MOST, COLOURS, MARKERS, strict=False):
            rows = table[(table["method"] == name) & (table["components"] == N_COMPONENTS)].sort_values("samples")
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
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(MOST))
        figure.savefig(path)


def main(given):
    given.folder.mkdir(parents=True, exist_ok=True)
    csv = given.folder / "growth.csv"
    rows = pd.read_csv(csv).to_dict("records") if csv.exists() else []
    wanted = [(name, n, N_COMPONENTS) for n in SIZES for name in MOST if n <= min(MOST[name], given.most)]
    wanted += [("bjmd", N_FOR_COMPONENTS, k) for k in NUMBERS_OF_COMPONENTS]
    for name, n, k in dict.fromkeys(wanted):
        part = "components" if k != N_COMPONENTS else name
        asked = given.only is None or part in given.only
        if not asked or any((row["method"], row["samples"], row["components"]) == (name, n, k) for row in rows):
            continue
        path = given.folder / f"samples_{n}.h5ad"
        if not path.exists():
            million.generate(path, n)
        found = measured(name, path, k)
        if found is not None:
            rows.append({"method": name, "samples": n, "components": k, **found})
            pd.DataFrame(rows).to_csv(csv, index=False, float_format="%.6g")
            print(
                f"{name:13}{n:>9,} samples, K = {k:<3} {found['cpu']:8.1f} s, {found['peak'] / 1e9:.2f} GB", flush=True
            )
    draw(pd.DataFrame(rows), given.folder / "growth.png")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], sys.argv[3])
        sys.exit()
    parser = argparse.ArgumentParser(description="Time and memory against the number of samples and components.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--most", type=int, default=1_000_000, help="samples at most (default: a million)")
    parser.add_argument("--only", nargs="+", choices=[*MOST, "components"])
    main(parser.parse_args())
