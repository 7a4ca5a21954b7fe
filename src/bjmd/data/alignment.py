"""Bring sources to common features by their names."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse

from bjmd.checks import one_of
from bjmd.errors import InputError

JOINS = ("outer", "inner")


@dataclass(frozen=True)
class Alignment:
    """What became of the features of several sources."""

    feature_names: list[str]  #: the common features, in the order in which they are first met
    n_shared: int  #: how many of all features every source has
    n_all: int  #: how many features at least one source has
    lacking: dict[str, int]  #: for every source, how many of all features it does not have
    join: str

    def __str__(self):
        if self.n_shared == self.n_all:
            return f"all {self.n_all} features are in every source"
        lacking = ", ".join(
            f"{name} lacks {count}" for name, count in self.lacking.items() if count
        )
        fate = "missing entries" if self.join == "outer" else "left out"
        return f"{self.n_shared} of {self.n_all} features are in every source; the others are {fate} ({lacking})"


def align(matrices, feature_names, names, join="outer"):
    """The same features x samples matrices over common features, and an Alignment that says how
    they came about.

    join="outer" takes every feature that any source has; the rows that a source lacks are missing
    (NaN) in it. join="inner" takes the features that every source has.
    """
    one_of("join", join, JOINS)
    for x, features, name in zip(matrices, feature_names, names, strict=True):
        if len(features) != x.shape[0]:
            counts = f"{x.shape[0]} features but {len(features)} feature names"
            raise InputError(f"source {name!r} has {counts}; give one each")
        if len(set(features)) < len(features):
            double = next(feature for feature in features if list(features).count(feature) > 1)
            raise InputError(
                f"source {name!r} has feature {double!r} more than once; rename or merge its rows"
            )
    places = [{feature: row for row, feature in enumerate(features)} for features in feature_names]
    union = list(dict.fromkeys(feature for features in feature_names for feature in features))
    shared = [feature for feature in union if all(feature in place for place in places)]
    common = union if join == "outer" else shared
    lacking = {name: len(union) - len(place) for name, place in zip(names, places, strict=True)}
    for name, place, features in zip(names, places, feature_names, strict=True):
        others = {feature for other in places if other is not place for feature in other}
        if len(names) > 1 and not others & place.keys():
            raise InputError(
                f"source {name!r} has no feature in common with the others: it has for example {_examples(features)}, "
                f"they have {_examples(sorted(others))}; use one kind of names, and check that features and samples "
                "are not swapped"
            )
    if not union:
        raise InputError(f"source {names[0]!r} has no features; check its file")
    if not common:
        raise InputError(
            "no feature is in every source, so join='inner' leaves none; use join='outer'"
        )
    aligned = [
        _rows(x, place, common, name)
        for x, place, name in zip(matrices, places, names, strict=True)
    ]
    return aligned, Alignment(common, len(shared), len(union), lacking, join)


def _rows(x, place, features, name):
    """The rows of the wanted features, NaN where there is none; no copy where nothing changes."""
    rows = np.array([place.get(feature, -1) for feature in features])
    if np.array_equal(rows, np.arange(x.shape[0])):
        return x
    if (rows >= 0).all():
        return x[rows]
    if not isinstance(x, np.ndarray):
        kind = "sparse" if scipy.sparse.issparse(x) else "on disk"
        raise InputError(
            f"source {name!r} is {kind} and lacks {(rows < 0).sum()} of the features, which it cannot mark as missing; "
            "take the common features with join='inner', add zeros if that is what absence means, or make it dense"
        )
    out = np.full(
        (len(features), x.shape[1]), np.nan, dtype=np.float32 if x.dtype == np.float32 else float
    )
    out[rows >= 0] = x[rows[rows >= 0]]
    return out


def _examples(features):
    return ", ".join(repr(str(feature)) for feature in features[:2])
