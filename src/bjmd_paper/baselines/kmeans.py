"""K-means on the samples of all sources side by side, by scikit-learn.

    minimise  sum_j ||x_j - w_{k(j)}||^2        over centres w_k and assignments k(j)

As a decomposition X = WH, W holds the centres and H the 0/1 memberships.
"""

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import positive_number, whole_number
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition


def fit(
    sources: Sources, n_components: int, *, seed: int, tol: float = 1e-4, max_sweeps: int = 300
) -> Decomposition:
    """Fit from one k-means++ start.

    Stops when the squared movement of the centres is at most `tol` times the mean variance.
    """
    from sklearn.cluster import KMeans  # slow to import

    (x,) = sources.matrices
    whole_number("max_sweeps", max_sweeps, least=1)
    if tol != 0:  # with 0 it runs until nothing moves
        positive_number("tol", tol, least=0)
    model = KMeans(n_components, n_init=1, random_state=seed % 2**32, tol=tol, max_iter=max_sweeps)
    model.fit(x.T)
    converged = model.n_iter_ < max_sweeps
    reason = f"stopped at max_sweeps = {max_sweeps}"
    if converged:
        reason = f"the centres came to rest (tol = {tol:g}) in sweep {model.n_iter_}"
    return Decomposition(
        components=np.ascontiguousarray(model.cluster_centers_.T),
        noise=None,
        converged=converged,
        reason=reason,
        memberships=[memberships(model.labels_, n_components)],
        objective=float(model.inertia_),
        trace=np.array([model.inertia_]),
    )


METHOD = Method("kmeans", "K-means", fit, objective="squared error", concatenate=True)


def memberships(labels, n_components):
    """K x N: 1 where sample j is in cluster k, else 0."""
    return (labels == np.arange(n_components)[:, None]).astype(float)
