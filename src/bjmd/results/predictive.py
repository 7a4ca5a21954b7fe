"""What a fit expects of an entry: x_ij of source c has

    mean                 E[w_i h_j] + E[o_ci]
    variance of the fit  Var[w_i h_j] + Var[o_ci]
    noise variance       s2_c / (phi_i u_cj)

with o, phi and u those of its noise model and offsets (docs/model.md), 0 and 1 where it has none.
A MAP fit, which has no posterior, has no variance of the fit.  The predictive density is normal
with the sum of both variances; after a robust fit it is Student's t, whose squared scale is that
sum.

Everything is for some samples of a source at a time, `columns`, and has a shape that broadcasts to
features x samples.
"""

import numpy as np
from scipy.special import gammaln

from bjmd.data.matrix import cut
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import DirichletColumns

BLOCK = 2**22  #: numbers in the largest temporary array


def offsets(result: Decomposition, c: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the offsets of source c, features x 1; zero where there is no source."""
    model = result.model
    if c is None or model is None or model.offsets is None or model.offsets_sd is None:
        return np.zeros((1, 1)), np.zeros((1, 1))
    return model.offsets[c][:, None], model.offsets_sd[c][:, None] ** 2


def mean(result: Decomposition, c: int, columns: slice) -> np.ndarray:
    return result.components @ result.memberships[c][:, columns] + offsets(result, c)[0]


def sample_precision(result: Decomposition, c: int) -> np.ndarray:
    """u_cj of every sample of source c."""
    if result.model is None or result.model.sample_precision is None:
        return np.ones(result.memberships[c].shape[1])
    return result.model.sample_precision[c]


def noise_variance(result: Decomposition, c: int, columns: slice) -> np.ndarray:
    phi = None if result.model is None else result.model.feature_precision
    of_features = np.ones((1, 1)) if phi is None else phi[:, None]
    variance = np.asarray(result.noise)[c] ** 2 / of_features
    return variance / sample_precision(result, c)[columns]


def product_moments(result: Decomposition, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every entry of W H for columns q(h_j) = Dirichlet(g_j).

    With s = sum g and m = g / s, E[w_i h] = mu_i.m, and E[h'(mu_i mu_i' + S_i)h] - (mu_i.m)^2 is

        ((mu_i^2).m - (mu_i.m)^2) / (s + 1) + <S_i, E[hh']>.
    """
    s = g.sum(axis=0)
    m = g / s
    size = len(g)
    mean = result.components @ m
    variance = np.maximum((result.components**2) @ m - mean**2, 0) / (s + 1)
    second_moment = (s * m[:, None] * m + np.eye(size)[:, :, None] * m) / (s + 1)
    for rows in blocks(len(mean), size**2):
        covariance = result.posterior.components.covariance(rows)  # type: ignore[union-attr]
        variance[rows] += covariance.reshape(-1, size**2) @ second_moment.reshape(size**2, -1)
    return mean, variance


def blocks(length: int, width: int) -> list[slice]:
    """Slices of a range of rows, so that BLOCK numbers hold `width` for each of them."""
    return cut(length, width, BLOCK)


def log_density(result: Decomposition, c: int, columns: slice, x: np.ndarray) -> np.ndarray:
    """ln p(x_ij) of new entries in the place of those of some samples."""
    factor = result.posterior and result.posterior.memberships[c]
    variance = noise_variance(result, c, columns) + offsets(result, c)[1]
    if isinstance(factor, DirichletColumns):
        variance = variance + product_moments(result, factor.parameters[:, columns])[1]
    squared = (x - mean(result, c, columns)) ** 2 / variance
    if result.model is None or result.model.degrees_of_freedom is None:
        return -0.5 * (np.log(2 * np.pi * variance) + squared)
    nu = result.model.degrees_of_freedom[c]
    constant = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
    return constant - 0.5 * np.log(variance) - 0.5 * (nu + 1) * np.log1p(squared / nu)
