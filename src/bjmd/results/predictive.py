"""What a fit expects of an entry: x_ij of source c has

    mean E[w_i h_j] + E[o_ci],   variance of the fit Var[w_i h_j] + Var[o_ci],   noise variance s2_c / (phi_i u_cj)

with o, phi and u those of its noise model and offsets (docs/model.md), 0 and 1 where it has none.
A MAP fit, which has no posterior, has no variance of the fit.  The predictive density is normal
with the sum of both variances; after a robust fit it is Student's t, whose squared scale is that
sum.

Everything is for some samples of a source at a time, `columns`, and has a shape that broadcasts to
features x samples.
"""

import numpy as np
from scipy.special import gammaln

from bjmd.inference import projection
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import DirichletColumns


def offsets(result: Decomposition, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the offsets of source c, features x 1."""
    model = result.model
    if model is None or model.offsets is None or model.offsets_sd is None:
        return np.zeros((1, 1)), np.zeros((1, 1))
    return model.offsets[c][:, None], model.offsets_sd[c][:, None] ** 2


def mean(result: Decomposition, c: int, columns: slice) -> np.ndarray:
    return result.components @ result.memberships[c][:, columns] + offsets(result, c)[0]


def feature_variance(result: Decomposition, c: int) -> np.ndarray:
    """s2_c / phi_i, features x 1."""
    assert result.noise is not None, "a method without a noise model expects nothing"
    phi = None if result.model is None else result.model.feature_precision
    return np.asarray(result.noise)[c] ** 2 / (np.ones((1, 1)) if phi is None else phi[:, None])


def sample_precision(result: Decomposition, c: int) -> np.ndarray:
    """u_cj of every sample of source c."""
    if result.model is None or result.model.sample_precision is None:
        return np.ones(result.memberships[c].shape[1])
    return result.model.sample_precision[c]


def noise_variance(result: Decomposition, c: int, columns: slice) -> np.ndarray:
    return feature_variance(result, c) / sample_precision(result, c)[columns]


def log_density(result: Decomposition, c: int, columns: slice, x: np.ndarray) -> np.ndarray:
    """ln p(x_ij) of new entries in the place of those of some samples."""
    factor = result.posterior and result.posterior.memberships[c]
    variance = noise_variance(result, c, columns) + offsets(result, c)[1]
    if isinstance(factor, DirichletColumns):
        variance = variance + projection.product_moments(result, factor.parameters[:, columns])[1]
    squared = (x - mean(result, c, columns)) ** 2 / variance
    if result.model is None or result.model.degrees_of_freedom is None:
        return -0.5 * (np.log(2 * np.pi * variance) + squared)
    nu = result.model.degrees_of_freedom[c]
    constant = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
    return constant - 0.5 * np.log(variance) - 0.5 * (nu + 1) * np.log1p(squared / nu)
