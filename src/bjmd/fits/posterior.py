"""What a variational fit knows about its uncertainty: marginal posteriors of W, H and the noise.

    marginals = result.marginals("components")        # or "noise", or "memberships": a list by source
    marginals.mean, marginals.sd, marginals.interval(0.9)

Which family the marginals are of depends on the method; a point estimate (MAP, the baselines) has none.  Mean-field
posteriors leave out the correlations between W and H, so intervals of W and H are too narrow; README.md has measured
coverages.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtri
from scipy.stats import beta, invgamma

from bjmd.errors import InputError


@dataclass(frozen=True)
class Marginals:
    """Mean and standard deviation of every entry, and its quantile function."""

    mean: np.ndarray
    sd: np.ndarray
    quantile: Callable[[float], np.ndarray]

    def interval(self, level=0.9):
        """Lower and upper end of the central credible interval of every entry."""
        if not 0 < level < 1:
            raise InputError(f"level is {level!r}; it must be between 0 and 1, for example 0.9")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


def components(result):
    """Marginals of W, features x components; normal."""
    if "components_precision" in result.posterior:
        sd = np.sqrt(np.diagonal(components_covariance(result), axis1=1, axis2=2))
    else:
        sd = _stored(result, "components_sd")
    return _normal(result.components, sd)


def components_covariance(result, rows=slice(None)):
    """The K x K posterior covariance of every row of W, or of some, features x K x K.

    It is (P + diag nu_i)^-1 under the closed form, and diagonal under ADVI.
    """
    identity = np.eye(result.n_components)
    if "components_sd" in result.posterior:
        return result.posterior["components_sd"][rows, :, None] ** 2 * identity
    precision, ridge = _stored(result, "components_precision"), _stored(result, "components_ridge")
    return np.linalg.inv(precision + ridge[rows, :, None] * identity)


def memberships(result):
    """Marginals of H by source, components x samples; each entry of a Dirichlet column is a Beta."""
    if "dirichlet_0" not in result.posterior:
        sds = [_stored(result, f"memberships_sd_{c}") for c in range(len(result.memberships))]
        return [_normal(h, sd) for h, sd in zip(result.memberships, sds, strict=True)]
    marginals = []
    for c in range(len(result.memberships)):
        g = result.posterior[f"dirichlet_{c}"]
        total = g.sum(axis=0)
        mean = g / total
        sd = np.sqrt(mean * (1 - mean) / (total + 1))
        marginals.append(Marginals(mean, sd, lambda q, g=g, total=total: beta.ppf(q, g, total - g)))
    return marginals


def noise(result):
    """Marginals of the noise standard deviation of every source: s2 is inverse gamma, or log-normal under ADVI."""
    if "noise_shape" in result.posterior:
        shape, rate = result.posterior["noise_shape"], result.posterior["noise_rate"]
        mean = np.exp(0.5 * np.log(rate) + gammaln(shape - 0.5) - gammaln(shape))
        # E[s2] - E[sd]^2 by its series in 1/shape: the difference itself would lose all digits of large shapes
        sd = mean * np.sqrt((1 + 9 / (8 * shape)) / (4 * shape))
        return Marginals(mean, sd, lambda q: np.sqrt(invgamma.ppf(q, shape, scale=rate)))
    centre, spread = 0.5 * _stored(result, "log_variance_mean"), 0.5 * _stored(result, "log_variance_sd")
    mean = np.exp(centre + 0.5 * spread**2)
    return Marginals(mean, mean * np.sqrt(np.expm1(spread**2)), lambda q: np.exp(centre + spread * ndtri(q)))


def if_known(result, of):
    """The marginals of "components", "memberships" or "noise", or None where the method has a point estimate only."""
    try:
        return result.marginals(of)
    except InputError:
        return None


def sample(result, n_draws, rng):
    """Independent draws from the posterior of the closed form; the first axis of every array runs over draws.

    W is draws x features x components, H a list by source of draws x components x samples, the noise sd draws x
    sources.
    """
    precision, ridge = _stored(result, "components_precision"), _stored(result, "components_ridge")
    # mu + L^-T z with L L' the precision of the row has its covariance
    factor = np.linalg.cholesky(precision + ridge[:, :, None] * np.eye(len(precision)))
    standard = rng.standard_normal((*result.components.shape, n_draws))
    deviation = np.linalg.solve(np.swapaxes(factor, 1, 2), standard)
    components = result.components + np.moveaxis(deviation, 2, 0)
    memberships = []
    for c in range(len(result.memberships)):
        g = _stored(result, f"dirichlet_{c}")
        gammas = rng.standard_gamma(g, (n_draws, *g.shape))
        memberships.append(gammas / gammas.sum(axis=1, keepdims=True))
    shape, rate = _stored(result, "noise_shape"), _stored(result, "noise_rate")
    return components, memberships, np.sqrt(rate / rng.standard_gamma(shape, (n_draws, len(shape))))


def _normal(mean, sd):
    return Marginals(mean, sd, lambda q: mean + sd * ndtri(q))


def _stored(result, name):
    if name not in result.posterior:
        raise InputError(f"method {result.method!r} keeps no {name!r} in its posterior; cavi-bjmd has marginals of all")
    return result.posterior[name]
