"""Joint NMF: one non-negative factorisation of all sources side by side.

    minimise  ||X - WH||^2        over W >= 0, H >= 0,      X = [X^(1) ... X^(C)]

A sweep improves W and then H by hierarchical alternating least squares: every entry in turn goes to its optimum given
the others, max(q/p, 0).  The products with the data are most of a sweep, so each serves for several such passes (Gillis
and Glineur 2012), and sweeps have momentum (Ang and Gillis 2019).
"""

from dataclasses import dataclass

import numpy as np

from bjmd.data.products import components_times_data, data_times_memberships
from bjmd.data.sources import Sources
from bjmd.fits import loop
from bjmd.fits.decomposition import Decomposition
from bjmd.model import residual_sum_of_squares
from bjmd.numerics.nonnegative import update_factor

PASSES = 5
"""Passes over a factor for each product with the data."""
PATIENCE = 5
"""Small changes in a row that end a fit: after momentum was undone a few sweeps gain little, and then more again."""


def fit(
    sources: Sources, n_components: int, *, seed: int, tol: float = 1e-6, max_sweeps: int = 1000,
    watch: loop.Watch | None = None,
) -> Decomposition:  # fmt: skip
    """Fit from one random start; stop when the error's relative change is at most `tol` five times in a row."""
    algorithm = JointNMF(sources, n_components, np.random.default_rng(seed))
    return loop.run(
        algorithm, tol=tol, max_sweeps=max_sweeps, watch=watch, objective="error", patience=PATIENCE, momentum_from=1
    )


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next."""

    wt: np.ndarray
    h: np.ndarray
    unit: float
    """Of the entries in `vector`, so that momentum does not depend on the unit of the data."""

    def vector(self):
        return np.concatenate([self.wt.ravel(), self.h.ravel()]) / self.unit

    def at(self, vector):
        wt, h = np.split(np.maximum(self.unit * vector, 0), [self.wt.size])
        return State(wt.reshape(self.wt.shape), h.reshape(self.h.shape), self.unit)


class JointNMF:
    """W and H in turn (loop.Algorithm)."""

    def __init__(self, sources, n_components, rng):
        (self.x,), (self.squared_norm,) = sources.matrices, sources.squared_norms
        self.n_components, self.rng = n_components, rng

    def start(self):
        n_features, n_samples = self.x.shape
        # W and H share the mean of the data evenly
        unit = np.sqrt(self.x.sum() / (n_features * n_samples * self.n_components))
        wt, h = (unit * np.abs(self.rng.standard_normal((self.n_components, n))) for n in self.x.shape)
        return State(wt, h, unit)

    def sweep(self, state):
        wt, h = state.wt.copy(), state.h.copy()
        self.improve(h @ h.T, data_times_memberships(self.x, h), wt)
        gram, projection = wt @ wt.T, components_times_data(wt, self.x)
        self.improve(gram, projection, h)
        return State(wt, h, state.unit), residual_sum_of_squares(self.squared_norm, gram, projection, h)

    def improve(self, gram, products, factor):
        for _ in range(PASSES):
            update_factor(gram, products, 0.0, factor, self.rng, False)

    def memberships(self, state):
        return [state.h]

    def finish(self, state):
        return loop.Found(np.ascontiguousarray(state.wt.T), [state.h])
