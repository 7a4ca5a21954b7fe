"""Random fits of small, awkward data: is what comes out what docs/trust.md promises?"""

from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse
from oracle import negative_log_joint

from bjmd.data.sources import Sources
from bjmd.errors import FitError
from bjmd.inference import cavi, registry
from bjmd.model import Priors

KINDS = {
    "MAP, Laplace prior": ("map-bjmd", {}),
    "MAP, hierarchical prior": ("map-bjmd", {"prior": "hierarchical"}),
    "closed form, noise by source": ("cavi-bjmd", {}),
    "closed form, noise by feature": ("cavi-bjmd", {"noise": "feature"}),
    "closed form, noise by sample": ("cavi-bjmd", {"noise": "sample"}),
    "closed form, robust noise": ("cavi-bjmd", {"noise": "robust"}),
    "closed form, two or three of these": ("cavi-bjmd", {"noise": None}),
}
TWO_OR_THREE = ("feature+sample", "feature+robust", "sample+robust", "feature+sample+robust")
LIKE = {
    "model": lambda x, noise, rng: x,
    "normal": lambda x, noise, rng: rng.standard_normal(x.shape),
    "whole numbers": lambda x, noise, rng: rng.poisson(1.0, x.shape).astype(float),
    "no noise": lambda x, noise, rng: x - noise,
    "duplicates": lambda x, noise, rng: np.repeat(x[:, :1], x.shape[1], axis=1),
    "constant features": lambda x, noise, rng: np.where(
        rng.random((len(x), 1)) < 0.5, rng.choice([0.0, 1.0]), x
    ),
    "wild": lambda x, noise, rng: np.where(
        np.arange(x.size) == rng.integers(x.size), 1e6, x.flat
    ).reshape(x.shape),
    "heavy": lambda x, noise, rng: x + 0.1 * rng.standard_cauchy(x.shape),
    "far": lambda x, noise, rng: x,
}
"""What the data are like -> the data, given some of the model and their noise."""
MOST_SWEEPS = {1: 0.1, 2: 0.15, 6: 0.3, 12: 0.3, 25: 0.13, 150: 0.02}
"""max_sweeps -> how often: momentum begins in sweep 5 or 10, learning in sweep 5."""
ROUNDING = 1e-8
"""By how much an objective may rise, relative to its size and that of its terms."""


@dataclass
class Case:
    kind: str
    method: str
    sources: Sources
    n_components: int
    seed: int
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, **options):
        # the last rounds of the closed form can take longer than all sweeps; a tenth has them all
        rounds = cavi.SETTLING_ROUNDS if self.seed % 10 == 0 else 5
        with patch.object(cavi, "SETTLING_ROUNDS", rounds):
            return registry.fit(
                self.method,
                self.sources,
                self.n_components,
                self.seed,
                **{**self.options, **options},
            )


def case(number):
    """The case of a number; numbers that agree modulo len(KINDS) are of one kind."""
    rng = np.random.default_rng((16, number))
    kind, (method, options) = list(KINDS.items())[number % len(KINDS)]
    options = {**options, **_options(method, rng)}
    if options.get("noise", "") is None:
        options["noise"] = str(rng.choice(TWO_OR_THREE))
    if (method == "map-bjmd" and rng.random() < 0.2) or (
        method == "cavi-bjmd" and rng.random() < 0.1
    ):
        method = method.replace("bjmd", "catbjmd")
    sources = awkward_sources(rng, may_be_sparse="robust" not in options.get("noise", ""))
    sources = _mostly_zeros(sources, np.random.default_rng((20, number)))
    k = int(rng.integers(1, 1 + min(5, sum(sources.n_samples))))
    if rng.random() < 0.1:
        options["alpha0"] = list(1 + rng.exponential(size=k))
    return Case(kind, method, sources, k, int(rng.integers(1000)), options)


def awkward_sources(rng, may_be_sparse):
    n_features = int(rng.integers(1, 13))
    like = rng.choice([*LIKE])
    sizes = rng.integers(1, 11, rng.choice([1, 2, 2, 3]))
    k = int(rng.integers(1, 4))
    components = rng.laplace(size=(n_features, k))
    unit = 10.0 ** rng.uniform(-6, 6)
    origin = (
        10.0 ** rng.uniform(0, 4) * rng.standard_normal((n_features, 1)) if like == "far" else 0.0
    )
    matrices = []
    for n in sizes:
        noise = 10 ** rng.uniform(-2, 0.5) * rng.standard_normal((n_features, n))
        x = components @ rng.dirichlet(np.ones(k), n).T + noise
        matrices.append(unit * (LIKE[like](x, noise, rng) + origin))
    if may_be_sparse and rng.random() < 0.1:
        return Sources(
            [scipy.sparse.csr_array(np.where(rng.random(x.shape) < 0.5, 0, x)) for x in matrices]
        )
    share = rng.choice([0.0, 0.0, 0.1, 0.4])
    holes = [rng.random(x.shape) < share for x in matrices]
    # something is known of every sample, and in the first source of every feature
    for where in holes:
        where[rng.integers(n_features), :] = False
        where[:, rng.integers(where.shape[1])] &= where is not holes[0]
    for where in holes:
        where[rng.integers(n_features, size=where.shape[1]), np.arange(where.shape[1])] = False
    return Sources([np.where(where, np.nan, x) for x, where in zip(matrices, holes, strict=True)])


def _mostly_zeros(sources, rng):
    """One case in ten; its own random numbers leave the others as they are."""
    if rng.random() >= 0.1 or any(sources.is_sparse):
        return sources
    kept = [rng.random(x.shape) < 0.3 for x in sources.matrices]
    matrices = [
        np.where(where | np.isnan(x), x, 0.0)
        for where, x in zip(kept, sources.matrices, strict=True)
    ]
    return Sources(matrices)


def _options(method, rng):
    n_sweeps = int(rng.choice([*MOST_SWEEPS], p=[*MOST_SWEEPS.values()]))
    options: dict[str, Any] = {"tol": 10.0 ** rng.uniform(-8, -3), "max_sweeps": n_sweeps}
    if rng.random() < 0.3:
        options["priors"] = "paper"
    choices = {
        "alpha0": lambda: float(rng.choice([1.0, 1.0001, 1.1, 2.0, 10.0])),
        "lambda_": lambda: 10.0 ** rng.uniform(-3, 3),
        "a0": lambda: 10.0 ** rng.uniform(-6, 2),
        "b0": lambda: 10.0 ** rng.uniform(-6, 2),
    }
    options |= {name: draw() for name, draw in choices.items() if rng.random() < 0.25}
    if method.startswith("cavi"):
        options |= {name: "learned" for name in ("alpha0", "lambda_") if rng.random() < 0.15}
        if rng.random() < 0.25:
            options["offsets"] = True
    return options


def check(number):
    """The kind of a case, and all that is wrong with its fit."""
    one = case(number)
    try:
        result = one.fit()
    except FitError:
        return f"{one.kind} (broke down and said so)", []
    return one.kind, [
        *_sound(result),
        *_monotone(result),
        *_honest(one, result, number),
        *_same(one, result, number),
        *_same_in_another_unit(one, result, number),
        *_same_in_single_precision(one, number),
    ]


def _sound(result):
    if not result.is_finite():
        yield "a number is not finite"
    for h in result.memberships:
        if not (h >= 0).all() or np.abs(h.sum(axis=0) - 1).max() > 1e-9:
            yield "memberships are not on the simplex"
    if not (np.asarray(result.noise) > 0).all():
        yield "the noise is not positive"


def _monotone(result):
    rise = np.diff(result.trace, prepend=result.trace[0])
    size = ROUNDING * np.maximum(1.0, np.abs(result.trace).max())
    if (rise > size).any() and (result.converged or "rose" not in result.reason):
        most = np.abs(result.trace).max()
        yield f"the objective rose by {rise.max():.3g} of {most:.3g} without a word"


def _honest(one, result, number):
    """A fit that did not converge says why; one that did would not have done so a sweep earlier."""
    n_sweeps = len(result.trace)
    most = one.options["max_sweeps"]
    if not result.converged and n_sweeps < most and "rose" not in result.reason:
        yield f"stopped after {n_sweeps} of {most} sweeps without a reason: {result.reason}"
    if n_sweeps > most:
        yield "took more sweeps than allowed"
    if (
        number % 5 == 1
        and result.converged
        and n_sweeps > 1
        and one.fit(max_sweeps=n_sweeps - 1).converged
    ):
        yield f"converged in sweep {n_sweeps}, and also a sweep earlier"


def _same(one, result, number):
    if number % 5 == 0:
        again = one.fit()
        pairs = zip(result.memberships, again.memberships, strict=True)
        same = all(np.array_equal(a, b) for a, b in pairs) and result.objective == again.objective
        if not (same and np.array_equal(result.components, again.components)):
            yield "the same fit gave other bits"
    plain = one.method == "map-bjmd" and one.options.get("priors") == "paper"
    plain = plain and "prior" not in one.options
    if plain and not any(one.sources.n_missing) and not any(one.sources.is_sparse):
        names = {"alpha0", "lambda_", "a0", "b0"} & one.options.keys()
        priors = Priors(**{name: one.options[name] for name in names})
        found = result.components, result.memberships, np.square(result.noise)
        objective = negative_log_joint(one.sources.matrices, *found, priors)
        if abs(objective - result.objective) > 1e-5 * max(1.0, np.abs(result.trace).max()):
            yield f"the objective is {objective:.9g}, not {result.objective:.9g}"


def _same_in_another_unit(one, result, number):
    """By a power of two nothing is rounded."""
    everything_is_zero = not any(one.sources.squared_norms)
    if number % 5 != 2 or one.options.get("priors") == "paper" or everything_is_zero:
        return
    factor = 2.0 ** np.random.default_rng((19, number)).integers(-250, 250)
    powers = {"lambda_": factor, "b0": factor**2}
    options = {
        name: powers[name] * value
        for name, value in one.options.items()
        if name in powers and value != "learned"
    }
    if any(not 1e-150 < value < 1e150 for value in options.values()):
        return
    matrices = [factor * x for x in one.sources.matrices]
    other = replace(one, sources=Sources(matrices)).fit(**options)
    if not _equal(result, other, factor):
        yield f"another fit in a unit {factor:.3g} times as small"


def _same_in_single_precision(one, number):
    """What float32 can hold is fitted as float64 would be, also where entries are filled in."""
    if number % 5 != 3:
        return
    single = [x.astype(np.float32) for x in one.sources.matrices]
    double = [x.astype(np.float64) for x in single]
    try:
        first, second = (replace(one, sources=Sources(x)).fit() for x in (single, double))
    except FitError:
        return
    if not _equal(first, second):
        yield "another fit of float32 than of the same numbers in float64"


def _equal(result, other, factor=1.0):
    """Whether two fits say the same of the data, in their units; where components are alike,
    memberships mean nothing.
    """
    fitted = result.components @ np.hstack(result.memberships)
    same = other.components @ np.hstack(other.memberships) / factor
    noise = np.asarray(other.noise) / factor
    return np.allclose(same, fitted, rtol=0, atol=1e-6 * np.abs(fitted).max()) and np.allclose(
        noise, result.noise, rtol=1e-6
    )
