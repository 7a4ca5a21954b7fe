"""Noise models of the closed form: how precise is every entry, what does that take, and what does
it add to the ELBO.

The precision of entry ij of source c is

    t_c phi_i u_cj v_cij,      t_c ~ Gamma(a0, b0) as in the paper;  phi, u, v have mean 1 or nearly so.

Each factor beyond t_c is a small object of this file that a sweep asks for its expectation, hands
the expected errors, and asks for its share of the ELBO.  docs/model.md derives them.

source    the paper's: phi = u = v = 1
feature   phi_i ~ Gamma(a, a), one per feature, shared by the sources
sample    u_cj ~ Gamma(a_c, a_c), one per sample
robust    v_cij ~ Gamma(nu_c/2, (nu_c + 1)/2), one per entry: Student's t with nu_c degrees of freedom
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, psi

from bjmd.errors import InputError
from bjmd.numerics import moments

FACTORS = ("feature", "sample", "robust")
# how many times as precise as the rest a feature or sample can get: one without variance would else
# take the fit over
MOST_PRECISE = 10
# degrees of freedom; with 200 a t is normal for all that matters
FIRST_NU = 10.0
LEAST_NU = 0.5
MOST_NU = 200.0
LARGEST_SHAPE = 1e6


def parsed(noise: str) -> tuple[str, ...]:
    """The factors that a name like "source", "feature" or "feature+robust" asks for."""
    factors = () if noise == "source" else tuple(str(noise).split("+"))
    if not set(factors) <= set(FACTORS) or len(set(factors)) < len(factors):
        raise InputError(
            f"noise is {noise!r}; it must be source, feature, sample or robust, or several of the last three joined "
            "by +, for example feature+sample"
        )
    return factors


@dataclass(frozen=True)
class Gammas:
    """q(phi_i) = Gamma(shape_i, rate_i) for phi_i ~ Gamma(a, a), where a is learned."""

    a: float
    shape: np.ndarray
    rate: np.ndarray

    @classmethod
    def start(cls, counts: np.ndarray) -> Self:
        """All phi_i nearly 1, given the number of entries behind each."""
        least = _least_shape(counts)
        a = max(least, min(10 * least, LARGEST_SHAPE))
        return cls(a, a + 0.5 * counts, a + 0.5 * counts)

    @property
    def mean(self) -> np.ndarray:
        return self.shape / self.rate

    @property
    def mean_log(self) -> np.ndarray:
        return psi(self.shape) - np.log(self.rate)

    def updated(self, counts: np.ndarray, errors: np.ndarray) -> "Gammas":
        """q and a, both at once, given the number of entries behind each phi_i and t times their
        squared error.

        With q at its best, the ELBO is a function of a alone.  To take turns between the two would
        creep: where all phi_i are 1, a runs to infinity, by a constant a step. phi_i <= (a +
        counts_i/2) / a, so bounding a from below bounds phi_i from above.
        """

        def value(a):
            shape = a + 0.5 * counts
            return (
                a * np.log(a) - gammaln(a) + gammaln(shape) - shape * np.log(a + 0.5 * errors)
            ).sum()

        def slope(a):
            shape = a + 0.5 * counts
            rate = a + 0.5 * errors
            return (np.log(a / rate) + 1 - shape / rate + psi(shape) - psi(a)).sum()

        least = _least_shape(counts)
        a = top(value, slope, max(self.a, least), least, max(least, LARGEST_SHAPE))
        return Gammas(a, a + 0.5 * counts, a + 0.5 * errors)

    def elbo(self, counts: np.ndarray) -> np.ndarray:
        """counts_i/2 E[ln phi_i] + E[ln Gamma(phi_i; a, a)] + the entropy of q, of every i."""
        log = self.mean_log
        a = self.a
        shape = self.shape
        prior = a * np.log(a) - gammaln(a) + (a - 1) * log - a * self.mean
        entropy = shape - np.log(self.rate) + gammaln(shape) + (1 - shape) * psi(shape)
        return 0.5 * counts * log + prior + entropy


@dataclass(frozen=True)
class StudentT:
    """q(v_ij) = Gamma((nu + 1)/2, (nu + 1 + w r^2)/2) at the residual r and precision w of every
    entry.

    The prior's rate is (nu + 1)/2, so that E[v] = 1 / (1 + w r^2 / (nu + 1)) is at most 1: the
    scale of the t is that of the normal times `scale`.  The sweep runs on pseudo-data z = fit + v
    (x - fit) of full precision.  With y a latent entry of the other 1 - v of the precision, filled
    in at the fit, x and y are one entry z and a constant.
    """

    nu: float
    mean: Any = 1.0
    log: Any = 0.0
    """The means over the entries of E[v] and of ln(1 + w r^2 / (nu + 1)); or those over each of
    several columns.
    """
    n_entries: Any = 0

    @property
    def mean_log(self) -> Any:
        """The mean over the entries of E[ln v]."""
        shape = 0.5 * (self.nu + 1)
        return psi(shape) - np.log(shape) - self.log

    @property
    def scale(self) -> float:
        return np.sqrt((self.nu + 1) / self.nu)

    def learned(self) -> float:
        """nu at the maximum of E[ln Gamma(v; nu/2, (nu + 1)/2)]."""
        excess = self.mean - self.mean_log

        def slope(nu):
            return np.log(0.5 * (nu + 1)) + nu / (nu + 1) - psi(0.5 * nu) - excess

        return top(self.elbo, slope, self.nu, LEAST_NU, MOST_NU)

    def elbo(self, nu: float) -> Any:
        """E[ln v]/2 + E[ln Gamma(v; nu/2, (nu + 1)/2)] + entropy over all entries, with q(v) that
        of self.nu.
        """
        shape = 0.5 * (self.nu + 1)
        prior = (
            0.5 * nu * np.log(0.5 * (nu + 1)) - gammaln(0.5 * nu) + (0.5 * nu - 1) * self.mean_log
        )
        prior -= 0.5 * (nu + 1) * self.mean
        entropy = shape - np.log(shape) - self.log + gammaln(shape) + (1 - shape) * psi(shape)
        return self.n_entries * (0.5 * self.mean_log + prior + entropy)


@dataclass(frozen=True)
class Weighed:
    """A source at the present weights of its entries."""

    spread_of_rows: np.ndarray  # sum_j u_j v (1 - v) r^2
    squares_of_columns: np.ndarray  # sum_i phi_i (z^2 + v (1 - v) r^2)
    by_column: StudentT

    @property
    def q(self) -> StudentT:
        """q(v) of all entries together."""
        parts = self.by_column
        n = parts.n_entries.sum()
        return StudentT(
            parts.nu,
            (parts.n_entries * parts.mean).sum() / n,
            (parts.n_entries * parts.log).sum() / n,
            n,
        )


def weigh(view, x, shift, fit, precision, of_rows, of_columns, nu) -> Weighed:
    """Overwrite the data of a view by the pseudo-data at a fit."""
    n_rows, n_columns = view.shape
    # by row it is only asked for where features have weights
    rows = np.zeros(0 if of_rows is None else n_rows)
    columns = np.zeros((3, n_columns))
    shift = np.zeros(n_rows) if shift is None else shift
    of_rows = np.ones(n_rows) if of_rows is None else of_rows
    of_columns = np.ones(n_columns) if of_columns is None else of_columns
    moments.downweighted(
        x, shift, fit, precision, of_rows, of_columns, nu + 1, view.matrix.array, rows, columns
    )
    n = view.counts_of_columns()
    return Weighed(rows, columns[0], StudentT(nu, columns[1] / n, columns[2] / n, n))


def _least_shape(counts):
    return counts.max() / (2 * (MOST_PRECISE - 1))


def top(value, slope, at, least, most):
    """Where a function of a positive number is largest, by its slope; `at`, if that should be no
    better.
    """
    from scipy.optimize import brentq  # which the paper's noise model does without

    ends = np.log(least), np.log(most)
    first, last = (
        slope(np.exp(end)) for end in ends
    )  # as brentq asks, whose signs rounding must not change
    if first <= 0 or last >= 0:
        found = least if first <= 0 else most
    else:
        found = float(np.exp(brentq(lambda log: slope(np.exp(log)), *ends, xtol=1e-12)))
    return found if value(found) >= value(at) else at
