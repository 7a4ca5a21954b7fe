"""Noise models of the closed form: how precise is every entry?

The precision of entry ij of source c is

    t_c phi_i u_cj v_cij,      t_c ~ Gamma(a0, b0) as in the paper

Each factor beyond t_c has a mean of about 1 and is an object of this file.  It is always there,
tells a sweep what it contributes to the precision, takes the expected errors to update itself, and
says what it adds to the ELBO.  docs/model.md derives the updates.

feature   phi_i ~ Gamma(a, a), one per feature, shared by the sources: `Gammas`, or `Equal` for 1
sample    u_cj ~ Gamma(a_c, a_c), one per sample: the same
robust    v_cij ~ Gamma(nu_c/2, (nu_c + 1)/2), one per entry, which makes the noise Student's t with
          nu_c degrees of freedom: `RobustEntries`, or `NormalEntries` for 1

The paper's model, noise="source", has the neutral one of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import gammaln, psi

from bjmd.data.view import View
from bjmd.errors import InputError
from bjmd.numerics import dirichlet, moments

FACTORS = ("feature", "sample", "robust")
MOST_PRECISE = 10
"""How many times as precise as the rest a feature or sample can get: one without variance would
otherwise take over the fit.
"""
FIRST_NU = 10.0
LEAST_NU = 0.5
MOST_NU = 200.0
"""Degrees of freedom; with 200, Student's t is practically normal."""
LARGEST_SHAPE = 1e6


def parsed(noise: str) -> tuple[str, ...]:
    """The factors that a name like "source", "feature" or "feature+robust" asks for."""
    factors = () if noise == "source" else tuple(str(noise).split("+"))
    if not set(factors) <= set(FACTORS) or len(set(factors)) < len(factors):
        raise InputError(
            f"noise is {noise!r}; it must be source, feature, sample or robust, or several of the "
            "last three joined by +, for example feature+sample"
        )
    return factors


# Features and samples.


class Equal:
    """All features, or all samples of a source, are equally precise; errors of samples are summed
    at once.
    """

    mean = 1.0
    mean_inverse = 1.0
    is_learned = False

    def times(self, values):
        """Values with a feature on the last axis, times its precision; here the same array, which
        lets BLAS see that a product with it is symmetric.
        """
        return values

    def given(self, errors: Any) -> Self:
        return self

    updated = given

    def elbo(self) -> float:
        return 0.0

    elbo_of_each = elbo

    def gathered(self, by_sample):
        return by_sample.sum()

    def squares(self, view, phi, squared_norm):
        """sum_ij phi_i z_ij^2; squared_norm is that for phi = 1 and no offsets."""
        if not isinstance(phi, np.ndarray) and not isinstance(view.shift, np.ndarray):
            return squared_norm
        return (phi * view.squares_of_rows()).sum()

    def observed_sums(self, view, of_rows):
        """The sum of a number per feature over the observed entries."""
        return view.counts_of_rows() @ of_rows

    def weighted_sum(self, gathered):
        return gathered


@dataclass(frozen=True)
class Gammas:
    """q(phi_i) = Gamma(shape_i, rate_i) for phi_i ~ Gamma(a, a), where a is learned.

    counts_i is the number of observed entries whose precision phi_i multiplies.
    """

    a: float
    shape: np.ndarray
    rate: np.ndarray
    counts: np.ndarray
    is_learned = True

    @classmethod
    def at(cls, a: float, counts: np.ndarray, errors: np.ndarray) -> Self:
        """The best q for a given a; errors are t times the expected squared errors."""
        return cls(a, a + 0.5 * counts, a + 0.5 * errors, counts)

    @classmethod
    def start(cls, counts: np.ndarray) -> Self:
        """All phi_i nearly 1."""
        least = _least_shape(counts)
        return cls.at(max(least, min(10 * least, LARGEST_SHAPE)), counts, counts)

    @property
    def mean(self) -> np.ndarray:
        return self.shape / self.rate

    @property
    def mean_inverse(self) -> np.ndarray:
        """E[1/phi_i], which may be infinite."""
        finite = self.shape > 1
        return np.where(finite, self.rate / np.where(finite, self.shape - 1, 1.0), np.inf)

    def times(self, values):
        return values * self.mean

    def given(self, errors: np.ndarray) -> Self:
        """The best q for errors as in `at`, with a as it is."""
        return self.at(self.a, self.counts, errors)

    def updated(self, errors: Callable[[], np.ndarray]) -> Self:
        """q and a, both at once, given a function that computes the errors as in `at`.

        With q at its best, the ELBO is a function of a alone.  Taking turns between the two would
        creep: where all phi_i are 1, a runs to infinity by a constant a step.  Bounding a from
        below bounds phi_i <= (a + counts_i/2) / a from above.
        """
        counts = self.counts
        measured = errors()

        def value(a):
            shape = a + 0.5 * counts
            return (
                a * np.log(a) - gammaln(a) + gammaln(shape) - shape * np.log(a + 0.5 * measured)
            ).sum()

        def slope(a):
            shape = a + 0.5 * counts
            rate = a + 0.5 * measured
            return (np.log(a / rate) + 1 - shape / rate + psi(shape) - psi(a)).sum()

        least = _least_shape(counts)
        a = maximum(value, slope, self.a, least, max(least, LARGEST_SHAPE))
        return self.at(a, counts, measured)

    def elbo(self) -> float:
        return self.elbo_of_each().sum()

    def elbo_of_each(self) -> np.ndarray:
        """counts_i/2 E[ln phi_i] + E[ln Gamma(phi_i; a, a)] + the entropy of q(phi_i), of each."""
        log = psi(self.shape) - np.log(self.rate)
        a = self.a
        shape = self.shape
        prior = a * np.log(a) - gammaln(a) + (a - 1) * log - a * self.mean
        entropy = shape - np.log(self.rate) + gammaln(shape) + (1 - shape) * psi(shape)
        return 0.5 * self.counts * log + prior + entropy

    # Of the samples of a source, errors are kept by sample.

    def gathered(self, by_sample):
        return by_sample

    def squares(self, view, phi, squared_norm):
        """sum_i phi_i z_ij^2 of every sample."""
        return view.squares_of_columns(phi)

    def observed_sums(self, view, of_rows):
        """The sum of a number per feature over the observed entries of every sample."""
        return view.counts_of_columns(of_rows)

    def weighted_sum(self, gathered):
        return self.mean @ gathered


def _least_shape(counts):
    return counts.max() / (2 * (MOST_PRECISE - 1))


# Entries.


class PresentFit(NamedTuple):
    """What the weights of the entries of one source depend on."""

    shift: Any
    """The offset of every feature, or 0.0."""
    components: np.ndarray
    """E[W]', K x M."""
    columns: np.ndarray
    """g, K x N."""
    precision: float
    phi: Any
    u: Any

    def values(self):
        """E[w_i'h_j] of every entry."""
        return self.components.T @ dirichlet.mean(self.columns)


@dataclass(frozen=True)
class NormalEntries:
    """All entries of a source have weight 1: a sweep sees the data themselves."""

    squared_norm: float
    degrees = np.empty(0)
    scale = 1.0
    excess_variance = 1.0
    spread_of_rows = 0.0
    is_learned = False

    def with_degrees(self, degrees) -> NormalEntries:
        return self

    def weighted(self, view, fit: PresentFit) -> NormalEntries:
        """Nothing to weigh; the view is moved to the offsets."""
        if isinstance(fit.shift, np.ndarray):
            view.move(fit.shift)
        return self

    def reweighted(self, view, fit: PresentFit) -> NormalEntries:
        return self

    def squares(self, view, phi, sample):
        return sample.squares(view, phi, self.squared_norm)

    def squares_by_sample(self, view, phi):
        return view.squares_of_columns(phi)

    def learned(self) -> NormalEntries:
        return self

    def elbo(self, learned: NormalEntries) -> float:
        return 0.0

    def elbo_by_sample(self) -> float:
        return 0.0


@dataclass(frozen=True)
class RobustEntries:
    """The entries x of a source, NaN where missing, with noise of nu degrees of freedom."""

    x: np.ndarray
    squared_norm: float
    nu: float
    is_learned = True

    @property
    def degrees(self) -> np.ndarray:
        return np.array([self.nu])

    @property
    def scale(self) -> float:
        """The scale of the noise over that of a normal of the same precision."""
        return np.sqrt((self.nu + 1) / self.nu)

    @property
    def excess_variance(self) -> float:
        """The variance of Student's t over its squared scale."""
        return self.nu / (self.nu - 2) if self.nu > 2 else np.inf

    def with_degrees(self, degrees) -> RobustEntries:
        return replace(self, nu=float(np.clip(degrees[0], LEAST_NU, MOST_NU)))

    def weighted(self, view, fit: PresentFit) -> WeightedEntries:
        """q(v) at the present fit; the view's data become the pseudo-data of full precision."""
        n_rows, n_columns = view.shape
        spread_of_rows = np.zeros(n_rows if np.ndim(fit.phi) else 0)
        columns = np.zeros((3, n_columns))
        moments.downweighted(
            self.x,
            np.zeros(n_rows) + fit.shift,
            fit.values(),
            fit.precision,
            np.ones(n_rows) * fit.phi,
            np.ones(n_columns) * fit.u,
            self.nu,
            view.matrix.array,
            spread_of_rows,
            columns,
        )
        n = view.counts_of_columns()
        q = StudentT(self.nu, columns[1] / n, columns[2] / n, n)
        return WeightedEntries(self, spread_of_rows, columns[0], q)


@dataclass(frozen=True)
class WeightedEntries:
    """The entries of a source at their present weights."""

    entries: RobustEntries
    spread_of_rows: np.ndarray
    """sum_j u_j v (1 - v) delta^2; empty where all features are equally precise."""
    squares_of_columns: np.ndarray
    """sum_i phi_i (z^2 + v (1 - v) delta^2)."""
    by_column: StudentT

    def squares(self, view, phi, sample):
        return sample.gathered(self.squares_of_columns)

    def squares_by_sample(self, view, phi):
        return self.squares_of_columns

    def reweighted(self, view, fit: PresentFit) -> WeightedEntries:
        """The same for other phi."""
        if np.ndim(fit.phi) == 0:
            return self
        z = view.matrix.array
        x = self.entries.x - np.reshape(fit.shift, (-1, 1))
        spread = (z - fit.values()) * (x - z)
        squares = fit.phi @ (z**2 + np.nan_to_num(spread))
        return replace(self, squares_of_columns=squares)

    @property
    def q(self) -> StudentT:
        """q(v) of all entries together."""
        parts = self.by_column
        n = parts.n_entries.sum()
        mean = (parts.n_entries * parts.mean).sum() / n
        log = (parts.n_entries * parts.log).sum() / n
        return StudentT(parts.nu, mean, log, n)

    def learned(self) -> RobustEntries:
        """The entries with the best degrees of freedom."""
        return replace(self.entries, nu=self.q.learned())

    def elbo(self, learned: RobustEntries) -> float:
        return self.q.elbo(learned.nu)

    def elbo_by_sample(self) -> np.ndarray:
        return self.by_column.elbo(self.entries.nu)


@dataclass(frozen=True)
class StudentT:
    """q(v) = Gamma((nu + 1)/2, (nu + 1 + p delta^2)/2) of entries with residual delta, precision p.

    The prior's rate is (nu + 1)/2, so that E[v] = 1 / (1 + p delta^2 / (nu + 1)) is at most 1: the
    scale of the t is that of the normal times `RobustEntries.scale`.  The sweep runs on pseudo-data
    z = fit + v (x - fit) of full precision.  With y a latent entry of the other 1 - v of the
    precision, filled in at the fit, x and y are one entry z and a constant.
    """

    nu: float
    mean: Any
    log: Any
    """The means of E[v] and of ln(1 + p delta^2 / (nu + 1)) over all entries, or each column."""
    n_entries: Any

    @property
    def mean_log(self) -> Any:
        """The mean over the entries of E[ln v]."""
        shape = 0.5 * (self.nu + 1)
        return psi(shape) - np.log(shape) - self.log

    def learned(self) -> float:
        """nu at the maximum of E[ln Gamma(v; nu/2, (nu + 1)/2)]."""
        excess = self.mean - self.mean_log

        def slope(nu):
            return np.log(0.5 * (nu + 1)) + nu / (nu + 1) - psi(0.5 * nu) - excess

        return maximum(self.elbo, slope, self.nu, LEAST_NU, MOST_NU)

    def elbo(self, nu: float) -> Any:
        """E[ln v]/2 + E[ln Gamma(v; nu/2, (nu + 1)/2)] + entropy, with q(v) that of self.nu."""
        shape = 0.5 * (self.nu + 1)
        prior = (
            0.5 * nu * np.log(0.5 * (nu + 1)) - gammaln(0.5 * nu) + (0.5 * nu - 1) * self.mean_log
        )
        prior -= 0.5 * (nu + 1) * self.mean
        entropy = shape - np.log(shape) - self.log + gammaln(shape) + (1 - shape) * psi(shape)
        return self.n_entries * (0.5 * self.mean_log + prior + entropy)


def views_and_entries(sources, factors, unit, origin):
    """The view of every source that a sweep works on, and the factor of its entries."""
    if "robust" in factors:
        origin = np.reshape(origin, (-1, 1))
        standard = [(x.columns(slice(None)) - origin) / unit for x in sources.data]
        views = [View(x.copy(), constant=False) for x in standard]
        norms = [view.squares_of_rows().sum() for view in views]
        return views, [RobustEntries(x, n, FIRST_NU) for x, n in zip(standard, norms, strict=True)]
    views = [View(x, unit, origin) for x in sources.data]
    if unit == 1 and not np.any(origin) and not any(sources.n_missing):
        norms = sources.squared_norms  # known without a pass over the data
    else:
        norms = [view.squares_of_rows().sum() for view in views]
    return views, [NormalEntries(norm) for norm in norms]


def maximum(value, slope, at, least, most):
    """Where a function of a positive number is largest, by its slope; `at` if that is as good."""
    from scipy.optimize import brentq  # not needed by the paper's noise model

    ends = np.log(least), np.log(most)
    # evaluated as brentq does, so that rounding cannot change their signs
    first, last = (slope(np.exp(end)) for end in ends)
    if np.isnan(first + last):
        return at  # the fit has broken down, which its objective will say
    if first <= 0 or last >= 0:
        best = least if first <= 0 else most
    else:
        best = float(np.exp(brentq(lambda log: slope(np.exp(log)), *ends, xtol=1e-12)))
    return best if value(best) >= value(at) else at
