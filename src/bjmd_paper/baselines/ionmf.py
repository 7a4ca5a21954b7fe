"""Integrative orthogonality-regularised NMF, iONMF (Stražar et al. 2016).

    minimise  sum_c ||X^(c) - W H^(c)||^2 + theta_c ||H^(c) H^(c)' - I||^2      over W, H^(c) >= 0

The penalty keeps the memberships of different components in a source apart.  Here
theta_c = `orthogonality` ||X^(c)||^2, so that it does not depend on the unit of the data.

A sweep improves W as joint NMF does, and then multiplies every H^(c) by

    ( (W'X + 2 theta H) / (W'W H + 2 theta HH'H) )^(1/4)                        elementwise

The fourth root minimises a bound that touches the objective at the present H and has h^4 in it, so
the objective never rises; the ratio itself, without a root, may overshoot.  Sweeps have momentum in
ln H, as in semi-NMF.
"""

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.errors import positive_number
from bjmd.inference import loop
from bjmd.inference.registry import Method
from bjmd.numerics.nonnegative import improve_factor
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines import joint_nmf
from bjmd_paper.baselines.joint_nmf import PASSES, random_factors
from bjmd_paper.baselines.semi_nmf import Alternating, State


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    orthogonality: float = 0.01,
    tol: float = 1e-5,
    max_sweeps: int = 2000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from one random start, the one of joint NMF with rows of H of unit length."""
    positive_number("orthogonality", orthogonality)
    h, wt = random_factors(sources, n_components, seed)
    unit = [block / np.linalg.norm(block, axis=1, keepdims=True) for block in sources.split(h)]
    algorithm = OrthogonalNMF(sources, np.hstack(unit), wt, orthogonality)
    return joint_nmf.run(algorithm, tol, max_sweeps, watch)


METHOD = Method("ionmf", "iONMF", fit, objective="penalised squared error", nonnegative=True)


class OrthogonalNMF(Alternating):
    """W and H in turn."""

    def sweep(self, state):
        wt = state.wt.copy()
        hs = self.memberships(state)
        products = [x.times_memberships(h) for x, h in zip(self.sources.data, hs, strict=True)]
        improve_factor(sum(h @ h.T for h in hs), sum(products), 0.0, wt, PASSES)
        gram = wt @ wt.T
        error = 0.0
        for x, h in zip(self.sources.data, hs, strict=True):
            weight = self.penalty * x.squared_norm
            projection = x.times_components(wt)
            down = gram @ h + 2 * weight * (h @ h.T) @ h
            h *= ((projection + 2 * weight * h) / np.maximum(down, 1e-300)) ** 0.25
            error += residual_sum_of_squares(x.squared_norm, gram, projection, h)
            error += weight * ((h @ h.T - np.eye(len(h))) ** 2).sum()
        return State(np.hstack(hs), wt), error
