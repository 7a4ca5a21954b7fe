"""Bayesian K-means (Welling and Kurihara 2006) on all sources side by side, by scikit-learn.

A mixture of K spherical normals with priors on their means, variances and weights, fitted by
variational inference, in the space of the first K principal components: scikit-learn's prior of the
variances puts all samples into one cluster where features outnumber samples.  As a decomposition
X = WH, W holds the means and H how probable it is that a sample belongs to each of them.
"""

import warnings

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import positive_number, whole_number
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition


def fit(
    sources: Sources, n_components: int, *, seed: int, tol: float = 1e-3, max_sweeps: int = 300
) -> Decomposition:
    """Fit from one run of K-means; `tol` is the change of the ELBO per sample."""
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    positive_number("tol", tol, least=0)
    whole_number("max_sweeps", max_sweeps, least=1)
    (x,) = sources.data
    pca = PCA(n_components, svd_solver="full")
    samples = pca.fit_transform(x.columns(slice(None)).T)
    model = BayesianGaussianMixture(
        n_components=n_components,
        covariance_type="spherical",
        weight_concentration_prior_type="dirichlet_distribution",
        tol=tol,
        max_iter=max_sweeps,
        random_state=seed % 2**32,
    )
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(samples)
    objective = -float(model.lower_bound_)
    return Decomposition(
        components=np.ascontiguousarray(pca.inverse_transform(model.means_).T),
        memberships=[np.ascontiguousarray(model.predict_proba(samples).T)],
        noise=None,
        objective=objective,
        trace=np.array([objective]),
        converged=bool(model.converged_),
        reason=f"{'converged' if model.converged_ else 'stopped'} in sweep {model.n_iter_}",
    )


METHOD = Method(
    "bayesian-kmeans", "Bayesian K-means", fit, objective="minus the ELBO", concatenate=True
)
