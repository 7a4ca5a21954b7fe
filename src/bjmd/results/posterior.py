"""The posterior of a variational fit: typed factors for components, memberships and noise.

    result.posterior.noise.interval(0.9)  # also .components, and .memberships, a list by source
    result.posterior.components.mean, .sd

Which family a factor is of depends on the method; a point estimate (MAP, most baselines) has no
posterior.  Factors are independent, so alone they ignore that components and memberships can make
up for each other.  `widening` puts that back for the closed form (intervals.py); `plain()` leaves
it out.  docs/trust.md has measured coverages.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from scipy.special import betaincinv, gammainccinv, gammaln, ndtri

from bjmd.errors import InputError


@dataclass(frozen=True)
class Factor(ABC):
    """Independent parts of the posterior, with marginals for every entry; its fields are arrays."""

    widening: np.ndarray | None = field(default=None, kw_only=True)
    """The sds of the marginals over those of the factor (intervals.py); None for 1."""

    @abstractmethod
    def quantile(self, q: Any) -> np.ndarray:
        """The q-quantile of every entry."""

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the credible interval of every entry, central unless noted."""
        if not 0 < level < 1:
            raise InputError(f"level is {level!r}; it must be between 0 and 1, for example 0.9")
        below = self._below(level)
        return self.quantile(below), self.quantile(np.minimum(below + level, 1.0))

    def _below(self, level: float) -> Any:
        """The probability below the interval."""
        return 0.5 * (1 - level)

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields by name, for storage."""
        return {
            part.name: x for part in fields(self) if (x := getattr(self, part.name)) is not None
        }

    def split(self, ends: np.ndarray) -> list[Self]:
        """The same columns in consecutive blocks."""
        blocks = {name: np.split(array, ends, axis=1) for name, array in self.arrays().items()}
        return [
            type(self)(**{name: parts[c] for name, parts in blocks.items()})
            for c in range(len(ends) + 1)
        ]

    def repeated(self, n: int) -> Self:
        """The same for each of n sources, which are parts of one."""
        return type(self)(**{name: np.repeat(array, n) for name, array in self.arrays().items()})

    def plain(self) -> Self:
        """The factor of the fit itself, as if the others were known exactly."""
        return replace(self, widening=None)

    def _wider(self) -> Any:
        return 1.0 if self.widening is None else self.widening


@dataclass(frozen=True)
class Normal(Factor):
    """Independent normal entries."""

    mean: np.ndarray
    sd: np.ndarray

    def quantile(self, q: Any) -> np.ndarray:
        return self.mean + self.sd * ndtri(q)

    def covariance(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The diagonal covariance of every row, or of some, rows x K x K."""
        return self.sd[rows, :, None] ** 2 * np.eye(self.sd.shape[1])


@dataclass(frozen=True)
class NormalRows(Factor):
    """Independent rows, each N(mean_i, (precision + diag ridge_i)^-1): q(W) of the closed form."""

    mean: np.ndarray  #: features x K
    precision: np.ndarray  #: K x K, or features x K x K where it differs between features
    ridge: np.ndarray  #: features x K

    @property
    def sd(self) -> np.ndarray:
        return self._wider() * np.sqrt(np.diagonal(self.covariance(), axis1=1, axis2=2))

    def quantile(self, q: Any) -> np.ndarray:
        return self.mean + self.sd * ndtri(q)

    def covariance(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The covariance of every row, or of some, given the memberships, rows x K x K."""
        return np.linalg.inv(self._precisions(rows))

    def sample(self, n_draws: int, rng) -> np.ndarray:
        """draws x features x K."""
        # mu + L^-T z with L L' the precision of the row has its covariance
        factor = np.linalg.cholesky(self._precisions(slice(None)))
        standard = rng.standard_normal((*self.mean.shape, n_draws))
        draws = np.linalg.solve(np.swapaxes(factor, 1, 2), standard)
        return self.mean + self._wider() * np.moveaxis(draws, 2, 0)

    def _precisions(self, rows):
        shared = self.precision if self.precision.ndim == 2 else self.precision[rows]
        return shared + self.ridge[rows, :, None] * np.eye(self.ridge.shape[1])


@dataclass(frozen=True)
class DirichletColumns(Factor):
    """Independent Dirichlet columns; each entry is a Beta."""

    parameters: np.ndarray  #: K x samples

    @property
    def mean(self) -> np.ndarray:
        return self.parameters / self.parameters.sum(axis=0)

    @property
    def sd(self) -> np.ndarray:
        mean = self.mean
        return self._wider() * np.sqrt(mean * (1 - mean) / (self.parameters.sum(axis=0) + 1))

    def quantile(self, q: Any) -> np.ndarray:
        marginal = self._marginal()
        rest = marginal.sum(axis=0) - marginal
        return np.where(rest > 0, betaincinv(marginal, rest, q), 1.0)  # 1 for sure where K is 1

    def _below(self, level: float) -> np.ndarray:
        """Half of the rest; where the density is highest at 0 or 1, none or all of it, so that the
        interval begins or ends there: the truth of a nearly pure sample may be 0 or 1 itself.
        """
        marginal = self._marginal()
        others = marginal.sum(axis=0) - marginal
        highest_at_0 = (marginal <= 1) & (marginal < others)
        highest_at_1 = (others <= 1) & (others < marginal)
        return (1 - level) * (0.5 - 0.5 * highest_at_0 + 0.5 * highest_at_1)

    def sample(self, n_draws: int, rng) -> np.ndarray:
        """draws x K x samples."""
        gammas = rng.standard_gamma(self._marginal(), (n_draws, *self.parameters.shape))
        return gammas / gammas.sum(axis=1, keepdims=True)

    def _marginal(self):
        """The parameters of Dirichlets of the same means and wider sds."""
        if self.widening is None:
            return self.parameters
        s = self.parameters.sum(axis=0)
        return self.mean * ((s + 1) / self.widening**2 - 1)


@dataclass(frozen=True)
class InverseGamma(Factor):
    """Inverse gamma variances, one per source; the marginals are those of standard deviations."""

    shape: np.ndarray
    rate: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        shape, rate = self._marginal()
        return np.exp(0.5 * np.log(rate) + gammaln(shape - 0.5) - gammaln(shape))

    @property
    def sd(self) -> np.ndarray:
        # the root of E[s2] - E[sd]^2; by its series in 1/shape where the difference itself would
        # lose too many digits
        shape, rate = self._marginal()
        series = self.mean * np.sqrt((1 + 9 / (8 * shape)) / (4 * shape))
        variance = np.where(shape > 1, rate / np.maximum(shape - 1, 1e-300), np.inf)
        return np.where(shape > 1e4, series, np.sqrt(np.maximum(variance - self.mean**2, 0)))

    def quantile(self, q: Any) -> np.ndarray:
        shape, rate = self._marginal()
        return np.sqrt(rate / gammainccinv(shape, q))

    def sample(self, n_draws: int, rng) -> np.ndarray:
        """draws x sources."""
        shape, rate = self._marginal()
        return np.sqrt(rate / rng.standard_gamma(shape, (n_draws, len(shape))))

    def _marginal(self):
        """Shape and rate of the same E[1/s2] and a wider sd of ln s2."""
        return self.shape / self._wider() ** 2, self.rate / self._wider() ** 2


@dataclass(frozen=True)
class LogNormal(Factor):
    """Log-normal variances, one per source (ADVI); the marginals are those of sds."""

    log_mean: np.ndarray
    log_sd: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return np.exp(0.5 * self.log_mean + 0.5 * (0.5 * self.log_sd) ** 2)

    @property
    def sd(self) -> np.ndarray:
        return self.mean * np.sqrt(np.expm1((0.5 * self.log_sd) ** 2))

    def quantile(self, q: Any) -> np.ndarray:
        return np.exp(0.5 * (self.log_mean + self.log_sd * ndtri(q)))


FACTORS = {
    factor.__name__: factor
    for factor in (Normal, NormalRows, DirichletColumns, InverseGamma, LogNormal)
}
"""Every family by its name, for storage."""


@dataclass(frozen=True)
class Posterior:
    """The factors of one fit."""

    components: NormalRows | Normal
    memberships: list[DirichletColumns] | list[Normal]
    noise: InverseGamma | LogNormal | None
    """None where the noise is a parameter, not a variable (JMD)."""

    def factors(self) -> dict[str, Factor]:
        """The factors by name; those of memberships are numbered."""
        columns = {f"memberships/{c}": factor for c, factor in enumerate(self.memberships)}
        noise = {} if self.noise is None else {"noise": self.noise}
        return {"components": self.components, **noise, **columns}

    def by_source(self, n_samples: list[int]) -> "Posterior":
        """Hand what was found for all samples as one source to the sources they came from."""
        (columns,) = self.memberships
        noise = None if self.noise is None else self.noise.repeated(len(n_samples))
        return Posterior(self.components, columns.split(np.cumsum(n_samples)[:-1]), noise)
