"""Offsets of the sources: x_ij = w_i'h_j + o_ci + noise with o_ci ~ N(0, tau_c).

    1/Var[o_ci] = t_c phi_i sum_j u_j + 1/tau_c,
    E[o_ci] = Var[o_ci] t_c phi_i sum_j u_j (x_ij - mu_i.m_j)

with sums over the observed entries (docs/model.md, 3).  tau_c is learned, and goes to 0 where a
source is not shifted.  The sweep sees x_ij - E[o_ci], and Var[o_ci] adds to the expected error of
every entry.  A class that occurs in one source only loses part of what sets it apart to the offset.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import true_or_false
from bjmd.numerics import dirichlet, moments

LEAST_TAU = 1e-12
LONGEST = 3.0
SHORTEST = 1e-9
"""Of a step in ln tau."""


def wanted(offsets: bool | None, priors: str, sources: Sources) -> bool:
    """Whether sources have offsets: by default with priors="data", if there are several."""
    if offsets is None:
        return priors == "data" and len(sources) > 1
    return true_or_false("offsets", offsets)


class NoOffset:
    """The paper's: a source is not shifted."""

    mean = 0.0
    variance = 0.0
    moved = np.empty(0)
    is_learned = False

    def with_mean(self, mean) -> NoOffset:
        return self

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

    @property
    def moved(self) -> np.ndarray:
        """What momentum moves."""
        return self.mean

    def with_mean(self, mean: np.ndarray) -> Offset:
        return Offset(mean, self.variance, self.tau)

    def spread(self, view, phi, sample):
        """What the variance adds to the expected error, gathered as the samples need it."""
        return sample.observed_sums(view, phi * self.variance)

    def updated(self, view, components, columns, u, phi, precision) -> tuple[Offset, float]:
        """A better tau_c, the best q(o_c), and the change of sum_ij phi_i u_j E[(x - w'h - o)^2].

        With q(o_c) at its best, the ELBO is a function of tau_c alone, along which tau_c takes a
        step; for a given q(o_c) it would creep to 0.  `view` is shifted by the present mean;
        `columns` are memberships or their Dirichlet parameters.
        """
        weighted = dirichlet.mean(columns) * u
        count = view.counts_of_rows(u)
        fitted = components.T @ weighted.sum(axis=1)
        if view.missing is not None:
            lacking = moments.sums_over(view.by_row, np.ascontiguousarray(weighted.T))
            fitted -= (components.T * lacking).sum(axis=1)
        residuals = view.sums_of_rows(u) - fitted
        p = precision * phi * count
        zeta = precision * phi * (residuals + count * self.mean)

        tau = _better_tau(zeta, p, self.tau)
        variance = 1 / (p + 1 / tau)
        step = variance * zeta - self.mean
        widened = count * (variance - self.variance)
        change = (phi * (count * step**2 - 2 * step * residuals + widened)).sum()
        return Offset(variance * zeta, variance, tau), change

    def elbo(self) -> float:
        """E[ln N(o_c; 0, tau_c)] + the entropy of q(o_c)."""
        square = self.mean**2 + self.variance
        return 0.5 * float((1 + np.log(self.variance / self.tau) - square / self.tau).sum())


def in_unit(offsets, unit):
    """What a `FittedModel` knows of the offsets of all sources."""
    if not offsets[0].is_learned:
        return {}
    variances = np.array([offset.variance for offset in offsets])
    means = np.array([offset.mean for offset in offsets])
    return {"offsets": unit * means, "offsets_sd": unit * np.sqrt(variances)}


def _better_tau(zeta, p, tau):
    """tau after one of Newton's steps in ln tau towards the maximum of 2F = sum_i zeta_i^2 tau /
    (1 + p_i tau) - ln(1 + p_i tau), shortened until it does not go down (docs/derivation.md, 4.12).
    """
    squares = zeta**2

    def value(tau):
        scaled = p * tau
        return (squares * tau / (1 + scaled) - np.log1p(scaled)).sum()

    gamma = 1 / (1 + p * tau)
    slope = tau * ((zeta * gamma) ** 2 - p * gamma).sum()
    bend = slope + tau**2 * (p * gamma**2 * (p - 2 * squares * gamma)).sum()
    step = -slope / bend if bend < 0 else np.copysign(LONGEST, slope)
    step = max(-LONGEST, min(step, LONGEST))
    before = value(tau)
    while abs(step) > SHORTEST:
        trial = max(tau * np.exp(step), LEAST_TAU)
        if value(trial) >= before:
            return trial
        step /= 4
    return tau
