"""What the model does to data that the paper's model was not made for: the measurements behind
docs/options.md.

    python benchmarks/remedies.py [table ...]       # all of them, some 20 minutes; or for example: shifts time

Unless a table says otherwise, the data are the paper's small synthetic data (105 features, three
sources of 120 samples, noise sd 1, 2.5 and 4, five components), changed in one way.  Every number
is a mean over DRAWS draws of the best of RESTARTS starts of cavi-bjmd by objective, AUC x 100 by
source.  "the paper's model" is priors="paper"; the other column has the default priors and the
option that the row names.  Real data are looked for in the working folder (bjmd datasets NAME
writes them).
"""

import sys
import time
import warnings
from pathlib import Path

import credible_intervals
import numpy as np
import scipy.sparse
from options import header, numbers, row
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.inference import registry, restarts
from bjmd.model import Priors
from bjmd.numerics import dirichlet, moments
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source

DRAWS = 10
RESTARTS = 3
SIGMA3 = 4.0
PAPER = {"priors": "paper"}
LEARNED = {
    "the paper's": PAPER,
    "default": {},
    '`alpha0="learned"`': {"alpha0": "learned"},
    '`alpha0="learned"`, `lambda_=1`': {"alpha0": "learned", "lambda_": 1.0},
}


def best(sources, n_components=5, n_restarts=RESTARTS, **options):
    return restarts.best(
        restarts.run("cavi-bjmd", sources, n_components, n_restarts=n_restarts, **options), 1
    )[0]


def auc(result, labels):
    return 100 * auc_per_source(result.memberships, labels)


def draws():
    for seed in range(DRAWS):
        yield synthetic.generate("small", SIGMA3, seed), np.random.default_rng(1000 + seed)


# Each change gives the matrices of all sources from the data with their truth, and a generator.


def clean(data, rng):
    return data.sources.matrices


def in_unit(unit):
    return lambda data, rng: [unit * x for x in data.sources.matrices]


def from_origin(data, rng):
    origin = 20 * rng.standard_normal((len(data.components), 1))
    return [x + origin for x in data.sources.matrices]


def with_noise(data, of_rows=None, of_columns=None):
    """The data with the noise of every feature, or of every sample, multiplied."""
    matrices = []
    for c, (x, h) in enumerate(zip(data.sources.matrices, data.memberships, strict=True)):
        factor = (1.0 if of_rows is None else of_rows[:, None]) * (
            1.0 if of_columns is None else of_columns[c]
        )
        matrices.append(data.components @ h + factor * (x - data.components @ h))
    return matrices


def noisy_features(data, rng):
    return with_noise(data, of_rows=np.where(np.arange(len(data.components)) % 10 == 0, 10.0, 1.0))


def unequal_features(data, rng):
    return with_noise(data, of_rows=np.exp(0.7 * rng.standard_normal(len(data.components))))


def unequal_samples(data, rng):
    return with_noise(
        data, of_columns=[np.exp(0.5 * rng.standard_normal(h.shape[1])) for h in data.memberships]
    )


def wild_entries(data, rng):
    return [np.where(rng.random(x.shape) < 0.001, 100 * x, x) for x in data.sources.matrices]


def heavy_tails(data, rng):
    """Student's t with 2 degrees of freedom over sqrt(2); its variance is infinite, its quartiles
    are 0.86 times the normal's.
    """
    return [
        data.components @ h + sd / np.sqrt(2) * rng.standard_t(2, size=x.shape)
        for x, h, sd in zip(data.sources.matrices, data.memberships, data.noise, strict=True)
    ]


def shifted(data, rng):
    matrices = list(data.sources.matrices)
    matrices[1] = matrices[1] + rng.standard_normal((len(data.components), 1))
    return matrices


def other_mix(data, rng):
    """No shift, but no sample of source 2 has blocks 3 and 4: its mean differs for a good reason."""
    matrices = list(data.sources.matrices)
    matrices[1] = matrices[1] - data.components[:, 2:4] @ data.memberships[1][2:4]
    return matrices


def missing(share):
    return lambda data, rng: [
        np.where(rng.random(x.shape) < share, np.nan, x) for x in data.sources.matrices
    ]


def over_draws(change, measure, n_components=5, **options):
    """The mean over draws of measure(result, data) for the changed data."""
    found = []
    for data, rng in draws():
        found.append(measure(best(Sources(change(data, rng)), n_components, **options), data))
    return np.mean(found, axis=0)


def mean_auc(change, **options):
    return over_draws(change, lambda result, data: auc(result, data.sources.labels), **options)


def cases():
    """Data changed in one way: the paper's model, the remedy, and what the same draws have clean."""
    by_feature = {"noise": "feature"}
    robust = {"noise": "robust"}
    offsets = {"offsets": True}
    rows = [
        ("all data times 1e-4", in_unit(1e-4), "default", {}),
        ("all data times 100", in_unit(100.0), "default", {}),
        ("all data times 1e4", in_unit(1e4), "default", {}),
        ("a vector of sd 20 added to every sample", from_origin, "default", {}),
        (
            "every tenth feature has 10 times the noise",
            noisy_features,
            '`noise="feature"`',
            by_feature,
        ),
        (
            "log-normal noise by feature, log sd 0.7",
            unequal_features,
            '`noise="feature"`',
            by_feature,
        ),
        (
            "log-normal noise by sample, log sd 0.5",
            unequal_samples,
            '`noise="sample"`',
            {"noise": "sample"},
        ),
        ("one entry in 1000 times 100", wild_entries, '`noise="robust"`', robust),
        ("Student t noise, 2 df, over sqrt 2", heavy_tails, '`noise="robust"`', robust),
        ("source 2 shifted, sd 1 a feature", shifted, "`offsets=True`", offsets),
    ]
    header("data", "the paper's model", "remedy", "with the remedy")
    row("clean", numbers(mean_auc(clean, **PAPER)), "default", numbers(mean_auc(clean)))
    for name, change, remedy, options in rows:
        row(name, numbers(mean_auc(change, **PAPER)), remedy, numbers(mean_auc(change, **options)))
        sys.stdout.flush()


def costs():
    """What every option costs on clean data, which need none."""
    options = {
        'the paper\'s model, `priors="paper"`': PAPER,
        "default": {},
        '`noise="feature"`': {"noise": "feature"},
        '`noise="sample"`': {"noise": "sample"},
        '`noise="robust"`': {"noise": "robust"},
        '`noise="feature+sample+robust"`, `offsets=True`': {
            "noise": "feature+sample+robust",
            "offsets": True,
        },
        "`offsets=True`": {"offsets": True},
        '`alpha0="learned"`': {"alpha0": "learned"},
        '`lambda_="learned"`': {"lambda_": "learned"},
    }

    def measure(result, data):
        return np.concatenate([auc(result, data.sources.labels), [len(result.trace)], result.noise])

    header("clean data, fitted with", "AUC", "noise", "sweeps")
    for name, given in options.items():
        found = over_draws(clean, measure, **given)
        row(name, numbers(found[:3]), numbers(found[4:], 2), f"{found[3]:.0f}")
        sys.stdout.flush()


def shifts():
    """Shifted data: do the memberships of the sources still mean the same?"""

    def measure(result, data):
        first, second = (h.mean(axis=1) for h in result.memberships[:2])
        return [*auc(result, data.sources.labels), np.abs(first - second).max()]

    header("data", "model", "AUC", "largest difference of mean memberships, source 1 and 2")
    changes = {
        "clean": clean,
        "source 2 shifted": shifted,
        "source 2 without blocks 3 and 4, no shift": other_mix,
    }
    for name, change in changes.items():
        for model, options in (
            ("the paper's", PAPER),
            ("default", {}),
            ("`offsets=True`", {"offsets": True}),
        ):
            found = over_draws(change, measure, **options)
            shown = (
                numbers(found[:3]) if change is not other_mix else ""
            )  # blocks that are not there have no AUC
            row(name, model, shown, f"{found[3]:.2f}")
            sys.stdout.flush()


def private():
    """Half of the samples of source 1 are half made of a pattern that no other source has; K = 6."""
    header("model", "AUC", "AUC of the pattern", "mean membership of the sources in its component")
    for name, options in LEARNED.items():
        scores = []
        for data, rng in draws():
            pattern = 4.0 * (rng.random((len(data.components), 1)) < 0.3)
            has = rng.random(data.memberships[0].shape[1]) < 0.5
            matrices = list(data.sources.matrices)
            matrices[0] = matrices[0] + 0.5 * has * (
                pattern - data.components @ data.memberships[0]
            )
            result = best(Sources(matrices), 6, **options)
            found = [100 * auc_per_source([h[None]], [has[None]])[0] for h in result.memberships[0]]
            k = int(np.argmax(found))
            shares = [h[k].mean() for h in result.memberships]
            scores.append(np.concatenate([auc(result, data.sources.labels), [found[k]], shares]))
        scores = np.mean(scores, axis=0)
        row(name, numbers(scores[:3]), f"{scores[3]:.1f}", numbers(scores[4:], 3))
        sys.stdout.flush()


def purity():
    """How mixed samples come out: the mean of every sample's largest membership."""

    def measure(result, data):
        return np.concatenate(
            [auc(result, data.sources.labels), [h.max(axis=0).mean() for h in result.memberships]]
        )

    header("model", "AUC", "mean of the largest membership")
    for name, options in LEARNED.items():
        found = over_draws(clean, measure, **options)
        row(name, numbers(found[:3]), numbers(found[3:], 2))
        sys.stdout.flush()
    truth = np.mean(
        [[h.max(axis=0).mean() for h in data.memberships] for data, _ in draws()], axis=0
    )
    row("truth", "", numbers(truth, 2))


def gaps():
    """A random share of all entries missing; the last column knows components and noise, and infers
    the rest.
    """

    def measure(result, data):
        return np.concatenate([auc(result, data.sources.labels), result.noise])

    header(
        "missing, %",
        "AUC, the paper's priors",
        "AUC, default",
        "noise, default",
        "AUC, components and noise known",
    )
    for share in (0.0, 0.2, 0.5, 0.7, 0.8):
        paper = over_draws(missing(share), measure, **PAPER)
        found = over_draws(missing(share), measure)
        known = np.mean([_known(data, missing(share)(data, rng)) for data, rng in draws()], axis=0)
        row(
            f"{100 * share:.0f}",
            numbers(paper[:3]),
            numbers(found[:3]),
            numbers(found[3:], 2),
            numbers(known),
        )
        sys.stdout.flush()


def _known(data, matrices):
    """AUC of memberships that are inferred with the true components and noise: no method can do
    much better.
    """
    w = data.components
    memberships = []
    size = w.shape[1]
    k, p = np.tril_indices(size)
    alpha0 = np.full(size, Priors.alpha0)
    for x, sd in zip(matrices, data.noise, strict=True):
        lacks = moments.sums_over(moments.Places.of(np.isnan(x).T), w[:, k] * w[:, p])
        linear = np.ascontiguousarray(w.T @ np.nan_to_num(x))
        start = np.repeat(alpha0[:, None], x.shape[1], axis=1)
        options = {"tol": 1e-10, "max_steps": 200, "gaps": np.ascontiguousarray(lacks.T)}
        columns = dirichlet.maximise(w.T @ w, linear, 1 / sd**2, alpha0, start, **options)
        memberships.append(dirichlet.mean(columns.g))
    return 100 * auc_per_source(memberships, data.sources.labels)


def coverage(n_data=60):
    """How often 90 % intervals hold the truth when entries are missing; data drawn from the priors."""
    header("missing, %", "noise", "components", "memberships")
    for share in (0.0, 0.2, 0.5):
        scores = []
        for seed in range(n_data):
            rng = np.random.default_rng(seed)
            w, h, noise, sources = credible_intervals.draw(rng)
            holes = Sources(
                [np.where(rng.random(x.shape) < share, np.nan, x) for x in sources.matrices]
            )
            result = best(
                holes, credible_intervals.K, tol=1e-8, **PAPER, **credible_intervals.PRIORS
            )
            distance = ((result.components[:, :, None] - w[:, None, :]) ** 2).sum(axis=0)
            fitted, true = linear_sum_assignment(distance)
            order = true[np.argsort(fitted)]
            posterior = result.posterior
            inside = [credible_intervals.inside(posterior.noise, noise)[0]]
            inside.append(credible_intervals.inside(posterior.components, w[:, order])[0])
            columns = zip(posterior.memberships, h, strict=True)
            inside.append(
                np.mean([credible_intervals.inside(m, block[order])[0] for m, block in columns])
            )
            scores.append(inside)
        row(f"{100 * share:.0f}", *(f"{100 * value:.0f} %" for value in np.mean(scores, axis=0)))
        sys.stdout.flush()


def seconds_a_sweep(sources, **options):
    """Processor seconds of a sweep: the median, without set-up and end, over a fit that is watched."""
    ends = []
    options = {"watch": lambda memberships: ends.append(time.process_time()) or {}, **options}
    registry.fit("cavi-bjmd", sources, 10, seed=0, tol=1e-15, max_sweeps=20, **options)
    return np.median(np.diff(ends))


def times(repeats=5):
    """A sweep on the large data, over one of noise="source": the median of ratios, options taken in
    turn.
    """
    complete = synthetic.generate("large", SIGMA3, 0).sources
    rng = np.random.default_rng(0)
    holed = Sources([np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in complete.matrices])
    ways = {
        '`priors="paper"`': (complete, PAPER, ""),
        '`noise="feature"`': (complete, {"noise": "feature"}, "1.3"),
        '`noise="sample"`': (complete, {"noise": "sample"}, "1.3"),
        "`offsets=True`": (complete, {"offsets": True}, "1.3"),
        '`alpha0="learned"`': (complete, {"alpha0": "learned"}, ""),
        '`noise="robust"`': (complete, {"noise": "robust"}, "2"),
        "20 % missing": (holed, {}, "2.5"),
    }
    few = [Sources([x[:, :20] for x in sources.matrices]) for sources, _, _ in ways.values()]
    for sources, (_, options, _) in zip(few, ways.values(), strict=True):
        registry.fit("cavi-bjmd", sources, 10, seed=0, max_sweeps=2, **options)  # compiles
    ratios = {name: [] for name in ways}
    for _ in range(repeats):
        base = seconds_a_sweep(complete)
        for name, (sources, options, _) in ways.items():
            ratios[name].append(seconds_a_sweep(sources, **options) / base)
    header("what", "time of a sweep", "goal, at most")
    for name, (_, _, goal) in ways.items():
        row(name, f"{np.median(ratios[name]):.2f}", goal)


def real(n_restarts=20, n_best=5):
    """The paper's real data: mean AUC of the n_best of n_restarts by objective; three starts of
    Yale B, all kept.
    """
    from bjmd.results import storage  # files made by: bjmd datasets NAME

    header("data", "K", "the paper's priors", "default")
    for name, n_components in (("3sources", 6), ("metabric-489", 5), ("yale-b", 38)):
        path = Path(f"{name}.npz")
        if not path.is_file():
            row(name, str(n_components), "not at hand", "")
            continue
        sources = storage.load_sources(path)
        few = name == "yale-b"
        cells = []
        for options in (PAPER, {}):
            runs = restarts.run(
                "cavi-bjmd", sources, n_components, n_restarts=3 if few else n_restarts, **options
            )
            chosen = restarts.best(runs, 3 if few else n_best)
            cells.append(numbers(np.mean([auc(run, sources.labels) for run in chosen], axis=0)))
        row(name, str(n_components), *cells)
        sys.stdout.flush()


def batches(n_restarts=10):
    """Bladder samples in five array batches: the class of one batch's samples from the memberships
    of the others'.
    """
    from sklearn.linear_model import LogisticRegression

    path = Path(
        "bladderbatch.npz"
    )  # X (samples x probes, log intensities), source and y (arrays of text)
    if not path.is_file():
        print(f"{path} is not at hand")
        return
    stored = np.load(path)
    x = stored["X"].T.astype(float)
    source = stored["source"]
    y = stored["y"]
    groups = [np.flatnonzero(source == name) for name in np.unique(source)]
    sources = Sources([x[:, group] for group in groups])
    ways = {"the paper's": PAPER, "default": {}, "`offsets=True`": {"offsets": True}}
    header("K", *ways)
    for n_components in (3, 4, 5, 6):
        cells = []
        for options in ways.values():
            result = best(sources, n_components, n_restarts, **options)
            right = 0
            for c, group in enumerate(groups):
                others = [g for d, g in enumerate(groups) if d != c]
                train = np.hstack([h for d, h in enumerate(result.memberships) if d != c]).T
                model = LogisticRegression(C=100.0, max_iter=1000).fit(
                    train, y[np.concatenate(others)]
                )
                right += (model.predict(result.memberships[c].T) == y[group]).sum()
            cells.append(f"{100 * right / len(y):.0f} %")
        row(str(n_components), *cells)
        sys.stdout.flush()


def cells(n_restarts=2, n_components=8, n_cells=2000):
    """Blood cells, unstimulated and with interferon: cell types of one source from the memberships
    of the other's.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score

    path = Path(
        "pbmc-interferon-counts.npz"
    )  # a sparse matrix, cells x genes, with total, source and y
    if not path.is_file():
        print(f"{path} is not at hand")
        return
    stored = np.load(path)
    parts = (stored["data"], stored["indices"], stored["indptr"])
    counts = scipy.sparse.csr_array(parts, shape=tuple(stored["shape"])).astype(float)
    x = scipy.sparse.csc_array(scipy.sparse.diags_array(1e4 / stored["total"]) @ counts).T
    x = scipy.sparse.csc_array(x)
    x.data = np.log1p(x.data)
    groups = [np.flatnonzero(stored["source"] == name) for name in np.unique(stored["source"])]
    rng = np.random.default_rng(0)
    groups = [np.sort(rng.choice(group, n_cells, replace=False)) for group in groups]
    sources = Sources([x[:, group] for group in groups])
    y = [stored["y"][group] for group in groups]
    known = [labels != "unclear" for labels in y]
    ways = {
        "the paper's": PAPER,
        "default": {},
        "`offsets=True`": {"offsets": True},
        '`noise="feature"`': {"noise": "feature"},
        '`noise="sample"`': {"noise": "sample"},
        '`noise="feature+sample"`, `offsets=True`': {"noise": "feature+sample", "offsets": True},
    }
    header("model", "types found, %", "largest difference of mean memberships", "sweeps")
    for name, options in ways.items():
        result = best(sources, n_components, n_restarts, tol=1e-5, max_sweeps=150, **options)
        found = []
        for a, b in ((0, 1), (1, 0)):
            train, test = (result.memberships[c].T[known[c]] for c in (a, b))
            model = LogisticRegression(C=100.0, max_iter=2000).fit(train, y[a][known[a]])
            found.append(100 * balanced_accuracy_score(y[b][known[b]], model.predict(test)))
        first, second = (h.mean(axis=1) for h in result.memberships)
        row(name, numbers(found), f"{np.abs(first - second).max():.2f}", str(len(result.trace)))
        sys.stdout.flush()


def few():
    """Noise by feature with few samples, in clean data and in data that need it."""
    header(
        "samples",
        "clean, default",
        'clean, `noise="feature"`',
        "unequal, default",
        'unequal, `noise="feature"`',
    )
    for n in (7, 20, 40, 120):
        shown = []
        for change in (clean, unequal_features):
            for options in ({}, {"noise": "feature"}):
                found = []
                for data, rng in draws():
                    chosen = [rng.permutation(h.shape[1])[:n] for h in data.memberships]
                    matrices = change(data, rng)
                    result = best(
                        Sources([x[:, j] for x, j in zip(matrices, chosen, strict=True)]), **options
                    )
                    truth = [h[:, j] for h, j in zip(data.memberships, chosen, strict=True)]
                    found.append(match(result.memberships, truth))
                shown.append(f"{np.mean(found):.2f}")
        row(f"3 x {n}", *shown)
        sys.stdout.flush()


def match(memberships, truth):
    """Mean correlation of memberships with the true ones, best partners, all sources together."""
    ours = np.hstack(memberships)
    true = np.hstack(truth)
    correlation = np.nan_to_num(np.corrcoef(ours, true)[: len(ours), len(ours) :])
    return correlation[linear_sum_assignment(-correlation)].mean()


TABLES = {
    table.__name__: table
    for table in (
        cases,
        costs,
        shifts,
        private,
        purity,
        gaps,
        coverage,
        times,
        real,
        batches,
        cells,
        few,
    )
}

if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for name in sys.argv[1:] or TABLES:
            print(f"\n{name}\n")
            TABLES[name]()
            sys.stdout.flush()
