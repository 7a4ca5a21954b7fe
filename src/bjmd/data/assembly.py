"""Raw sources become `Sources`: the one way for files, for the command and for the estimator.

A raw source is a matrix with its own names.  `assemble` matches the features of several (`align`),
and `prepare` also normalises counts (`normalized`), brings sources to one scale (`scales`), and
records how.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bjmd.checks import count, one_of
from bjmd.data.matrix import as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError

log = logging.getLogger(__name__)

JOINS = ("outer", "inner")
SCALES = ("none", "mean", "rms")
TOTAL = 1e4  # of the entries of a sample after normalisation, as in scanpy
UNEQUAL = 10  # samples whose totals differ by this factor look as if they were not normalised
# two sources with a smaller share of common features look misnamed or transposed
FEW_IN_COMMON = 0.1


@dataclass
class RawSource:
    """One source as its owner has it: features x samples, with names where there are any."""

    matrix: Any
    feature_names: list[str] | None
    sample_names: list[str] | None = None
    name: str = ""
    path: Path | None = None  # the file that it comes from
    part: str | None = None  # which of several sources in the file it is
    on_disk: bool = False  # whether the matrix stays in the file
    labels: np.ndarray | None = None  # classes x samples
    class_names: Sequence[str] = ()
    metadata: Any = None  # a DataFrame about the samples, or None

    def __str__(self) -> str:
        """What messages call it."""
        return f"source {self.name!r}" if self.path is None else str(self.path)


@dataclass(frozen=True)
class Settings:
    """How the data of a fit were read and prepared, for its report and for new samples."""

    files: Sequence[str] = ()
    notes: Sequence[str] = ()  # sentences for the user and the report
    scale: str = "none"
    divisors: Sequence[float] = ()  # what each source was divided by
    reading: Mapping[str, Any] = field(default_factory=dict)  # options of reading and joining


@dataclass(frozen=True)
class Alignment:
    """How the features of several sources were matched."""

    feature_names: list[str]  #: the features of the aligned sources, in order of first appearance
    n_shared: int  #: the number of features that every source has
    n_all: int  #: the number of features that at least one source has
    lacking: dict[str, int]  #: the number of all features that each source lacks
    join: str

    def __str__(self) -> str:
        if self.n_shared == self.n_all:
            return f"all {self.n_all} features are in every source"
        lacking = ", ".join(f"{name} lacks {n}" for name, n in self.lacking.items() if n)
        others = "missing entries" if self.join == "outer" else "left out"
        return (
            f"{self.n_shared} of {self.n_all} features are in every source; "
            f"the others are {others} ({lacking})"
        )


def prepare(
    raw_sources: Sequence[RawSource],
    *,
    names: list[str] | None = None,
    join: str = "outer",
    normalize: bool = False,
    scale: str = "none",
    reading: Mapping[str, Any] | None = None,
) -> tuple[Sources, Settings]:
    """Match the features, bring the sources to one scale, and record how."""
    files = list(dict.fromkeys(str(raw) for raw in raw_sources))
    if normalize:
        raw_sources = [normalized(raw) for raw in raw_sources]
    sources, alignment = assemble(raw_sources, names=names, join=join)
    divisors = scales(sources, scale)
    notes = [f"{str(alignment)[0].upper()}{str(alignment)[1:]}."] if len(sources) > 1 else []
    if normalize:
        notes.append(f"Each sample was scaled to a total of {TOTAL:,.0f}, and log(1 + x) taken.")
    if scale != "none":
        sources = divided(sources, divisors)
        divisor = "root mean square" if scale == "rms" else scale
        notes.append(f"Each source was divided by its {divisor}.")
    reading = {**(reading or {}), "join": join, "normalize": normalize}
    return sources, Settings(files, notes, scale, divisors.tolist(), reading)


def assemble(
    raw_sources: Sequence[RawSource], *, names: list[str] | None = None, join: str = "outer"
) -> tuple[Sources, Alignment]:
    """Match features by name, and report those that the sources do not share.

    `names` replaces the names of the sources. `join` takes all features, missing in sources that
    lack them ("outer"), or only those that every source has ("inner").
    """
    if not raw_sources:
        raise InputError("no source was given; give at least one table of features x samples")
    names = source_names(raw_sources, names)
    matrices, alignment = align(
        [raw.matrix for raw in raw_sources], _feature_names(raw_sources), names, join
    )
    labels, class_names = _labels(raw_sources)
    sources = Sources(
        matrices,
        names=names,
        feature_names=alignment.feature_names,
        labels=labels,
        class_names=class_names,
        sample_names=[raw.sample_names for raw in raw_sources],
    )
    return sources, alignment


def source_names(raw_sources: Sequence[RawSource], names: list[str] | None) -> list[str]:
    """The given names, one for each source; without any, the sources' own names."""
    own_names = [raw.name for raw in raw_sources]
    if names is None:
        names = own_names
    if len(names) != len(raw_sources):
        raise InputError(
            f"the sources are {', '.join(own_names)}, but the number of names is {len(names)}; "
            "give one name for each source"
        )
    if not all(name.strip() for name in names):
        raise InputError("a source has an empty name; name every source")
    return names


def align(
    matrices: Sequence[Any],
    feature_names: Sequence[Sequence[str]],
    names: Sequence[str],
    join: str = "outer",
) -> tuple[list[Any], Alignment]:
    """The same features x samples matrices over common features, and how these were matched.

    join="outer" takes every feature that any source has; the rows that a source lacks are missing
    (NaN) in it.  join="inner" takes the features that every source has.
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
    row_of = [{feature: row for row, feature in enumerate(features)} for features in feature_names]
    union = list(dict.fromkeys(feature for features in feature_names for feature in features))
    shared = [feature for feature in union if all(feature in rows for rows in row_of)]
    for name, rows, features in zip(names, row_of, feature_names, strict=True):
        others = {feature for other in row_of if other is not rows for feature in other}
        if len(names) > 1 and not others & rows.keys():
            raise InputError(
                f"source {name!r} has no feature in common with the others: it has for example "
                f"{_examples(features)}, they have {_examples(sorted(others))}; use one kind of "
                "names, and check that features and samples are not swapped"
            )
    if join == "inner" and not shared:
        raise InputError(
            "no feature is in every source, so join='inner' leaves none; use join='outer'"
        )
    chosen = union if join == "outer" else shared
    each = zip(matrices, row_of, names, strict=True)
    aligned = [_over(chosen, x, rows, name) for x, rows, name in each]
    lacking = {name: len(union) - len(rows) for name, rows in zip(names, row_of, strict=True)}
    return aligned, Alignment(chosen, len(shared), len(union), lacking, join)


def _over(features, x, row_of, name):
    """The rows of the given features, NaN where there is none; no copy where nothing changes."""
    rows = np.array([row_of.get(feature, -1) for feature in features], dtype=int)
    if np.array_equal(rows, np.arange(x.shape[0])):
        return x
    known = rows >= 0
    if known.all():
        return x[rows]
    if not isinstance(x, np.ndarray):
        kind = "sparse" if as_matrix(x, name).is_sparse else "on disk"
        raise InputError(
            f"source {name!r} is {kind} and lacks {(~known).sum()} of the features, which it "
            "cannot mark as missing; take the common features with join='inner', add zeros if "
            "that is what absence means, or make it dense"
        )
    dtype = np.float32 if x.dtype == np.float32 else float
    aligned = np.full((len(features), x.shape[1]), np.nan, dtype=dtype)
    aligned[known] = x[rows[known]]
    return aligned


def _examples(features):
    return ", ".join(repr(str(feature)) for feature in features[:2])


def normalized(raw: RawSource) -> RawSource:
    """The same source with log(1 + x) of samples scaled to one total, as scanpy does with counts.

    Samples without any counts stay zero, and so does every other zero.
    """
    x = as_matrix(raw.matrix, raw.name)
    if not x.in_memory:
        raise InputError(
            f"{raw} stays on disk, where it cannot be normalised; normalise it before, or read it "
            "into memory"
        )
    if (x.values < 0).any():
        raise InputError(
            f"{raw} has negative entries, so they are no counts; leave out the normalisation"
        )
    totals = x.sums_of_columns()
    usable = (totals > 0) & np.isfinite(totals)  # infinite entries are refused later
    factors = np.where(usable, TOTAL / np.where(usable, totals, 1.0), 1.0)
    return replace(raw, matrix=x.logarithms(factors).raw)


def looks_like_counts(raw_sources: Iterable[RawSource]) -> str | None:
    """A sentence if a source seems to need normalisation; None if none does."""
    for raw in raw_sources:
        x = as_matrix(raw.matrix, raw.name)
        if not x.in_memory or (x.values < 0).any():
            continue
        means = x.sums_of_columns() / np.maximum(x.counts_of_columns, 1)
        means = means[means > 0]
        advice = "if these are counts, normalise totals and take log(1 + x), as --normalize does"
        if not (x.values % 1).any():
            return f"the entries of {raw} are whole numbers; {advice}"
        if len(means) and means.max() > UNEQUAL * means.min():
            ratio = means.max() / means.min()
            return f"the totals of samples in {raw} differ {ratio:,.0f}-fold; {advice}"
    return None


def scales(sources: Sources, way: str) -> np.ndarray:
    """What to divide each source by.

    none    1
    mean    the mean of its entries, as the paper does with images; for data that are not negative
    rms     the root of the mean square of its entries
    """
    if one_of("scale", way, SCALES) == "none":
        return np.ones(len(sources))
    if way == "rms":
        values = np.sqrt(np.divide(sources.squared_norms, sources.n_observed))
    else:
        with threadpool_limits(1):  # the same bits on any number of cores
            sums = [x.sums_of_rows().sum() for x in sources.data]
        values = np.divide(sums, sources.n_observed)
    for value, name in zip(values, sources.names, strict=True):
        if value <= 0:
            raise InputError(
                f"source {name!r} has {way} {value:.3g}, by which it cannot be divided; "
                "use another scale"
            )
    return values


def divided(sources: Sources, divisors: Iterable[float]) -> Sources:
    """The same sources, each divided by its number."""
    each = zip(sources.data, divisors, strict=True)
    return sources.replace(matrices=[x / divisor for x, divisor in each])


def over_features(raw: RawSource, feature_names: Sequence[str]) -> tuple[Any, str]:
    """The matrix of new samples over the features of a fit, and a sentence on how they matched.

    Features that the source lacks are missing (NaN); features unknown to the fit are ignored.
    """
    row_of = {feature: row for row, feature in enumerate(_feature_names([raw])[0])}
    rows = np.array([row_of.get(feature, -1) for feature in feature_names])
    known = rows >= 0
    if not known.any():
        n_swapped = len(set(feature_names).intersection(raw.sample_names or ()))
        swapped = f", but {n_swapped} of its samples are, as if transposed" if n_swapped else ""
        raise InputError(
            f"none of the {len(row_of)} features of {raw}, such as {next(iter(row_of))!r}, is "
            f"among the {len(rows)} of the fit, such as {feature_names[0]!r}{swapped}; "
            "features are matched by name"
        )
    n_unknown = len(row_of) - int(known.sum())
    report = f"{raw} has {known.sum()} of the {len(rows)} features of the fit"
    if not known.all():
        report += "; the others count as missing"
    if n_unknown:
        verb = "is" if n_unknown == 1 else "are"
        past = "was" if n_unknown == 1 else "were"
        report += f"; {count(n_unknown, 'feature')} {verb} unknown to the fit and {past} ignored"
    found = raw.matrix[rows[known]]
    if known.all():
        return found, report
    matrix = np.full((len(rows), found.shape[1]), np.nan)
    matrix[known] = as_matrix(found, raw.name).columns(slice(None))
    return matrix, report


def _feature_names(raw_sources: Sequence[RawSource]) -> list[list[str]]:
    """Every source's feature names, ready to be matched; numbered if no source has any."""
    named = [raw for raw in raw_sources if raw.feature_names is not None]
    if len(named) == len(raw_sources):
        for raw in raw_sources:
            _check_orientation(raw, [other for other in raw_sources if other is not raw])
        return [raw.feature_names or [] for raw in raw_sources]
    if named:
        nameless = next(raw for raw in raw_sources if raw.feature_names is None)
        raise InputError(
            f"{nameless} has no feature names but {named[0]} has, so their features cannot be "
            "matched; name the features of all sources, or of none"
        )
    if len({raw.matrix.shape[0] for raw in raw_sources}) > 1:
        counts = ", ".join(f"{raw} has {raw.matrix.shape[0]}" for raw in raw_sources)
        same_width = len({raw.matrix.shape[1] for raw in raw_sources}) == 1
        swapped = "transpose them if features and samples are swapped, or " if same_width else ""
        raise InputError(
            f"the sources have no feature names and different numbers of features ({counts}), "
            f"so these cannot be matched; {swapped}name the features"
        )
    return [[f"feature {i + 1}" for i in range(raw.matrix.shape[0])] for raw in raw_sources]


def _check_orientation(raw: RawSource, others: list[RawSource]) -> None:
    """Refuse a source that looks transposed; warn of one with few features in common."""
    other_features = {name for other in others for name in other.feature_names or ()}
    other_samples = {name for other in others for name in other.sample_names or ()}
    features = raw.feature_names or []
    samples = set(raw.sample_names or ())
    n_common = len(other_features.intersection(features))
    if n_common >= FEW_IN_COMMON * min(len(features), len(other_features)):
        return
    n_samples_as_features = len(samples & other_features)
    n_samples_in_common = len(samples & other_samples)
    many = max(n_common, len(samples) / 2)
    if n_samples_as_features > many:
        raise InputError(
            f"{raw} looks transposed: {n_samples_as_features} of its {len(samples)} samples are "
            f"features of other sources, but only {n_common} of its {len(features)} features are; "
            "transpose it"
        )
    if n_samples_in_common > many:
        raise InputError(
            f"{raw} has {n_samples_in_common} of its {len(samples)} samples in common with other "
            f"sources but only {n_common} of its {len(features)} features, as if the two were "
            "swapped; transpose the sources (for files, add or drop --samples-in-rows)"
        )
    if n_common:  # a source with none is refused when features are matched
        log.warning(
            "only %d of the %d features of %s are in another source; check that they use the "
            "same names",
            n_common,
            len(features),
            raw,
        )


def _labels(raw_sources: Sequence[RawSource]) -> tuple[list[np.ndarray] | None, list[str] | None]:
    """The labels of all sources over the classes of all; None without any."""
    class_names = list(dict.fromkeys(name for raw in raw_sources for name in raw.class_names))
    if not class_names:
        return None, None
    labels = [np.zeros((len(class_names), raw.matrix.shape[1]), dtype=bool) for raw in raw_sources]
    for raw, block in zip(raw_sources, labels, strict=True):
        if raw.labels is not None:
            block[[class_names.index(name) for name in raw.class_names]] = raw.labels
    return labels, class_names
