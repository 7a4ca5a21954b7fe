"""Anderson acceleration of a fixed-point iteration, with a way back.

Sweeps of coordinate ascent creep along valleys when components overlap.  From the last few states x and sweeps
Phi(x) the accelerator finds the combination of sweeps whose residuals Phi(x) - x nearly cancel, and goes there instead.
It does not know the objective: its caller checks that the next sweep did no harm, and else calls `restart`.
"""

import numpy as np

MEMORY = 5
"""How many earlier sweeps are combined."""
LONGEST = 2.0
"""The most that an extrapolation may change an entry beyond the sweep itself."""


class Accelerator:
    def __init__(self):
        self._swept, self._residuals = [], []

    def extrapolate(self, before, after):
        """The point to start the next sweep from, given a sweep's start and end."""
        self._swept = [*self._swept, after][-MEMORY - 1 :]
        self._residuals = [*self._residuals, after - before][-MEMORY - 1 :]
        if len(self._swept) == 1:
            return after
        changes = np.diff(self._residuals, axis=0)
        gram = changes @ changes.T
        # a relative ridge, because changes of late sweeps are almost parallel, and a tiny one, because one may be zero
        gram[np.diag_indices_from(gram)] = gram.diagonal() * (1 + 1e-8) + np.finfo(float).tiny
        weights = np.linalg.solve(gram, changes @ self._residuals[-1])
        jump = weights @ np.diff(self._swept, axis=0)
        return after - np.clip(jump, -LONGEST, LONGEST)

    def restart(self):
        """Forget everything but the last good sweep, and return where it ended."""
        self._swept, self._residuals = self._swept[-1:], self._residuals[-1:]
        return self._swept[0]
