"""intNMF: NMF with a weight for every source (Chalise and Fridley 2017).

    minimise  sum_c theta_c ||X^(c) - W H^(c)||^2        over W >= 0, H^(c) >= 0

Here the sources share their features and so W; in the original they share their samples.  With
sqrt(theta_c) H^(c) as the unknown this is joint NMF of the sources sqrt(theta_c) X^(c).
"""

from collections.abc import Sequence

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition
from bjmd_paper.baselines import joint_nmf


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    weights: str | Sequence[float] = "variance",
    tol: float = 1e-6,
    max_sweeps: int = 2000,
) -> Decomposition:
    """Fit from one start.

    `weights` is a list of one number per source, or "variance" for 1 / the variance of the entries
    of the source.  The other options are those of joint NMF.
    """
    roots = np.sqrt(_weights(weights, sources))
    scaled = sources.replace(
        matrices=[root * x for root, x in zip(roots, sources.matrices, strict=True)]
    )
    result = joint_nmf.fit(
        scaled.concatenated(), n_components, seed=seed, tol=tol, max_sweeps=max_sweeps
    )
    blocks = sources.split(result.memberships[0])
    result.memberships = [block / root for block, root in zip(blocks, roots, strict=True)]
    return result


METHOD = Method("intnmf", "intNMF", fit, objective="weighted squared error", nonnegative=True)


def _weights(given, sources):
    if isinstance(given, str):
        if given != "variance":
            raise InputError(
                f'weights is {given!r}; it must be "variance" or a list of one number per source'
            )
        return _inverse_variances(sources)
    weights = np.asarray(given)
    if weights.shape != (len(sources),):
        raise InputError(
            f"weights is {given!r}; it must hold one number for each of the {len(sources)} sources"
        )
    if weights.dtype.kind not in "iuf" or not (np.isfinite(weights) & (weights > 0)).all():
        raise InputError(
            f"weights is {given!r}; every weight must be a finite number greater than 0"
        )
    return weights


def _inverse_variances(sources):
    weights = []
    for x, norm, name in zip(sources.matrices, sources.squared_norms, sources.names, strict=True):
        n_entries = x.shape[0] * x.shape[1]
        variance = norm / n_entries - (x.sum() / n_entries) ** 2
        if not variance > 1e-12 * norm / n_entries:
            raise InputError(
                f"all entries of source {name!r} are equal, so it has no weight 1/variance; "
                "leave it out"
            )
        weights.append(1 / variance)
    return np.array(weights)
