"""Sparse NMF (Hoyer 2004, Kim and Park 2007) on all sources side by side, by scikit-learn.

    minimise  ||X - WH||^2 / 2 + l1 (N sum W + M sum H)        over W >= 0, H >= 0

for M x N data of unit mean square, so that `l1` does not depend on the unit of the data.
"""

import warnings

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import positive_number, whole_number
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    l1: float = 0.003,
    tol: float = 1e-4,
    max_sweeps: int = 1000,
) -> Decomposition:
    """Fit from one random start; the larger `l1` is, the more entries are zero."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    positive_number("l1", l1)
    positive_number("tol", tol, least=0)
    whole_number("max_sweeps", max_sweeps, least=1)
    (x,) = sources.matrices
    n_features, n_samples = x.shape
    unit = np.sqrt(sources.squared_norms[0] / (n_features * n_samples))
    model = NMF(
        n_components,
        init="random",
        random_state=seed % 2**32,
        tol=tol,
        max_iter=max_sweeps,
        alpha_W=l1,
        l1_ratio=1.0,
    )
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        h = model.fit_transform((x / unit).T).T
    w = model.components_.T
    penalty = l1 * (n_samples * w.sum() + n_features * h.sum())
    objective = float(model.reconstruction_err_**2 / 2 + penalty)
    converged = model.n_iter_ < max_sweeps
    return Decomposition(
        components=unit * np.ascontiguousarray(w),
        memberships=[np.ascontiguousarray(h)],
        noise=None,
        objective=objective,
        trace=np.array([objective]),
        converged=converged,
        reason=f"{'converged' if converged else 'stopped'} in sweep {model.n_iter_}",
    )


METHOD = Method(
    "sparse-nmf",
    "Sparse NMF",
    fit,
    objective="penalised squared error",
    concatenate=True,
    nonnegative=True,
)
