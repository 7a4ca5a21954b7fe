"""How do time and memory grow with the number of samples, for bjmd and its peers?

    python benchmarks/growth.py --folder FOLDER [--samples 1000000 ...]
        [--only bjmd NMF ...] [--peers-python PYTHON]

Writes .h5ad files of 1,000 to 1,000,000 samples x 2,000 features, 5 % not zero, with 20 components
to be found (0.8 GB for a million).  Fits them with every method's default tolerance and K = 20,
each in a process of its own: bjmd.tl.bjmd (one start, all cores) in memory and from disk,
scikit-learn's NMF and MiniBatchNMF on the sparse float32 matrix in memory, and mofapy2, which takes
dense data.
PYTHON may be the interpreter of another environment, with the peers and anndata.  A peer that
needs more than CAP seconds of processor time is stopped and gets no larger data.  FOLDER keeps the
files of data and growth.csv, so that a run that was broken off goes on; FOLDER/growth.png shows it.

wall, cpu  seconds by the clock and of the processor from opening the file to the result,
           compilation and imports aside
peak       largest resident memory of the process
found      mean of the largest correlation of every true component with a fitted one (bjmd)
"""

import argparse
import contextlib
import io
import itertools
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from harness import peak_memory, size

N_FEATURES = 2000
N_TRUE = 20
COUNTS_A_SAMPLE = 106
BLOCK = 50_000
SIZES = size((1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000), (300,))
OURS = ("bjmd", "bjmd on disk")
PEERS = ("NMF", "MiniBatchNMF", "mofapy2")
CAP = 120


def true_components():
    """How often each component uses each feature: a common background, and 60 of its own."""
    rng = np.random.default_rng(1)
    w = np.tile(rng.gamma(2.0, size=N_FEATURES), (N_TRUE, 1))
    for k in range(N_TRUE):
        w[k, rng.choice(N_FEATURES, 60, replace=False)] += rng.gamma(2.0, 10.0, 60)
    return w / w.sum(axis=1, keepdims=True)


def drawn(rng, upper, n):
    """n samples: counts of features from their components, as ln(1 + count)."""
    counts = rng.multinomial(COUNTS_A_SAMPLE, rng.dirichlet(np.full(N_TRUE, 0.1), n))
    component = np.repeat(np.tile(np.arange(N_TRUE), n), counts.ravel())
    feature = np.searchsorted(upper, component + rng.random(len(component))) % N_FEATURES
    sample = np.repeat(np.arange(n), COUNTS_A_SAMPLE)
    ones = np.ones(len(sample), np.float32)
    return scipy.sparse.coo_array((ones, (sample, feature)), (n, N_FEATURES)).tocsr().log1p()


def generate(path, n_samples):
    import anndata

    rng = np.random.default_rng(0)
    upper = (np.cumsum(true_components(), axis=1) + np.arange(N_TRUE)[:, None]).ravel()
    sizes = [min(BLOCK, n_samples - first) for first in range(0, n_samples, BLOCK)]
    x = scipy.sparse.vstack([drawn(rng, upper, n) for n in sizes], format="csr")
    anndata.AnnData(scipy.sparse.csr_matrix(x)).write_h5ad(path)


def fit_bjmd(path, backed):
    """A function that fits the file and returns sweeps and correlation."""
    import anndata

    import bjmd

    def fit(path=path, **options):
        adata = anndata.read_h5ad(path, backed=backed)
        bjmd.tl.bjmd(adata, N_TRUE, n_init=1, n_jobs=-1, **options)
        correlation = np.corrcoef(true_components(), adata.varm["bjmd"].T)
        between = correlation[:N_TRUE, N_TRUE:]
        reason = json.loads(adata.uns["bjmd"]["fit"]["run"])["reason"]
        sweeps = int(re.search("[0-9]+", reason)[0])  # "converged in sweep 15 (...)"
        return sweeps, float(between.max(axis=1).mean())

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore"):
        small = Path(folder, "small.h5ad")
        generate(small, 100)
        fit(small, max_iter=12)  # compiles

    return fit


def fit_sklearn(name, path):
    import anndata
    import sklearn.decomposition

    def fit():
        model = getattr(sklearn.decomposition, name)(N_TRUE, random_state=0)
        model.fit_transform(anndata.read_h5ad(path).X)
        return model.n_iter_, np.nan

    return fit


def fit_mofa(path):
    import anndata
    from mofapy2.run.entry_point import entry_point

    def fit():
        model = entry_point()
        model.set_data_matrix([[anndata.read_h5ad(path).X.toarray()]])
        model.set_model_options(factors=N_TRUE)
        model.set_train_options(seed=0, quiet=True)
        model.build()
        model.run()
        return len(model.model.getTrainingStats()["elbo"]), np.nan

    return fit


def fit_one(name, path):
    """In a process of its own: what is measured, as JSON."""
    from threadpoolctl import threadpool_limits

    if name in OURS:
        fit = fit_bjmd(path, backed="r" if name == "bjmd on disk" else None)
    else:
        fit = fit_mofa(path) if name == "mofapy2" else fit_sklearn(name, path)
        cap = CAP + int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (cap, resource.RLIM_INFINITY))
    # BLAS threads that wait for each other take processor time too
    quiet = warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO())
    with threadpool_limits(1), quiet[0], quiet[1]:
        wall = time.perf_counter()
        cpu = time.process_time()
        n_sweeps, correlation = fit()
        cpu = time.process_time() - cpu
        wall = time.perf_counter() - wall
    measured = {"wall": wall, "cpu": cpu, "peak": peak_memory(), "sweeps": n_sweeps}
    print(json.dumps(measured | {"found": correlation}))


def measured(name, path, python):
    """What one fit takes; NaN where it was stopped, None where the peer is not installed."""
    python = sys.executable if name in OURS else python
    command = [python, __file__, "--one", name, path]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == -signal.SIGXCPU:
        return dict.fromkeys(("wall", "cpu", "peak", "sweeps", "found"), np.nan)
    if "No module named" in run.stderr:
        print(f"{name} is not installed, so it is left out")
        return None
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def draw(table, path):
    """Time and memory against the number of samples."""
    import matplotlib.pyplot as plt

    from bjmd.report.figures import COLOURS, MARKERS, STYLE

    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 1, figsize=(4.4, 5), layout="constrained")
        for name, colour, marker in zip((*OURS, *PEERS), COLOURS, MARKERS, strict=False):
            rows = table[table["method"] == name].sort_values("samples")
            if rows.empty:
                continue
            for axis, column, unit in zip(axes, ("cpu", "peak"), (1, 1e9), strict=True):
                values = rows[column] / unit
                axis.loglog(rows["samples"], values, marker=marker, color=colour, label=name)
        axes[1].set_yscale("log", base=2)
        for axis, title in zip(axes, ("processor time (s)", "peak memory (GB)"), strict=True):
            axis.set(xlabel="samples", title=title)
            axis.grid(alpha=0.3)
            axis.yaxis.set_major_formatter("{x:g}")
        axes[0].axhline(CAP, color="0.5", linestyle=":", label="limit for the others")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.savefig(path)


def main(folder, sizes, methods, peers_python):
    folder.mkdir(parents=True, exist_ok=True)
    csv = folder / "growth.csv"
    rows = pd.read_csv(csv).to_dict("records") if csv.exists() else []
    for n, name in itertools.product(sizes, methods):
        path = folder / f"samples_{n}.h5ad"
        case = {"method": name, "samples": n}
        known = any(one.items() >= case.items() for one in rows)
        stopped = any(one["method"] == name and np.isnan(one["cpu"]) for one in rows)
        if known or stopped:
            continue
        if not path.exists():
            generate(path, n)
        taken = measured(name, path, peers_python)
        if taken is None:
            continue
        rows.append(case | taken)
        pd.DataFrame(rows).to_csv(csv, index=False, float_format="%.6g")
        print(rows[-1], flush=True)
    draw(pd.DataFrame(rows), folder / "growth.png")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fit_one(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(
            description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--samples", type=int, nargs="+", default=SIZES)
        parser.add_argument("--only", nargs="+", choices=[*OURS, *PEERS], default=[*OURS, *PEERS])
        parser.add_argument("--peers-python", default=sys.executable)
        given = parser.parse_args()
        main(given.folder, given.samples, given.only, given.peers_python)
