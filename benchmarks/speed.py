"""How much time and memory does a fit take?  Ratios within one run, in processor time.

    python benchmarks/speed.py [floor calls memory peer cores baselines advi]

floor      a fit over its products with the data alone, two a sweep, in NumPy and SciPy
calls      BJMD(8, n_init=1).fit, intervals included, over bjmd.fit and over scikit-learn's NMF
           (random start), each with its default tolerance: 500 features, medians of five starts
memory     peak memory of a fit above its data, as a share of them
peer       scikit-learn's NMF of the pooled, clipped data and, if it is installed, mofapy2 over
           BJMD(10, n_init=1).fit with its intervals
cores      the clock of a fit on one thread over that on two (on an idle machine), the bits compared
baselines  joint NMF over scikit-learn's; sweeps of semi-NMF and BNMF over their products; JMD over
           the closed form
advi       advi-bjmd to its stop over cavi-bjmd to the same AUC; ten minutes, so only if it is named

Data are the paper's large synthetic data (three sources of 1000 x 1000, ten components), except in
sparse rows (2000 features, 5 % not zero, 20 components).
"""

import io
import time
import tracemalloc
from contextlib import redirect_stdout, suppress
from functools import partial

import numpy as np
import scipy.sparse
from harness import auc, best_seconds, header, paper_data, row, run_tables, seconds, size
from panel import mofa
from sklearn.decomposition import NMF, non_negative_factorization

import bjmd
from bjmd import Sources
from bjmd.numerics import threads
from bjmd_paper.metric import auc_watch

METHODS = ("map-bjmd", "cavi-bjmd")
ENDLESS = 1e-300
"""A tolerance at which only the number of sweeps ends a fit."""


def sparse_sources(n_samples):
    shape = (2000, n_samples)
    rng = np.random.default_rng(0)
    return Sources([scipy.sparse.random_array(shape, density=0.05, format="csc", rng=rng)])


def products(sources, result, n_sweeps):
    """X H' and X' W of every source, as many times as a fit has sweeps."""
    for _ in range(n_sweeps):
        for x, h in zip(sources.matrices, result.memberships, strict=True):
            x @ h.T
            x.T @ result.components


def floor():
    header("data", "method", "time over its products", "seconds", "sweeps")
    dense = paper_data("large").sources
    sparse = sparse_sources(size(20_000, 300))
    for name, sources, k, options in (
        ("dense", dense, 10, {}),
        ("sparse", sparse, 20, {"tol": ENDLESS, "max_sweeps": size(30, 3)}),
    ):
        for method in METHODS:
            with threads.limited(1):
                fit = partial(bjmd.fit, method, sources, k, **options)
                result = fit()
                n_sweeps = len(result.trace)
                ours, least = best_seconds(fit, partial(products, sources, result, n_sweeps))
            row(name, method, f"{ours / least:.2f}", f"{ours:.3f}", n_sweeps)


def calls():
    header("samples", "over bjmd.fit", "over NMF", "seconds", "sweeps", "iterations of NMF")
    rng = np.random.default_rng(0)
    components = rng.gamma(0.5, size=(8, 500))
    for n in (size(n, 100) for n in (300, 3_000, 10_000, 40_000)):
        x = rng.dirichlet(np.full(8, 0.5), n) @ components
        x = np.maximum(x + 0.2 * rng.standard_normal(x.shape), 0)
        models = [bjmd.BJMD(8, n_init=1, n_jobs=1, random_state=seed) for seed in range(5)]
        peers = [NMF(8, init="random", random_state=seed) for seed in range(5)]
        sources = Sources([x.T])
        models[0].fit(x[:100])  # compiles
        with threads.limited(1):
            alone = [seconds(partial(bjmd.fit, "cavi-bjmd", sources, 8, seed)) for seed in range(5)]
        ours = np.median([seconds(partial(model.fit, x)) for model in models])
        theirs = np.median([seconds(partial(peer.fit, x)) for peer in peers])
        sweeps = np.median([model.n_iter_ for model in models])
        iterations = np.median([peer.n_iter_ for peer in peers])
        ratios = f"{ours / np.median(alone):.2f}", f"{ours / theirs:.2f}"
        row(f"{n:,}", *ratios, f"{ours:.2f}", f"{sweeps:.0f}", f"{iterations:.0f}")


def memory():
    header("method", "memory above the data over their size")
    sources = paper_data("large").sources
    data_size = sum(x.nbytes for x in sources.matrices)
    for method in METHODS:
        bjmd.fit(method, sources, 10, max_sweeps=2)  # compiles
        tracemalloc.start()
        bjmd.fit(method, sources, 10)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        row(method, f"{peak / data_size:.3f}")


def peer():
    sources = paper_data("large").sources
    matrices = [x.T for x in sources.matrices]
    clipped = np.vstack(matrices).clip(min=0)
    model = bjmd.BJMD(10, n_init=1, n_jobs=1)
    nmf = NMF(10, init="nndsvda", max_iter=size(1000, 5))
    ours, by_map, theirs = best_seconds(
        partial(model.fit, matrices),
        partial(bjmd.fit, "map-bjmd", sources, 10, tol=1e-5),
        partial(nmf.fit, clipped),
    )
    header("method", "seconds", "over BJMD", "AUC")
    row("BJMD", f"{ours:.2f}", 1, auc([h.T for h in model.memberships_], sources.labels).round(2))
    row("map-bjmd", f"{by_map:.2f}", f"{by_map / ours:.1f}", "")
    scores = auc(sources.split(nmf.transform(clipped).T), sources.labels)
    row("NMF", f"{theirs:.2f}", f"{theirs / ours:.1f}", scores.round(2))
    with suppress(ImportError), redirect_stdout(io.StringIO()) as output:
        taken = seconds(partial(mofa, sources, 10, [0], None))
    if output.getvalue():
        row("mofapy2", f"{taken:.2f}", f"{taken / ours:.1f}", "")


def cores():
    header("data", "method", "one thread over two", "the same bits")
    n = size(100_000, 300)
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(1000, 10)) @ rng.dirichlet(np.full(10, 0.3), n).T
    x += rng.standard_normal(x.shape)
    for name, sources, k in (("dense", Sources([x]), 10), ("sparse", sparse_sources(n), 20)):
        for method in METHODS:
            fits = []
            times = []
            for n_threads in (1, 2):
                with threads.limited(n_threads):
                    started = time.perf_counter()
                    fits.append(bjmd.fit(method, sources, k, tol=ENDLESS, max_sweeps=10))
                    times.append(time.perf_counter() - started)
            same = np.array_equal(fits[0].trace, fits[1].trace)
            row(name, method, f"{times[0] / times[1]:.2f}", same)


def baselines():
    large = paper_data("large")
    k = large.components.shape[1]
    clipped = Sources([np.maximum(x, 0) for x in large.sources.matrices]).concatenated()
    (x,) = clipped.matrices
    n_sweeps = size(50, 3)
    header("what", "ratio")
    joint = partial(bjmd.fit, "jnmf", clipped, k, tol=ENDLESS, max_sweeps=n_sweeps)
    theirs = partial(
        non_negative_factorization,
        x,
        n_components=k,
        init="random",
        tol=0.0,
        max_iter=n_sweeps,
        random_state=0,
    )
    ours, least = best_seconds(joint, theirs)
    row("joint NMF, five passes a sweep, over scikit-learn's with one", f"{ours / least:.2f}")
    start = joint()
    for method, count, options in (
        ("semi-nmf", "max_sweeps", {"tol": ENDLESS}),
        ("bnmf", "n_draws", {"burn_in": 0}),
    ):
        few, many, least = best_seconds(
            partial(bjmd.fit, method, clipped, k, **options, **{count: 10}),
            partial(bjmd.fit, method, clipped, k, **options, **{count: 10 + n_sweeps}),
            partial(products, clipped, start, n_sweeps),
        )
        row(f"a sweep of {method} over its products", f"{(many - few) / least:.2f}")
    small = paper_data("small").sources
    jmd, closed_form = best_seconds(
        partial(bjmd.fit, "jmd", small, 5), partial(bjmd.fit, "cavi-bjmd", small, 5)
    )
    row("jmd over cavi-bjmd, a fit of the small data", f"{jmd / closed_form:.1f}")


def advi():
    sources = paper_data("large").sources
    watch = auc_watch(sources.labels)
    options = size({}, {"max_iterations": 100})
    started = time.process_time()
    slow = bjmd.fit("advi-bjmd", sources, 10, watch=watch, **options)
    by_advi = time.process_time() - started
    target = slow.history["auc"][-1]
    reached = bjmd.fit("cavi-bjmd", sources, 10, watch=watch).history["auc"] >= target
    if not reached.all(axis=1).any():
        print(f"cavi-bjmd does not reach the AUC of advi-bjmd, {(100 * target).round(2)}")
        return
    n_sweeps = int(np.argmax(reached.all(axis=1))) + 1
    (ours,) = best_seconds(
        partial(bjmd.fit, "cavi-bjmd", sources, 10, tol=ENDLESS, max_sweeps=n_sweeps)
    )
    header("AUC at which advi-bjmd stops", "its seconds", "over cavi-bjmd's")
    row((100 * target).round(2), f"{by_advi:.0f}", f"{by_advi / ours:.0f}")


if __name__ == "__main__":
    tables = (floor, calls, memory, peer, cores, baselines, advi)
    run_tables(__doc__, tables, only_by_name=("advi",))
