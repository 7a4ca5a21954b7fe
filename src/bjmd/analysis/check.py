"""What in the residuals of a fit contradicts the model, in plain sentences with numbers.

    for finding in check(sources, result):
        print(finding.alarm, finding.sentence)

residuals.py has the derivation of what residuals should look like and the sums over them; this file
asks the questions.

An alarm is raised by what is beyond chance (p at most LEVEL after Bonferroni) *and* large enough to
matter (statistic above threshold): with enough data every model is wrong beyond chance.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, fdtrc, gammainc, ndtr, stdtr
from threadpoolctl import threadpool_limits

from bjmd.analysis.residuals import CUTS, Survey, log_scale, priors_of, row_covariance, thinned
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.inference.noise import parsed
from bjmd.numerics import dirichlet
from bjmd.results.decomposition import Decomposition

LEVEL = 0.01  #: the largest p that raises an alarm
#: sd of ln(noise sd) over features or samples; to ignore t costs about 4 t^2 of the information, a
#: tenth
SPREAD = 0.15
GROWTH = 0.15  #: change of ln(noise sd) for one sd of the signal
SHIFT = 0.1  #: root mean square of a source's shifts, as a share of its noise sd
OWNED = 0.8
OWNED_BY_ALL = 0.5
"""Share of a component's use that is one source's alone: by some of its samples, or by nearly all,
which is a shift.
"""
NEARLY_ALL = 0.8
TELLING = 10.0
"""Share of the samples of a source, and nats that another source must have at stake for its silence
to tell.
"""
LARGE = 10.0
SMALL = 1e-3
PRIOR_NOISE = 0.05
"""The data's size over a fixed lambda, too large or too small; and b0 as a share of the sum of
squares.
"""
#: feature means over a fixed lambda, and over the spread around them
FAR = 5.0
FAR_IN_SDS = 3.0

ANSWERS = {
    "unit": 'priors="data" would help',
    "origin": 'priors="data" would help',
    "signal-dependent noise": "transform the data first, counts by the square root or log(1 + x)",
    "outliers": 'noise="robust" would help',
    "feature noise": 'noise="feature" would help',
    "sample noise": 'noise="sample" would help',
    "shifts": "offsets=True would help",
    "source-specific component": 'alpha0="learned" would help',
}
"""What to do about each alarm, in the order of the findings."""
LEFT = "the noise model of the fit allows for it, but not for all of it"
GRAVE = (
    "unit",
    "origin",
    "signal-dependent noise",
    "outliers",
)  #: alarms that can raise those after them, too


@dataclass(frozen=True, eq=False)
class Finding:
    """One way in which data may contradict the model; `data` is what its picture needs."""

    name: str
    statistic: float
    threshold: float
    p_value: float | None  #: None where size alone decides
    where: list[str]  #: the worst offenders; empty without alarm
    sentence: str
    data: dict[str, Any]

    @property
    def alarm(self) -> bool:
        return _raises(self.statistic, self.threshold, self.p_value)


def check(sources: Sources, result: Decomposition) -> list[Finding]:
    """All findings about a fit, alarm or not; of large sources, a part of the samples."""
    require_checkable(result.method)
    with threadpool_limits(1):
        covariance = row_covariance(sources, result)
        squares = covariance + result.components[:, :, None] * result.components[:, None, :]
        asked, part = thinned(sources, result)
        surveys = [Survey(asked, part, c, covariance, squares) for c in range(len(sources))]
        owned = _Ownership(surveys)
    (priors, origin), noise = (
        priors_of(sources, result),
        parsed(result.options.get("noise", "source")),
    )
    findings = [_unit(surveys, priors), _origin(surveys, priors, origin), _growing(surveys)]
    findings += [_wild(surveys, "robust" in noise), _uneven(surveys, 0), _uneven(surveys, 1)]
    findings += [_shifts(surveys, owned), _private(surveys, owned, priors)]
    return [
        _in_context(finding, findings, {f"{part} noise" for part in noise}) for finding in findings
    ]


def require_checkable(method: str) -> None:
    """Refuse a method that does not fit this model."""
    if not registry.get(method).infers_bjmd:
        able = registry.names_with("infers_bjmd")
        raise InputError(f"method {method!r} has no noise model to check; fit with one of {able}")


def _in_context(finding, findings, on):
    """Recommend nothing that is on already, and doubt an alarm that a graver one may cause."""
    if not finding.alarm:
        return finding
    sentence = (
        finding.sentence.replace(ANSWERS[finding.name], LEFT)
        if finding.name in on
        else finding.sentence
    )
    graver = [
        other.name
        for other in findings[: findings.index(finding)]
        if other.alarm and other.name in GRAVE
    ]
    if graver:
        sentence += f" This may only be an effect of {' and '.join(graver)}; deal with that first."
    return replace(finding, sentence=sentence)


def _raises(statistic, threshold, p_value):
    return bool(statistic > threshold and (p_value is None or p_value <= LEVEL))


def _finding(name, threshold, found, calm, data):
    """The (statistic, p, where, sentence) that raises the alarm, or comes nearest to it."""
    found = sorted(
        found, key=lambda one: (not _raises(one[0], threshold, one[1]), one[1] or 0, -one[0])
    )
    statistic, p_value, where, sentence = found[0]
    raised = _raises(statistic, threshold, p_value)
    text = f"{sentence}; {ANSWERS[name]}." if raised else f"{calm}."
    return Finding(name, float(statistic), threshold, p_value, where if raised else [], text, data)


def _p(p_value, n_tests):
    return float(min(1.0, p_value * n_tests))


def _uneven(surveys, axis):
    """Noise that differs by feature (axis 0) or sample (1): the F test of their effects on y."""
    what = ("feature", "sample")[axis]
    found = []
    data = {
        "sources": [s.name for s in surveys],
        "raw": [],
        "chance": [],
        "sd": [s.sd for s in surveys],
    }
    for s in surveys:
        names = (s.sources.feature_names, s.sources.sample_names[s.c])[axis]
        p_value = fdtrc(max(s.freedom[axis], 1), s.last_freedom, s.ratios[axis])
        top = np.argsort(-np.abs(s.scales[axis]), kind="stable")[:5]
        low, high = s.sd * np.exp(np.quantile(s.scales[axis], [0.05, 0.95]))
        sentence = (
            f"The noise of {s.name} differs from {what} to {what}: nine in ten have an sd between "
            f"{low:.3g} and {high:.3g}, and {names[top[0]]} has "
            f"{s.sd * np.exp(s.scales[axis][top[0]]):.3g}"
        )
        where = [f"{names[i]} in {s.name}" for i in top]
        found.append((s.spreads[axis], _p(p_value, len(surveys)), where, sentence))
        part = (s.rows, s.columns)[axis]
        data["raw"].append(log_scale(part[1]) - log_scale(s.means[0]))
        data["chance"].append(np.sqrt(s.y_variance / np.maximum(part[0], 1)) / s.rise)
    return _finding(
        f"{what} noise",
        SPREAD,
        found,
        f"The noise is about the same in all {what}s of a source",
        data,
    )


def _wild(surveys, robust):
    """Entries far from the fit: how many lie beyond each of CUTS, against normal noise."""
    found = []
    calm = "No more entries lie far out than normal noise would put there"
    for s in surveys:
        # a spread of the noise that is no alarm itself must make none here
        expected = s.n * 2 * ndtr(-CUTS / (1 + SPREAD))
        counts = s.beyond[-len(CUTS) :]
        p_values = gammainc(counts, expected)  # Poisson: so many or more
        best = int(np.argmin(p_values))
        where = [
            f"{s.sources.feature_names[i]} of {s.sources.sample_names[s.c][j]} in {s.name}"
            for far, i, j in s.worst
            if far > CUTS[best]
        ]
        sentence = (
            f"Of {s.n:,.0f} entries of {s.name}, {counts[best]:,.0f} lie more than {CUTS[best]:g} "
            f"noise sds from the fit, where {expected[best]:.2g} would be expected; the largest "
            f"residual is {s.worst[0][0]:.3g} sds"
        )
        found.append(
            (
                counts[best] / expected[best],
                _p(p_values[best], len(surveys) * len(CUTS)),
                where,
                sentence,
            )
        )
    if robust:  # it has down-weighted whatever lies far out, so that is no alarm
        (_, i, j), s = max(((s.worst[0], s) for s in surveys), key=lambda one: one[0][0])
        calm = "The fit down-weights entries that lie far out; the farthest is "
        calm += f"{s.sources.feature_names[i]} of {s.sources.sample_names[s.c][j]} in {s.name}"
        found = [(0.0, None, [], "")]
    data = {
        "sources": [s.name for s in surveys],
        "at": s.at,
        "share": [s.beyond / s.n for s in surveys],
    }
    return _finding("outliers", 1.0, found, calm, data)


def _growing(surveys):
    """Noise that changes with the signal, within features and samples or between features."""
    found = []
    data = {
        "sources": [s.name for s in surveys],
        "signal": [s.edges for s in surveys],
        "n": [],
        "sd": [],
    }
    for s in surveys:
        within = s.slope * np.sqrt(s.signal_squared / s.n) / s.rise
        t = abs(s.slope) * np.sqrt(s.signal_squared / s.y_variance)
        # means that are noise are as often low as high: the terms' own squares give the variance of
        # their sum
        _, place, ties = np.unique(s.x / s.counts, return_inverse=True, return_counts=True)
        rank = (np.cumsum(ties) - (ties - 1) / 2)[place]
        terms = (
            (rank - rank.mean())
            / (rank.std() or 1)
            * (s.y_by_feature - s.y_by_feature.mean())
            / s.rise
        )
        self_normed = abs(terms.sum()) / np.sqrt((terms**2).sum() or 1)
        p_values = 2 * ndtr(-t), 2 * stdtr(max(len(terms) - 1, 1), -self_normed)
        for change, p_value, what in zip(
            (within, terms.mean()), p_values, ("entries", "features"), strict=True
        ):
            sentence = (
                f"The noise of {s.name} {'grows' if change > 0 else 'falls'} with the signal: its "
                f"sd changes {np.exp(2 * abs(change)):.2g}-fold from {what} one sd below the mean "
                "signal to those one sd above"
            )
            found.append((abs(change), _p(p_value, 2 * len(surveys)), [s.name], sentence))
        n, y = s.by_signal[:, :-1]
        data["n"].append(n)
        data["sd"].append(np.sqrt(s.s2.sum() / s.n) * np.exp(log_scale(y / np.maximum(n, 1))))
    return _finding(
        "signal-dependent noise", GROWTH, found, "The noise does not depend on the signal", data
    )


def _shifts(surveys, owned):
    """A source whose features are shifted against the others.

    What the fit cannot follow stays in the mean residual of each feature in a source.  Divided by
    their sds these are standard normal; combinations of components are projected out, for they are
    another mix of samples, and the squares of the rest sum to chi-square with M - K degrees of
    freedom.  The shift is larger than the residual, because W has followed it by the share
    Var[sum_j w_i'h_j] / (N s2), less what lies along the components.  What the fit can follow makes
    a component that nearly all samples of the shifted source need, and hardly any of another.
    """
    found = []
    data = {"sources": [s.name for s in surveys], "z": []}
    for s in surveys:
        used = s.rows[0] > 2
        n = s.counts
        r = np.where(used, s.r, 0)
        s2 = np.where(used, s.s2, 1)
        factor = np.where(
            used, (s.r_squared - s.r**2 / n) / np.where(used, s.left, 1), 1
        )  # the feature's own scale
        # of a source that outweighs the others little is left, badly known
        kept = np.maximum(1 - s.of_sum_aside / s2, 0.05)
        sd = np.sqrt(np.maximum(factor, 1e-12) * kept * s2)
        basis = np.linalg.qr(s.w * (used * n / sd)[:, None])[0]
        z = r / sd - basis @ (basis.T @ (r / sd))
        p_value = chdtrc(max(used.sum() - s.w.shape[1], 1), z @ z)
        one_sd = sd / n / kept
        size = (
            np.sqrt(max(np.mean(((z**2 - 1) * one_sd**2)[used]), 0))
            if len(surveys) > 1 and used.any()
            else 0.0
        )
        top = [
            f"{s.sources.feature_names[i]} in {s.name}"
            for i in np.argsort(-np.abs(z), kind="stable")[:5]
        ]
        sentence = (
            f"The features of {s.name} are shifted against the other sources, by about {size:.2g} "
            f"(root mean square; its noise sd is {s.sd:.2g})"
        )
        found.append((size / s.sd, _p(p_value, len(surveys)), top, sentence))
        data["z"].append(z[used])
    offsets = surveys[0].result.model.offsets is not None
    calm = "Beyond its offsets, n" if offsets else "N"
    finding = _finding(
        "shifts", SHIFT, found, f"{calm}o source is shifted against the others", data
    )
    alone = np.where(owned.by_all, owned.alone, 0)
    if finding.alarm or offsets or alone.max() <= OWNED_BY_ALL:
        return finding
    data["gain"] = owned.comparable
    c, k = np.unravel_index(np.argmax(alone), alone.shape)
    sentence = (
        f"Component C{k + 1} is in nearly all samples of {surveys[c].name}, while the other "
        f"sources gain from it at most {100 * (1 - alone[c, k]):.0f} % of what they would if they "
        f"used it so: unless its samples are of another kind, {surveys[c].name} is shifted"
    )
    where = [f"C{k + 1} in {surveys[c].name}"]
    return _finding("shifts", OWNED_BY_ALL, [(alone[c, k], None, where, sentence)], "", data)


class _Ownership:
    """How far a component belongs to one source.

    gains are nats by which a sample is better described with a component than without: differences
    of the bound on ln p(x_j) with memberships integrated out (projection.py), W as it is.  With the
    same memberships a source gains as N / s2.  alone is 1 less the largest share that another
    source has of what it would gain if it used the component as this one does; 0 where it would not
    gain enough to tell.  by_all says that nearly all samples gain, not some. comparable are gains
    per sample as they would be with the noise of the least noisy source.
    """

    def __init__(self, surveys):
        gains = [self._gains(s) for s in surveys]
        total = np.array([gain.sum(axis=1) for gain in gains])
        weight = np.array([[s.shape[1] / s.sd**2] for s in surveys])
        self.alone = np.zeros_like(total)
        self.comparable = total / weight / min(s.sd**2 for s in surveys)
        for c in range(len(surveys) if len(surveys) > 1 else 0):
            stake = np.delete(weight, c, axis=0) / weight[c] * total[c]
            use = np.delete(total, c, axis=0) / np.maximum(stake, TELLING)
            self.alone[c] = np.where(
                (stake > TELLING).all(axis=0), 1 - np.maximum(use.max(axis=0), 0), 0
            )
        large = [(gain > gain.mean(axis=1, keepdims=True) / 4).mean(axis=1) for gain in gains]
        self.by_all = np.array(large) > NEARLY_ALL

    @staticmethod
    def _gains(s):
        everything = np.arange(len(s.h))
        start = s.alpha0[:, None] + 10 * s.h

        def bound(keep):
            linear = np.ascontiguousarray(s.linear[keep])
            first = np.ascontiguousarray(start[keep])
            gram = s.gram[np.ix_(keep, keep)]
            alpha0 = s.alpha0[keep]
            best = dirichlet.maximise(gram, linear, s.u, alpha0, first, tol=1e-4, max_steps=100)
            return best.value + dirichlet.log_normaliser(alpha0)

        if len(everything) == 1:
            return np.zeros_like(s.h)
        full = bound(everything)
        return np.array([full - bound(np.delete(everything, k)) for k in everything])


def _private(surveys, owned, priors):
    """A component of one source alone; a learned Dirichlet allows for it."""
    alone = (
        np.zeros_like(owned.alone)
        if priors.learns_alpha
        else np.where(owned.by_all, 0, owned.alone)
    )
    c, k = np.unravel_index(np.argmax(alone), alone.shape)
    sentence = (
        f"Component C{k + 1} belongs to {surveys[c].name} alone: the other sources gain from it at "
        f"most {100 * (1 - alone[c, k]):.0f} % of what they would if they used it as "
        f"{surveys[c].name} does"
    )
    data = {"sources": [s.name for s in surveys], "gain": owned.comparable}
    found = [(alone[c, k], None, [f"C{k + 1} in {surveys[c].name}"], sentence)]
    return _finding(
        "source-specific component", OWNED, found, "No component belongs to one source alone", data
    )


def _unit(surveys, priors):
    """Data larger or smaller than fixed priors expect; the source of the least spread decides."""
    lambda_ = priors.lambda_
    b0 = priors.b0
    squares = np.array([max(s.x_squared - (s.x**2 / s.counts).sum(), 1e-300) for s in surveys])
    sizes = np.sqrt(squares / [s.n for s in surveys])
    ratio = sizes.min() / lambda_
    scale = (
        0.0
        if "lambda_" in priors.relative or priors.learns_lambda
        else max(ratio / LARGE, SMALL / ratio)
    )
    statistic = max(scale, 0.0 if "b0" in priors.relative else 2 * b0 / squares.min() / PRIOR_NOISE)
    sentence = (
        f"The data vary by {sizes.min():.3g} around the means of features, {ratio:.3g} times the "
        f"size that the prior expects (lambda_ = {lambda_:g})"
    )
    data = {"sources": [s.name for s in surveys], "size": sizes, "lambda_": lambda_}
    calm = (
        "The prior follows the unit of the data"
        if priors.relative
        else "The unit of the data suits the prior"
    )
    return _finding("unit", 1.0, [(statistic, None, [], sentence)], calm, data)


def _origin(surveys, priors, origin):
    """Feature means far from zero, where fixed priors of the components have their middle."""
    lambda_ = priors.lambda_
    n = sum(s.rows[0] for s in surveys)
    means = sum(s.x for s in surveys) / n
    spread = np.sqrt(max(sum(s.x_squared for s in surveys) - (n * means**2).sum(), 0) / n.sum())
    size = np.sqrt(np.mean(means**2))
    statistic = size / max(FAR * lambda_, FAR_IN_SDS * spread)
    calm = "The means of the features are near enough to zero"
    if origin is not None:
        statistic = 0.0
        calm = "The prior follows the origin of the data"
    top = [
        surveys[0].sources.feature_names[i] for i in np.argsort(-np.abs(means), kind="stable")[:5]
    ]
    sentence = (
        f"The data lie far from zero, where the prior expects them: the means of features are "
        f"{size:.3g} (root mean square), the spread around them is {spread:.3g}, and lambda_ is "
        f"{lambda_:g}"
    )
    data = {"means": means, "spread": spread, "lambda_": lambda_}
    return _finding("origin", 1.0, [(statistic, None, top, sentence)], calm, data)
