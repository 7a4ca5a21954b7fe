"""Offsets of the sources: x_ij = w_i h_j + o_ci + noise with o_ci ~ N(0, tau_c), for batches that are shifted.

    q(o_ci) = N(m_ci, v_ci),
    1/v_ci = t_c phi_i sum_j u_j + 1/tau_c,   m_ci = v_ci t_c phi_i sum_j u_j (x_ij - mu_i.m_j)

with sums over the observed entries, and tau_c = mean_i (m_ci^2 + v_ci), learned: it goes to 0 where there is no shift.
The sweep sees x_ij - m_ci, and v_ci adds to the expected error of every entry.  Where a class is found in one source
only, its offset swallows part of what sets the class apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bjmd.numerics import moments

LEAST_TAU = 1e-12


@dataclass(frozen=True)
class Offsets:
    """q(o) of all sources, sources x features, and tau."""

    mean: np.ndarray
    variance: np.ndarray
    tau: np.ndarray

    @classmethod
    def start(cls, n_sources: int, n_features: int) -> Offsets:
        """No offset, and a wide prior, in the unit of the data."""
        return cls(np.zeros((n_sources, n_features)), np.zeros((n_sources, n_features)), np.ones(n_sources))

    def updated(self, c, view, components, memberships, u, phi, precision):
        """q(o_c) given the rest, and what that changes in sum_ij phi_i u_j E[(x_ij - w_i h_j - o_ci)^2]."""
        phi = np.ones(view.shape[0]) if phi is None else phi
        weighted = memberships if u is None else memberships * u
        count = view.counts_of_rows(u)
        fitted = components.T @ weighted.sum(axis=1)
        if view.missing is not None:
            lacking = moments.sums_over(view.by_row, np.ascontiguousarray(weighted.T))
            fitted -= (components.T * lacking).sum(axis=1)
        left = view.sums_of_rows(u) - fitted  # what the present mean leaves
        variance = 1 / (precision * phi * count + 1 / self.tau[c])
        mean = variance * precision * phi * (left + count * self.mean[c])
        step = mean - self.mean[c]
        change = (phi * (count * step**2 - 2 * step * left + count * (variance - self.variance[c]))).sum()
        tau = max(float((mean**2 + variance).mean()), LEAST_TAU)
        return Offsets(_set(self.mean, c, mean), _set(self.variance, c, variance), _set(self.tau, c, tau)), change

    def elbo(self, c: int) -> float:
        """E[ln N(o_c; 0, tau_c)] + the entropy of q(o_c)."""
        square = self.mean[c] ** 2 + self.variance[c]
        return 0.5 * float((1 + np.log(self.variance[c] / self.tau[c]) - square / self.tau[c]).sum())


def _set(array, c, value):
    new = array.copy()
    new[c] = value
    return new
