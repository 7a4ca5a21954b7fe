"""How well memberships find known classes: the paper's measure, and two fairer ones.

The paper's: for each class, the best AUC that any single component (row of H) reaches as its score;
then the mean over classes.  One component may serve several classes there, so that even random
memberships score above 50.  Matched one to one it may not.  And memberships of BJMD sum to one in
every sample, those of NMF and its kin do not, so that a sample with large values is ranked first by
every component; `scaled` memberships make up for that.
"""

import warnings

import numpy as np

from bjmd.errors import InputError


class UndefinedAUCWarning(UserWarning):
    """A class is absent from a source or holds all of its samples, so it has no AUC there."""


def auc_table(h, labels):
    """AUC of every class (rows of `labels`) by every component (rows of `h`); ties count one half.

    A class without members, or without non-members, has no AUC: its row is NaN.
    """
    h = np.asarray(h, dtype=float)
    labels = np.asarray(labels, dtype=bool)
    if h.ndim != 2 or labels.ndim != 2 or h.shape[1] != labels.shape[1]:
        raise InputError(
            f"memberships {h.shape} and labels {labels.shape} must be two matrices over the same samples"
        )
    inside = labels.sum(axis=1, keepdims=True)
    outside = labels.shape[1] - inside
    ranks = np.array([_ranks(row) for row in h]).reshape(h.shape)
    wins = labels @ ranks.T - inside * (inside + 1) / 2
    pairs = (inside * outside).astype(float)
    pairs[pairs == 0] = np.nan
    return wins / pairs


def _ranks(values):
    """The rank of each value, from 1; equal ones share a mean.  (scipy.stats has it, but takes a
    second to load.)
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def auc_per_class(h, labels):
    """For each class the AUC of the component that finds it best, NaN where the class has none."""
    return auc_table(h, labels).max(axis=1)


def matched_per_class(h, labels):
    """For each class the AUC of its own component: no two classes share one, and the mean is as
    high as can be.

    Classes that are left over, where there are fewer components than classes, count one half; NaN
    as above.
    """
    from scipy.optimize import linear_sum_assignment

    table = auc_table(h, labels)
    scores = np.where(np.isnan(table).any(axis=1), np.nan, 0.5)
    defined = np.flatnonzero(~np.isnan(scores))
    rows, components = linear_sum_assignment(table[defined], maximize=True)
    scores[defined[rows]] = table[defined[rows], components]
    return scores


def scaled(memberships):
    """Memberships whose columns sum to one: a column is divided by its sum, and one of zeros
    becomes uniform.

    Columns that sum to one already, but for rounding, stay as they are.
    """
    found = []
    for h in memberships:
        total = h.sum(axis=0)
        if np.allclose(total, 1, rtol=0, atol=1e-5):
            found.append(h)
        else:
            found.append(np.where(total > 0, h / np.where(total > 0, total, 1), 1 / len(h)))
    return found


def condition(memberships):
    """The condition number of HH' over all samples."""
    h = np.hstack(memberships)
    return float(np.linalg.cond(h @ h.T))


def auc_per_source(memberships, labels, per_class=None):
    """The paper's score: for each source, the mean of `per_class` over the classes that have an AUC
    there.

    A class that is left out is named in an UndefinedAUCWarning; a source with no class left scores
    NaN.
    """
    per_class = per_class or auc_per_class
    if len(memberships) != len(labels):
        raise InputError(
            f"there are memberships of {len(memberships)} sources but labels of {len(labels)}"
        )
    scores = np.full(len(memberships), np.nan)
    for c, (h, indicator) in enumerate(zip(memberships, labels, strict=True)):
        best = per_class(h, indicator)
        defined = ~np.isnan(best)
        if not defined.all():
            left_out = ", ".join(str(k + 1) for k in np.flatnonzero(~defined))
            warnings.warn(
                f"source {c + 1}: class {left_out} is absent or holds every sample, so it is left out of the mean AUC",
                UndefinedAUCWarning,
                stacklevel=2,
            )
        if defined.any():
            scores[c] = best[defined].mean()
    return scores


def auc_watch(labels):
    """What `bjmd.fit` calls along the way to keep the AUC of every source; None where there are no
    labels.

    It is silent: a class without an AUC is reported where the final scores are made.
    """
    if labels is None:
        return None

    def watch(memberships):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedAUCWarning)
            return {"auc": auc_per_source(memberships, labels)}

    return watch


def strongest(memberships, labels):
    """For each source, ARI and NMI of the grouping of its samples by their strongest component
    against the classes.

    Samples of no class or of several are left out; a source in which that leaves fewer than two
    classes has NaN.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    found = np.full((2, len(memberships)), np.nan)
    for c, (h, indicator) in enumerate(zip(memberships, labels, strict=True)):
        one = indicator.sum(axis=0) == 1
        classes = indicator[:, one].argmax(axis=0)
        groups = h[:, one].argmax(axis=0)
        if len(np.unique(classes)) > 1:
            found[:, c] = (
                adjusted_rand_score(classes, groups),
                normalized_mutual_info_score(classes, groups),
            )
    return found


def mixing(memberships, n_neighbours=15):
    """For each source, how many of the nearest neighbours of its samples come from other sources,
    relative to chance.

    1 is a source whose samples lie among the others as if drawn from them, 0 one that lies apart.
    They are shuffled, or else the neighbours among equal memberships, as those of K-means are,
    would be the first ones in order.
    """
    from sklearn.neighbors import NearestNeighbors

    sizes = [h.shape[1] for h in memberships]
    order = np.random.default_rng(0).permutation(sum(sizes))
    of = np.repeat(np.arange(len(sizes)), sizes)[order]
    h = np.hstack(memberships).T[order]
    n_neighbours = min(n_neighbours, len(h) - 1)
    near = NearestNeighbors(n_neighbors=n_neighbours).fit(h).kneighbors(return_distance=False)
    found = np.full(len(sizes), np.nan)
    for c, size in enumerate(sizes):
        if size < len(h):
            chance = (len(h) - size) / (len(h) - 1)
            found[c] = (of[near[of == c]] != c).mean() / chance
    return found


def transferred(memberships, labels):
    """For each source, the balanced accuracy of classes predicted from the memberships of the other
    sources.

    Every sample gets the class whose mean memberships, over the other sources, are nearest to its
    own.  Only samples of one class count, and only classes that also occur elsewhere; a source with
    fewer than two of them has NaN.
    """
    one = [indicator.sum(axis=0) == 1 for indicator in labels]
    h = [block[:, alone] for block, alone in zip(memberships, one, strict=True)]
    y = [indicator[:, alone].argmax(axis=0) for indicator, alone in zip(labels, one, strict=True)]
    found = np.full(len(h), np.nan)
    for c in range(len(h)):
        others = [d for d in range(len(h)) if d != c]
        known = (
            np.unique(np.concatenate([y[d] for d in others])) if others else np.array([], dtype=int)
        )
        shared = np.intersect1d(known, y[c])
        if len(shared) > 1:
            pooled = np.hstack([h[d] for d in others])
            classes = np.concatenate([y[d] for d in others])
            centres = np.array([pooled[:, classes == k].mean(axis=1) for k in known])
            distances = ((h[c].T[:, None] - centres) ** 2).sum(axis=2)
            right = known[distances.argmin(axis=1)] == y[c]
            found[c] = np.mean([right[y[c] == k].mean() for k in shared])
    return found
