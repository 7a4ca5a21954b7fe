"""Numbers from 1e-150 to 1e150 as data, priors and new samples: a sound result, or one sentence."""

import itertools

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.inference import projection, registry
from prove.fits import KINDS, TWO_OR_THREE, _monotone, _sound

POWERS = range(-150, 151, 10)
PLACES = (
    "data",
    "one source",
    "one feature",
    "one entry",
    "lambda_",
    "b0",
    "a0",
    "tol",
    "new samples",
    "noise",
)
CASES = list(itertools.product(POWERS, PLACES, ("data", "paper"), KINDS))


def check(number):
    """The kind of a case, by what it scales, and all that is wrong."""
    power, place, priors, name = CASES[
        number * 997 % len(CASES)
    ]  # 997 has no factor in common: in a mixed order
    method, options = KINDS[name]
    rng = np.random.default_rng((17, number))
    options = {"max_sweeps": 20, "priors": priors, **options}
    options |= {"noise": TWO_OR_THREE[number % 4]} if options.get("noise", "") is None else {}
    matrices = [
        rng.laplace(size=(6, 2)) @ rng.dirichlet([1, 1], 7).T + rng.standard_normal((6, 7))
        for _ in "ab"
    ]
    scale = 10.0**power
    if place == "data":
        matrices = [scale * x for x in matrices]
    elif place == "one source":
        matrices[0] = scale * matrices[0]
    elif place == "one feature":
        matrices[0][2] *= scale
    elif place == "one entry":
        matrices[0][2, 3] = scale
    elif place in ("lambda_", "b0", "a0", "tol"):
        options[place] = scale
    kind = f"1e-150 to 1e150 in {place}"
    try:
        sources = Sources(matrices)
        result = registry.fit(method, sources, 2, **options)
        wrong = [*_sound(result), *_monotone(result)]
        if place == "new samples":
            for source in (None, 0):
                placed = projection.project(
                    result, scale * matrices[0], source=source, any_scale=True
                )
                if not np.isfinite(placed.memberships).all() or not np.isfinite(placed.noise):
                    wrong.append("a projection is not finite")
            if not np.isfinite(
                projection.log_evidence(result, scale * matrices[0], source=0, any_scale=True)
            ).all():
                wrong.append("a score is not finite")
        if place == "noise":
            placed = projection.project(result, matrices[0], noise=scale)
            if (
                not np.isfinite(placed.memberships).all()
                or np.abs(placed.memberships.sum(axis=0) - 1).max() > 1e-9
            ):
                wrong.append("a projection is not on the simplex")
    except (InputError, FitError) as problem:
        return kind, [] if "\n" not in str(problem) else ["more than a sentence"]
    return kind, wrong
