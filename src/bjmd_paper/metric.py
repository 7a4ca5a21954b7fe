"""How well memberships find known classes: the paper's measure, and fairer ones.

The paper takes for each class the best AUC that any single component (row of H) reaches as its
score, and averages over the classes.  One component may serve several classes, so that even random
memberships score above 50; `matched_per_class` allows a component one class only.  Memberships of
BJMD sum to one in every sample.  Those of NMF do not, so that every component ranks a sample with
large values first; `scaled` memberships correct for that.  Factors of PCA have a sign that means
nothing, so both of their ends count as components.
"""

import numpy as np
import pandas as pd


def auc_table(h, labels):
    """AUC of every class (rows of `labels`) by every component (rows of `h`); ties count one half.

    A class without members, or without non-members, has no AUC: its row is NaN.
    """
    labels = np.asarray(labels, dtype=bool)
    inside = labels.sum(axis=1, keepdims=True)
    outside = labels.shape[1] - inside
    ranks = pd.DataFrame(h).rank(axis=1).to_numpy()  # equal values share their mean rank
    wins = labels @ ranks.T - inside * (inside + 1) / 2
    pairs = (inside * outside).astype(float)
    pairs[pairs == 0] = np.nan
    return wins / pairs


def auc_per_class(h, labels):
    """For each class the AUC of the component that finds it best, NaN where the class has none."""
    return auc_table(h, labels).max(axis=1)


def matched_per_class(h, labels):
    """For each class the AUC of its own component, matched so that the mean is as high as possible.

    Classes that get no component score one half; classes without an AUC are NaN.
    """
    from scipy.optimize import linear_sum_assignment

    table = auc_table(h, labels)
    scores = np.where(np.isnan(table).any(axis=1), np.nan, 0.5)
    defined = np.flatnonzero(~np.isnan(scores))
    rows, components = linear_sum_assignment(table[defined], maximize=True)
    scores[defined[rows]] = table[defined[rows], components]
    return scores


def is_signed(memberships):
    """Whether some are negative, as those of PCA."""
    return min(h.min() for h in memberships) < 0


def both_ends(memberships):
    """Memberships in components, or in both ends of factors that have a sign."""
    return [np.vstack([h, -h]) for h in memberships] if is_signed(memberships) else memberships


def of_unit_components(memberships, components):
    """Memberships in components that sum to one.

    Where nothing fixes their sum, a factorisation leaves open how much of a product is in W and how
    much in H.
    """
    return [np.abs(components).sum(axis=0)[:, None] * h for h in memberships]


def scaled(memberships, components):
    """Memberships that sum to one in every sample, in components that sum to one.

    Those that sum to one already, up to rounding, and signed ones are returned as they are.  A
    sample of zeros is in all components alike.
    """
    sums = np.hstack(memberships).sum(axis=0)
    if np.allclose(sums, 1, rtol=0, atol=1e-5) or is_signed(memberships):
        return memberships
    blocks = of_unit_components(memberships, components)
    totals = [h.sum(axis=0) for h in blocks]
    return [
        np.where(total > 0, h / np.where(total > 0, total, 1), 1 / len(h))
        for h, total in zip(blocks, totals, strict=True)
    ]


def condition(memberships):
    """The condition number of HH' over all samples."""
    h = np.hstack(memberships)
    return float(np.linalg.cond(h @ h.T))


def auc_per_source(memberships, labels, per_class=auc_per_class):
    """The paper's score: for each source, the mean of `per_class` over the classes with an AUC.

    A class that is absent from a source, or holds all of its samples, has none there; a source
    with no class left is NaN.
    """
    scores = np.full(len(memberships), np.nan)
    for c, (h, indicator) in enumerate(zip(memberships, labels, strict=True)):
        best = per_class(h, indicator)
        defined = ~np.isnan(best)
        if defined.any():
            scores[c] = best[defined].mean()
    return scores


def auc_watch(labels):
    """A `watch` for `bjmd.fit` that records the AUC of every source."""
    return lambda memberships: {"auc": auc_per_source(memberships, labels)}


def strongest(memberships, labels):
    """For each source, ARI and NMI between the strongest component of its samples and the classes.

    Samples of no class or of several are left out; a source with fewer than two classes is NaN.
    """
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    scores = np.full((2, len(memberships)), np.nan)
    for c, (h, indicator) in enumerate(zip(memberships, labels, strict=True)):
        one = indicator.sum(axis=0) == 1
        classes = indicator[:, one].argmax(axis=0)
        groups = h[:, one].argmax(axis=0)
        if len(np.unique(classes)) > 1:
            scores[0, c] = adjusted_rand_score(classes, groups)
            scores[1, c] = normalized_mutual_info_score(classes, groups)
    return scores


def transferred(memberships, labels):
    """For each source, the balanced accuracy of classes predicted from the other sources.

    Every sample gets the class whose mean memberships over the other sources are nearest to its
    own.  Only samples of one class count, and only classes that occur in another source, too; a
    source with fewer than two of them is NaN.
    """
    one = [indicator.sum(axis=0) == 1 for indicator in labels]
    h = [block[:, alone] for block, alone in zip(memberships, one, strict=True)]
    y = [indicator[:, alone].argmax(axis=0) for indicator, alone in zip(labels, one, strict=True)]
    scores = np.full(len(h), np.nan)
    for c in range(len(h)):
        classes = np.concatenate([np.array([], dtype=int), *y[:c], *y[c + 1 :]])
        known = np.unique(classes)
        shared = np.intersect1d(known, y[c])
        if len(shared) > 1:
            pooled = np.hstack([*h[:c], *h[c + 1 :]])
            centres = np.array([pooled[:, classes == k].mean(axis=1) for k in known])
            distances = ((h[c].T[:, None] - centres) ** 2).sum(axis=2)
            right = known[distances.argmin(axis=1)] == y[c]
            scores[c] = np.mean([right[y[c] == k].mean() for k in shared])
    return scores
