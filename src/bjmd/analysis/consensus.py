"""Components that the restarts agree on: matched over all of them, and clustered to K.

Every restart gives one component to each of K clusters, in the way that makes its memberships most
similar to the centres (`match`).  Centres start at the restart that is most similar to all, and
become the mean memberships of their members, which are the components that correlate with them by
at least ALIKE, until nothing changes.  A consensus component is the median of its members; all
samples then get memberships in the consensus components by projection.
"""

from dataclasses import dataclass, replace

import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import projection, restarts
from bjmd.results import predictive
from bjmd.results.decomposition import ALIKE, Decomposition, match, similarities

MOST_ROUNDS = 100


@dataclass(frozen=True)
class Consensus:
    """What the restarts agree on, its components in the order of the best restart's."""

    result: Decomposition
    """The consensus components and memberships; the rest is that of the best restart."""
    share: np.ndarray
    """The share of restarts that have each component."""
    spread: np.ndarray
    """The root mean square distance of the members from each component, over the distance of the
    component from the mean of all components.
    """


def consensus(sources: Sources, results: list[Decomposition]) -> Consensus:
    """The consensus of all restarts of a method that can place new samples."""
    (best,) = restarts.best(results, 1)
    centre = max(results, key=lambda result: similarities([result, *results]).mean())
    partners = np.empty((0, 0), dtype=int)
    for _ in range(MOST_ROUNDS):
        before = partners
        matches = [match(result, centre) for result in results]
        partners, correlations = (np.array(part) for part in zip(*matches, strict=True))
        members = (correlations >= ALIKE) | (correlations == correlations.max(axis=0))
        if np.array_equal(before, partners):
            break
        matched = zip(results, partners, strict=True)
        memberships = np.array([np.hstack(result.memberships)[p] for result, p in matched])
        weights = members / members.sum(axis=0)
        centre = replace(best, memberships=[np.einsum("rk,rkn->kn", weights, memberships)])
    order = match(centre, best)[0]
    matched = zip(results, partners, strict=True)
    components = np.array([result.components[:, p[order]] for result, p in matched])
    components = np.where(members[:, None, order], components, np.nan)
    w = np.nanmedian(components, axis=0)
    within = np.nanmean((components - w) ** 2, axis=(0, 1))
    between = np.mean((w - w.mean(axis=1, keepdims=True)) ** 2, axis=0)
    result = replace(best, components=w)
    if best.posterior is not None:
        factor = replace(best.posterior.components, mean=w)
        result = replace(result, posterior=replace(best.posterior, components=factor))
    placed = [_placed(result, x, c) for c, x in enumerate(sources.data)]
    return Consensus(
        result=replace(result, memberships=placed),
        share=(correlations >= ALIKE).mean(axis=0)[order],
        spread=np.sqrt(within / np.where(between > 0, between, np.inf)),
    )


def _placed(result, x, c):
    """The memberships of all samples of a source, in blocks because it may be on disk."""
    blocks = predictive.blocks(x.shape[1], len(result.components))
    projected = [projection.project(result, x.columns(block), source=c) for block in blocks]
    return np.hstack([block.memberships for block in projected])
