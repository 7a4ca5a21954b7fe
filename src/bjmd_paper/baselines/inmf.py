"""Integrative NMF: shared components, and for each source its own deviation from them.

    minimise  sum_c ||X^(c) - (W + V^(c)) H^(c)||^2 + lambda ||V^(c) H^(c)||^2
    over      W, V^(c), H^(c) >= 0

This is the model of Yang and Michailidis (2016), which is known from LIGER (Welch et al. 2019).
V^(c) holds what is specific to source c.  The larger lambda, the smaller it is, and in the limit
this is joint NMF.  A sweep improves every V^(c), then W, then every H^(c), as joint NMF does.  Each
is a least-squares problem given the others, with

    V   Gram matrix (1 + lambda) HH',                         products (X - WH) H'
    W   Gram matrix sum_c HH',                                products sum_c (X - VH) H'
    H   Gram matrix (W + V)'(W + V) + lambda V'V,             products (W + V)'X
"""

from dataclasses import dataclass

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.errors import positive_number
from bjmd.inference import loop
from bjmd.inference.registry import Method
from bjmd.numerics.nonnegative import improve_factor
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines import joint_nmf, semi_nmf
from bjmd_paper.baselines.joint_nmf import PASSES, random_factors


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    lambda_: float = 5.0,
    tol: float = 1e-6,
    max_sweeps: int = 2000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from one random start, the one of joint NMF; `lambda_` is 5 as in LIGER."""
    positive_number("lambda_", lambda_)
    h, wt = random_factors(sources, n_components, seed)
    algorithm = IntegrativeNMF(sources, h, wt, lambda_)
    return joint_nmf.run(algorithm, tol, max_sweeps, watch)


METHOD = Method("inmf", "iNMF", fit, objective="penalised squared error", nonnegative=True)


@dataclass(frozen=True)
class State(semi_nmf.State):
    """H of all samples side by side, W', and every V'."""

    vts: tuple[np.ndarray, ...] = ()


class IntegrativeNMF(semi_nmf.Alternating):
    """V, W and H in turn."""

    def start(self):
        return State(self.h, self.wt, tuple(np.zeros_like(self.wt) for _ in self.sources.data))

    def sweep(self, state):
        wt = state.wt.copy()
        vts = [vt.copy() for vt in state.vts]
        hs = self.memberships(state)
        grams = [h @ h.T for h in hs]
        products = [x.times_memberships(h) for x, h in zip(self.sources.data, hs, strict=True)]
        for vt, gram, product in zip(vts, grams, products, strict=True):
            improve_factor((1 + self.penalty) * gram, product - gram @ wt, 0.0, vt, PASSES)
        shared = sum(
            product - gram @ vt for vt, gram, product in zip(vts, grams, products, strict=True)
        )
        improve_factor(sum(grams), shared, 0.0, wt, PASSES)
        error = 0.0
        for x, vt, h in zip(self.sources.data, vts, hs, strict=True):
            gram = (wt + vt) @ (wt + vt).T + self.penalty * (vt @ vt.T)
            projection = x.times_components(wt + vt)
            improve_factor(gram, projection, 0.0, h, PASSES)
            error += residual_sum_of_squares(x.squared_norm, gram, projection, h)
        return State(np.hstack(hs), wt, tuple(vts)), error
