"""The paper's measure of how well memberships find known classes.

For each class, the best AUC that any single component (row of H) reaches as its score; then the mean over classes.
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
    from scipy.stats import rankdata  # half a second, which a fit without labels need not wait for

    h = np.asarray(h, dtype=float)
    labels = np.asarray(labels, dtype=bool)
    if h.ndim != 2 or labels.ndim != 2 or h.shape[1] != labels.shape[1]:
        raise InputError(f"memberships {h.shape} and labels {labels.shape} must be two matrices over the same samples")
    inside = labels.sum(axis=1, keepdims=True)
    outside = labels.shape[1] - inside
    ranks = rankdata(h, axis=1)
    wins = labels @ ranks.T - inside * (inside + 1) / 2
    pairs = (inside * outside).astype(float)
    pairs[pairs == 0] = np.nan
    return wins / pairs


def auc_per_class(h, labels):
    """For each class the AUC of the component that finds it best, NaN where the class has none."""
    return auc_table(h, labels).max(axis=1)


def auc_per_source(memberships, labels):
    """The paper's score: for each source, the mean of `auc_per_class` over the classes that have an AUC there.

    A class that is left out is named in an UndefinedAUCWarning; a source with no class left scores NaN.
    """
    if len(memberships) != len(labels):
        raise InputError(f"there are memberships of {len(memberships)} sources but labels of {len(labels)}")
    scores = np.full(len(memberships), np.nan)
    for c, (h, indicator) in enumerate(zip(memberships, labels, strict=True)):
        best = auc_per_class(h, indicator)
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
    """What `bjmd.fit` calls along the way to keep the AUC of every source; None where there are no labels.

    It is silent: a class without an AUC is reported where the final scores are made.
    """
    if labels is None:
        return None

    def watch(memberships):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedAUCWarning)
            return {"auc": auc_per_source(memberships, labels)}

    return watch
