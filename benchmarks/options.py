"""The measurements in docs/options.md, each a table of it.

    python benchmarks/options.py [table ...]        # all of them, a few minutes; or for example: scale alpha0

Unless a table says otherwise, the data are the paper's small synthetic data (105 features, three sources of 120
samples, noise sd 1, 2.5 and 4, five components), changed in one way; every number is a mean over DRAWS draws of the
best of RESTARTS starts of cavi-bjmd by objective.  AUC is x 100.
"""

import sys
import warnings

import credible_intervals
import numpy as np
import scipy.sparse
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.fits import restarts
from bjmd.fits.matching import match
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source

DRAWS, RESTARTS, SIGMA3 = 5, 5, 4.0


def best(sources, n_components=5, method="cavi-bjmd", n_restarts=RESTARTS, **options):
    return restarts.best(restarts.run(method, sources, n_components, n_restarts=n_restarts, **options), 1)[0]


def over_draws(measure):
    """The mean of measure(data, rng) over draws of the data."""
    drawn = ((synthetic.generate("small", SIGMA3, seed), np.random.default_rng(1000 + seed)) for seed in range(DRAWS))
    return np.mean([measure(data, rng) for data, rng in drawn], axis=0)


def changed(data, change):
    """The data with every matrix changed by change(x, source number), and their labels."""
    return Sources([change(x, c) for c, x in enumerate(data.sources.matrices)], labels=data.sources.labels)


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


def scale():
    """Data in another unit, with the priors left alone and with the priors in that unit."""
    header("data multiplied by", "AUC, default priors", "noise / unit", "AUC, priors in the unit", "noise / unit")
    for unit in (1e-4, 1e-2, 1.0, 1e2, 1e4):
        cells = []
        for priors in ({}, {"lambda_": unit, "b0": 0.01 * unit**2}):

            def measure(data, rng, unit=unit, priors=priors):
                sources = changed(data, lambda x, c: unit * x)
                result = best(sources, **priors)
                return np.concatenate([auc(sources, result), result.noise / unit])

            found = over_draws(measure)
            cells += [numbers(found[:3]), numbers(found[3:], 2)]
        row(f"{unit:g}", *cells)


def lambda_():
    header("lambda", "AUC", "noise", "mean abs(w)")
    for value in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0):

        def measure(data, rng, value=value):
            result = best(data.sources, lambda_=value)
            return np.concatenate([auc(data.sources, result), result.noise, [np.abs(result.components).mean()]])

        found = over_draws(measure)
        row(f"{value:g}", numbers(found[:3]), numbers(found[3:6], 2), f"{found[6]:.3f}")


def alpha0():
    """The mean of every sample's largest membership tells how mixed samples come out."""
    header("alpha0", "AUC", "mean of the largest membership")
    for value in (1.0, 1.1, 2.0, 5.0, 20.0):

        def measure(data, rng, value=value):
            result = best(data.sources, alpha0=value)
            return np.concatenate([auc(data.sources, result), [h.max(axis=0).mean() for h in result.memberships]])

        found = over_draws(measure)
        row(f"{value:g}", numbers(found[:3]), numbers(found[3:], 2))
    truth = over_draws(lambda data, rng: [h.max(axis=0).mean() for h in data.memberships])
    row("truth", "", numbers(truth, 2))


def centring():
    """The same data with every feature moved up, and what centring and dividing do to them."""

    def moved(data, rng, size=10.0):
        offset = size * rng.random((len(data.components), 1))
        return changed(data, lambda x, c: x + offset)

    def centred(data, rng):
        sources = moved(data, rng)
        mean = np.hstack(sources.matrices).mean(axis=1, keepdims=True)
        return Sources([x - mean for x in sources.matrices], labels=sources.labels)

    def standardised(data, rng):
        sources = centred(data, rng)
        sd = np.hstack(sources.matrices).std(axis=1, keepdims=True)
        return Sources([x / sd for x in sources.matrices], labels=sources.labels)

    def within_sources(data, rng):
        return changed(data, lambda x, c: x - x.mean(axis=1, keepdims=True))

    header("data", "AUC")
    row("as they are", numbers(auc_after(unchanged)))
    row("each feature moved up by 0 to 10", numbers(auc_after(moved)))
    row("the same, lambda = 10", numbers(auc_after(moved, lambda_=10.0)))
    row("moved up, then each feature centred over all samples", numbers(auc_after(centred)))
    row("moved up, centred, and divided by its sd", numbers(auc_after(standardised)))
    row("each feature centred in each source", numbers(auc_after(within_sources)))


def batch():
    """Source 2 is shifted: every feature by its own amount, with sd 1, for example by another instrument."""

    def shifted(data, rng):
        shift = rng.standard_normal((len(data.components), 1))
        return changed(data, lambda x, c: x + shift if c == 1 else x)

    def repaired(data, rng):
        sources = shifted(data, rng)
        return Sources([x - x.mean(axis=1, keepdims=True) for x in sources.matrices], labels=sources.labels)

    def other_mix(data, rng):
        """Without a shift, but source 2 keeps only samples of blocks 1 and 2: its mean is other for a good reason."""
        h = data.memberships[1]
        kept = np.flatnonzero(h[2:4].sum(axis=0) == 0)
        matrices, labels = list(data.sources.matrices), list(data.sources.labels)
        matrices[1], labels[1] = matrices[1][:, kept], labels[1][:, kept]
        return Sources(matrices, labels=labels)

    def other_mix_centred(data, rng):
        sources = other_mix(data, rng)
        return Sources([x - x.mean(axis=1, keepdims=True) for x in sources.matrices], labels=sources.labels)

    def measure_after(prepare, n_components=5):
        def measure(data, rng):
            sources = prepare(data, rng)
            result = best(sources, n_components)
            first, second = (h.mean(axis=1) for h in result.memberships[:2])
            return np.concatenate([auc(sources, result), [result.noise[1], np.abs(first - second).max()]])

        found = over_draws(measure)
        return numbers(found[:3]), f"{found[3]:.2f}", f"{found[4]:.2f}"

    header("data", "K", "AUC", "noise of source 2", "largest difference of mean memberships, source 1 and 2")
    row("as they are", "5", *measure_after(unchanged))
    row("source 2 shifted", "5", *measure_after(shifted))
    row("source 2 shifted", "6", *measure_after(shifted, 6))
    row("source 2 shifted, each feature centred in each source", "5", *measure_after(repaired))
    with warnings.catch_warnings(action="ignore"):  # classes that source 2 lacks have no AUC there
        row("source 2 has blocks 1 and 2 only", "5", *measure_after(other_mix))
        row("the same, each feature centred in each source", "5", *measure_after(other_mix_centred))


def components():
    header("K", "AUC", "noise")
    for n_components in (3, 4, 5, 6, 8, 10):

        def measure(data, rng, n_components=n_components):
            result = best(data.sources, n_components)
            return np.concatenate([auc(data.sources, result), result.noise])

        found = over_draws(measure)
        row(str(n_components), numbers(found[:3]), numbers(found[3:], 2))


def starts():
    """Digits 0 to 4 from scikit-learn in two sources, K = 10: what the best of n starts has, a mean over 40 starts."""
    digits = load_digits(n_class=5)
    rng = np.random.default_rng(0)
    x = (digits.data / 16 + 0.1 * rng.standard_normal(digits.data.shape)).T
    sources = Sources([x[:, :450], x[:, 450:]])
    header("starts", "objective above the best of 40, nats", "memberships' correlation with the best of 40")
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
    header("samples of source 1", "its AUC alone", "its AUC beside sources 2 and 3", "its noise, estimated beside them")
    with warnings.catch_warnings(action="ignore"):
        for n in (10, 20, 40, 120):

            def measure(data, rng, n=n):
                sources = data.sources
                few = Sources([sources.matrices[0][:, :n]], labels=[sources.labels[0][:, :n]])
                matrices, labels = list(sources.matrices), list(sources.labels)
                matrices[0], labels[0] = few.matrices[0], few.labels[0]
                together = Sources(matrices, labels=labels)
                result = best(together)
                return auc(few, best(few))[0], auc(together, result)[0], result.noise[0]

            alone, beside, noise = over_draws(measure)
            row(str(n), f"{alone:.1f}", f"{beside:.1f}", f"{noise:.2f}")


def missing():
    header("missing, %", "AUC, `cavi-bjmd`", "noise", "AUC, `map-bjmd`", "noise")
    for share in (0.0, 0.1, 0.3, 0.5, 0.7, 0.8):
        cells = []
        for method in ("cavi-bjmd", "map-bjmd"):

            def measure(data, rng, share=share, method=method):
                sources = changed(data, lambda x, c: np.where(rng.random(x.shape) < share, np.nan, x))
                result = best(sources, method=method)
                return np.concatenate([auc(sources, result), result.noise])

            found = over_draws(measure)
            cells += [numbers(found[:3]), numbers(found[3:], 2)]
        row(f"{100 * share:.0f}", *cells)


def missing_intervals():
    """Coverage of 90 % intervals when entries are missing, over data drawn from the priors (credible_intervals.py)."""
    header("missing, %", "noise", "W", "H")
    for share in (0.0, 0.2, 0.5):
        scores = []
        for seed in range(40):
            rng = np.random.default_rng(seed)
            w, h, noise, sources = credible_intervals.draw(rng)
            holes = Sources([np.where(rng.random(x.shape) < share, np.nan, x) for x in sources.matrices])
            result = best(holes, credible_intervals.K, **credible_intervals.PRIORS)
            distance = ((result.components[:, :, None] - w[:, None, :]) ** 2).sum(axis=0)
            fitted, true = linear_sum_assignment(distance)
            order = true[np.argsort(fitted)]
            inside = [credible_intervals.inside(result.posterior.noise, noise)[0]]
            inside.append(credible_intervals.inside(result.posterior.components, w[:, order])[0])
            columns = zip(result.posterior.memberships, h, strict=True)
            inside.append(np.mean([credible_intervals.inside(m, block[order])[0] for m, block in columns]))
            scores.append(inside)
        row(f"{100 * share:.0f}", *(f"{100 * value:.0f} %" for value in np.mean(scores, axis=0)))


def private():
    """Half of the samples of source 1 are half made of a pattern that no other source has."""

    def prepare(data, rng):
        pattern = 4.0 * (rng.random((len(data.components), 1)) < 0.3)
        has = rng.random(120) < 0.5
        clean = data.components @ data.memberships[0]
        matrices = list(data.sources.matrices)
        matrices[0] = matrices[0] + 0.5 * has * (pattern - clean)
        return Sources(matrices, labels=data.sources.labels), has

    header("K", "AUC", "AUC of the pattern", "mean membership of the sources in its component", "noise")
    for n_components in (5, 6):

        def measure(data, rng, n_components=n_components):
            sources, has = prepare(data, rng)
            result = best(sources, n_components)
            found = [100 * auc_per_source([h[None]], [has[None]])[0] for h in result.memberships[0]]
            k = int(np.argmax(found))
            shares = [h[k].mean() for h in result.memberships]
            return np.concatenate([auc(sources, result), shares, result.noise, [found[k]]])

        found = over_draws(measure)
        row(str(n_components), numbers(found[:3]), f"{found[9]:.1f}", numbers(found[3:6], 2), numbers(found[6:9], 2))


def noisy_features():
    """A tenth of the features has ten times the noise, in every source."""

    def prepare(data, rng):
        noisy = np.where(np.arange(len(data.components)) % 10 == 0, 10.0, 1.0)[:, None]
        clean = [data.components @ h for h in data.memberships]
        return changed(data, lambda x, c: clean[c] + noisy * (x - clean[c]))

    def divided(data, rng):
        sources = prepare(data, rng)
        sd = np.hstack(sources.matrices).std(axis=1, keepdims=True)
        return Sources([x / sd for x in sources.matrices], labels=sources.labels)

    header("data", "AUC")
    row("as they are", numbers(auc_after(unchanged)))
    row("every tenth feature has 10 times the noise", numbers(auc_after(prepare)))
    row("the same, each feature divided by its sd over all samples", numbers(auc_after(divided)))


def outliers():
    """One entry in a thousand is multiplied by 100."""

    def spoiled(data, rng):
        return changed(data, lambda x, c: np.where(rng.random(x.shape) < 0.001, 100 * x, x))

    def limits(x):
        middle = np.median(x)
        return middle, 6 * 1.4826 * np.median(np.abs(x - middle))

    def clipped(x):
        middle, far = limits(x)
        return np.clip(x, middle - far, middle + far)

    def removed(x):
        middle, far = limits(x)
        return np.where(np.abs(x - middle) > far, np.nan, x)

    def then(repair):
        def prepare(data, rng):
            sources = spoiled(data, rng)
            return Sources([repair(x) for x in sources.matrices], labels=sources.labels)

        return prepare

    header("data", "AUC")
    row("as they are", numbers(auc_after(unchanged)))
    row("one entry in 1000 multiplied by 100", numbers(auc_after(spoiled)))
    row("the same, clipped at 6 robust sds from the source's median", numbers(auc_after(then(clipped))))
    row("the same, NaN beyond 6 robust sds", numbers(auc_after(then(removed))))


def counts():
    """Poisson counts of 200 features whose means are 0.01 to 100, in samples whose depths are 0.3 to 3.

    Memberships are those of the small data; a component has 4 times the mean in a tenth of the features.
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
        row(name, numbers(auc_after(lambda data, rng, transform=transform: prepare(data, rng, transform))))


def mixtures():
    """Data drawn from the model, 60 features, 300 samples, K = 4, noise sd 0.3, ever more mixed samples."""
    header("memberships drawn from Dirichlet(a), a =", "correlation of W", "correlation of H", "residual / noise")
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
                    np.mean([np.corrcoef(result.components[:, k], w[:, p])[0, 1] for k, p in pairs]),
                    np.mean([np.corrcoef(result.memberships[0][k], h[p])[0, 1] for k, p in pairs]),
                    result.noise[0] / 0.3,
                )
            )
        row(f"{concentration:g}", *(f"{value:.2f}" for value in np.mean(found, axis=0)))


def sparse():
    """2000 features, 2 x 500 samples, 3 % of the entries not zero."""
    rng = np.random.default_rng(0)
    matrices = [scipy.sparse.random_array((2000, 500), density=0.03, rng=rng, format="csc") for _ in range(2)]
    header("matrix", "objective", "seconds a sweep")
    for name, given in (("sparse", matrices), ("dense", [x.toarray() for x in matrices])):
        result = best(Sources(given), 5, n_restarts=2, max_sweeps=50)
        row(name, f"{result.objective:.3f}", f"{result.seconds / len(result.trace):.4f}")


TABLES = {
    table.__name__: table
    for table in (
        scale, lambda_, alpha0, centring, batch, components, starts, tolerance, inference, sizes, missing,
        missing_intervals, private, noisy_features, outliers, counts, mixtures, sparse,
    )
}  # fmt: skip

if __name__ == "__main__":
    with threadpool_limits(1):
        for name in sys.argv[1:] or TABLES:
            print(f"\n{name}\n")
            TABLES[name]()
            sys.stdout.flush()
