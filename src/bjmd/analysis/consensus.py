"""Components that the restarts agree on: matched over all of them, and clustered to K.

Every restart gives one component to each of K clusters, in the way that makes its memberships most
alike to the centres (matching.py).  Centres start at the restart that is most alike to all, and
become the mean memberships of their members, which are the components that correlate with them by
at least ALIKE, until nothing changes.  A consensus component is the median of its members; all
samples then get memberships in the consensus components by projection.
"""

from dataclasses import dataclass, replace

import numpy as np

from bjmd.analysis.matching import ALIKE, match, similarities
from bjmd.data.sources import Sources
from bjmd.inference import projection, restarts
from bjmd.results.decomposition import Decomposition


@dataclass(frozen=True)
class Consensus:
    """What the restarts agree on, its components in the order of the best restart's."""

    result: Decomposition
    """The consensus components and the memberships in them; all else is that of the best restart.
    """
    share: np.ndarray
    """The share of restarts that have each component."""
    spread: np.ndarray
    """Root mean square distance of its members from a component, over its own from the mean of all
    components.
    """


def consensus(sources: Sources, results: list[Decomposition]) -> Consensus:
    """The consensus of all restarts of one method that can place new samples."""
    (best,) = restarts.best(results, 1)
    centre = max(results, key=lambda result: similarities([result, *results]).mean())
    pairs = np.empty((0, 0), dtype=int)
    for _ in range(100):  # at most
        found = [match(result, centre) for result in results]
        before = pairs
        pairs = np.array([p for p, _ in found])
        alike = np.array([s for _, s in found])
        members = (alike >= ALIKE) | (alike == alike.max(axis=0))
        if np.array_equal(before, pairs):
            break
        every = np.array(
            [np.hstack(result.memberships)[p] for result, p in zip(results, pairs, strict=True)]
        )
        centre = replace(
            best, memberships=[np.einsum("rk,rkn->kn", members / members.sum(axis=0), every)]
        )
    order = match(centre, best)[0]
    every = np.array(
        [result.components[:, p[order]] for result, p in zip(results, pairs, strict=True)]
    )
    every = np.where(members[:, None, order], every, np.nan)
    w = np.nanmedian(every, axis=0)
    squares = [
        np.nanmean((x - y) ** 2, axis=(0, 1))
        for x, y in ((every, w), (w[None], w.mean(axis=1, keepdims=True)))
    ]
    spread = np.sqrt(squares[0] / np.where(squares[1] > 0, squares[1], np.inf))
    posterior = best.posterior and replace(
        best.posterior, components=replace(best.posterior.components, mean=w)
    )
    result = replace(best, components=w, posterior=posterior)
    memberships = [_placed(result, x, c) for c, x in enumerate(sources.data)]
    return Consensus(
        replace(result, memberships=memberships), (alike >= ALIKE).mean(axis=0)[order], spread
    )


def _placed(result, x, c):
    """The memberships of all samples of a source, some at a time, for it may lie in a file."""
    step = max(1, projection.BLOCK // len(result.components))
    parts = [slice(first, first + step) for first in range(0, x.shape[1], step)]
    blocks = (projection.project(result, x.part(part), source=c) for part in parts)
    return np.hstack([block.memberships for block in blocks])
