"""What every method returns, ours and the baselines alike."""

from dataclasses import dataclass, field

import numpy as np

from bjmd.checks import one_of


@dataclass
class Decomposition:
    """X^(c) is approximated by components @ memberships[c]: features x components times components x samples.

    noise holds the estimated noise standard deviation of each source, or is None for a method that has no noise
    model.  objective is what the method minimises, at the end; trace holds it after every trace_step iterations, and
    history may hold more series over the same iterations by name.  converged tells whether the stopping rule was
    met, and reason says how the fit ended.  posterior holds the arrays of a variational posterior by name, and is
    empty for point estimates.
    """

    components: np.ndarray
    memberships: list[np.ndarray]
    noise: np.ndarray | None
    objective: float
    trace: np.ndarray
    converged: bool
    reason: str
    seconds: float
    method: str = ""
    seed: int | None = None
    options: dict = field(default_factory=dict)
    trace_step: int = 1
    history: dict[str, np.ndarray] = field(default_factory=dict)
    posterior: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def n_components(self):
        return self.components.shape[1]

    def marginals(self, of):
        """Posterior mean, sd and credible intervals of "components", "memberships" (a list by source) or "noise"."""
        from bjmd.fits import posterior

        return getattr(posterior, one_of("of", of, ("components", "memberships", "noise")))(self)
