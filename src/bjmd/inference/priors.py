"""Priors of components and memberships, fixed or learned, as a sweep of the closed form uses them.

The prior of the components says which ridge bounds it at a given q(W) and what it adds to the ELBO;
that of the memberships gives alpha of every source.  `updated` takes what was inferred and returns
the prior at its best; a fixed prior returns itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln, polygamma, psi

from bjmd.inference.noise import maximum
from bjmd.numerics import dirichlet
from bjmd.numerics.rows import GaussianRows

LEAST_ALPHA = 1e-2
LEAST_CONCENTRATION = 0.5
MOST_CONCENTRATION = 1e4
"""Of the one that all sources share.  Without the floor, single cells run to 0.2 and are torn apart
between components.
"""


@dataclass(frozen=True)
class Laplace:
    """w_ik ~ Laplace(0, lambda), or Laplace(0, lambda_k) with lambda_k learned."""

    lambda_: Any
    """A number, or K x 1."""
    is_learned: bool

    def updated(self, rows: GaussianRows) -> Laplace:
        if not self.is_learned:
            return self
        return Laplace(np.sqrt(rows.second_moment).mean(axis=1, keepdims=True), True)

    def ridge(self, rows: GaussianRows) -> np.ndarray:
        """rho_ik = 1 / (lambda sqrt(E[w_ik^2])), which makes the bound on the prior tightest."""
        return 1 / (self.lambda_ * np.sqrt(rows.second_moment))

    def elbo(self, rows: GaussianRows) -> float:
        """The bound -sqrt(E[w^2]) / lambda - ln(2 lambda), summed over the entries of W."""
        size = np.sqrt(rows.second_moment)
        if not self.is_learned:  # the same, and the bits of the paper's fits
            return -size.sum() / self.lambda_ - size.size * np.log(2 * self.lambda_)
        return -(size / self.lambda_ + np.log(2 * self.lambda_)).sum()


@dataclass(frozen=True)
class FixedDirichlet:
    """Columns of H ~ Dirichlet(alpha0) in every source."""

    alpha0: np.ndarray
    moved = np.empty(0)
    """What momentum moves."""

    def at(self, moved: np.ndarray) -> FixedDirichlet:
        return self

    def alpha(self, c: int) -> np.ndarray:
        return self.alpha0

    def updated(self, columns: list[np.ndarray], log_sums) -> tuple[FixedDirichlet, float]:
        """The prior, and by how much learning it raised the ELBO.

        `columns` are the parameters g of every source, and `log_sums` the sum over components of
        E[ln h] of every column.
        """
        return self, 0.0

    def log_density(self) -> float:
        return 0.0


@dataclass(frozen=True)
class SharedDirichlet:
    """Columns of all sources ~ Dirichlet(alpha, ..., alpha), with alpha learned."""

    concentration: float
    n_components: int

    @property
    def moved(self) -> np.ndarray:
        return np.array([self.concentration])

    def at(self, moved: np.ndarray) -> SharedDirichlet:
        return replace(self, concentration=max(float(moved[0]), LEAST_CONCENTRATION))

    def alpha(self, c: int) -> np.ndarray:
        return np.full(self.n_components, self.concentration)

    def updated(self, columns: list[np.ndarray], log_sums) -> tuple[SharedDirichlet, float]:
        """alpha where psi(K alpha) - psi(alpha) + the mean of E[ln h] is 0, or at its floor."""
        size = self.n_components
        if size == 1:
            return self, 0.0  # memberships are 1 whatever it is
        n_columns = sum(g.shape[1] for g in columns)
        mean_log = sum(logs.sum() for logs in log_sums) / n_columns

        def value(alpha):
            return n_columns * (gammaln(size * alpha) - size * gammaln(alpha) + alpha * mean_log)

        def slope(alpha):
            return size * (psi(size * alpha) - psi(alpha)) + mean_log

        bounds = LEAST_CONCENTRATION, MOST_CONCENTRATION
        best = maximum(value, slope, self.concentration, *bounds)
        gain = value(best) - value(self.concentration)
        return SharedDirichlet(best, size), float(gain)

    def log_density(self) -> float:
        return 0.0


@dataclass(frozen=True)
class DirichletBySource:
    """Columns of source c ~ Dirichlet(alpha^(c)), with alpha^(c) learned.

    alpha has a weak exponential prior, worth one sample; without it alpha can run away on data far
    from their origin.
    """

    alphas: list[np.ndarray]

    @property
    def moved(self) -> np.ndarray:
        return np.concatenate(self.alphas)

    def at(self, moved: np.ndarray) -> DirichletBySource:
        return DirichletBySource(np.split(np.maximum(moved, LEAST_ALPHA), len(self.alphas)))

    def alpha(self, c: int) -> np.ndarray:
        return self.alphas[c]

    def updated(self, columns: list[np.ndarray], log_sums) -> tuple[DirichletBySource, float]:
        alphas = []
        gain = 0.0
        for g, alpha in zip(columns, self.alphas, strict=True):
            n_columns = g.shape[1]
            mean_log = (psi(g) - psi(g.sum(axis=0))).mean(axis=1)
            best = learned_dirichlet(mean_log, alpha, n_columns)
            gain += n_columns * (dirichlet.log_normaliser(best) - dirichlet.log_normaliser(alpha))
            gain += n_columns * (best - alpha) @ mean_log
            alphas.append(best)
        return DirichletBySource(alphas), gain

    def log_density(self) -> float:
        return -sum(alpha.sum() for alpha in self.alphas)


def learned_dirichlet(mean_log, alpha, n_columns):
    """alpha at the maximum of n (alpha . E[ln h] - ln Beta(alpha)) - sum alpha, from a first alpha.

    These are Minka's Newton steps, whose matrix is a diagonal plus a constant.
    """
    if len(alpha) == 1:
        return alpha  # memberships are 1 whatever it is

    def value_at(alpha):
        log_density = gammaln(alpha.sum()) - gammaln(alpha).sum() + alpha @ mean_log
        return n_columns * log_density - alpha.sum()

    value = value_at(alpha)
    for _ in range(50):
        gradient = n_columns * (psi(alpha.sum()) - psi(alpha) + mean_log) - 1
        # entries that the floor holds back stay there, or they would lead the others astray
        free = (alpha > LEAST_ALPHA) | (gradient > 0)
        inverse = np.where(free, -1 / (n_columns * polygamma(1, alpha)), 0.0)
        together = n_columns * polygamma(1, alpha.sum())
        shift = (gradient * inverse).sum() / (1 / together + inverse.sum())
        step = (gradient - shift) * inverse
        length = 1.0
        trial = alpha
        new = -np.inf
        while not new >= value and length > 1e-6:
            trial = np.maximum(alpha - length * step, LEAST_ALPHA)
            new = value_at(trial)
            length /= 2
        if not new >= value:
            break
        moved = np.abs(trial - alpha).max()
        alpha = trial
        value = new
        if moved <= 1e-9 * alpha.max():
            break
    return alpha
