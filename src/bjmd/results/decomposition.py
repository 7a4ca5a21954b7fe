"""What every method returns, ours and the baselines alike."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bjmd.results.posterior import Posterior

#: share of the smallest noise sd; a component with a smaller learned scale explains nothing
VANISHED = 0.01
#: the correlation of memberships from which components of two runs count as the same
ALIKE = 0.9
ALL_VANISHED = (
    "all components have vanished, so the memberships mean nothing: the data are too few or too "
    "noisy for learned scales; give lambda_ a number, or fit fewer components"
)


@dataclass(frozen=True)
class FittedModel:
    """What a fit of the BJMD model knows beyond components, memberships and noise.

    All numbers are in the unit of the data.
    """

    alpha0: np.ndarray
    """The Dirichlet of every source, sources x K."""
    noise_prior: np.ndarray
    """a0 and b0."""
    offsets: np.ndarray | None = None
    """sources x features; with their standard deviations in `offsets_sd`."""
    offsets_sd: np.ndarray | None = None
    feature_precision: np.ndarray | None = None
    """How precise every feature is, over its source."""
    sample_precision: list[np.ndarray] | None = None
    """How precise every sample is, over its source; an array for each source."""
    sample_shape: np.ndarray | None = None
    """The shape of the gamma that the precisions of a source's samples come from."""
    degrees_of_freedom: np.ndarray | None = None
    """Of Student's t, one per source."""
    component_scales: np.ndarray | None = None
    """The learned Laplace scale of every component."""
    data_extent: np.ndarray | None = None
    """The least and the largest entry of the data, and 1 if all are whole numbers, else 0."""

    def by_source(self, n_samples: list[int]) -> FittedModel:
        """The same for each of several sources with so many samples, which are parts of one."""
        by_source: dict[str, Any] = {}
        for name in ("alpha0", "offsets", "offsets_sd", "sample_shape", "degrees_of_freedom"):
            value = getattr(self, name)
            by_source[name] = None if value is None else np.repeat(value, len(n_samples), axis=0)
        if self.sample_precision is not None:
            ends = np.cumsum(n_samples)[:-1]
            by_source["sample_precision"] = np.split(self.sample_precision[0], ends)
        return replace(self, **by_source)


@dataclass
class Decomposition:
    """X^(c) is approximated by components @ memberships[c].

    Attributes
    ----------
    components : array, features x K
        W.
    memberships : list of arrays, K x samples
        H of every source.
    noise : array of one number a source, or None
        Estimated noise standard deviations; None for a method without a noise model.
    objective : float
        What the method minimises, at the end.
    trace : array
        The objective after every trace_step iterations.
    converged, reason : bool, str
        Whether the stopping rule was met, and how the fit ended.
    history : dict of arrays
        More series over the same iterations as the trace, by name.
    posterior : Posterior or None
        The factors of a variational posterior; None for a point estimate.
    model : FittedModel or None
        What a fit of the BJMD model knows besides; None for the other methods.
    method, seed, options, seconds
        How the result was made; seconds are processor time.
    """

    components: np.ndarray
    memberships: list[np.ndarray]
    noise: np.ndarray | None
    objective: float
    trace: np.ndarray
    converged: bool
    reason: str
    trace_step: int = 1
    history: dict[str, np.ndarray] = field(default_factory=dict)
    posterior: Posterior | None = None
    model: FittedModel | None = None
    method: str = ""
    seed: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def n_components(self) -> int:
        return self.components.shape[1]

    def vanished(self) -> np.ndarray:
        """The components whose learned scale went to zero, by number from 0.

        A single component is the mean of the data whatever its scale.
        """
        if self.n_components == 1 or self.model is None or self.model.component_scales is None:
            return np.empty(0, dtype=int)
        least_noise = np.min(np.asarray(self.noise))
        return np.flatnonzero(self.model.component_scales < VANISHED * least_noise)

    def estimates(self) -> dict[str, np.ndarray]:
        """What was estimated by name: components, memberships/0, posterior/noise/rate."""
        arrays = {"components": self.components}
        if self.noise is not None:
            arrays["noise"] = np.asarray(self.noise)
        arrays |= {f"memberships/{c}": h for c, h in enumerate(self.memberships)}
        for name, factor in self.posterior.factors().items() if self.posterior else ():
            arrays |= {f"posterior/{name}/{part}": x for part, x in factor.arrays().items()}
        return arrays

    def is_finite(self) -> bool:
        """Whether every number that was estimated is one."""
        arrays = [np.asarray(self.objective), *self.estimates().values()]
        return all(np.isfinite(array).all() for array in arrays)

    @property
    def n_iterations(self) -> int:
        return len(self.trace) * self.trace_step


def component_names(n: int) -> list[str]:
    """C1, C2, ..., which is what components are called wherever people read about them."""
    return [f"C{k + 1}" for k in range(n)]


def match(result, reference):
    """The partner in `result` of every component of `reference`, and the correlation of the two.

    Memberships are correlated over the samples of all sources, and pairs have the largest sum of
    correlations.  Patterns would not do: an offset that all components share makes any two of them
    look alike.
    """
    from scipy.optimize import linear_sum_assignment  # which takes long to import

    correlation = _correlations(np.hstack(reference.memberships), np.hstack(result.memberships))
    rows, partner = linear_sum_assignment(correlation, maximize=True)
    return partner, correlation[rows, partner]


def similarities(results):
    """Correlations of the first result's components with their partners, other runs x K."""
    first, *others = results
    return np.array([match(other, first)[1] for other in others])


def _correlations(a, b):
    """Correlation of every row of a with every row of b; 1 for two constant rows, 0 for one."""
    rows = np.vstack([a, b])
    constant = np.ptp(rows, axis=1) <= 1e-9 * np.abs(rows).max(axis=1)
    either = constant[:, None] | constant
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.where(either, np.outer(constant, constant), np.corrcoef(rows))
    return correlation[: len(a), len(a) :]
