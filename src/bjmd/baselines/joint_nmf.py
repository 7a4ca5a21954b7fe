"""Joint NMF: one non-negative factorisation of all sources side by side, by scikit-learn.

minimise  ||X - WH||^2        over W >= 0, H >= 0,      X = [X^(1) ... X^(C)]
"""

import numpy as np
from sklearn.decomposition import non_negative_factorization

from bjmd.baselines.quiet import no_convergence_warnings
from bjmd.checks import one_of
from bjmd.data.products import components_times_data
from bjmd.data.sources import Sources
from bjmd.fits.decomposition import Decomposition
from bjmd.model import residual_sum_of_squares

INITS = ("random", "nndsvda")
SOLVERS = ("cd", "mu")


def fit(
    sources: Sources, n_components: int, *, seed: int, init: str = "random", solver: str = "cd", tol: float = 1e-4,
    max_sweeps: int = 1000,
) -> Decomposition:  # fmt: skip
    """Fit from one start: `init` random, or nndsvda, which hardly depends on the seed.

    `solver` is coordinate descent (cd) or multiplicative updates (mu).  `tol` is scikit-learn's: for cd the violation
    of optimality relative to its first value, for mu the fall of the error relative to the first error.
    """
    one_of("init", init, INITS)
    one_of("solver", solver, SOLVERS)
    (x,) = sources.matrices
    with no_convergence_warnings():  # the result says when the sweeps ran out
        w, h, n_sweeps = non_negative_factorization(
            x, n_components=n_components, init=init, solver=solver, tol=tol, max_iter=max_sweeps, random_state=seed
        )
    error = residual_sum_of_squares(sources.squared_norms[0], w.T @ w, components_times_data(w.T, x), h)
    converged = n_sweeps < max_sweeps
    return Decomposition(
        components=w,
        memberships=[h],
        noise=None,
        objective=error,
        trace=np.array([error]),
        converged=converged,
        reason=f"scikit-learn's criterion met (tol = {tol:g}) in sweep {n_sweeps}"
        if converged
        else f"stopped at max_sweeps = {max_sweeps}",
    )
