"""What does each option of a fit change?  Tables of docs/options.md and two other pages.

    python benchmarks/options.py [table ...]        # all of them take some 30 minutes

Unless a table says otherwise, the data are the paper's small synthetic data (105 features, three
sources of 120 samples, noise sd 1, 2.5 and 4, five components), changed in one way.  Numbers are
means over draws of the data, of the best start of cavi-bjmd by objective; AUC is x 100 by source.
"The paper's" model is priors="paper"; the others have the default priors and the options named.
`batches` needs bladderbatch.npz in the folder $BJMD_DATA/cohorts, and `shares` the RNA mixtures of
Tian et al. (2019) in $BJMD_DATA/mixology.
"""

import os
from itertools import permutations
from pathlib import Path

import numpy as np
from harness import (
    auc,
    fits_from_starts,
    header,
    matched,
    numbers,
    paper_data,
    real_data,
    row,
    run_tables,
    size,
)

from bjmd import Sources
from bjmd.data.view import centre
from bjmd_paper.datasets.real import mixology

DIFFICULT = {"n_draws": size(10, 1), "n_starts": size(3, 1)}
EVERYDAY = {"n_draws": size(5, 1), "n_starts": size(5, 1)}
"""Draws of the data and starts for tables of data that break the model, and for the others."""
PAPER = {"priors": "paper"}
PRIORS = {
    "the paper's": PAPER,
    "nothing learned, no offsets": {"fixed": True},
    "default": {},
    '`alpha0="by-source"`': {"alpha0": "by-source"},
}
OFFSETS = {"the paper's": PAPER, "`offsets=False`": {"offsets": False}, "default": {}}


def best(sources, n_components=5, n_starts=3, method="cavi-bjmd", fixed=False, **options):
    """The best start; `fixed` learns no prior, with the width 1.5 in the unit of the data."""
    if fixed:
        unit, _ = centre(sources)
        options |= {"alpha0": 1.1, "lambda_": 1.5 * unit, "offsets": False}
    return fits_from_starts(method, sources, n_components, n_starts, **options)[0]


def draws(n_draws):
    for seed in range(n_draws):
        yield paper_data(seed=seed), np.random.default_rng(1000 + seed)


def mean_over_draws(change, measure, n_draws, n_starts, n_components=5, **options):
    """The mean of measure(result, data) for data changed by change(data, rng)."""
    measured = []
    for data, rng in draws(n_draws):
        result = best(Sources(change(data, rng)), n_components, n_starts, **options)
        measured.append(measure(result, data))
    return np.mean(measured, axis=0)


def auc_of(result, data):
    return auc(result.memberships, data.sources.labels)


def auc_and_noise(result, data):
    return [*auc_of(result, data), *result.noise]


# Each change gives the matrices of all sources from the data with their truth, and a generator.


def clean(data, rng):
    return data.sources.matrices


def from_origin(data, rng):
    origin = 20 * rng.standard_normal((len(data.components), 1))
    return [x + origin for x in data.sources.matrices]


def with_noise(data, factors):
    """The data with the noise of every source multiplied by its factor, an array."""
    matrices = []
    for x, h, factor in zip(data.sources.matrices, data.memberships, factors, strict=True):
        signal = data.components @ h
        matrices.append(signal + factor * (x - signal))
    return matrices


def noisy_features(data, rng):
    factor = np.where(np.arange(len(data.components)) % 10 == 0, 10.0, 1.0)[:, None]
    return with_noise(data, [factor] * len(data.memberships))


def unequal_features(data, rng):
    factor = np.exp(0.7 * rng.standard_normal((len(data.components), 1)))
    return with_noise(data, [factor] * len(data.memberships))


def unequal_samples(data, rng):
    factors = [np.exp(0.5 * rng.standard_normal(h.shape[1])) for h in data.memberships]
    return with_noise(data, factors)


def outliers(data, rng):
    return [np.where(rng.random(x.shape) < 0.001, 100 * x, x) for x in data.sources.matrices]


def heavy_tails(data, rng):
    """Student's t with 2 degrees of freedom over sqrt(2): quartiles of 0.86 times the normal's."""
    return [
        data.components @ h + sd / np.sqrt(2) * rng.standard_t(2, size=x.shape)
        for x, h, sd in zip(data.sources.matrices, data.memberships, data.noise, strict=True)
    ]


def shifted(data, rng):
    matrices = list(data.sources.matrices)
    matrices[1] = matrices[1] + rng.standard_normal((len(data.components), 1))
    return matrices


def cases():
    """Data changed in one way: the paper's model, and the remedy."""
    rows = [
        ("clean", clean, "default"),
        ("a vector of sd 20 added to every sample", from_origin, "default"),
        ("every tenth feature has 10 times the noise", noisy_features, "feature"),
        ("log-normal noise by feature, log sd 0.7", unequal_features, "feature"),
        ("log-normal noise by sample, log sd 0.5", unequal_samples, "sample"),
        ("one entry in 1000 times 100", outliers, "robust"),
        ("Student t noise, 2 df, over sqrt 2", heavy_tails, "robust"),
        ("source 2 shifted, sd 1 a feature", shifted, "default"),
    ]
    header("data", "the paper's model", "remedy", "with the remedy")
    for name, change, remedy in rows:
        options = {} if remedy == "default" else {"noise": remedy}
        by_paper = mean_over_draws(change, auc_of, **DIFFICULT, **PAPER)
        by_remedy = mean_over_draws(change, auc_of, **DIFFICULT, **options)
        row(name, numbers(by_paper), remedy, numbers(by_remedy))


def components():
    header("K", "AUC", "noise")
    for n_components in (3, 4, 5, 6, 8, 10):
        means = mean_over_draws(clean, auc_and_noise, **EVERYDAY, n_components=n_components)
        row(n_components, numbers(means[:3]), numbers(means[3:], 2))


def inference():
    header("inference", "AUC", "noise", "seconds a start")

    def measure(result, data):
        return [*auc_and_noise(result, data), result.seconds]

    for method in ("map-bjmd", "cavi-bjmd"):
        means = mean_over_draws(clean, measure, **EVERYDAY, method=method)
        row(f"`{method}`", numbers(means[:3]), numbers(means[3:6], 3), f"{means[6]:.2f}")


def batches():
    """Bladder samples in five batches: the class of a batch's samples, learned from the others."""
    path = Path(os.environ.get("BJMD_DATA", "."), "cohorts", "bladderbatch.npz")
    if not path.is_file():
        print(f"{path} does not exist")
        return
    stored = np.load(path)
    x = stored["X"].T.astype(float)
    y = stored["y"]
    groups = [np.flatnonzero(stored["source"] == name) for name in np.unique(stored["source"])]
    sources = Sources([x[:, group] for group in groups])
    header("K", *OFFSETS)
    for n_components in size((3, 4, 5, 6), (3,)):
        cells = []
        for options in OFFSETS.values():
            memberships = best(sources, n_components, size(10, 1), **options).memberships
            share = predicted_across_sources(memberships, [y[group] for group in groups])
            cells.append(f"{100 * share:.0f} %")
        row(n_components, *cells)


def predicted_across_sources(memberships, classes):
    """The share of samples whose class is predicted right from those of the other sources."""
    from sklearn.linear_model import LogisticRegression

    right = 0
    for c, known in enumerate(classes):
        others = [d for d in range(len(classes)) if d != c]
        classifier = LogisticRegression(C=100.0, max_iter=1000).fit(
            np.hstack([memberships[d] for d in others]).T,
            np.concatenate([classes[d] for d in others]),
        )
        right += (classifier.predict(memberships[c].T) == known).sum()
    return right / sum(map(len, classes))


def embedding():
    """METABRIC-489: the class of a tumour, learned from the other groups, for more components."""
    sources = real_data("metabric-489")
    if sources is None:
        return
    classes = [labels.argmax(axis=0) for labels in sources.labels]
    header("K", "classes predicted right")
    for n_components in size((5, 10, 20), (5,)):
        memberships = best(sources, n_components, 2, tol=1e-5).memberships
        row(n_components, f"{100 * predicted_across_sources(memberships, classes):.0f} %")


def private():
    """Half of the samples of source 1 are half made of a pattern of its own; K = 6."""
    header("model", "AUC", "AUC of the pattern", "mean membership of the sources in its component")
    for name, options in PRIORS.items():
        measured = []
        for data, rng in draws(DIFFICULT["n_draws"]):
            pattern = 4.0 * (rng.random((len(data.components), 1)) < 0.3)
            has = rng.random(data.memberships[0].shape[1]) < 0.5
            matrices = list(data.sources.matrices)
            signal = data.components @ data.memberships[0]
            matrices[0] = matrices[0] + 0.5 * has * (pattern - signal)
            result = best(Sources(matrices), 6, DIFFICULT["n_starts"], **options)
            scores = [auc([h[None]], [has[None]])[0] for h in result.memberships[0]]
            k = int(np.argmax(scores))
            shares = [h[k].mean() for h in result.memberships]
            measured.append([*auc_of(result, data), scores[k], *shares])
        means = np.mean(measured, axis=0)
        row(name, numbers(means[:3]), f"{means[3]:.1f}", numbers(means[4:], 3))


def counts():
    """Poisson counts of 200 features with means 0.01 to 100, in samples with depths 0.3 to 3.

    Memberships are those of the small data; a component has 4 times the mean in a tenth of the
    features.
    """

    def drawn(data, rng, transform):
        level = 10 ** rng.uniform(-2, 2, (200, 1))
        fold = np.ones((200, 5))
        for k in range(4):
            fold[rng.random(200) < 0.1, k] = 4.0
        matrices = []
        for h in data.memberships:
            depth = 10 ** rng.uniform(-0.5, 0.5, h.shape[1])
            matrices.append(transform(rng.poisson(depth * level * (fold @ h)).astype(float)))
        return matrices

    def divided(x):
        return x * (np.median(x.sum(axis=0)) / x.sum(axis=0))

    transforms = {
        "raw counts": lambda x: x,
        "divided by the sample's total": divided,
        "divided, then square root": lambda x: np.sqrt(divided(x)),
        "divided, then log(1 + x)": lambda x: np.log1p(divided(x)),
    }
    header("counts", "AUC")
    for name, transform in transforms.items():

        def change(data, rng, transform=transform):
            return drawn(data, rng, transform)

        row(name, numbers(mean_over_draws(change, auc_of, **EVERYDAY)))


def mixtures():
    """Data from the model, 60 features, 300 samples, K = 4, noise sd 0.3, more and more mixed."""
    header("Dirichlet(a), a =", "correlation of W", "correlation of H", "residual / noise")
    for concentration in (0.3, 1.0, 3.0, 10.0):
        measured = []
        for seed in range(EVERYDAY["n_draws"]):
            rng = np.random.default_rng(seed)
            w = rng.laplace(size=(60, 4))
            h = rng.dirichlet(np.full(4, concentration), 300).T
            x = w @ h + 0.3 * rng.standard_normal((60, 300))
            result = best(Sources([x]), 4, EVERYDAY["n_starts"])
            order = matched(result.components, w)
            of_w = np.corrcoef(result.components.T, w[:, order].T)[:4, 4:].diagonal().mean()
            of_h = np.corrcoef(result.memberships[0], h[order])[:4, 4:].diagonal().mean()
            measured.append((of_w, of_h, result.noise[0] / 0.3))
        row(f"{concentration:g}", *(f"{value:.2f}" for value in np.mean(measured, axis=0)))


def weights():
    """Weights that intNMF asks for and BJMD infers; noise sd 1, 1 and 8, clipped at zero."""
    data = paper_data()
    noise = np.array([1.0, 1.0, 8.0])
    rng = np.random.default_rng(0)
    matrices = []
    for h, sd in zip(data.memberships, noise, strict=True):
        errors = sd * rng.standard_normal((len(data.components), h.shape[1]))
        matrices.append(np.maximum(data.components @ h + errors, 0))
    sources = Sources(matrices)

    def fits_and_score(method, **options):
        fits = fits_from_starts(method, sources, 5, size(20, 1), **options)[:5]
        scores = [auc(fit.memberships, data.sources.labels) for fit in fits]
        return fits, np.mean(scores, axis=0)

    fits, by_map = fits_and_score("map-bjmd")
    weightings = {
        "equal": np.ones(3),
        "1 / variance of the data": 1 / np.array([x.var() for x in matrices]),
        "1 / true noise variance": 1 / noise**2,
        "1 / noise variance inferred by MAP-BJMD": 1 / fits[0].noise ** 2,
    }
    header("method", "weights", "shares of the weight, %", "AUC")
    for name, given in weightings.items():
        _, scores = fits_and_score("intnmf", weights=given)
        row("intNMF", name, numbers(100 * given / given.sum(), 2), numbers(scores, 2))
    row("MAP-BJMD", "none", "", numbers(by_map, 2))


def shares():
    """RNA of three cell lines in known shares (CEL-seq2), a source for each amount of RNA; K = 3.

    The error is the mean absolute error of the shares.
    """
    folder = Path(os.environ.get("BJMD_DATA", "."), "mixology")
    if not folder.is_dir():
        print(f"{folder} does not exist")
        return
    sources = mixology.read(folder)
    truth = mixology.shares(folder).to_numpy().T
    header("model", "error", "mean of the largest share", "noise at 30, 15, 7.5, 3.75 pg")
    fitted = {**PRIORS, "`offsets=False`": {"offsets": False}, "MAP": {"method": "map-bjmd"}}
    for name, options in fitted.items():
        result = best(sources, 3, **options)
        h = np.hstack(result.memberships)
        error = min(np.abs(h[list(order)] - truth).mean() for order in permutations(range(3)))
        row(name, f"{error:.3f}", f"{h.max(axis=0).mean():.2f}", numbers(result.noise, 2))
    row("truth", "", f"{truth.max(axis=0).mean():.2f}", "")


TABLES = (cases, shares, batches, private, inference, counts, mixtures, weights)
TABLES += (components, embedding)

if __name__ == "__main__":
    run_tables(__doc__, TABLES)
