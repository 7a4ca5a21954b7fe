"""How does BJMD compare with other tools that integrate cohorts, on real data?

    pip install mofapy2 cnmf
    python benchmarks/peers.py [--data bladder pbmc ...] [--methods bjmd mofa ...] [--restarts 4]

docs/comparison.md shows the outcome.  BJMD_DATA names a folder with the paper's data (docs/data.md)
and, in cohorts/, bladderbatch.npz and pbmc-interferon-counts.npz.  Data that are not there are left
out, and so are MOFA+ and cNMF without their packages.

Every method runs in a process of its own on one thread, with the same number of random starts, of
which its own objective chooses one.  A small fit comes first, so that nothing is compiled in the
time that counts.  Rows go to build/peers.tsv as they come; those that are there already are not run
again.

auc         mean over classes of the best AUC that any component has
matched     the same, each class with a component of its own
ari, nmi    of the grouping by the strongest component
ari_kmeans  of the grouping by k-means on all memberships
mixing      share of the 15 nearest neighbours from other sources, relative to chance
transfer    balanced accuracy of classes predicted from the other sources, in percent
cpu         seconds of the processor, all starts
peak        resident memory above that before the data came, in MB

All are means over sources.  Factors of MOFA+ have no sign, so both ends of a factor count as
components.  Memberships of NMF and its kin are for components that sum to one; AUC is the better of
two, of memberships as they are and scaled to sum to one, and everything else is of scaled ones.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from harness import fits_from_starts, real_data, size

from bjmd import Sources
from bjmd_paper import metric
from bjmd_paper.nonnegative import nonnegative

TABLE = Path(size("build/peers.tsv", "build/peers-quick.tsv"))
DIGITS = {
    "auc": 1,
    "matched": 1,
    "ari": 2,
    "nmi": 2,
    "ari_kmeans": 2,
    "mixing": 2,
    "transfer": 1,
    "cpu": 1,
    "peak": 0,
}
"""What is measured, and how many digits of it are shown."""
CELLS = 300
PEOPLE = 6
"""Cells of each source, and people of Yale B, drawn at random; all of them would take hours."""
FEW = dict.fromkeys(("3sources", "3sources-depth", "yale-b", "pbmc"), 0.5)
"""Share of the restarts on the large data."""


def three_sources():
    return available("3sources"), 6


def three_sources_depth():
    """The same with equal totals of all stories and log(1 + counts), as docs/options.md advises."""
    sources, k = three_sources()
    totals = [x.sum(axis=0) for x in sources.matrices]
    usual = np.median(np.concatenate(totals))
    matrices = [
        x @ scipy.sparse.diags_array(usual / n)
        for x, n in zip(sources.matrices, totals, strict=True)
    ]
    return sources.replace(matrices=[scipy.sparse.csc_array(x).log1p() for x in matrices]), k


def metabric():
    return available("metabric-489"), 5


def yale():
    """Six of the 38 people under two kinds of light."""
    sources = available("yale-b")
    people = np.sort(np.random.default_rng(0).choice(len(sources.labels[0]), PEOPLE, replace=False))
    kept = [labels[people].any(axis=0) for labels in sources.labels]
    labels = [
        block[people][:, columns] for block, columns in zip(sources.labels, kept, strict=True)
    ]
    return Sources(
        [x[:, c] for x, c in zip(sources.matrices, kept, strict=True)], labels=labels
    ), PEOPLE


def bladder():
    """Logarithms of intensities of 57 samples in five batches."""
    stored = np.load(cohort("bladderbatch.npz"))
    return grouped(stored["X"].T.astype(float), stored["source"], stored["y"]), 5


def pbmc():
    """Blood cells with and without interferon, log(1 + counts by depth)."""
    counts, total, source, y = cells()
    x = scipy.sparse.csc_array(counts @ scipy.sparse.diags_array(1e4 / total))
    x.data = np.log1p(x.data)
    return grouped(x, source, np.where(y == "unclear", "", y)), 8


def cell_counts():
    """Counts by source, as `grouped` has them."""
    counts, _, source, _ = cells()
    return [counts[:, np.flatnonzero(source == name)] for name in np.unique(source)]


def cells():
    """Counts (genes x cells), depth, source and type of the cells drawn."""
    stored = np.load(cohort("pbmc-interferon-counts.npz"))
    parts = (stored["data"], stored["indices"], stored["indptr"])
    counts = scipy.sparse.csr_array(parts, shape=tuple(stored["shape"])).astype(float)
    rng = np.random.default_rng(0)
    source = stored["source"]
    drawn = [
        rng.choice(np.flatnonzero(source == name), CELLS, replace=False)
        for name in np.unique(source)
    ]
    drawn = np.sort(np.concatenate(drawn))
    return (
        scipy.sparse.csc_array(counts[drawn].T),
        stored["total"][drawn],
        source[drawn],
        stored["y"][drawn],
    )


def cohort(name):
    return Path(os.environ["BJMD_DATA"], "cohorts", name)


def available(name):
    sources = real_data(name)
    if sources is None:
        raise FileNotFoundError(name)
    return sources


def grouped(x, source, y):
    """Columns of x by source; a sample of class "" has none."""
    classes = [name for name in np.unique(y) if name]
    groups = [np.flatnonzero(source == name) for name in np.unique(source)]
    labels = [np.array([y[group] == name for name in classes]) for group in groups]
    return Sources([x[:, group] for group in groups], labels=labels, class_names=classes)


DATA = {
    "bladder": bladder,
    "metabric-489": metabric,
    "3sources": three_sources,
    "3sources-depth": three_sources_depth,
    "yale-b": yale,
    "pbmc": pbmc,
}
SHIFTED = {"metabric-489"}
"""Z-scores, of which some are negative: for NMF every feature is moved up by its smallest value."""


def best(method, sources, k, n, **options):
    return fits_from_starts(method, sources, k, n, **options)[0]


def bjmd(sources, k, n, data, **options):
    return best("cavi-bjmd", sources, k, n, **options).memberships, ""


def bjmd_offsets(sources, k, n, data):
    return bjmd(sources, k, n, data, offsets=True)


def bjmd_learned(sources, k, n, data):
    """The Dirichlet of every source is learned, so that a component may be rare or common there."""
    return bjmd(sources, k, n, data, alpha0="learned")


def pooled(sources, k, n, data):
    return best("cavi-catbjmd", sources, k, n).memberships, ""


def inmf(sources, k, n, data):
    """iNMF of the same data as NMF gets."""
    result = best("inmf", without_negatives(sources, data), k, n)
    return of_unit_components(result.components, result.memberships), ""


def liger(sources, k, n, data):
    """iNMF as LIGER runs it: counts by depth without logarithm, features of unit root mean square
    in every source, and quantiles of the memberships aligned between sources.
    """
    matrices = without_negatives(sources, data).matrices
    if data == "pbmc":
        matrices = [scipy.sparse.csc_array(np.expm1(x)) for x in sources.matrices]
    scale = [
        np.sqrt(
            np.asarray(
                x.multiply(x).mean(axis=1) if scipy.sparse.issparse(x) else (x**2).mean(axis=1)
            )
        )
        for x in matrices
    ]
    scale = [np.where(s > 0, 1 / np.where(s > 0, s, 1), 0) for s in scale]
    scaled = [scipy.sparse.diags_array(s) @ x for s, x in zip(scale, matrices, strict=True)]
    return quantile_aligned(best("inmf", Sources(scaled), k, n).memberships), ""


def quantile_aligned(memberships, n_neighbours=20, n_quantiles=50, fewest=20):
    """What LIGER does last: within the samples whose strongest factor is the same, every factor of
    a source gets the quantiles that it has in the largest source.  The strongest factor of a sample
    is put to the vote of its neighbours.
    """
    from sklearn.neighbors import NearestNeighbors

    unit = [h / np.maximum(np.sqrt((h**2).mean(axis=1, keepdims=True)), 1e-12) for h in memberships]
    groups = []
    for h in unit:
        near = (
            NearestNeighbors(n_neighbors=min(n_neighbours, h.shape[1]))
            .fit(h.T)
            .kneighbors(h.T, return_distance=False)
        )
        votes = np.eye(len(h))[h.argmax(axis=0)[near]].sum(axis=1)
        groups.append(votes.argmax(axis=1))
    reference = int(np.argmax([h.shape[1] for h in unit]))
    at = np.linspace(0, 1, n_quantiles)
    for c, h in enumerate(unit):
        for g in range(len(h)):
            ours = groups[c] == g
            theirs = groups[reference] == g
            if c != reference and min(ours.sum(), theirs.sum()) >= fewest:
                for row, goal in zip(h, unit[reference], strict=True):
                    row[ours] = np.interp(
                        row[ours], np.quantile(row[ours], at), np.quantile(goal[theirs], at)
                    )
    return unit


def nmf(sources, k, n, data):
    """scikit-learn's, of all samples."""
    x = side_by_side(without_negatives(sources, data))
    w, h = min((one_nmf(x, k, seed) for seed in range(n)), key=lambda found: found[0])[1:]
    return of_unit_components(h.T, sources.split(w.T)), ""


def one_nmf(x, k, seed):
    """Error, memberships (samples x K) and components (K x features) from one random start."""
    from sklearn.decomposition import NMF

    model = NMF(k, init="random", tol=1e-4, max_iter=1000, random_state=seed)
    w = model.fit_transform(x)
    return model.reconstruction_err_, w, model.components_


def cnmf(sources, k, n, data):
    """The package cnmf: features of unit variance; NMF from many starts, five times as many as the
    others have, because it needs many; the median of every cluster of alike components; memberships
    by non-negative least squares in those.
    """
    import anndata
    from cnmf import cNMF

    counts = data == "pbmc"  # which it wants as they are, and makes its own of
    x = side_by_side(
        sources.replace(matrices=cell_counts()) if counts else without_negatives(sources, data)
    )
    varies = np.flatnonzero(np.ptp(x.toarray() if scipy.sparse.issparse(x) else x, axis=0) > 0)
    table = anndata.AnnData(
        scipy.sparse.csr_matrix(x[:, varies]) if scipy.sparse.issparse(x) else x[:, varies]
    )
    table.obs_names = [
        f"sample{j}" for j in range(table.n_obs)
    ]  # whole numbers would not come back as text
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/cells.h5ad"
        genes = Path(folder, "genes.txt")
        table.write_h5ad(file)
        genes.write_text("\n".join(table.var_names))
        model = cNMF(output_dir=folder, name="cnmf")
        given = {} if counts else {"tpm_fn": file}
        model.prepare(file, components=[k], n_iter=5 * n, seed=0, genes_file=str(genes), **given)
        model.factorize(worker_i=0, total_workers=1)
        model.combine()
        for alike in (0.5, 2.0):  # its default, or without its filter where that leaves too little
            with contextlib.suppress(Exception):
                model.consensus(k, density_threshold=alike, show_clustering=False)
                usage = model.load_results(K=k, density_threshold=alike, norm_usage=False)[0]
                return sources.split(
                    usage.loc[table.obs_names].to_numpy().T
                ), f"density threshold {alike:g}"
    raise RuntimeError("no consensus")


def mofa(sources, k, n, data):
    """One view, sources as groups; features are centred in every group, which is what MOFA+ does by
    default.
    """
    from mofapy2.run.entry_point import entry_point

    found = []
    for seed in range(n):
        model = entry_point()
        model.set_data_options(scale_groups=False, scale_views=False)
        model.set_data_matrix(
            [[x.T.copy() for x in dense(sources).matrices]], likelihoods=["gaussian"]
        )
        model.set_model_options(
            factors=k, ard_factors=True, ard_weights=True, spikeslab_weights=True
        )
        model.set_train_options(iter=1000, seed=seed, quiet=True, dropR2=None)
        model.build()
        model.run()
        found.append(
            (-model.model.getTrainingStats()["elbo"][-1], model.model.nodes["Z"].getExpectation().T)
        )
    return sources.split(min(found, key=lambda one: one[0])[1]), ""


METHODS = {
    "bjmd": ("BJMD", bjmd),
    "bjmd-offsets": ("BJMD with offsets", bjmd_offsets),
    "bjmd-learned": ("BJMD, alpha0 learned", bjmd_learned),
    "pooled": ("BJMD, samples pooled", pooled),
    "inmf": ("iNMF", inmf),
    "liger": ("iNMF as in LIGER", liger),
    "mofa": ("MOFA+", mofa),
    "cnmf": ("cNMF", cnmf),
    "nmf": ("NMF, samples pooled", nmf),
}


def without_negatives(sources, data):
    return nonnegative(sources, "shift" if data in SHIFTED else "as-is")


def dense(sources):
    return sources.replace(
        matrices=[x.toarray() if scipy.sparse.issparse(x) else x for x in sources.matrices]
    )


def side_by_side(sources):
    """All samples in rows."""
    (x,) = sources.concatenated().matrices
    return scipy.sparse.csr_array(x.T) if scipy.sparse.issparse(x) else np.ascontiguousarray(x.T)


def of_unit_components(components, memberships):
    """Memberships for components that sum to one."""
    return [h * components.sum(axis=0)[:, None] for h in memberships]


def scores(memberships, labels):
    """The measures, means over sources."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    if min(h.min() for h in memberships) < 0:
        plain = scaled = memberships
        ends = [np.vstack([h, -h]) for h in memberships]
    else:
        plain = memberships
        scaled = metric.scaled(memberships)
        ends = scaled
    with warnings.catch_warnings(action="ignore"):
        ways = [plain, scaled] if ends is scaled else [ends]
        auc = [
            [metric.auc_per_source(h, labels, f) for f in (None, metric.matched_per_class)]
            for h in ways
        ]
    auc = 100 * np.nanmean(auc, axis=2).max(axis=0)
    ari, nmi = np.nanmean(metric.strongest(ends, labels), axis=1)
    groups = KMeans(len(scaled[0]), n_init=10, random_state=0).fit_predict(np.hstack(scaled).T)
    by_kmeans = []
    for block, group in zip(
        labels, np.split(groups, np.cumsum([h.shape[1] for h in scaled])[:-1]), strict=True
    ):
        one = block.sum(axis=0) == 1
        if block[:, one].any(axis=1).sum() > 1:
            by_kmeans.append(adjusted_rand_score(block[:, one].argmax(axis=0), group[one]))
    transfer = 100 * np.nanmean(metric.transferred(scaled, labels))
    measured = (*auc, ari, nmi, np.mean(by_kmeans), np.mean(metric.mixing(scaled)), transfer)
    return dict(zip(DIGITS, measured, strict=False))


def resident(kind):
    """VmRSS or, at most so far, VmHWM of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


def run_one(data, method, n_restarts):
    """In a process of its own: a row as JSON."""
    function = METHODS[method][1]
    rng = np.random.default_rng(0)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(action="ignore"):
        toy = [np.exp(rng.standard_normal((30, 40))) for _ in range(2)]
        wrap = (
            scipy.sparse.csc_array if data in ("3sources", "3sources-depth", "pbmc") else np.asarray
        )
        function(Sources([wrap(x) for x in toy]), 3, 2, "toy")
        before = resident("VmRSS")
        sources, k = DATA[data]()
        started = time.process_time()
        memberships, note = function(sources, k, n_restarts, data)
        cpu = time.process_time() - started
        peak = resident("VmHWM") - before
        row = scores(memberships, sources.labels) | {
            "cpu": cpu,
            "peak": peak,
            "restarts": n_restarts,
            "note": note,
        }
    print(json.dumps(row))


def main(data, methods, n_restarts):
    TABLE.parent.mkdir(exist_ok=True)
    done = pd.read_csv(TABLE, sep="\t", keep_default_na=False) if TABLE.exists() else pd.DataFrame()
    for one in data:
        try:
            sources, k = DATA[one]()
        except (OSError, KeyError) as error:
            print(f"{one} is left out: {error}")
            continue
        print(f"\n{one}: {sources}, K = {k}", flush=True)
        for method in methods:
            if len(done) and ((done["data"] == one) & (done["method"] == method)).any():
                continue
            n = max(1, round(n_restarts * FEW.get(one, 1)))
            command = [sys.executable, __file__, "--one", one, method, str(n)]
            one_thread = dict.fromkeys(
                ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BJMD_THREADS"), "1"
            )
            answer = subprocess.run(
                command, env=os.environ | one_thread, capture_output=True, text=True
            )
            if answer.returncode:
                print(f"{method}: {answer.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            row = {"data": one, "method": method} | json.loads(answer.stdout.splitlines()[-1])
            done = pd.concat([done, pd.DataFrame([row])], ignore_index=True)
            done.to_csv(TABLE, sep="\t", index=False, float_format="%.6g")
            print(
                {name: round(v, 3) if isinstance(v, float) else v for name, v in row.items()},
                flush=True,
            )
    print_tables(done)


def print_tables(done):
    """The best method of every measure and data set, with BJMD's value; a table a data set."""
    labels = {method: label for method, (label, _) in METHODS.items()}
    tables = {data: rows.set_index("method") for data, rows in done.groupby("data", sort=False)}
    tables = {data: tables[data] for data in DATA if data in tables}
    print(f"\n| | {' | '.join(tables)} |\n|---{'|---' * len(tables)}|")
    for name, digits in DIGITS.items():
        cells = []
        for rows in tables.values():
            values = rows[name].astype(float).round(digits)
            best = values.min() if name in ("cpu", "peak") else values.max()
            winners = [labels[method] for method in METHODS if values.get(method) == best]
            ours = f"; BJMD {values['bjmd']:.{digits}f}" if values.get("bjmd", best) != best else ""
            winner = winners[0] if len(winners) == 1 else f"{len(winners)} of them"
            cells.append(f"{winner} {best:.{digits}f}{ours}")
        print(f"| {name} | {' | '.join(cells)} |")
    for data, rows in tables.items():
        print(f"\n{data}, {rows['restarts'].iloc[0]} starts\n\n| method | {' | '.join(DIGITS)} |")
        print("|---" * (len(DIGITS) + 1) + "|")
        for method in (method for method in METHODS if method in rows.index):
            values = (f"{rows.loc[method, name]:.{digits}f}" for name, digits in DIGITS.items())
            print(f"| {labels[method]} | {' | '.join(values)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif "BJMD_DATA" not in os.environ:
        print("BJMD_DATA names no folder of data, so there is nothing to compare")
    else:
        parser = argparse.ArgumentParser(description="BJMD beside its peers on real data.")
        names = size([*DATA], ["bladder"])
        parser.add_argument("--data", nargs="+", choices=DATA, default=names)
        parser.add_argument("--methods", nargs="+", choices=METHODS, default=None)
        parser.add_argument("--restarts", type=int, default=size(4, 1))
        arguments = parser.parse_args()
        packages = {"mofa": "mofapy2", "cnmf": "cnmf"}
        there = [m for m in METHODS if m not in packages or importlib.util.find_spec(packages[m])]
        methods = arguments.methods or there
        main(arguments.data, methods, arguments.restarts)
