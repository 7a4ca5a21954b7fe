"""Offsets of the sources: x_ij = w_i h_j + o_ci + noise with o_ci ~ N(0, tau_c), for batches that
are shifted.

    q(o_ci) = N(m_ci, v_ci),
    1/v_ci = t_c phi_i sum_j u_j + 1/tau_c,   m_ci = v_ci t_c phi_i sum_j u_j (x_ij - mu_i.m_j)

with sums over the observed entries.  tau_c is learned, which makes it mean_i (m_ci^2 + v_ci), and
goes to 0 where there is no shift.  The sweep sees x_ij - m_ci, and v_ci adds to the expected error
of every entry.  Where a class is found in one source only, its offset swallows part of what sets
the class apart.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from bjmd.inference.noise import top
from bjmd.numerics import moments

LEAST_TAU = 1e-12


@dataclass(frozen=True)
class Offsets:
    """q(o) of all sources, sources x features, and tau."""

    mean: np.ndarray
    variance: np.ndarray
    tau: np.ndarray

    @classmethod
    def start(cls, n_sources: int, n_features: int) -> Self:
        """No offset, and a wide prior, in the unit of the data."""
        return cls(
            np.zeros((n_sources, n_features)), np.zeros((n_sources, n_features)), np.ones(n_sources)
        )

    def copy(self) -> "Offsets":
        return Offsets(self.mean.copy(), self.variance.copy(), self.tau.copy())

    def update(self, c, view, components, memberships, u, phi, precision):
        """Set q(o_c) and tau_c, both at once; what that changes in sum_ij phi_i u_j E[(x_ij - w_i
        h_j - o_ci)^2].

        With q(o_c) at its best, the ELBO is a function of tau_c alone; taking turns would creep to
        0.
        """
        phi = np.ones(view.shape[0]) if phi is None else phi
        weighted = memberships if u is None else memberships * u
        count = view.counts_of_rows(u)
        fitted = components.T @ weighted.sum(axis=1)
        if view.missing is not None:
            lacking = moments.sums_over(view.by_row, np.ascontiguousarray(weighted.T))
            fitted -= (components.T * lacking).sum(axis=1)
        left = view.sums_of_rows(u) - fitted  # what the present mean leaves
        known = precision * phi * count
        sums = precision * phi * (left + count * self.mean[c])

        def value(tau):
            return (sums**2 * tau / (1 + known * tau) - np.log1p(known * tau)).sum()

        def slope(tau):
            return ((sums / (1 + known * tau)) ** 2 - known / (1 + known * tau)).sum()

        most = np.max(
            (sums / np.where(known > 0, known, np.inf)) ** 2, initial=2 * LEAST_TAU
        )  # no term rises beyond
        self.tau[c] = top(value, slope, self.tau[c], LEAST_TAU, most)
        variance = 1 / (known + 1 / self.tau[c])
        step = variance * sums - self.mean[c]
        change = (
            phi * (count * step**2 - 2 * step * left + count * (variance - self.variance[c]))
        ).sum()
        self.mean[c] = variance * sums
        self.variance[c] = variance
        return change

    def elbo(self, c: int) -> float:
        """E[ln N(o_c; 0, tau_c)] + the entropy of q(o_c)."""
        square = self.mean[c] ** 2 + self.variance[c]
        return 0.5 * float(
            (1 + np.log(self.variance[c] / self.tau[c]) - square / self.tau[c]).sum()
        )
