"""How often 90 % intervals of cavi-bjmd hold the truth, over data drawn from the model itself.

    python benchmarks/credible_intervals.py [number of data sets, default 200]

Every data set has its own W, H and noise, drawn from the priors that the fit is given.  Components
are matched to the true ones by the distance of their columns of W.  Coverages are means over data
sets, with their standard errors. "error / sd" is the root mean square of (estimate - truth) /
posterior sd: 1 where the sd is honest.
"""

import sys

import numpy as np
from scipy.optimize import linear_sum_assignment
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources
from bjmd.inference import restarts

M = 30
N = (40, 40)
K = 3
PRIORS = {"lambda_": 1.0, "alpha0": 1.1, "a0": 3.0, "b0": 2.0}
RESTARTS = 5
LEVEL = 0.9


def draw(rng):
    """Truth and data from the prior: W, the list of H, the noise sds, and the sources."""
    w = rng.laplace(scale=PRIORS["lambda_"], size=(M, K))
    h = [rng.dirichlet(np.full(K, PRIORS["alpha0"]), n).T for n in N]
    noise = np.sqrt(PRIORS["b0"] / rng.gamma(PRIORS["a0"], size=len(N)))
    data = [
        w @ block + sd * rng.standard_normal((M, block.shape[1]))
        for block, sd in zip(h, noise, strict=True)
    ]
    return w, h, noise, Sources(data)


def inside(marginals, truth):
    """Which entries their interval holds, and all errors over posterior sds."""
    lower, upper = marginals.interval(LEVEL)
    return ((lower <= truth) & (truth <= upper)).mean(), np.mean(
        ((marginals.mean - truth) / marginals.sd) ** 2
    )


def one(seed):
    rng = np.random.default_rng(seed)
    w, h, noise, sources = draw(rng)
    options = {"priors": "paper", "tol": 1e-8, **PRIORS}
    (result,) = restarts.best(
        restarts.run("cavi-bjmd", sources, K, n_restarts=RESTARTS, **options), 1
    )
    distance = ((result.components[:, :, None] - w[:, None, :]) ** 2).sum(axis=0)
    fitted, true = linear_sum_assignment(distance)
    order = true[np.argsort(fitted)]  # the true component that each fitted one is
    columns = [
        inside(m, block[order]) for m, block in zip(result.posterior.memberships, h, strict=True)
    ]
    return (
        inside(result.posterior.noise, noise),
        inside(result.posterior.components, w[:, order]),
        np.mean(columns, axis=0),
    )


if __name__ == "__main__":
    n_data = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with threadpool_limits(1):
        scores = np.array([one(seed) for seed in range(n_data)])
    print(
        f"coverage of {100 * LEVEL:.0f} % intervals, {n_data} data sets, M = {M}, N = {N}, K = {K}"
    )
    for name, (coverage, squared) in zip(
        ("noise", "W", "H"), scores.transpose(1, 2, 0), strict=True
    ):
        error = coverage.std() / np.sqrt(n_data)
        ratio = np.sqrt(squared.mean())
        print(
            f"{name:6} {100 * coverage.mean():5.1f} % (standard error {100 * error:.1f})   error / sd {ratio:.2f}"
        )
