"""The model: several sources X^(c), M features by N_c samples, that share one set of components W.

    X^(c) = W H^(c) + noise,     noise ~ N(0, s2_c) elementwise
    w_ik ~ Laplace(0, lambda),   columns of H^(c) ~ Dirichlet(alpha0),   s2_c ~ InverseGamma(a0, b0)

This file holds the constants of the priors (`Priors`) and the negative log joint density that every point estimate
reports as its objective (docs/derivation.md, 1 and 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bjmd.checks import positive_number
from bjmd.data.products import components_times_data
from bjmd.errors import InputError


@dataclass(frozen=True)
class Priors:
    """The constants of the prior: Dirichlet alpha0 (scalar or one per component), Laplace scale, inverse gamma."""

    alpha0: float | Sequence[float] = 1.1
    lambda_: float = 1.0
    a0: float = 0.01
    b0: float = 0.01

    def __post_init__(self):
        alpha0 = np.asarray(self.alpha0)
        if alpha0.dtype.kind not in "iuf" or alpha0.ndim > 1 or not (np.isfinite(alpha0) & (alpha0 >= 1)).all():
            raise InputError(
                f"alpha0 is {self.alpha0!r}; every entry must be a finite number of at least 1, because below 1 the "
                "Dirichlet prior has no mode inside the simplex"
            )
        for name, value in {"lambda_": self.lambda_, "a0": self.a0, "b0": self.b0}.items():
            positive_number(name, value)

    def dirichlet(self, n_components):
        """alpha0 as a vector of K entries."""
        alpha0 = np.asarray(self.alpha0, dtype=float)
        if alpha0.ndim == 1 and len(alpha0) != n_components:
            raise InputError(f"alpha0 has {len(alpha0)} entries but there are {n_components} components; give one each")
        return np.array(np.broadcast_to(alpha0, (n_components,)))


def residual_sum_of_squares(squared_norm, gram, projection, h):
    """||X - WH||^2 = ||X||^2 - 2 <W'X, H> + <W'W, HH'>, with no M x N residual; gram is W'W, projection W'X."""
    value = squared_norm - 2 * np.vdot(projection, h) + np.vdot(gram, h @ h.T)
    return max(value, 0.0)  # rounding may cross zero where the fit is perfect


def noise_terms(rss, noise_variance, n_entries, priors):
    """RSS/(2 s2) + (MN/2 + a0 + 1) ln s2 + b0/s2: one source's likelihood and noise prior in the objective."""
    return (0.5 * rss + priors.b0) / noise_variance + (0.5 * n_entries + priors.a0 + 1) * np.log(noise_variance)


def dirichlet_terms(h, alpha0):
    """- sum_kj (alpha0_k - 1) ln h_kj for one source."""
    weight = alpha0 - 1
    if not weight.any():
        return 0.0
    return -float(weight @ np.log(h).sum(axis=1))


def laplace_terms(w, lambda_):
    """sum |w| / lambda."""
    return np.abs(w).sum() / lambda_


def negative_log_joint(sources, w, memberships, noise_variances, priors):
    """The objective from scratch, up to terms that no unknown enters."""
    gram = w.T @ w
    alpha0 = priors.dirichlet(w.shape[1])
    total = laplace_terms(w, priors.lambda_)
    for x, norm, h, s2 in zip(sources.matrices, sources.squared_norms, memberships, noise_variances, strict=True):
        rss = residual_sum_of_squares(norm, gram, components_times_data(w.T, x), h)
        total += noise_terms(rss, s2, x.shape[0] * x.shape[1], priors) + dirichlet_terms(h, alpha0)
    return total
