"""What a variational fit knows about its uncertainty: typed factors for the components, the memberships and the noise.

    result.posterior.noise.interval(0.9)         # also .components, and .memberships, a list by source
    result.posterior.components.mean, .sd

Which family a factor is of depends on the method; a point estimate (MAP, most baselines) has no posterior.  Mean-field
posteriors ignore that components and memberships can make up for each other, so their intervals are too narrow;
docs/results.md has measured coverages.
"""

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from scipy.special import betaincinv, gammainccinv, gammaln, ndtri

from bjmd.errors import InputError


@dataclass(frozen=True)
class Factor:
    """Independent parts of the posterior, with marginals for every entry; its fields are arrays."""

    def quantile(self, q: float) -> np.ndarray:
        """The q-quantile of every entry."""
        raise NotImplementedError

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central credible interval of every entry."""
        if not 0 < level < 1:
            raise InputError(f"level is {level!r}; it must be between 0 and 1, for example 0.9")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields by name, for storage."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def split(self, ends: np.ndarray) -> list[Self]:
        """The same columns in consecutive blocks."""
        blocks = (np.split(array, ends, axis=1) for array in self.arrays().values())
        return [type(self)(*parts) for parts in zip(*blocks, strict=True)]

    def repeated(self, n: int) -> Self:
        """The same for each of n sources, which are parts of one."""
        return type(self)(*(np.repeat(array, n) for array in self.arrays().values()))


@dataclass(frozen=True)
class Normal(Factor):
    """Independent normal entries."""

    mean: np.ndarray
    sd: np.ndarray

    def quantile(self, q: float) -> np.ndarray:
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
        return np.sqrt(np.diagonal(self.covariance(), axis1=1, axis2=2))

    def quantile(self, q: float) -> np.ndarray:
        return self.mean + self.sd * ndtri(q)

    def covariance(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The covariance of every row, or of some, rows x K x K."""
        return np.linalg.inv(self._precisions(rows))

    def sample(self, n_draws: int, rng) -> np.ndarray:
        """draws x features x K."""
        # mu + L^-T z with L L' the precision of the row has its covariance
        factor = np.linalg.cholesky(self._precisions(slice(None)))
        standard = rng.standard_normal((*self.mean.shape, n_draws))
        return self.mean + np.moveaxis(np.linalg.solve(np.swapaxes(factor, 1, 2), standard), 2, 0)

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
        return np.sqrt(mean * (1 - mean) / (self.parameters.sum(axis=0) + 1))

    def quantile(self, q: float) -> np.ndarray:
        return betaincinv(self.parameters, self.parameters.sum(axis=0) - self.parameters, q)

    def sample(self, n_draws: int, rng) -> np.ndarray:
        """draws x K x samples."""
        gammas = rng.standard_gamma(self.parameters, (n_draws, *self.parameters.shape))
        return gammas / gammas.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class InverseGamma(Factor):
    """Inverse gamma variances, one per source; the marginals are those of the standard deviations."""

    shape: np.ndarray
    rate: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return np.exp(0.5 * np.log(self.rate) + gammaln(self.shape - 0.5) - gammaln(self.shape))

    @property
    def sd(self) -> np.ndarray:
        # the root of E[s2] - E[sd]^2; by its series in 1/shape where the difference itself would lose too many digits
        series = self.mean * np.sqrt((1 + 9 / (8 * self.shape)) / (4 * self.shape))
        variance = np.where(self.shape > 1, self.rate / np.maximum(self.shape - 1, 1e-300), np.inf)
        return np.where(self.shape > 1e4, series, np.sqrt(np.maximum(variance - self.mean**2, 0)))

    def quantile(self, q: float) -> np.ndarray:
        return np.sqrt(self.rate / gammainccinv(self.shape, q))

    def sample(self, n_draws: int, rng) -> np.ndarray:
        """draws x sources."""
        return np.sqrt(self.rate / rng.standard_gamma(self.shape, (n_draws, len(self.shape))))


@dataclass(frozen=True)
class LogNormal(Factor):
    """Log-normal variances, one per source (ADVI); the marginals are those of the standard deviations."""

    log_mean: np.ndarray
    log_sd: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return np.exp(0.5 * self.log_mean + 0.5 * (0.5 * self.log_sd) ** 2)

    @property
    def sd(self) -> np.ndarray:
        return self.mean * np.sqrt(np.expm1((0.5 * self.log_sd) ** 2))

    def quantile(self, q: float) -> np.ndarray:
        return np.exp(0.5 * (self.log_mean + self.log_sd * ndtri(q)))


FACTORS = {factor.__name__: factor for factor in (Normal, NormalRows, DirichletColumns, InverseGamma, LogNormal)}
"""Every family by its name, for storage."""


@dataclass(frozen=True)
class Posterior:
    """The factors of one fit."""

    components: NormalRows | Normal
    memberships: list[DirichletColumns] | list[Normal]
    noise: InverseGamma | LogNormal | None  #: None where the noise is a parameter, not a variable (JMD)

    def by_source(self, n_samples: list[int]) -> "Posterior":
        """Hand what was found for all samples as one source to the sources they came from."""
        (columns,) = self.memberships
        noise = None if self.noise is None else self.noise.repeated(len(n_samples))
        return Posterior(self.components, columns.split(np.cumsum(n_samples)[:-1]), noise)
