"""K-means on the samples of all sources side by side, by scikit-learn.

    minimise  sum_j ||x_j - w_{k(j)}||^2        over centres w_k and assignments k(j)

As a decomposition X = WH, W holds the centres and H is the 0/1 membership.  One start (k-means++) a
seed.
"""

import numpy as np

from bjmd.checks import positive_number, whole_number
from bjmd.data.sources import Sources
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition


def fit(
    sources: Sources, n_components: int, *, seed: int, tol: float = 1e-4, max_sweeps: int = 300
) -> Decomposition:
    """Fit from one k-means++ start; stop when the centres' squared move is at most `tol` of the
    mean variance.
    """
    from sklearn.cluster import (
        KMeans,
    )  # a second or more, which other methods of this folder do without

    from bjmd_paper.baselines.quiet import no_convergence_warnings

    (x,) = sources.matrices
    whole_number("max_sweeps", max_sweeps, least=1)
    if tol != 0:  # until nothing moves
        positive_number("tol", tol, least=0)
    model = KMeans(n_components, n_init=1, random_state=seed % 2**32, tol=tol, max_iter=max_sweeps)
    with no_convergence_warnings():  # too few distinct samples leave empty clusters, as H shows
        model.fit(x.T)
    converged = False
    reason = f"stopped at max_sweeps = {max_sweeps}"
    if model.n_iter_ < max_sweeps:
        converged = True
        reason = f"centres at rest (tol = {tol:g}) in sweep {model.n_iter_}"
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
