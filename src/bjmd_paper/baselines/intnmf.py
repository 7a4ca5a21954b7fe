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
    if isinstance(given, str) and given == "variance":
        return _inverse_variances(sources)
    weights = np.asarray(given)
    right = weights.shape == (len(sources),) and weights.dtype.kind in "iuf"
    if not (right and np.all(np.isfinite(weights) & (weights > 0))):
        raise InputError(
            f'weights is {given!r}; it must be "variance" or a list of one finite number greater '
            f"than 0 for each of the {len(sources)} sources"
        )
    return weights


def _inverse_variances(sources):
    """1 / the variance of the entries of every source."""
    n_entries = sources.n_features * np.array(sources.n_samples)
    squares = sources.squared_norms / n_entries
    variances = squares - (np.array([x.sum() for x in sources.matrices]) / n_entries) ** 2
    for name, varies in zip(sources.names, variances > 1e-12 * squares, strict=True):
        if not varies:
            raise InputError(
                f"all entries of source {name!r} are equal, so it has no weight 1/variance; "
                "leave it out"
            )
    return 1 / variances
