"""How the sources differ in their memberships: shares of the components, and how well they mix."""

from math import ceil

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from bjmd.analysis.associations import associations
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition, component_names

MOST_SAMPLES = 5000
"""Of more, every second, third, ... has its neighbours looked up."""
NEIGHBOURS = 15
"""How many neighbours of a sample count for mixing; report/pages.py names the number."""


def by_source(result: Decomposition, names: list[str]) -> pd.DataFrame:
    """A row for each component and source: component, source, share, low, high, and the tests.

    The share is the mean membership; low and high are the ends of a 90 % confidence interval for
    independent samples, which counts what the posterior leaves open about each of them.  strength,
    p_value and q_value belong to the component: the Kruskal-Wallis test of whether its
    memberships differ between the sources (associations.py).  mixing belongs to the source.
    """
    every = np.hstack(result.memberships)
    source = np.repeat(names, [h.shape[1] for h in result.memberships])
    tests = associations([every], [pd.DataFrame({"source": source})]).set_index("component")
    step = ceil(every.shape[1] / MOST_SAMPLES)
    mixed = mixing([h[:, ::step] for h in result.memberships])
    parts = []
    for c, h in enumerate(result.memberships):
        n = h.shape[1]
        variance = np.var(h, axis=1, ddof=1) if n > 1 else np.full(len(h), np.nan)
        if result.posterior is not None and result.posterior.memberships:
            variance += (result.posterior.memberships[c].sd ** 2).mean(axis=1)
        half = stdtrit(max(n - 1, 1), 0.95) * np.sqrt(variance / n)
        part = pd.DataFrame({"component": component_names(len(h)), "source": names[c]})
        part["share"] = h.mean(axis=1)
        part["low"] = np.maximum(part["share"] - half, 0)
        part["high"] = part["share"] + half
        parts.append(part.assign(mixing=mixed[c]))
    table = pd.concat(parts).sort_index(kind="stable", ignore_index=True)
    return table.join(tests[["strength", "p_value", "q_value"]], on="component")


def mixing(memberships: list[np.ndarray]) -> np.ndarray:
    """For each source, the share of nearest neighbours from other sources, relative to chance.

    1 means that the samples are mixed with those of the other sources, 0 that they are apart.
    Samples are shuffled, so that among equal memberships (K-means) the neighbours are random.
    """
    sizes = [h.shape[1] for h in memberships]
    order = np.random.default_rng(0).permutation(sum(sizes))
    source = np.repeat(np.arange(len(sizes)), sizes)[order]
    near = _nearest(np.hstack(memberships).T[order], min(NEIGHBOURS, len(order) - 1))
    scores = np.full(len(sizes), np.nan)
    for c, size in enumerate(sizes):
        if size < len(order):
            chance = (len(order) - size) / (len(order) - 1)
            scores[c] = (source[near[source == c]] != c).mean() / chance
    return scores


def _nearest(points: np.ndarray, n: int) -> np.ndarray:
    """The n nearest others of every point.  Libraries that find them take a second to import."""
    squares = (points**2).sum(axis=1)
    found = []
    for rows in predictive.blocks(len(points), len(points)):
        distance = squares - 2 * points[rows] @ points.T
        np.fill_diagonal(distance[:, rows], np.inf)
        found.append(np.argpartition(distance, n - 1, axis=1)[:, :n])
    return np.concatenate(found)
