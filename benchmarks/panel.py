"""A panel of labelled data that every change of a default has to pass, beside other tools.

    python benchmarks/panel.py [--data bladder pbmc ...] [--methods default nmf ...] [--sets 2]

BJMD_DATA names a folder with the data of docs/data.md, the files of sc_mixology in mixology/ and,
in cohorts/, bladderbatch.npz, enterotype.npz, khan-srbct.npz and pbmc-interferon-counts.npz.  Data
that are not there are left out, and so are MOFA+, cNMF and Harmony without their packages (pip
install mofapy2 cnmf harmonypy).  Every data set is fitted with several numbers of components by
every method from the same number of random starts, of which the method's own objective chooses one.
Rows go to build/panel.tsv as they come; those that are there already are not run again.

auc         mean over classes of the best AUC that any component has, in percent
ari         of the grouping by the component that contributes most to a sample
transfer    balanced accuracy of classes predicted from the other sources, in percent
mixing      share of the 15 nearest neighbours from other sources, relative to chance
error       mean absolute error of the shares of known mixtures, x 100
between     share of the variance of memberships that lies between sources
seconds     of the processor, all starts
megabytes   the most memory that the starts needed beyond the data

The first four are means over sources.  Factors of MOFA+ and Harmony have no sign, so both ends of a
factor count as components.  Memberships of NMF and its kin are for components that sum to one; AUC
is the better of two, of memberships as they are and scaled to sum to one, and everything else is of
scaled ones.  Where data have negative entries, NMF and its kin get them cut off at zero (synthetic
data) or every feature moved up by its smallest value (the others).
"""

import argparse
import contextlib
import importlib.util
import itertools
import os
import tempfile
import time
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
from harness import header, paper_data, peak_memory, real_data, row, size
from threadpoolctl import threadpool_limits

from bjmd import Sources, fit
from bjmd.analysis import ranking
from bjmd.analysis.associations import mixing
from bjmd.analysis.check import check
from bjmd.analysis.variance import between_sources
from bjmd.data.view import centre
from bjmd_paper import metric, shares
from bjmd_paper.datasets.real import mixology
from bjmd_paper.nonnegative import nonnegative

TABLE = Path(size("build/panel.tsv", "build/panel-quick.tsv"))
DIGITS = {
    "auc": 1,
    "ari": 2,
    "transfer": 1,
    "mixing": 2,
    "error": 1,
    "between": 2,
    "seconds": 1,
    "megabytes": 0,
}
"""What is measured, and how many digits of it are shown."""
CELLS = 2000
"""Cells of each source, drawn at random."""


def three_sources_depth():
    """3Sources with equal totals of all stories and log(1 + counts)."""
    sources = available("3sources")
    totals = [x.sum(axis=0) for x in sources.matrices]
    usual = np.median(np.concatenate(totals))
    matrices = [
        x @ scipy.sparse.diags_array(usual / n)
        for x, n in zip(sources.matrices, totals, strict=True)
    ]
    return sources.replace(matrices=[scipy.sparse.csc_array(x).log1p() for x in matrices])


def stored_cohort(file):
    """Features x samples by source from an .npz with X, source and y."""
    stored = np.load(cohort(file))
    return grouped(stored["X"].T.astype(float), stored["source"], stored["y"])


def mixtures():
    """RNA mixtures in four amounts, with the true shares."""
    sources = available("mixology")
    return sources, mixology.shares(Path(os.environ["BJMD_DATA"], "mixology")).to_numpy().T


def all_mixtures():
    """RNA mixtures, wells of nine cells on four plates and single cells, nine sources in all."""
    folder = Path(os.environ["BJMD_DATA"], "mixology")
    lines = list(mixology.CELL_LINES)
    counts, samples = mixology.read_tables(folder, "RNAmix_celseq2")
    true = mixology.shares(folder)
    parts = [
        (counts[names], true.loc[names].to_numpy().T)
        for names in samples.groupby("mRNA_amount").groups.values()
    ]
    for plate in range(1, 5):
        counts, wells = mixology.read_tables(folder, f"cellmix{plate}")
        if "poor_quality" in wells:
            wells = wells[wells["poor_quality"] != "YES"]
        wells = wells[wells[lines].sum(axis=1) > 0]
        cells_of_lines = wells[lines].to_numpy(float).T
        parts.append((counts[wells.index], cells_of_lines / cells_of_lines.sum(axis=0)))
    counts, single = mixology.read_tables(folder, "sc_celseq2")
    single = single[single["demuxlet_cls"] == "SNG"]
    of_line = [single["cell_line_demuxlet"] == line for line in lines]
    parts.append((counts[single.index], np.array(of_line, dtype=float)))
    genes = parts[0][0].index
    for counts, _ in parts:
        genes = genes.intersection(counts.index, sort=False)
    blocks = [mixology.log_normalised(counts.loc[genes]).to_numpy() for counts, _ in parts]
    # within the sources: over all samples, genes that tell the kinds of samples apart would win
    variances = np.mean([block.var(axis=1) for block in blocks], axis=0)
    kept = np.sort(np.argsort(-variances, kind="stable")[: mixology.N_GENES])
    true = [block for _, block in parts]
    labels = [mixology.dominant(block) for block in true]
    return Sources([block[kept] for block in blocks], labels=labels), np.hstack(true)


def shifted():
    """The small synthetic data with source 2 shifted by sd 1 in every feature."""
    sources = paper_data().sources
    matrices = list(sources.matrices)
    matrices[1] = matrices[1] + np.random.default_rng(0).standard_normal((len(matrices[1]), 1))
    return sources.replace(matrices=matrices)


def pbmc():
    """Blood cells with and without interferon, log(1 + counts by depth)."""
    counts, total, source, y = cells()
    x = scipy.sparse.csc_array(counts @ scipy.sparse.diags_array(1e4 / total))
    x.data = np.log1p(x.data)
    return grouped(x, source, np.where(y == "unclear", "", y))


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
    "small": (lambda: paper_data().sources, (5,)),
    "small-shifted": (shifted, (5,)),
    "mixology": (mixtures, (3,)),
    "mixology-all": (all_mixtures, (3,)),
    "bladder": (partial(stored_cohort, "bladderbatch.npz"), (3, 5, 8)),
    "khan": (partial(stored_cohort, "khan-srbct.npz"), (4, 6, 10)),
    "enterotype": (partial(stored_cohort, "enterotype.npz"), (2, 3, 5)),
    "metabric-489": (partial(available, "metabric-489"), (5, 10)),
    "3sources": (partial(available, "3sources"), (6, 10)),
    "3sources-depth": (three_sources_depth, (6, 10)),
    "pbmc": (pbmc, (8, 15)),
    "yale-b": (partial(available, "yale-b"), (38,)),
}
"""Name -> a function that returns the sources, perhaps with true shares, and numbers of components.
"""


def best(method, sources, k, seeds, **options):
    """The fit of lowest objective."""
    fits = [fit(method, sources, k, seed, **options) for seed in seeds]
    return min(fits, key=lambda result: result.objective)


def contributions(result):
    return [ranking.distances(result)[:, None] * h for h in result.memberships]


def bjmd(sources, k, seeds, data, method="cavi-bjmd", **options):
    result = best(method, sources, k, seeds, **options)
    noise = " ".join(f"{sd:.3g}" for sd in result.noise)
    return result.memberships, contributions(result), f"noise {noise}"


def fixed(sources, k, seeds, data):
    """Priors that learn nothing from the data except their unit, and no offsets."""
    unit, _ = centre(sources)
    return bjmd(sources, k, seeds, data, alpha0=1.1, lambda_=1.5 * unit, offsets=False)


def advised(sources, k, seeds, data):
    """What the check recommends, or the default where it recommends nothing."""
    result = best("cavi-bjmd", sources, k, seeds)
    recommended = check(sources, result).recommended
    if not recommended:
        return result.memberships, contributions(result), "nothing advised"
    memberships, contributed, _ = bjmd(sources, k, seeds, data, **recommended)
    return memberships, contributed, str(recommended)


def inmf(sources, k, seeds, data):
    """iNMF of the same data as NMF gets."""
    result = best("inmf", without_negatives(sources, data), k, seeds)
    return parts(metric.of_unit_components(result.memberships, result.components))


def liger(sources, k, seeds, data):
    """iNMF as LIGER runs it: counts by depth without logarithm, features of unit root mean square
    in every source, and quantiles of the memberships aligned between sources.
    """
    matrices = without_negatives(sources, data).matrices
    if data == "pbmc":
        matrices = [scipy.sparse.csc_array(np.expm1(x)) for x in sources.matrices]
    squares = [np.asarray((x * x).mean(axis=1)) for x in matrices]
    scales = [np.where(square > 0, square, np.inf) ** -0.5 for square in squares]
    scaled = [scipy.sparse.diags_array(s) @ x for s, x in zip(scales, matrices, strict=True)]
    return parts(quantile_aligned(best("inmf", Sources(scaled), k, seeds).memberships))


def quantile_aligned(memberships, n_neighbours=20, n_quantiles=50, fewest=20):
    """What LIGER does last: within the samples whose strongest factor is the same, every factor of
    a source gets the quantiles that it has in the largest source.  The strongest factor of a sample
    is put to the vote of its neighbours.
    """
    from sklearn.neighbors import NearestNeighbors

    unit = [h / np.maximum(np.sqrt((h**2).mean(axis=1, keepdims=True)), 1e-12) for h in memberships]
    groups = []
    for h in unit:
        neighbours = NearestNeighbors(n_neighbors=min(n_neighbours, h.shape[1])).fit(h.T)
        near = neighbours.kneighbors(h.T, return_distance=False)
        votes = np.eye(len(h))[h.argmax(axis=0)[near]].sum(axis=1)
        groups.append(votes.argmax(axis=1))
    reference = int(np.argmax([h.shape[1] for h in unit]))
    at = np.linspace(0, 1, n_quantiles)
    for c, h in enumerate(unit):
        for g in range(len(h)):
            ours = groups[c] == g
            theirs = groups[reference] == g
            if c == reference or min(ours.sum(), theirs.sum()) < fewest:
                continue
            for factor, goal in zip(h, unit[reference], strict=True):
                quantiles = np.quantile(goal[theirs], at)
                factor[ours] = np.interp(factor[ours], np.quantile(factor[ours], at), quantiles)
    return unit


def nmf(sources, k, seeds, data):
    """scikit-learn's, of all samples."""
    from sklearn.decomposition import NMF

    x = side_by_side(without_negatives(sources, data))
    found = []
    for seed in seeds:
        model = NMF(k, init="random", tol=1e-4, max_iter=1000, random_state=seed)
        memberships = model.fit_transform(x)
        found.append((model.reconstruction_err_, model.components_, memberships))
    _, components, memberships = min(found, key=lambda one: one[0])
    return parts(metric.of_unit_components(sources.split(memberships.T), components.T))


def cnmf(sources, k, seeds, data):
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
    # whole numbers would not come back as text
    table.obs_names = [f"sample{j}" for j in range(table.n_obs)]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/cells.h5ad"
        genes = Path(folder, "genes.txt")
        table.write_h5ad(file)
        genes.write_text("\n".join(table.var_names))
        model = cNMF(output_dir=folder, name="cnmf")
        given = {} if counts else {"tpm_fn": file}
        n_runs = 5 * len(seeds)
        model.prepare(
            file, components=[k], n_iter=n_runs, seed=seeds[0], genes_file=str(genes), **given
        )
        model.factorize(worker_i=0, total_workers=1)
        model.combine()
        for alike in (0.5, 2.0):  # its default, or without its filter where that leaves too little
            with contextlib.suppress(Exception):
                model.consensus(k, density_threshold=alike, show_clustering=False)
                usage = model.load_results(K=k, density_threshold=alike, norm_usage=False)[0]
                memberships = sources.split(usage.loc[table.obs_names].to_numpy().T)
                return parts(memberships, f"density threshold {alike:g}")
    raise RuntimeError("no consensus")


def mofa(sources, k, seeds, data):
    """One view, sources as groups; features are centred in every group, which is what MOFA+ does by
    default.
    """
    from mofapy2.run.entry_point import entry_point

    found = []
    for seed in seeds:
        model = entry_point()
        model.set_data_options(scale_groups=False, scale_views=False)
        views = [[x.T.copy() for x in dense(sources).matrices]]
        model.set_data_matrix(views, likelihoods=["gaussian"])
        model.set_model_options(
            factors=k, ard_factors=True, ard_weights=True, spikeslab_weights=True
        )
        model.set_train_options(iter=1000, seed=seed, quiet=True, dropR2=None)
        model.build()
        model.run()
        elbo = model.model.getTrainingStats()["elbo"][-1]
        found.append((-elbo, model.model.nodes["Z"].getExpectation().T))
    return parts(sources.split(min(found, key=lambda one: one[0])[1]))


def harmony(sources, k, seeds, data):
    """The first k principal components of all samples, and Harmony on them."""
    import harmonypy
    import pandas as pd
    from sklearn.decomposition import PCA

    x = side_by_side(dense(sources))
    places = PCA(min(k, *x.shape), random_state=seeds[0]).fit_transform(x)
    source = pd.DataFrame({"source": np.repeat(sources.names, sources.n_samples)})
    found = harmonypy.run_harmony(places, source, "source", verbose=False, random_state=seeds[0])
    corrected = np.asarray(found.Z_corr)
    corrected = corrected if corrected.shape[0] == places.shape[1] else corrected.T
    return parts(sources.split(corrected))


def parts(memberships, note=""):
    """Of methods whose components have a size of their own: memberships are contributions."""
    return memberships, memberships, note


METHODS = {
    "default": ("BJMD", bjmd),
    "advised": ("BJMD, what the check advises", advised),
    "fixed": ("BJMD, fixed priors, no offsets", fixed),
    "paper": ("BJMD, the paper's priors", partial(bjmd, priors="paper")),
    "no-offsets": ("BJMD, `offsets=False`", partial(bjmd, offsets=False)),
    "by-source": ('BJMD, `alpha0="by-source"`', partial(bjmd, alpha0="by-source")),
    "feature": ('BJMD, `noise="feature"`', partial(bjmd, noise="feature")),
    "sample": ('BJMD, `noise="sample"`', partial(bjmd, noise="sample")),
    "robust": ('BJMD, `noise="robust"`', partial(bjmd, noise="robust")),
    "map": ("MAP-BJMD", partial(bjmd, method="map-bjmd")),
    "map-paper": ("MAP-BJMD, the paper's priors", partial(bjmd, method="map-bjmd", priors="paper")),
    "pooled": ("BJMD, samples pooled", partial(bjmd, method="cavi-catbjmd")),
    "nmf": ("NMF, samples pooled", nmf),
    "inmf": ("iNMF", inmf),
    "liger": ("iNMF as in LIGER", liger),
    "cnmf": ("cNMF", cnmf),
    "mofa": ("MOFA+", mofa),
    "harmony": ("PCA with Harmony", harmony),
}


def without_negatives(sources, data):
    if min(x.min() for x in sources.matrices) >= 0:
        return sources
    return nonnegative(sources, "clip" if data.startswith("small") else "shift")


def dense(sources):
    return sources.replace(
        matrices=[x.toarray() if scipy.sparse.issparse(x) else x for x in sources.matrices]
    )


def side_by_side(sources):
    """All samples in rows."""
    (x,) = sources.concatenated().matrices
    return scipy.sparse.csr_array(x.T) if scipy.sparse.issparse(x) else np.ascontiguousarray(x.T)


def scores(memberships, contributed, labels, true):
    """The measures, means over sources; NaN where they do not apply."""
    signed = min(h.min() for h in memberships) < 0
    unit = np.ones((1, len(memberships[0])))  # components have unit sum already
    scaled = metric.scaled(memberships, unit)
    ends = [np.vstack([h, -h]) for h in memberships] if signed else contributed
    ways = [ends] if signed else [memberships, scaled]
    auc = max(np.nanmean(metric.auc_per_source(h, labels)) for h in ways)
    ari, _ = np.nanmean(metric.strongest(ends, labels), axis=1)
    mixed = true is not None and not signed and len(scaled[0]) == len(true)
    return {
        "auc": 100 * auc,
        "ari": ari,
        "transfer": 100 * np.nanmean(metric.transferred(scaled, labels)),
        "mixing": np.nanmean(mixing(scaled)),
        "error": 100 * shares.error(scaled, true) if mixed else np.nan,
        "between": between_sources(scaled),
    }


@cache
def compile_updates(method, sparse):
    """A small fit, so that nothing is compiled in the time that counts."""
    rng = np.random.default_rng(0)
    toy = [np.exp(rng.standard_normal((30, 40))) for _ in range(2)]
    toy = Sources([scipy.sparse.csc_array(x) if sparse else x for x in toy])
    METHODS[method][1](toy, 3, [0], "")


def measured(data, sources, true, k, method, seeds):
    """One row of the table."""
    compile_updates(method, any(sources.is_sparse))
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory counts from here
    before = peak_memory()
    started = time.process_time()
    memberships, contributed, note = METHODS[method][1](sources, k, seeds, data)
    cost = {"seconds": time.process_time() - started, "megabytes": (peak_memory() - before) / 1e6}
    return {**scores(memberships, contributed, sources.labels, true), **cost, "note": note}


def main(names, methods, n_starts, n_sets, numbers):
    TABLE.parent.mkdir(exist_ok=True)
    done = pd.read_csv(TABLE, sep="\t") if TABLE.exists() else pd.DataFrame()
    for data in names:
        load, ks = DATA[data]
        try:
            loaded = load()
        except (OSError, KeyError) as error:
            print(f"{data} is left out: {error}")
            continue
        sources, true = loaded if isinstance(loaded, tuple) else (loaded, None)
        asked = itertools.product(numbers or size(ks, ks[:1]), range(n_sets), methods)
        for k, number, method in asked:
            key = {"data": data, "k": k, "method": method, "starts": f"{n_starts}, set {number}"}
            if len(done) and (done[list(key)] == list(key.values())).all(axis=1).any():
                continue
            seeds = [100 * number + start for start in range(n_starts)]
            try:
                line = key | measured(data, sources, true, k, method, seeds)
            except Exception as error:  # a peer that fails leaves the others alone
                print(f"{data}, K = {k}, {method}: {error}", flush=True)
                continue
            done = pd.concat([done, pd.DataFrame([line])], ignore_index=True)
            done.to_csv(TABLE, sep="\t", index=False, float_format="%.5g")
    print_tables(done)


def print_tables(done):
    """A table of each measure, methods x data sets, means over numbers of components and starts."""
    if done.empty:
        return
    present = [data for data in DATA if data in set(done["data"])]
    for measure, digits in DIGITS.items():
        means = done.pivot_table(index="method", columns="data", values=measure)
        columns = [data for data in present if data in means]
        if not columns:
            continue
        print(f"\n{measure}\n")
        header("method", *columns)
        for method, (label, _) in METHODS.items():
            if method in means.index:
                cells = means.loc[method, columns]
                row(label, *("–" if np.isnan(x) else f"{x:.{digits}f}" for x in cells))
    advice = done[(done["method"] == "advised") & (done["note"] != "nothing advised")]
    print("\nWhat the check advises:\n")
    header("data", "K", "advice")
    for line in advice.itertuples():
        row(line.data, line.k, line.note)


if __name__ == "__main__":
    if "BJMD_DATA" not in os.environ:
        print("BJMD_DATA names no folder of data, so there is nothing to compare")
    else:
        parser = argparse.ArgumentParser(description="BJMD and other tools on labelled data.")
        parser.add_argument("--data", nargs="+", choices=DATA, default=size([*DATA], ["bladder"]))
        parser.add_argument("--methods", nargs="+", choices=METHODS, default=None)
        parser.add_argument("--starts", type=int, default=size(3, 1))
        parser.add_argument("--sets", type=int, default=1, help="number of sets of random starts")
        parser.add_argument("--k", nargs="+", type=int, help="numbers of components")
        arguments = parser.parse_args()
        packages = {"mofa": "mofapy2", "cnmf": "cnmf", "harmony": "harmonypy"}
        there = [m for m in METHODS if m not in packages or importlib.util.find_spec(packages[m])]
        with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
            main(
                arguments.data,
                arguments.methods or there,
                arguments.starts,
                arguments.sets,
                arguments.k,
            )
