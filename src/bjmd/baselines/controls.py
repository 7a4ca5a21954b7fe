"""The control `random`: memberships that never saw the data, so that a reader sees where the score begins.

Columns of H are drawn uniformly from the simplex.  W is the least-squares basis for them, which makes the error
||X - WH||^2 comparable with that of the other methods.
"""

import time

import numpy as np

from bjmd.baselines.semi_nmf import least_squares_basis
from bjmd.decomposition import Decomposition
from bjmd.model import basis_times_data, residual_sum_of_squares


def fit(sources, n_components, *, seed):
    """Draw H; nothing is fitted but the basis."""
    started = time.perf_counter()
    sources.require_components(n_components)
    (x,) = sources.matrices
    rng = np.random.default_rng(seed)
    h = np.ascontiguousarray(rng.dirichlet(np.ones(n_components), x.shape[1]).T)
    wt = least_squares_basis(x, h)
    error = residual_sum_of_squares(sources.squared_norms[0], wt @ wt.T, basis_times_data(wt, x), h)
    return Decomposition(
        basis=np.ascontiguousarray(wt.T),
        coefficients=[h],
        noise=None,
        objective=error,
        trace=np.array([error]),
        converged=True,
        reason="drawn at random, not fitted",
        seconds=time.perf_counter() - started,
    )
