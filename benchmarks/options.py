"""The measurements in docs/options.md of choices that everybody makes; remedies.py has those of
difficult data.

    python benchmarks/options.py [table ...]        # all of them, a few minutes; or for example: lambda_ alpha0

Unless a table says otherwise, the data are the paper's small synthetic data (105 features, three
sources of 120 samples, noise sd 1, 2.5 and 4, five components), changed in one way; every number is
a mean over DRAWS draws of the best of RESTARTS starts of cavi-bjmd by objective.  AUC is x 100.
"""

import sys
import warnings

import numpy as np
import scipy.sparse
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from bjmd.analysis.matching import match
from bjmd.data.sources import Sources
from bjmd.inference import restarts
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source

DRAWS = 5
RESTARTS = 5
SIGMA3 = 4.0


def best(sources, n_components=5, method="cavi-bjmd", n_restarts=RESTARTS, **options):
    return restarts.best(
        restarts.run(method, sources, n_components, n_restarts=n_restarts, **options), 1
    )[0]


def over_draws(measure):
    """The mean of measure(data, rng) over draws of the data."""
    drawn = (
        (synthetic.generate("small", SIGMA3, seed), np.random.default_rng(1000 + seed))
        for seed in range(DRAWS)
    )
    return np.mean([measure(data, rng) for data, rng in drawn], axis=0)


def changed(data, change):
    """The data with every matrix changed by change(x, source number), and their labels."""
    return Sources(
        [change(x, c) for c, x in enumerate(data.sources.matrices)], labels=data.sources.labels
    )


def auc(sources, result):
    return 100 * auc_per_source(result.memberships, sources.labels)


def auc_after(prepare, n_components=5, **options):
    """AUC of every source for data prepared by prepare(data, rng), a mean over draws."""

    def measure(data, rng):
        sources = prepare(data, rng)
        return auc(sources, best(sources, n_components, **options))

    return over_draws(measure)


def unchanged(data, rng):
    return data.sources


def numbers(values, digits=1):
    return " / ".join(f"{value:.{digits}f}" for value in values)


def row(*cells):
    print("|", " | ".join(cells), "|")


def header(*cells):
    row(*cells)
    print("|" + "---|" * len(cells))


def lambda_():
    header("lambda", "AUC", "noise", "mean abs(w)")
    for value in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0):

        def measure(data, rng, value=value):
            result = best(data.sources, lambda_=value)
            return np.concatenate(
                [auc(data.sources, result), result.noise, [np.abs(result.components).mean()]]
            )

        found = over_draws(measure)
        row(f"{value:g}", numbers(found[:3]), numbers(found[3:6], 2), f"{found[6]:.3f}")


def alpha0():
    """The mean of every sample's largest membership tells how mixed samples come out."""
    header("alpha0", "AUC", "mean of the largest membership")
    for value in (1.0, 1.1, 2.0, 5.0, 20.0):

        def measure(data, rng, value=value):
            result = best(data.sources, alpha0=value)
            return np.concatenate(
                [auc(data.sources, result), [h.max(axis=0).mean() for h in result.memberships]]
            )

        found = over_draws(measure)
        row(f"{value:g}", numbers(found[:3]), numbers(found[3:], 2))
    truth = over_draws(lambda data, rng: [h.max(axis=0).mean() for h in data.memberships])
    row("truth", "", numbers(truth, 2))


def components():
    header("K", "AUC", "noise")
    for n_components in (3, 4, 5, 6, 8, 10):

        def measure(data, rng, n_components=n_components):
            result = best(data.sources, n_components)
            return np.concatenate([auc(data.sources, result), result.noise])

        found = over_draws(measure)
        row(str(n_components), numbers(found[:3]), numbers(found[3:], 2))


def starts():
    """Digits 0 to 4 from scikit-learn in two sources, K = 10: what the best of n starts has, a mean
    over 40 starts.
    """
    digits = load_digits(n_class=5)
    rng = np.random.default_rng(0)
    x = (digits.data / 16 + 0.1 * rng.standard_normal(digits.data.shape)).T
    sources = Sources([x[:, :450], x[:, 450:]])
    header(
        "starts",
        "objective above the best of 40, nats",
        "memberships' correlation with the best of 40",
    )
    runs = restarts.run("cavi-bjmd", sources, 10, n_restarts=40)
    (lowest,) = restarts.best(runs, 1)
    scores = [(run.objective - lowest.objective, match(run, lowest)[1].mean()) for run in runs]
    for n in (1, 2, 5, 10, 20):
        gap, alike = np.mean([min(scores[i : i + n]) for i in range(0, 40, n)], axis=0)
        row(str(n), f"{gap:.1f}", f"{alike:.2f}")


def tolerance():
    header("tol", "sweeps", "objective above that of tol 1e-9, nats", "AUC")
    tols = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)

    def measure(data, rng):
        found = []
        for tol in tols:
            result = best(data.sources, tol=tol)
            found.append((len(result.trace), result.objective, *auc(data.sources, result)))
        return found

    found = over_draws(measure)
    for tol, (sweeps, objective, *aucs) in zip(tols, found, strict=True):
        row(f"{tol:g}", f"{sweeps:.0f}", f"{objective - found[0][1]:.2f}", numbers(aucs))


def inference():
    header("inference", "AUC", "noise", "seconds a start")
    for method in ("map-bjmd", "cavi-bjmd"):

        def measure(data, rng, method=method):
            result = best(data.sources, method=method)
            return np.concatenate([auc(data.sources, result), result.noise, [result.seconds]])

        found = over_draws(measure)
        row(f"`{method}`", numbers(found[:3]), numbers(found[3:6], 3), f"{found[6]:.2f}")


def sizes():
    """Source 1 cut down to n samples, alone and beside the two whole ones."""
    header(
        "samples of source 1",
        "its AUC alone",
        "its AUC beside sources 2 and 3",
        "its noise, estimated beside them",
    )
    with warnings.catch_warnings(action="ignore"):
        for n in (10, 20, 40, 120):

            def measure(data, rng, n=n):
                sources = data.sources
                few = Sources([sources.matrices[0][:, :n]], labels=[sources.labels[0][:, :n]])
                matrices = list(sources.matrices)
                labels = list(sources.labels)
                matrices[0] = few.matrices[0]
                labels[0] = few.labels[0]
                together = Sources(matrices, labels=labels)
                result = best(together)
                return auc(few, best(few))[0], auc(together, result)[0], result.noise[0]

            alone, beside, noise = over_draws(measure)
            row(str(n), f"{alone:.1f}", f"{beside:.1f}", f"{noise:.2f}")


def counts():
    """Poisson counts of 200 features whose means are 0.01 to 100, in samples whose depths are 0.3
    to 3.

    Memberships are those of the small data; a component has 4 times the mean in a tenth of the
    features.
    """

    def prepare(data, rng, transform):
        level = 10 ** rng.uniform(-2, 2, (200, 1))
        fold = np.ones((200, 5))
        for k in range(4):
            fold[rng.random(200) < 0.1, k] = 4.0
        matrices = []
        for h in data.memberships:
            depth = 10 ** rng.uniform(-0.5, 0.5, h.shape[1])
            matrices.append(transform(rng.poisson(depth * level * (fold @ h)).astype(float)))
        return Sources(matrices, labels=data.sources.labels)

    def to_depth(x):
        return x * (np.median(x.sum(axis=0)) / x.sum(axis=0))

    ways = {
        "raw counts": lambda x: x,
        "divided by the sample's total": to_depth,
        "divided, then square root": lambda x: np.sqrt(to_depth(x)),
        "divided, then log(1 + x)": lambda x: np.log1p(to_depth(x)),
    }
    header("counts", "AUC")
    for name, transform in ways.items():
        row(
            name,
            numbers(
                auc_after(lambda data, rng, transform=transform: prepare(data, rng, transform))
            ),
        )


def mixtures():
    """Data drawn from the model, 60 features, 300 samples, K = 4, noise sd 0.3, ever more mixed
    samples.
    """
    header(
        "memberships drawn from Dirichlet(a), a =",
        "correlation of W",
        "correlation of H",
        "residual / noise",
    )
    for concentration in (0.3, 1.0, 3.0, 10.0):
        found = []
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            w = rng.laplace(size=(60, 4))
            h = rng.dirichlet(np.full(4, concentration), 300).T
            result = best(Sources([w @ h + 0.3 * rng.standard_normal((60, 300))]), 4)
            distance = ((result.components[:, :, None] - w[:, None, :]) ** 2).sum(axis=0)
            fitted, true = linear_sum_assignment(distance)
            pairs = list(zip(fitted, true, strict=True))
            found.append(
                (
                    np.mean(
                        [np.corrcoef(result.components[:, k], w[:, p])[0, 1] for k, p in pairs]
                    ),
                    np.mean([np.corrcoef(result.memberships[0][k], h[p])[0, 1] for k, p in pairs]),
                    result.noise[0] / 0.3,
                )
            )
        row(f"{concentration:g}", *(f"{value:.2f}" for value in np.mean(found, axis=0)))


def sparse():
    """2000 features, 2 x 500 samples, 3 % of the entries not zero."""
    rng = np.random.default_rng(0)
    matrices = [
        scipy.sparse.random_array((2000, 500), density=0.03, rng=rng, format="csc")
        for _ in range(2)
    ]
    header("matrix", "objective", "seconds a sweep")
    for name, given in (("sparse", matrices), ("dense", [x.toarray() for x in matrices])):
        result = best(Sources(given), 5, n_restarts=2, max_sweeps=50)
        row(name, f"{result.objective:.3f}", f"{result.seconds / len(result.trace):.4f}")


TABLES = {
    table.__name__: table
    for table in (
        lambda_,
        alpha0,
        components,
        starts,
        tolerance,
        inference,
        sizes,
        counts,
        mixtures,
        sparse,
    )
}

if __name__ == "__main__":
    with threadpool_limits(1):
        for name in sys.argv[1:] or TABLES:
            print(f"\n{name}\n")
            TABLES[name]()
            sys.stdout.flush()
