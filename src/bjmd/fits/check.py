"""What in the residuals of a fit contradicts the model, in plain sentences with numbers.

    for finding in check(sources, result):
        print(finding.alarm, finding.sentence)

**Residuals.**  r_ij = x_ij - E[w_i]'E[h_j].  A fit follows its data, so residuals are smaller than the noise.  For a
linear model y = Z b + e with a normal prior on b, the residual at the posterior mean is s2 (Z V Z' + s2 I)^-1 y, whose
covariance, data drawn from the model, is

    s2 I - Z Cov[b | y] Z':   the noise's less that of the fit under the posterior.

Here w_i'h_j takes the place of Zb, so z_ij = r_ij / sqrt(s2 - Var[w_i'h_j]) has variance 1, and so have sums of
residuals over the samples of a source, divided by the root of N s2 - Var[sum_j w_i'h_j].  Degrees of freedom that the fit
has used up are thereby counted where it has used them.

**Scales.**  y_ij = ln(z_ij^2 + SOFT) turns a factor on the noise into a sum and is hardly moved by wild entries.  Under the
model the y_ij of a source are alike, whatever their distribution; an analysis of variance by feature and by sample tells
whether some scales differ.  SOFT is the number for which y has no skewness under normal noise, so that few samples do.

**Alarms.**  A finding raises the alarm where it is beyond chance (p at most LEVEL, after Bonferroni over sources) *and* its
size is worth a word (statistic above threshold): with enough data every model is wrong beyond chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy import stats
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.data.streamed import Streamed
from bjmd.errors import InputError
from bjmd.fits import registry
from bjmd.fits.decomposition import Decomposition
from bjmd.fits.posterior import DirichletColumns
from bjmd.model import Priors
from bjmd.numerics import dirichlet

LEVEL = 0.01
"""The chance of a false alarm that each check allows itself, should its size not keep it silent anyway."""
SPREAD = 0.15
"""Sd of ln(noise sd) over features or samples; t, ignored, costs about 4 t^2 of the information, here a tenth."""
GROWTH = 0.1
"""Change of ln(noise sd) for one sd of the signal."""
SHIFT = 0.1
"""Root mean square of a source's shifts, as a share of its noise sd."""
EVERY, HALF = 0.9, 0.6
"""Shares of a source's samples that count as (nearly) all, and as no more than chance and a mixture give."""
OWNED = 0.9
"""Share of what a component explains that must be its owner's alone."""
TELLING = 10.0
"""Nats that a source would gain from a component, did it use it as the owner does, for its silence to mean something."""
LARGE, OFF_CENTRE, PRIOR_NOISE, SMALL = 10.0, (5.0, 3.0), 0.05, 1e-3
"""Data against fixed priors: size over lambda; means over lambda and over sd; b0's share of the noise; size over lambda."""
SOFT = 0.05
CUTS = np.array([4.0, 4.5, 5.0, 6.0, 8.0, 12.0])
"""Distances, in noise sds, beyond which entries are counted."""
LEEWAY = 1.05
"""The noise sd may be so much larger than estimated before an entry counts as wild."""
BLOCK = 2**20
"""Entries that are looked at at once."""

ANSWERS = {
    "feature noise": 'noise="feature" answers it',
    "sample noise": 'noise="sample" answers it',
    "wild entries": 'noise="robust" answers it',
    "shifts": "offsets=True answers it",
    "growing noise": "transform the data first: the square root or log(1 + x) for counts",
    "private component": 'alpha0="learned" answers it',
    "unit": 'lambda_="auto" answers it',
    "origin": "intercept=True answers it",
}
"""Which option answers which alarm."""

_LOG_SCALES = np.linspace(-8, 8, 321)
_EXPECTED_Y = np.mean(
    [np.log(np.exp(2 * _LOG_SCALES) * z**2 + SOFT) for z in stats.norm.ppf((np.arange(2000) + 0.5) / 2000)], axis=0
)


@dataclass(frozen=True)
class Finding:
    """One way in which data may contradict the model.

    The alarm is raised where statistic > threshold and p_value (None where size alone decides) is at most LEVEL.  where
    names the worst offenders, and data is what a picture needs.
    """

    name: str
    statistic: float
    threshold: float
    p_value: float | None
    where: list[str]
    sentence: str
    data: dict[str, Any]

    @property
    def alarm(self) -> bool:
        return bool(self.statistic > self.threshold and (self.p_value is None or self.p_value <= LEVEL))


def check(sources: Sources, result: Decomposition) -> list[Finding]:
    """Every finding about a fit of BJMD and its data, alarm or not; the data are read three times, block by block."""
    if not registry.get(result.method).infers_bjmd:
        able = ", ".join(method.name for method in registry.METHODS.values() if method.infers_bjmd)
        raise InputError(f"method {result.method!r} has no noise model of BJMD to check; fit with one of {able}")
    with threadpool_limits(1):
        rows = _row_covariance(result)
        surveys = [_Survey(sources, result, rows, c) for c in range(len(sources))]
        gains = [_gains(survey) for survey in surveys]
    return [
        _uneven("feature noise", surveys, 0),
        _uneven("sample noise", surveys, 1),
        _wild(surveys),
        _shifts(surveys, gains),
        _growing(surveys),
        _private(surveys, gains),
        _unit(surveys, result),
        _origin(surveys, result),
    ]


def log_scale(y):
    """ln of the factor on standard normal noise that gives y on average."""
    return np.interp(y, _EXPECTED_Y, _LOG_SCALES)


def _per_log_scale(y):
    """dy / d(log scale)."""
    return np.interp(log_scale(y), _LOG_SCALES, np.gradient(_EXPECTED_Y, _LOG_SCALES))


class _Survey:
    """Sums over the residuals of one source.  Features without an entry there count nowhere."""

    def __init__(self, sources, result, row_covariance, c):
        self.sources, self.result, self.c, self.name = sources, result, c, sources.names[c]
        self.rows, self.n_components = row_covariance, result.n_components
        self.squares = row_covariance + result.components[:, :, None] * result.components[:, None, :]
        self.shape = sources.n_features, sources.n_samples[c]
        self._sums()
        self._variance_analysis()
        self._growth()
        self._tails()

    def blocks(self):
        """Columns, which entries are observed, x (0 where missing), E[WH], noise variance, its part left in residuals,
        and the variance of w_i'h_j that stems from h_j."""
        step = max(1, BLOCK // self.shape[0])
        for first in range(0, self.shape[1], step):
            columns = slice(first, min(first + step, self.shape[1]))
            x = _columns(self.sources.matrices[self.c], columns)
            seen = ~np.isnan(x)
            h = self.result.memberships[self.c][:, columns]
            variance = np.broadcast_to(expected_sd(self.result, self.c, columns) ** 2, x.shape)
            own = _inner(self.squares, _column_covariance(self.result, self.c, columns))
            of_fit = own + _inner(self.rows, h[:, None] * h)
            # no entry is all the fit's: where the model fails badly, the posterior may claim so
            left = np.maximum(variance - of_fit, 0.1 * variance)
            yield columns, seen, np.where(seen, x, 0), expected_mean(self.result, self.c, columns), variance, left, own

    def _sums(self):
        """First pass."""
        m, n = self.shape
        h = self.result.memberships[self.c]
        self.root_mean_square = np.sqrt(np.vdot(self.squares.sum(axis=0), h @ h.T) / (m * n))
        by_row = np.zeros((10, m))
        self.column = np.zeros((3, n))  # counts, y and signal
        weight, self.linear = np.zeros((m, self.n_components)), np.zeros((self.n_components, n))
        self.y_squared, self.x_squared, self.lowest, self.highest = 0.0, 0.0, np.inf, -np.inf
        for columns, seen, x, mean, variance, left, own in self.blocks():
            r = np.where(seen, x - mean, 0)
            y = np.where(seen, np.log(r**2 / left + SOFT), 0)
            signal = np.where(seen, self.signal(mean), 0)
            parts = (seen, y, signal, r, r**2, seen * left, seen * variance, seen * own, seen / variance, x)
            by_row += [part.sum(axis=1) for part in parts]
            self.column[:, columns] = [part.sum(axis=0) for part in parts[:3]]
            weight += seen @ h[:, columns].T
            self.linear[:, columns] = self.result.components.T @ (np.where(seen, x, mean) / variance)
            self.y_squared += np.vdot(y, y)
            self.lowest, self.highest = min(self.lowest, mean.min()), max(self.highest, mean.max())
            self.x_squared += np.vdot(x, x)
        self.row = by_row[:3]
        _, _, _, self.r_sum, self.r_squared, self.left, self.variance, own, precision, self.x_sum = by_row
        self.precision = precision / np.maximum(self.row[0], 1)
        self.of_fit = np.einsum("ik,ikl,il->i", weight, self.rows, weight) + own
        """Var[sum_j w_i'h_j] over the observed entries of every feature."""

    def _variance_analysis(self):
        """Row and column effects on y; scales[0] are ln factors by feature and scales[1] by sample, shrunk to 0."""
        self.n = self.row[0].sum()
        self.y, self.u = self.row[1:].sum(axis=1) / self.n
        sums, self.freedom, self.scales, self.spreads = [], [], [], []
        for part in (self.row, self.column):
            part[1:] = np.where(part[0] > 0, part[1:] / np.maximum(part[0], 1), [[self.y], [self.u]])
            sums.append((part[0] * (part[1] - self.y) ** 2).sum())
            self.freedom.append((part[0] > 0).sum() - 1)
        self.residual_freedom = max(self.n - sum(self.freedom) - 1, 1)
        self.residual_y = max((self.y_squared - self.n * self.y**2 - sum(sums)) / self.residual_freedom, 1e-12)
        self.ratios = [s / max(df, 1) / self.residual_y for s, df in zip(sums, self.freedom, strict=True)]
        for part in (self.row, self.column):
            raw = np.where(part[0] > 0, log_scale(part[1]) - log_scale(self.y), 0)
            chance = self.residual_y / np.maximum(part[0], 1) / _per_log_scale(part[1]) ** 2
            spread = max(np.mean(raw**2) - chance.mean(), 0)
            self.scales.append(raw * spread / (spread + chance))
            self.spreads.append(np.sqrt(spread))

    def signal(self, mean):
        """The fitted value, its extremes drawn in."""
        return np.arcsinh(mean / (self.root_mean_square or 1))

    def _centred(self, values, columns, which):
        """Less the effects of feature and sample."""
        grand = (self.y, self.u)[which - 1]
        return values - self.row[which][:, None] - self.column[which][columns] + grand

    def _growth(self):
        """Second pass: the regression of y on the signal within features and samples."""
        products = np.zeros(2)
        for columns, seen, x, mean, _, left, _ in self.blocks():
            y = self._centred(np.log((x - mean) ** 2 / left + SOFT), columns, 1)
            u = seen * self._centred(self.signal(mean), columns, 2)
            products += np.vdot(y, u), np.vdot(u, u)
        self.signal_squared = max(products[1], 1e-300)
        self.slope = products[0] / self.signal_squared

    def _tails(self):
        """Third pass: entries far out for their feature, sample and signal; and noise by signal, for the picture."""
        edges = np.linspace(self.lowest, np.nextafter(self.highest, np.inf), 16)
        self.by_signal = np.zeros((2, len(edges)))
        self.tail_at = np.concatenate([np.arange(0, 4, 0.1), CUTS])
        self.beyond, worst = np.zeros(len(self.tail_at)), []
        for columns, seen, x, mean, _, left, _ in self.blocks():
            z = np.where(seen, x - mean, 0) / np.sqrt(left)
            u = self._centred(self.signal(mean), columns, 2)
            ln_scale = log_scale(self.y) + self.scales[0][:, None] + self.scales[1][columns]
            far = np.abs(z) * np.exp(-ln_scale - self.slope / _per_log_scale(self.y) * u)
            sorted_far = np.sort(far[seen])
            self.beyond += len(sorted_far) - np.searchsorted(sorted_far, self.tail_at, side="right")
            top = np.argpartition(far.ravel(), -min(5, far.size))[-5:]
            for i, j in zip(*np.unravel_index(top, far.shape), strict=True):
                worst.append((far[i, j], int(i), columns.start + int(j)))
            y = self._centred(np.log(z**2 + SOFT), columns, 1) + self.y
            bins = np.clip(np.searchsorted(edges, mean, side="right") - 1, 0, len(edges) - 1)[seen]
            for part, values in zip(self.by_signal, (None, y[seen]), strict=True):
                part += np.bincount(bins, values, minlength=len(edges))
        self.worst = sorted(worst, reverse=True)[:5]
        self.signal_edges = edges

    @property
    def sd(self):
        """The noise sd that most of the entries have."""
        return np.sqrt(self.variance.sum() / self.n) * np.exp(log_scale(self.y))


def _worst(name, candidates, sentences):
    """The finding about the source that raises the alarm, or else comes nearest to it.

    candidates: statistic, threshold, p (Bonferroni comes here), where, alarm, details by source; sentences: what is said
    with the alarm and without.
    """


def _p(value, tests):
    return float(min(1.0, value * tests))


def _uneven(name, surveys, axis):
    """Noise that differs by feature (axis 0) or by sample (axis 1): the F test of the variance analysis of y."""
    what = ("feature", "sample")[axis]
    found = []
    for s in surveys:
        p = stats.f.sf(s.ratios[axis], max(s.freedom[axis], 1), s.residual_freedom)
        sds = s.sd * np.exp(s.scales[axis])
        low, high = np.quantile(sds, [0.05, 0.95])
        names = (s.sources.feature_names, s.sources.sample_names[s.c])[axis]
        order = np.argsort(-np.abs(s.scales[axis]), kind="stable")[:5]
        alarm = (
            f"The noise of {s.name} differs from {what} to {what}: nine in ten have an sd between {low:.3g} and {high:.3g}; "
            f"{_listed([names[i] for i in order[:3]])} stand out"
        )
        found.append((s.spreads[axis], _p(p, len(surveys)), [f"{names[i]} in {s.name}" for i in order], alarm))
    calm = f"The noise is about the same in all {what}s of a source"
    data = {"sources": [s.name for s in surveys], "sd": [s.sd * np.exp(s.scales[axis]) for s in surveys]}
    data["raw"] = [np.sort(log_scale((s.row, s.column)[axis][1]) - log_scale(s.y)) for s in surveys]
    data["chance"] = [
        np.sqrt(s.residual_y / s.n * len(s.scales[axis])) / _per_log_scale(s.y) for s in surveys
    ]  # one sd of ln(scale) by chance, for a feature or sample of average size
    return _finding(name, SPREAD, found, calm, data)


def _finding(name, threshold, found, calm, data):
    """The finding for the source that raises the alarm, or else has the smallest p; found: (size, p, where, sentence)."""
    size, p, where, sentence = min(found, key=lambda one: (one[0] <= threshold, one[1], -one[0]))
    raised = size > threshold and p <= LEVEL
    return Finding(
        name, float(size), threshold, p, where if raised else [], f"{sentence}; {ANSWERS[name]}." if raised else f"{calm}.", data
    )


def _wild(surveys):
    """Entries far from the fit: their number beyond each of CUTS against the Poisson number of normal noise."""
    best = None
    for s in surveys:
        counts = s.beyond[-len(CUTS) :]
        expected = s.n * 2 * stats.norm.sf(CUTS / LEEWAY)
        ps = stats.poisson.sf(counts - 1, expected)
        k = int(np.argmin(ps))
        one = (_p(ps[k], len(surveys) * len(CUTS)), -counts[k], expected[k], CUTS[k], s)
        best = min(best or one, one, key=lambda o: o[:2])
    p, count, expected, cut, s = best
    where = [
        f"{s.sources.feature_names[i]} of {s.sources.sample_names[s.c][j]} in {s.name} ({far:.3g} sds)"
        for far, i, j in s.worst if far > cut
    ]
    sentence = (
        f"{-count:,.0f} of {s.n:,.0f} entries of {s.name} lie more than {cut:g} noise sds from the fit, where normal noise "
        f"has {expected:.2g}; the farthest is {s.worst[0][0]:.3g} away"
    )
    calm = "No more entries lie far from the fit than normal noise puts there"
    data = {"sources": [s.name for s in surveys], "at": s.tail_at, "share": [s.beyond / s.n for s in surveys]}
    raised = -count > expected and p <= LEVEL
    text = f"{sentence}; {ANSWERS['wild entries']}." if raised else f"{calm}."
    return Finding("wild entries", float(-count), float(expected), p, where if raised else [], text, data)


def _shifts(surveys, gains):
    """A source whose features are shifted.

    What the fit could not absorb is seen in the mean residual of every feature in a source, in units of its own row's
    scale.  The part that a combination of the components explains is projected out, because it is the same as another
    mix of samples, and because memberships of noisy sources, drawn to the middle, leave such a part behind: T, the
    squared length of the rest, is chi-square with M - K degrees of freedom.  What the fit could absorb, it puts into a
    component that (nearly) all samples of the shifted source need and no more of the others than noise makes.
    """
    found, estimates = [], []
    for s in surveys:
        n = s.row[0]
        used = n > 2
        factor = np.where(used, (s.r_squared - s.r_sum**2 / np.maximum(n, 1)) / np.where(used, s.left, 1), 1)
        # the mean of a source that outweighs the others is nearly all the fit's, and what is left badly known
        kept = np.maximum(1 - s.of_fit / np.where(used, s.variance, 1), 0.05)
        sd = np.sqrt(np.maximum(factor, 1e-300) * kept * np.where(used, s.variance, 1))
        z = np.where(used, s.r_sum / sd, 0)
        basis = np.linalg.qr(s.result.components * (used * n / sd)[:, None])[0]
        z -= basis @ (basis.T @ z)
        freedom = max(used.sum() - s.n_components, 1)
        p = stats.chi2.sf(z @ z, freedom)
        # the shift that would leave such a residual, once the components have followed it in part
        one_sd = sd / np.maximum(n, 1) / kept
        size = np.sqrt(max(np.mean(((z * one_sd)[used]) ** 2) - np.mean(one_sd[used] ** 2), 0))
        order = np.argsort(-np.abs(z), kind="stable")[:5]
        sentence = (
            f"The features of {s.name} are shifted against the other sources by about {size:.2g} (root mean square; its "
            f"noise sd is {s.sd:.2g})"
        )
        names = [f"{s.sources.feature_names[i]} in {s.name}" for i in order]
        found.append((size / s.sd if len(surveys) > 1 else 0.0, _p(p, len(surveys)), names, sentence))
        estimates.append(z)
    data = {"sources": [s.name for s in surveys], "z": estimates}
    finding = _finding("shifts", SHIFT, found, "No source is shifted against the others", data)
    if finding.alarm or len(surveys) == 1:
        return finding
    needing = np.array([(gain > 0).mean(axis=1) for gain in gains])
    data["needing"] = needing
    c, k = np.unravel_index(np.argmax(needing - _largest_other(needing)), needing.shape)
    if needing[c, k] < EVERY or _largest_other(needing)[c, k] > HALF:
        return finding
    share = f"{100 * needing[c, k]:.0f} % of the samples of {surveys[c].name} need component C{k + 1}"
    sentence = f"{share}, and no source else needs it so: a shift, or samples of another kind; if a shift, {ANSWERS['shifts']}."
    return Finding("shifts", needing[c, k], EVERY - 1e-9, None, [f"C{k + 1} in {surveys[c].name}"], sentence, data)


def _largest_other(values):
    """For every source the largest value among the other sources, sources x components."""
    return np.array([np.delete(values, c, axis=0).max(axis=0) for c in range(len(values))])


def _growing(surveys):
    """Noise that grows or falls with the signal, within features and samples, or from feature to feature."""
    found = []
    for s in surveys:
        per = _per_log_scale(s.y)
        within = s.slope * np.sqrt(s.signal_squared / s.n) / per
        p_within = 2 * stats.norm.sf(abs(s.slope) * np.sqrt(s.signal_squared / s.residual_y))
        # between features: the rank of the mean against the scale; squares of the terms give their own variance
        rank = stats.rankdata(s.x_sum / np.maximum(s.row[0], 1))
        rank = (rank - rank.mean()) / (rank.std() or 1)
        terms = rank * (s.row[1] - s.row[1].mean())
        between = terms.mean() / per
        p_between = 2 * stats.t.sf(abs(terms.sum()) / np.sqrt(max((terms**2).sum(), 1e-300)), max(len(rank) - 1, 1))
        for change, p, where in ((within, p_within, "entries"), (between, p_between, "features")):
            verb = "grows" if change > 0 else "falls"
            times = np.exp(2 * abs(change))
            sentence = (
                f"The noise of {s.name} {verb} with the signal: from {where} one sd below the mean of the signal to those one "
                f"sd above, its sd changes {times:.2g}-fold"
            )
            found.append((abs(change), _p(p, 2 * len(surveys)), [s.name], sentence))
    data = {
        "sources": [s.name for s in surveys],
        "signal": [s.signal_edges for s in surveys],
        "n": [s.by_signal[0] for s in surveys],
        "sd": [
            np.sqrt(s.variance.sum() / s.n) * np.exp(log_scale(s.by_signal[1] / np.maximum(s.by_signal[0], 1)))
            for s in surveys
        ],
    }
    return _finding("growing noise", GROWTH, found, "The noise does not depend on the signal", data)


def _gains(survey):
    """Nats by which every sample is better described with a component than without it, components x samples.

    The bound on ln p(x_j) with memberships integrated out (projection.log_evidence), W as it is, once with all
    components and once with each of them left out.
    """
    s, size = survey, survey.n_components
    gram = np.tensordot(s.precision, s.squares, axes=1)
    alpha0 = _priors(s.result).dirichlet(size)
    start = alpha0[:, None] + 10 * s.result.memberships[s.c]

    def evidence(keep):
        kept = [np.ascontiguousarray(part[keep]) for part in (s.linear, alpha0, start)]
        best = dirichlet.maximise(gram[np.ix_(keep, keep)], kept[0], 1.0, *kept[1:], tol=1e-4, max_steps=100)
        return best.value + dirichlet.log_normaliser(kept[1])

    everything = np.arange(size)
    if size == 1:
        return np.zeros((1, s.shape[1]))
    full = evidence(everything)
    return np.array([full - evidence(np.delete(everything, k)) for k in everything])


def _private(surveys, gains):
    """A component that one source owns.

    What a source gains from a component goes with its number of samples and, for the same memberships, with 1/s2.  So
    gain s2 / N compares sources of different noise.  A component is owned where the others have next to nothing of what
    they would have if they used it as its owner does, and that would be TELLING: a source too noisy to tell is no witness.
    """
    total = np.array([gain.sum(axis=1) for gain in gains])
    weight = np.array([s.shape[1] / s.sd**2 for s in surveys])[:, None]
    data = {"sources": [s.name for s in surveys], "gain": total / np.array([[s.shape[1]] for s in surveys])}
    calm = "No component belongs to one source alone."
    lone, owner, component = 0.0, 0, 0
    for c in range(len(surveys)) if len(surveys) > 1 else ():
        like_owner = weight * (total[c] / weight[c])
        use = np.delete(total, c, axis=0) / np.maximum(np.delete(like_owner, c, axis=0), TELLING)
        constant = (gains[c] > 0).mean(axis=1) >= EVERY
        witnessed = (like_owner >= TELLING).all(axis=0) & ~constant
        share = np.where(witnessed, 1 - np.maximum(use.max(axis=0), 0), 0)
        if share.max() > lone:
            lone, owner, component = float(share.max()), c, int(share.argmax())
    name = surveys[owner].name
    if lone <= OWNED:
        return Finding("private component", lone, OWNED, None, [], calm, data)
    sentence = (
        f"Component C{component + 1} belongs to {name} alone: the other sources have {100 * (1 - lone):.0f} % of the use "
        f"for it that {name} has; {ANSWERS['private component']}."
    )
    return Finding("private component", lone, OWNED, None, [f"C{component + 1} in {name}"], sentence, data)


def _unit(surveys, result):
    """Data whose size is not that which fixed priors expect; the source of the smallest spread counts."""
    priors = _priors(result)
    sizes = np.array(
        [np.sqrt(max(s.x_squared - (s.x_sum**2 / np.maximum(s.row[0], 1)).sum(), 0) / s.n) for s in surveys]
    )
    smallest = max(sizes.min(), 1e-300)
    prior_noise = max(2 * priors.b0 / (s.n * size**2) for s, size in zip(surveys, np.maximum(sizes, 1e-300), strict=True))
    ratio = smallest / priors.lambda_
    size = max(ratio / LARGE, SMALL / ratio, prior_noise / PRIOR_NOISE)
    side = "larger" if ratio > 1 else "smaller"
    factor = max(ratio, 1 / ratio)
    sentence = (
        f"The data are {factor:.3g} times {side} than the prior expects: their root mean square around feature means is "
        f"{smallest:.3g}, and lambda_ is {priors.lambda_:g}; {ANSWERS['unit']}."
    )
    calm = f"The size of the data ({smallest:.3g}) suits the prior (lambda_ = {priors.lambda_:g})."
    data = {"sources": [s.name for s in surveys], "size": sizes, "lambda_": priors.lambda_}
    return Finding("unit", float(size), 1.0, None, [], sentence if size > 1 else calm, data)


def _origin(surveys, result):
    """Feature means far from zero, around which the prior of the components sits."""
    lambda_ = _priors(result).lambda_
    n = sum(s.row[0] for s in surveys)
    means = sum(s.x_sum for s in surveys) / n
    sd = np.sqrt(max((sum(s.x_squared for s in surveys) - (n * means**2).sum()) / n.sum(), 0))
    far = np.sqrt(np.mean(means**2))
    size = far / max(OFF_CENTRE[0] * lambda_, OFF_CENTRE[1] * sd)
    order = np.argsort(-np.abs(means), kind="stable")[:5]
    sentence = (
        f"The data lie far from zero: feature means are {far:.3g} (root mean square), spread around them is {sd:.3g} and "
        f"lambda_ {lambda_:g}; {ANSWERS['origin']}."
    )
    calm = f"Feature means ({far:.3g}) are near enough to zero for the prior (lambda_ = {lambda_:g})."
    where = [surveys[0].sources.feature_names[i] for i in order] if size > 1 else []
    data = {"means": means, "sd": sd, "lambda_": lambda_}
    return Finding("origin", float(size), 1.0, None, where, sentence if size > 1 else calm, data)


def _listed(names):
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]


# What the checks need to know of a result.


def expected_mean(result, c, columns):
    """E[WH] of some samples of source c."""
    return result.components @ result.memberships[c][:, columns]


def expected_sd(result, c, columns):
    """The noise sd of every entry of some samples of source c, in a shape that broadcasts to features x samples."""
    return np.full((1, 1), result.noise[c])


def _priors(result):
    options = registry.get(result.method).options() | result.options
    return Priors(**{name: options[name] for name in ("alpha0", "lambda_", "a0", "b0")})


def _row_covariance(result):
    """Cov[w_i], features x K x K; after MAP that of the ridge in its last step."""
    if result.posterior is not None:
        return result.posterior.components.covariance()
    precision = sum(h @ h.T / sd**2 for h, sd in zip(result.memberships, result.noise, strict=True))
    root = np.sqrt(_priors(result).lambda_ * np.abs(result.components))
    size = len(precision)
    whitened = root[:, :, None] * precision * root[:, None, :] + np.eye(size)  # stays invertible where w is 0
    return root[:, :, None] * np.linalg.inv(whitened) * root[:, None, :]


def _column_covariance(result, c, columns):
    """Cov[h_j] of some samples, K x K x samples; after MAP the inverse curvature there, along the simplex."""
    h = result.memberships[c][:, columns]
    if result.posterior is not None:
        factor = result.posterior.memberships[c]
        diagonal = np.eye(len(h))[:, :, None]
        if not isinstance(factor, DirichletColumns):
            return diagonal * factor.sd[:, columns] ** 2
        return (diagonal * h - h[:, None] * h) / (factor.parameters[:, columns].sum(axis=0) + 1)
    w = result.components
    weight = np.maximum(_priors(result).dirichlet(len(h)) - 1, 1e-6)
    scale = h.T[:, :, None] * h.T[:, None, :]
    # with D = diag(h): (G / s2 + D^-1 a D^-1)^-1 = D (D G D / s2 + a)^-1 D
    inverse = scale * np.linalg.inv(scale * (w.T @ w) / result.noise[c] ** 2 + np.diag(weight))
    along = inverse.sum(axis=2)
    inverse -= along[:, :, None] * along[:, None, :] / along.sum(axis=1)[:, None, None]
    return np.moveaxis(inverse, 0, 2)


def _inner(rows, columns):
    """<rows_i, columns_j> of M x K x K and K x K x N: M x N."""
    return rows.reshape(len(rows), -1) @ columns.reshape(-1, columns.shape[2])


def _columns(x, columns):
    """Some columns of a matrix, dense."""
    if scipy.sparse.issparse(x):
        return x[:, columns].toarray()
    if isinstance(x, Streamed):
        part = x.array[:, columns]
        return np.asarray(part.compute() if hasattr(part, "compute") else part, dtype=float)
    return x[:, columns]
