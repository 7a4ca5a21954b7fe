"""Noise models of the closed form: how precise is every entry, what does that take, and what does it add to the ELBO.

The precision of entry ij of source c is

    t_c phi_i u_cj v_cij,      t_c ~ Gamma(a0, b0) as in the paper;  phi, u, v have mean 1 or nearly so.

Each factor beyond t_c is a small object of this file that a sweep asks for its expectation, hands the expected errors,
and asks for its share of the ELBO.  docs/model.md derives them.

source    the paper's: phi = u = v = 1
feature   phi_i ~ Gamma(a, a), one per feature, shared by the sources
sample    u_cj ~ Gamma(a_c, a_c), one per sample
robust    v_cij ~ Gamma(nu_c/2, (nu_c + 1)/2), one per entry: Student's t with nu_c degrees of freedom
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, polygamma, psi

from bjmd.errors import InputError
from bjmd.numerics import moments

FACTORS = ("feature", "sample", "robust")
MOST_PRECISE = 10
"""How many times as precise as the rest a feature or sample can get, whatever its errors: one without variance would
else have an infinite precision and take the fit over."""
FIRST_NU, LEAST_NU, MOST_NU = 10.0, 0.5, 200.0
"""Degrees of freedom: to begin with, and the bounds; with 200 a t is normal for all that matters."""
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
    def start(cls, counts: np.ndarray) -> Gammas:
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

    def updated(self, counts: np.ndarray, errors: np.ndarray) -> Gammas:
        """Given the number of entries behind each phi_i and t times their expected squared error.

        phi_i <= (a + counts_i/2) / a, so bounding a from below bounds phi_i from above.
        """
        q = replace(self, shape=self.a + 0.5 * counts, rate=self.a + 0.5 * errors)
        return replace(q, a=max(_gamma_shape((q.mean - q.mean_log).mean() - 1), _least_shape(counts)))

    def elbo(self, counts: np.ndarray) -> float:
        """sum_i counts_i/2 E[ln phi_i] + E[ln Gamma(phi_i; a, a)] + the entropy of q."""
        log, a, shape = self.mean_log, self.a, self.shape
        prior = a * np.log(a) - gammaln(a) + (a - 1) * log - a * self.mean
        entropy = shape - np.log(self.rate) + gammaln(shape) + (1 - shape) * psi(shape)
        return float((0.5 * counts * log + prior + entropy).sum())


@dataclass(frozen=True)
class StudentT:
    """q(v_ij) = Gamma((nu + 1)/2, (nu + 1 + w r^2)/2) at the residual r and precision w of every entry.

    The prior's rate is (nu + 1)/2, so that E[v] = 1 / (1 + w r^2 / (nu + 1)) is at most 1: the scale of the t is that
    of the normal times `scale`.  The sweep runs on pseudo-data z = fit + v (x - fit) of full precision.  With y a
    latent entry of the other 1 - v of the precision, filled in at the fit, x and y are one entry z and a constant.
    """

    nu: float
    mean: float = 1.0
    log: float = 0.0
    """The means over the entries of E[v] and of ln(1 + w r^2 / (nu + 1))."""
    n_entries: int = 0

    @property
    def mean_log(self) -> float:
        """The mean over the entries of E[ln v]."""
        shape = 0.5 * (self.nu + 1)
        return psi(shape) - np.log(shape) - self.log

    @property
    def scale(self) -> float:
        return np.sqrt((self.nu + 1) / self.nu)

    def learned(self) -> float:
        """nu at the maximum of E[ln Gamma(v; nu/2, (nu + 1)/2)]."""
        excess = self.mean - self.mean_log

        def slope(log_nu):
            nu = np.exp(log_nu)
            return np.log(0.5 * (nu + 1)) + nu / (nu + 1) - psi(0.5 * nu) - excess

        ends = np.log(LEAST_NU), np.log(MOST_NU)
        if slope(ends[0]) <= 0 or slope(ends[1]) >= 0:
            return LEAST_NU if slope(ends[0]) <= 0 else MOST_NU
        return float(np.exp(brentq(slope, *ends, xtol=1e-12)))

    def elbo(self, nu: float) -> float:
        """E[ln v]/2 + E[ln Gamma(v; nu/2, (nu + 1)/2)] + entropy over all entries, with q(v) that of self.nu."""
        shape = 0.5 * (self.nu + 1)
        prior = 0.5 * nu * np.log(0.5 * (nu + 1)) - gammaln(0.5 * nu) + (0.5 * nu - 1) * self.mean_log
        prior -= 0.5 * (nu + 1) * self.mean
        entropy = shape - np.log(shape) - self.log + gammaln(shape) + (1 - shape) * psi(shape)
        return self.n_entries * (0.5 * self.mean_log + prior + entropy)


@dataclass(frozen=True)
class Weighed:
    """A source at the present weights of its entries."""

    spread_of_rows: np.ndarray
    spread_of_columns: np.ndarray
    """v (1 - v) r^2, weighted by u over a row, by phi over a column."""
    squares_of_columns: np.ndarray
    """phi z^2."""
    q: StudentT


def weigh(view, x, shift, fit, precision, of_rows, of_columns, nu) -> Weighed:
    """Overwrite the data of a view by the pseudo-data at a fit."""
    n_rows, n_columns = view.shape
    # by row it is only asked for where features have weights
    rows, columns = np.zeros(0 if of_rows is None else n_rows), np.zeros((3, n_columns))
    shift = np.zeros(n_rows) if shift is None else shift
    of_rows = np.ones(n_rows) if of_rows is None else of_rows
    of_columns = np.ones(n_columns) if of_columns is None else of_columns
    logarithms = moments.downweighted(x, shift, fit, precision, of_rows, of_columns, nu + 1, view.matrix, rows, columns)
    n = view.n_observed
    q = StudentT(nu, mean=columns[2].sum() / n, log=logarithms / n, n_entries=n)
    return Weighed(rows, columns[0], columns[1], q)


def _least_shape(counts):
    return counts.max() / (2 * (MOST_PRECISE - 1))


def _gamma_shape(excess):
    """a with ln a - psi(a) = excess > 0, the maximum likelihood shape of a gamma of mean 1; by Newton steps."""
    if excess < 0.5 / LARGEST_SHAPE:
        return LARGEST_SHAPE
    a = (3 - excess + np.sqrt((excess - 3) ** 2 + 24 * excess)) / (12 * excess)
    for _ in range(20):
        step = (np.log(a) - psi(a) - excess) / (1 / a - polygamma(1, a))
        a = a - step if step < a else a / 2
        if abs(step) <= 1e-12 * a:
            break
    return float(a)
