"""The control `random`: memberships that do not depend on the data, to show the score of chance.

Columns of H are drawn uniformly from the simplex.  W is the least-squares solution for them, so
that the error ||X - WH||^2 can be compared with that of the other methods.
"""

import numpy as np

from bjmd.data.matrix import residual_sum_of_squares
from bjmd.data.sources import Sources
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines.semi_nmf import least_squares_components


def fit(sources: Sources, n_components: int, *, seed: int) -> Decomposition:
    """Draw H and fit W to it."""
    (x,) = sources.data
    rng = np.random.default_rng(seed)
    h = np.ascontiguousarray(rng.dirichlet(np.ones(n_components), x.shape[1]).T)
    wt = least_squares_components(x, h)
    error = residual_sum_of_squares(sources.squared_norms[0], wt @ wt.T, x.times_components(wt), h)
    return Decomposition(
        components=np.ascontiguousarray(wt.T),
        memberships=[h],
        noise=None,
        objective=error,
        trace=np.array([error]),
        converged=True,
        reason="drawn at random, not fitted",
    )


METHOD = Method(
    "random", "Random H", fit, objective="squared error", concatenate=True, streams=True
)
