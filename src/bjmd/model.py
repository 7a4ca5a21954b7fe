"""The model: several sources X^(c), M features by N_c samples, that share one set of components W.

    X^(c) = W H^(c) + noise,     noise ~ N(0, s2_c) elementwise
    w_ik ~ Laplace(0, lambda),   columns of H^(c) ~ Dirichlet(alpha0),   s2_c ~ InverseGamma(a0, b0)

This file holds the constants of the priors (`Priors`) and the terms of the negative log joint
density, the objective of every point estimate (docs/derivation.md, 1 and 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bjmd.errors import InputError, one_of, positive_number
from bjmd.numerics import threads

LEARNED = "learned"
BY_SOURCE = "by-source"
SCALE_OF_COMPONENTS = 1.5
SCALE_OF_NOISE = 0.01
"""lambda and b0 with priors="data": in root mean squares around the origin, and in mean squares."""


@dataclass(frozen=True)
class Priors:
    """The constants of the priors; the defaults are the paper's."""

    alpha0: float | Sequence[float] = 1.1
    """Dirichlet of the memberships: one number, or one per component."""
    lambda_: float = 1.0
    """Laplace scale of the components."""
    a0: float = 0.01
    b0: float = 0.01
    """Inverse gamma of the noise variances."""
    learns_alpha: str = ""
    """Whether one concentration is learned for all sources (LEARNED), or a Dirichlet BY_SOURCE."""
    learns_lambda: bool = False
    """Whether a scale is learned for every component."""
    relative: tuple[str, ...] = ()
    """Which of lambda_ and b0 are in the unit of the data."""

    @classmethod
    def of(cls, name: str, alpha0=None, lambda_=None, a0=0.01, b0=None) -> Self:
        """The priors called "data" or "paper", with whatever was given in place of them.

        With priors="data", alpha0 and lambda_ are learned unless they are given as numbers, and b0
        follows the unit of the data.
        """
        one_of("priors", name, ("data", "paper"))
        relative = {} if name == "paper" else {"lambda_": SCALE_OF_COMPONENTS, "b0": SCALE_OF_NOISE}
        if name == "data":
            alpha0 = LEARNED if alpha0 is None else alpha0
            lambda_ = LEARNED if lambda_ is None else lambda_
        learns_alpha = alpha0 if isinstance(alpha0, str) and alpha0 in (LEARNED, BY_SOURCE) else ""
        learns_lambda = isinstance(lambda_, str) and lambda_ == LEARNED
        given = {
            "alpha0": None if learns_alpha else alpha0,
            "lambda_": None if learns_lambda else lambda_,
            "a0": a0,
            "b0": b0,
        }
        given = {key: value for key, value in given.items() if value is not None}
        return cls(
            **{**relative, **given},
            learns_alpha=learns_alpha,
            learns_lambda=learns_lambda,
            relative=tuple(key for key in relative if key not in given),
        )

    def __post_init__(self):
        alpha0 = np.asarray(self.alpha0)
        is_numeric = alpha0.dtype.kind in "iuf" and alpha0.ndim <= 1
        if not is_numeric or not (np.isfinite(alpha0) & (alpha0 > 0)).all():
            raise InputError(
                f"alpha0 is {self.alpha0!r}; it must be a number above 0, or one for each "
                f"component, or {LEARNED!r} or {BY_SOURCE!r}"
            )
        for name in ("lambda_", "a0", "b0"):
            object.__setattr__(self, name, positive_number(name, getattr(self, name)))

    def in_unit(self, unit: float) -> Self:
        """The same priors for data divided by a unit."""
        scales = {"lambda_": unit, "b0": unit**2}
        absolute = scales.keys() - self.relative
        return replace(self, **{name: getattr(self, name) / scales[name] for name in absolute})

    def dirichlet(self, n_components: int) -> np.ndarray:
        """alpha0 as a vector of K entries."""
        alpha0 = np.asarray(self.alpha0, dtype=float)
        if alpha0.ndim == 1 and len(alpha0) != n_components:
            raise InputError(
                f"the length of alpha0 is {len(alpha0)} but there are to be {n_components} "
                "components; give one each"
            )
        return np.array(np.broadcast_to(alpha0, (n_components,)))


def noise_terms(rss, noise_variance, n_entries, priors):
    """RSS/(2 s2) + (n/2 + a0 + 1) ln s2 + b0/s2: likelihood and noise prior of one source."""
    weight = 0.5 * n_entries + priors.a0 + 1
    return (0.5 * rss + priors.b0) / noise_variance + weight * np.log(noise_variance)


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
