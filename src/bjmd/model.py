"""The model: several sources X^(c), M features by N_c samples, that share one set of components W.

    X^(c) = W H^(c) + noise,     noise ~ N(0, s2_c) elementwise
    w_ik ~ Laplace(0, lambda),   columns of H^(c) ~ Dirichlet(alpha0),   s2_c ~ InverseGamma(a0, b0)

This file holds the constants of the priors (`Priors`) and the negative log joint density that every
point estimate reports as its objective (docs/derivation.md, 1 and 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import gammaln, polygamma, psi

from bjmd.checks import one_of, positive_number
from bjmd.data.matrix import residual_sum_of_squares
from bjmd.errors import InputError
from bjmd.numerics import threads

LEARNED = "learned"
LEAST_ALPHA = 1e-2
# lambda in root mean squares around the origin, b0 in mean squares
SCALE_OF_COMPONENTS = 1.5
SCALE_OF_NOISE = 0.01


@dataclass(frozen=True)
class Priors:
    """The constants of the priors; the defaults are the paper's."""

    alpha0: float | Sequence[float] = (
        1.1  # Dirichlet of the memberships, one number or one per component
    )
    lambda_: float = 1.0  # Laplace scale of the components
    a0: float = 0.01
    b0: float = 0.01  # inverse gamma of the noise variances
    learns_alpha: bool = False
    learns_lambda: bool = False
    """Whether the closed form learns a Dirichlet for every source, and a scale for every component.
    """
    relative: tuple[str, ...] = ()  # which of lambda_ and b0 are in the unit of the data

    @classmethod
    def of(cls, name: str, alpha0=1.1, lambda_=None, a0=0.01, b0=None) -> Self:
        """The priors called "data" or "paper", with whatever was given in place of them.

        With those of the data, a Dirichlet that is learned has scales that are learned too, unless
        there is a number: beside a fixed width that is too large it settles for corners too far out
        (docs/model.md, 11).
        """
        one_of("priors", name, ("data", "paper"))
        learns_alpha, learns_lambda = (
            isinstance(value, str) and value == LEARNED for value in (alpha0, lambda_)
        )
        learns_lambda |= learns_alpha and lambda_ is None and name == "data"
        in_unit = {} if name == "paper" else {"lambda_": SCALE_OF_COMPONENTS, "b0": SCALE_OF_NOISE}
        given = {"lambda_": None if learns_lambda else lambda_, "b0": b0}
        given = {key: value for key, value in given.items() if value is not None}
        numbers = {"alpha0": cls.alpha0 if learns_alpha else alpha0, "a0": a0, **in_unit, **given}
        relative = tuple(key for key in in_unit if key not in given)
        return cls(
            **numbers, learns_alpha=learns_alpha, learns_lambda=learns_lambda, relative=relative
        )

    def __post_init__(self):
        alpha0 = np.asarray(self.alpha0)
        if (
            alpha0.dtype.kind not in "iuf"
            or alpha0.ndim > 1
            or not (np.isfinite(alpha0) & (alpha0 >= 1)).all()
        ):
            raise InputError(
                f"alpha0 is {self.alpha0!r}; every entry must be a finite number of at least 1, because below 1 the "
                "Dirichlet prior has no mode inside the simplex"
            )
        for name, value in {"lambda_": self.lambda_, "a0": self.a0, "b0": self.b0}.items():
            object.__setattr__(self, name, positive_number(name, value))

    def in_unit(self, unit: float) -> Self:
        """The same priors for data divided by a unit."""
        if unit == 1:
            return self
        lambda_ = self.lambda_ if "lambda_" in self.relative else self.lambda_ / unit
        return replace(
            self, lambda_=lambda_, b0=self.b0 if "b0" in self.relative else self.b0 / unit**2
        )

    def dirichlet(self, n_components: int) -> np.ndarray:
        """alpha0 as a vector of K entries."""
        alpha0 = np.asarray(self.alpha0, dtype=float)
        if alpha0.ndim == 1 and len(alpha0) != n_components:
            raise InputError(
                f"the length of alpha0 is {len(alpha0)} but there are to be {n_components} components; give one each"
            )
        return np.array(np.broadcast_to(alpha0, (n_components,)))


def learned_dirichlet(mean_log, alpha, n_columns):
    """alpha at the maximum of n (ln B(alpha)^-1 + alpha . E[ln h]) - sum alpha, by Minka's Newton
    steps.

    The last term is a weak exponential prior, worth one sample, without which alpha can run away on
    data far from 0.
    """
    if len(alpha) == 1:
        return alpha  # whose memberships are 1 whatever it is
    best = alpha
    value = _dirichlet_density(mean_log, alpha, n_columns)
    for _ in range(50):
        gradient = n_columns * (psi(best.sum()) - psi(best) + mean_log) - 1
        # entries that the floor holds back stay there, or they would lead the others astray
        inverse = np.where(
            (best > LEAST_ALPHA) | (gradient > 0), -1 / (n_columns * polygamma(1, best)), 0.0
        )
        together = n_columns * polygamma(1, best.sum())
        shift = (gradient * inverse).sum() / (1 / together + inverse.sum())
        step = (gradient - shift) * inverse
        length = 1.0
        while length > 1e-6:
            trial = np.maximum(best - length * step, LEAST_ALPHA)
            new = _dirichlet_density(mean_log, trial, n_columns)
            if new >= value:
                break
            length /= 2
        else:
            break
        moved = np.abs(trial - best).max()
        best = trial
        value = new
        if moved <= 1e-9 * best.max():
            break
    return best


def _dirichlet_density(mean_log, alpha, n_columns):
    return (
        n_columns * (gammaln(alpha.sum()) - gammaln(alpha).sum() + alpha @ mean_log) - alpha.sum()
    )


def noise_terms(rss, noise_variance, n_entries, priors):
    """RSS/(2 s2) + (MN/2 + a0 + 1) ln s2 + b0/s2: one source's likelihood and noise prior in the
    objective.
    """
    return (0.5 * rss + priors.b0) / noise_variance + (0.5 * n_entries + priors.a0 + 1) * np.log(
        noise_variance
    )


def dirichlet_terms(h, alpha0):
    """- sum_kj (alpha0_k - 1) ln h_kj for one source."""
    weight = alpha0 - 1
    if not weight.any():
        return 0.0
    ranges = threads.parts(h.shape[1], 32 * h.size)  # about what logarithms cost
    sums = threads.each(lambda a, b: np.array([np.log(row[a:b]).sum() for row in h]), ranges)
    return -float(weight @ sum(sums))


def laplace_terms(w, lambda_):
    """sum |w| / lambda."""
    return np.abs(w).sum() / lambda_


def negative_log_joint(sources, w, memberships, noise_variances, priors):
    """The objective from scratch, up to terms that no unknown enters."""
    gram = w.T @ w
    alpha0 = priors.dirichlet(w.shape[1])
    total = laplace_terms(w, priors.lambda_)
    for x, h, s2 in zip(sources.data, memberships, noise_variances, strict=True):
        rss = residual_sum_of_squares(x.squared_norm, gram, x.times_components(w.T), h)
        total += noise_terms(rss, s2, x.shape[0] * x.shape[1], priors) + dirichlet_terms(h, alpha0)
    return total
