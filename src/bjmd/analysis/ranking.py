"""Which features set a component apart from the others, and how sure that is.

The score of feature i in component k compares its value there with its mean over the other
components, d_ik = w_ik - mean_{l != k} w_il, which is a contrast a_k'w_i of the row w_i of W:

    z_ik = d_ik / sqrt(a_k' Cov[w_i] a_k)

with the posterior covariance of the row, widened as in intervals.py.  The largest entries of a
component would not do: where the data have an origin other than 0, they are the same features in
every component.
"""

import numpy as np

from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition


def mean_of_others(components: np.ndarray) -> np.ndarray:
    """The mean of every feature over the other components, features x K; 0 if there is no other."""
    n_others = max(components.shape[1] - 1, 1)
    return (components.sum(axis=1, keepdims=True) - components) / n_others


def scores(result: Decomposition) -> np.ndarray:
    """z of every feature in every component, features x K; after a point estimate, d itself."""
    w = result.components
    difference = w - mean_of_others(w)
    if result.posterior is None:
        return difference
    size = w.shape[1]
    contrasts = np.eye(size) - (1 - np.eye(size)) / max(size - 1, 1)
    factor = result.posterior.components
    variance = np.empty_like(w)
    for rows in predictive.blocks(len(w), size**2):
        covariance = factor.covariance(rows)
        if factor.widening is not None:
            wider = factor.widening[rows]
            covariance = wider[:, :, None] * covariance * wider[:, None]
        variance[rows] = ((covariance @ contrasts) * contrasts).sum(axis=1)
    return difference / np.sqrt(variance)


def mean_sample(result: Decomposition) -> np.ndarray:
    """The mean of all samples as the fit has it, without offsets: the mean of the data.

    A single component is that mean, and is compared with 0.
    """
    if result.n_components == 1:
        return np.zeros(len(result.components))
    return result.components @ np.hstack(result.memberships).mean(axis=1)


def distances(result: Decomposition) -> np.ndarray:
    """||w_k - m||, how far each component lies from the mean of the data.

    h_kj times it is the contribution of component k to sample j: a large membership in a component
    close to the mean says little about a sample.
    """
    return np.linalg.norm(result.components - mean_sample(result)[:, None], axis=0)
