"""Joint NMF: one non-negative factorisation of all sources side by side.

    minimise  ||X - WH||^2        over W >= 0, H >= 0,      X = [X^(1) ... X^(C)]

A sweep improves W and then H by hierarchical alternating least squares: every entry in turn moves
to its optimum given the others.  The products with the data take most of the time, so each of them
is used for several such passes (Gillis and Glineur 2012).  Sweeps have momentum in ln H, as in
semi-NMF.
"""

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.inference import loop
from bjmd.inference.registry import Method
from bjmd.numerics.nonnegative import improve_factor
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines.semi_nmf import Alternating, State

PASSES = 5
"""Passes over a factor for each product with the data."""
PATIENCE = 5
"""Small changes in a row that end a fit."""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    tol: float = 1e-6,
    max_sweeps: int = 2000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from one random start.

    Stops when the relative change of the error is at most `tol` five times in a row.
    """
    algorithm = JointNMF(sources, *random_factors(sources, n_components, seed))
    return run(algorithm, tol, max_sweeps, watch)


def run(algorithm, tol, max_sweeps, watch):
    """Sweeps with momentum until the error settles; other kinds of NMF use it, too."""
    return loop.run(
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        objective="error",
        patience=PATIENCE,
        momentum_from=1,
    )


METHOD = Method("jnmf", "jNMF", fit, objective="squared error", concatenate=True, nonnegative=True)


def random_factors(sources, n_components, seed):
    """H of all samples and W', which share the mean of the data evenly."""
    rng = np.random.default_rng(seed)
    shape = sources.n_features, sum(sources.n_samples)
    total = sum(x.sum() for x in sources.matrices)
    scale = np.sqrt(total / (shape[0] * shape[1] * n_components))
    wt, h = (scale * np.abs(rng.standard_normal((n_components, n))) for n in shape)
    return h, wt


class JointNMF(Alternating):
    """W and H in turn."""

    def sweep(self, state):
        (x,) = self.sources.data
        wt = state.wt.copy()
        h = state.h.copy()
        improve_factor(h @ h.T, x.times_memberships(h), 0.0, wt, PASSES)
        gram = wt @ wt.T
        projection = x.times_components(wt)
        improve_factor(gram, projection, 0.0, h, PASSES)
        return State(h, wt), residual_sum_of_squares(x.squared_norm, gram, projection, h)
