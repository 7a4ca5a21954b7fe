"""What every method returns, ours and the baselines alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bjmd.fits.posterior import Posterior


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
    method, seed, options, seconds
        How the result came about; seconds are processor time.
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
    method: str = ""
    seed: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def n_components(self) -> int:
        return self.components.shape[1]

    @property
    def n_iterations(self) -> int:
        return len(self.trace) * self.trace_step
