"""Semi-NMF: W free, H >= 0 (Ding, Li and Jordan 2010), on all sources side by side.

    minimise  ||X - WH||^2        over W and H >= 0

One sweep, with A+ = (|A| + A)/2 and A- = (|A| - A)/2 the positive and negative parts of a matrix:

    W = X H' (HH')^+                                        least squares; ^+ is the pseudo-inverse
    H = H * sqrt( (B+ + Q- H) / (B- + Q+ H) )               elementwise, B = W'X, Q = W'W

Neither update raises the error.  The start is also theirs: the 0/1 memberships of K-means, plus 0.2
so that no entry is stuck at zero.  The updates converge slowly, so from sweep 10 on they have
momentum in ln H (loop.py).
"""

from dataclasses import dataclass, replace

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.inference import loop
from bjmd.inference.registry import Method
from bjmd.numerics.nonnegative import multiply
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines import kmeans

START_OFFSET = 0.2
MOMENTUM_FROM = 10
PATIENCE = 3
"""Small changes in a row that end a fit; after an undone step of momentum one or two are small."""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    tol: float = 1e-5,
    max_sweeps: int = 1000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from one K-means start.

    Stops when the relative change of the error is at most `tol` three times in a row.
    """
    (h,) = kmeans.fit(sources, n_components, seed=seed).memberships
    algorithm = SemiNMF(sources, h + START_OFFSET)
    return loop.run(
        algorithm,
        tol=tol,
        max_sweeps=max_sweeps,
        watch=watch,
        objective="error",
        patience=PATIENCE,
        momentum_from=MOMENTUM_FROM,
    )


METHOD = Method("semi-nmf", "Semi-NMF", fit, objective="squared error", concatenate=True)


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next."""

    h: np.ndarray
    wt: np.ndarray | None = None
    """W'; None before the first sweep."""

    def vector(self):
        return np.log(np.maximum(self.h, 1e-300))

    def at(self, vector):
        return replace(self, h=np.exp(vector))


class Alternating:
    """What all kinds of NMF share: H of all samples and W'; each adds a sweep (loop.Algorithm)."""

    def __init__(self, sources, h, wt=None, penalty=0.0):
        self.sources = sources
        self.h = h
        self.wt = wt
        self.penalty = penalty

    def start(self):
        return State(self.h, self.wt)

    def memberships(self, state):
        return [np.ascontiguousarray(h) for h in self.sources.split(state.h)]

    def finish(self, state):
        return loop.Estimates(np.ascontiguousarray(state.wt.T), self.memberships(state))


class SemiNMF(Alternating):
    """W and H in turn."""

    def sweep(self, state):
        (x,) = self.sources.data
        h = state.h.copy()
        wt = least_squares_components(x, h)
        gram = wt @ wt.T
        projection = x.times_components(wt)
        multiply(projection, np.maximum(-gram, 0) @ h, np.maximum(gram, 0) @ h, h)
        return State(h, wt), residual_sum_of_squares(x.squared_norm, gram, projection, h)


def least_squares_components(x, h):
    """W' = (HH')^+ H X'; the pseudo-inverse gives the smallest W where components coincide."""
    return np.linalg.pinv(h @ h.T, hermitian=True) @ x.times_memberships(h)
