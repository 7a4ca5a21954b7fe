"""Offsets of the sources: x_ij = w_i'h_j + o_ci + noise with o_ci ~ N(0, tau_c).

    q(o_ci) = N(m_ci, y_ci),
    1/y_ci = t_c phi_i sum_j u_j + 1/tau_c,   m_ci = y_ci t_c phi_i sum_j u_j (x_ij - mu_i.m_j)

with sums over the observed entries (docs/model.md, 3).  tau_c is learned, and goes to 0 where a
source is not shifted.  The sweep sees x_ij - m_ci, and y_ci adds to the expected error of every
entry.  A class that occurs in one source only loses part of what sets it apart to the offset.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bjmd.inference.noise import maximum
from bjmd.numerics import dirichlet, moments

LEAST_TAU = 1e-12


class NoOffset:
    """The paper's: a source is not shifted."""

    mean = 0.0
    variance = 0.0
    is_learned = False

    def spread(self, view, phi, sample) -> float:
        return 0.0

    def updated(self, *present) -> tuple[NoOffset, float]:
        return self, 0.0

    def elbo(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Offset:
    """q(o_c) of one source, and tau_c."""

    mean: np.ndarray
    variance: np.ndarray
    tau: float
    is_learned = True

    @classmethod
    def start(cls, n_features: int) -> Offset:
        """No offset, and a wide prior, in the unit of the data."""
        return cls(np.zeros(n_features), np.zeros(n_features), 1.0)

    def spread(self, view, phi, sample):
        """What the variance adds to the expected error, gathered as the samples need it."""
        return sample.observed_sums(view, phi * self.variance)

    def updated(self, view, components, columns, u, phi, precision) -> tuple[Offset, float]:
        """q(o_c) and tau_c, both at once; and the change of sum_ij phi_i u_j E[(x - w'h - o)^2].

        With q(o_c) at its best, the ELBO is a function of tau_c alone; taking turns would creep to
        0.  `view` is shifted by the present mean; `columns` are memberships or their Dirichlet
        parameters.
        """
        weighted = dirichlet.mean(columns) * u
        count = view.counts_of_rows(u)
        fitted = components.T @ weighted.sum(axis=1)
        if view.missing is not None:
            lacking = moments.sums_over(view.by_row, np.ascontiguousarray(weighted.T))
            fitted -= (components.T * lacking).sum(axis=1)
        residuals = view.sums_of_rows(u) - fitted
        known = precision * phi * count
        sums = precision * phi * (residuals + count * self.mean)

        def value(tau):
            return (sums**2 * tau / (1 + known * tau) - np.log1p(known * tau)).sum()

        def slope(tau):
            return ((sums / (1 + known * tau)) ** 2 - known / (1 + known * tau)).sum()

        # no term of the sum rises beyond
        most = np.max((sums / np.where(known > 0, known, np.inf)) ** 2, initial=2 * LEAST_TAU)
        tau = maximum(value, slope, self.tau, LEAST_TAU, most)
        variance = 1 / (known + 1 / tau)
        step = variance * sums - self.mean
        widened = count * (variance - self.variance)
        change = (phi * (count * step**2 - 2 * step * residuals + widened)).sum()
        return Offset(variance * sums, variance, tau), change

    def elbo(self) -> float:
        """E[ln N(o_c; 0, tau_c)] + the entropy of q(o_c)."""
        square = self.mean**2 + self.variance
        return 0.5 * float((1 + np.log(self.variance / self.tau) - square / self.tau).sum())
