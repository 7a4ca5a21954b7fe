"""Raw sources become `Sources`: the one way for files, for the command and for the estimator.

A raw source is a matrix with its own names.  `assemble` matches the features of several, and
`prepare` also normalises counts (`normalized`), brings sources to one scale (`scales`), and
records how.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.matrix import as_floats, as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError, count, one_of
from bjmd.numerics import threads

log = logging.getLogger(__name__)

JOINS = ("outer", "inner")
SCALES = ("none", "mean", "rms")
TOTAL = 1e4  # of the entries of a sample after normalisation, as in scanpy
UNEQUAL = 10  # samples whose totals differ by this factor look as if they were not normalised,
LOGARITHM = 20  # unless no entry is larger than this: log2 of a million
MOST_CLASSES = 100  # that a figure can show
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
    labels: np.ndarray | None = None  # classes x samples
    class_names: Sequence[str] = ()
    metadata: Any = None  # a DataFrame about the samples, or None
    note: str = ""  # a sentence about how it was read, for the user and the report

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
    notes = list(dict.fromkeys(raw.note for raw in raw_sources if raw.note))
    if len(sources) > 1:
        notes.append(alignment)
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
) -> tuple[Sources, str]:
    """Match features by name; returns the sources, and a sentence on how their features matched.

    `names` replaces the names of the sources.  join="outer" takes every feature that any source
    has; the rows that a source lacks are missing (NaN) in it.  join="inner" takes the features that
    every source has.
    """
    one_of("join", join, JOINS)
    names = source_names(raw_sources, names)
    feature_names = _feature_names(raw_sources)
    for raw in raw_sources:
        _check_names(raw, raw.sample_names, "sample")
    union = list(dict.fromkeys(chain.from_iterable(feature_names)))
    in_all = set(union).intersection(*feature_names)
    shared = [feature for feature in union if feature in in_all]
    if join == "inner" and not shared:
        raise InputError(
            "no feature is in every source, so join='inner' leaves none; use join='outer'"
        )
    chosen = union if join == "outer" else shared
    labels, class_names = _labels(raw_sources)
    sources = Sources(
        [
            _over(chosen, raw.matrix, features, name)
            for raw, features, name in zip(raw_sources, feature_names, names, strict=True)
        ],
        names=names,
        feature_names=chosen,
        labels=labels,
        class_names=class_names,
        sample_names=[raw.sample_names for raw in raw_sources],
    )
    if len(shared) == len(union):
        return sources, f"All {len(union):,} features are in every source."
    n_lacking = [len(union) - len(features) for features in feature_names]
    lacking = [f"{name} lacks {n:,}" for name, n in zip(names, n_lacking, strict=True) if n]
    others = "missing where a source lacks them" if join == "outer" else "left out"
    return sources, (
        f"{len(shared):,} of {len(union):,} features are in every source; "
        f"the others are {others} ({', '.join(lacking)})."
    )


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


def _over(features, x, own_features, name):
    """The rows of the given features, NaN where there is none; no copy where nothing changes."""
    import pandas as pd  # which `bjmd fit --help` does not need

    rows = pd.Index(own_features).get_indexer(features)
    known = rows >= 0
    if known.all():
        return x if np.array_equal(rows, np.arange(x.shape[0])) else x[rows]
    if not isinstance(x, np.ndarray):
        kind = "sparse" if as_matrix(x, name).is_sparse else "on disk"
        raise InputError(
            f"source {name!r} is {kind} and lacks {(~known).sum()} of the features, which it "
            "cannot mark as missing; use only the common features (--join inner, in Python "
            "join='inner'), add zeros if that is what absence means, or make it dense"
        )
    aligned = np.full((len(features), x.shape[1]), np.nan, dtype=as_floats(x).dtype)
    aligned[known] = x[rows[known]]
    return aligned


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
            f"{raw} has negative entries, so these are not counts; leave out the normalisation"
        )
    totals = x.sums_of_columns()
    usable = (totals > 0) & np.isfinite(totals)  # infinite entries are refused later
    factors = np.where(usable, TOTAL / np.where(usable, totals, 1.0), 1.0)
    if x.is_sparse:
        logs = (x.array @ scipy.sparse.diags_array(factors)).log1p()
    else:
        logs = np.log1p(x.array * factors)
    return replace(raw, matrix=logs.astype(x.dtype, copy=False))


def looks_like_counts(raw_sources: Iterable[RawSource]) -> str | None:
    """What looks as if a source had to be normalised; None if nothing does."""
    for raw in raw_sources:
        x = as_matrix(raw.matrix, raw.name)
        if x.extent.least < 0:
            continue
        if x.extent.is_whole:
            return f"the entries of {raw} are whole numbers"
        if x.extent.largest <= LOGARITHM or not x.in_memory:
            continue
        means = x.sums_of_columns() / np.maximum(x.counts_of_columns, 1)
        means = means[means > 0]
        if len(means) and means.max() > UNEQUAL * means.min():
            ratio = means.max() / means.min()
            return f"the totals of samples in {raw} differ {ratio:,.0f}-fold"
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
        with threads.blas_on_one_thread():  # the same bits on any number of cores
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


def prepared_as(raw: RawSource, settings: Settings, number: int | None) -> RawSource:
    """New samples, normalised and scaled as those of a fit were.

    `number` is the source of the fit that they belong to, or None for a new source.
    """
    if settings.reading.get("normalize"):
        raw = normalized(raw)
    if settings.scale == "none":
        return raw
    if number is not None:
        divisor = settings.divisors[number]
    else:
        divisor = scales(Sources([raw.matrix], names=[raw.name]), settings.scale)[0]
    return replace(raw, matrix=raw.matrix / divisor)


def over_features(raw: RawSource, feature_names: Sequence[str]) -> tuple[Any, str]:
    """The matrix of new samples over the features of a fit, and a sentence on how they matched.

    Features that the source lacks are missing (NaN); features unknown to the fit are ignored.
    """
    (own_features,) = _feature_names([raw])
    n_known = len(set(own_features).intersection(feature_names))
    if not n_known:
        n_swapped = len(set(feature_names).intersection(raw.sample_names or ()))
        swapped = f", but {n_swapped} of its samples are, as if transposed" if n_swapped else ""
        raise InputError(
            f"none of the {len(own_features)} features of {raw}, such as {own_features[0]!r}, is "
            f"among the {len(feature_names)} of the fit, such as {feature_names[0]!r}{swapped}; "
            "features are matched by name"
        )
    n_unknown = len(own_features) - n_known
    report = f"{raw} has {n_known} of the {len(feature_names)} features of the fit"
    x = raw.matrix
    if n_known < len(feature_names):
        report += "; the others count as missing"
        x = as_matrix(x, raw.name).columns(slice(None))
    if n_unknown:
        report += f"; ignored {count(n_unknown, 'feature')} unknown to the fit"
    return _over(feature_names, x, own_features, raw.name), report


def _feature_names(raw_sources: Sequence[RawSource]) -> list[list[str]]:
    """Every source's feature names, ready to be matched; numbered if no source has any."""
    for raw in raw_sources:
        _check_names(raw, raw.feature_names, "feature")
    named = [raw for raw in raw_sources if raw.feature_names is not None]
    if len(named) == len(raw_sources):
        _check_overlap(raw_sources)
        return [raw.feature_names or [] for raw in raw_sources]
    if named:
        nameless = next(raw for raw in raw_sources if raw.feature_names is None)
        raise InputError(
            f"{nameless} has no feature names but {named[0]} has, so their features cannot be "
            "matched; name the features of all sources, or of none"
        )
    if len({raw.matrix.shape[0] for raw in raw_sources}) > 1:
        counts = ", ".join(f"{raw} has {raw.matrix.shape[0]}" for raw in raw_sources)
        raise InputError(
            f"the sources have no feature names and different numbers of features ({counts}), "
            "so these cannot be matched; transpose them if features and samples are swapped, or "
            "name the features"
        )
    return [[f"feature {i + 1}" for i in range(raw.matrix.shape[0])] for raw in raw_sources]


def _check_names(raw: RawSource, names: Sequence[str] | None, what: str) -> None:
    """Refuse names that are empty or repeated."""
    n_times = Counter(names)
    if "" in n_times:
        raise InputError(
            f"{raw} lacks the names of {n_times['']} of its {n_times.total()} {what}s; "
            f"name every {what}"
        )
    repeated = [name for name, n in n_times.most_common() if n > 1]
    if repeated:
        n = n_times[repeated[0]]
        others = f" (and repeats {len(repeated)} names in all)" if len(repeated) > 1 else ""
        raise InputError(
            f"{raw} has the {what} name {repeated[0]!r} {n} times{others}; make its names unique"
        )


def label_by(raw_sources: Sequence[RawSource], column: str) -> None:
    """Let a column of the metadata be the classes of the samples."""
    import pandas as pd

    values = []
    for raw in raw_sources:
        if column not in raw.metadata:
            has = ", ".join(map(str, raw.metadata)) or "none"
            raise InputError(f"{raw} has no column {column!r} for labels; it has {has}")
        values.append(raw.metadata[column])
    class_names, labels = classes(pd.concat(values))
    ends = np.cumsum([len(part) for part in values[:-1]])
    for raw, block in zip(raw_sources, np.split(labels, ends, axis=1), strict=True):
        raw.class_names = class_names
        raw.labels = block


def classes(values: Any) -> tuple[list[str], np.ndarray]:
    """The classes in a column, in the order of a categorical one, and a row of samples for each."""
    in_order = values.astype("category").cat.remove_unused_categories().cat.categories
    class_names = few_classes(dict.fromkeys(map(str, in_order)))
    texts = values.astype(object).astype(str).to_numpy()
    return class_names, texts == np.array(class_names, dtype=object)[:, None]


def few_classes(class_names: Iterable[str]) -> list[str]:
    """The names, if they are no more than figures can show."""
    names = list(class_names)
    if len(names) > MOST_CLASSES:
        raise InputError(
            f"the samples have {len(names):,} different labels, such as {_examples(names)}; "
            f"labels are classes, of which figures show at most {MOST_CLASSES}"
        )
    return names


def _check_overlap(raw_sources: Sequence[RawSource]) -> None:
    """Refuse a source that shares no feature with the others; warn of one that shares few."""
    for raw in raw_sources:
        others = {
            name for other in raw_sources if other is not raw for name in other.feature_names or ()
        }
        n_features = raw.matrix.shape[0]
        n_common = len(others.intersection(raw.feature_names or ()))
        if n_common == 0 and len(raw_sources) > 1:
            raise InputError(
                f"{raw} has no feature in common with the others: it has for example "
                f"{_examples(raw.feature_names)}, they have {_examples(sorted(others))}; use one "
                "kind of names, or transpose it if features and samples are swapped (for files, "
                "add or drop --samples-in-rows)"
            )
        if n_common < FEW_IN_COMMON * min(n_features, len(others)):
            message = "only %d of the %d features of %s are in another source; check their names"
            log.warning(message, n_common, n_features, raw)


def _examples(names):
    return ", ".join(repr(str(name)) for name in names[:2])


def _labels(raw_sources: Sequence[RawSource]) -> tuple[list[np.ndarray] | None, list[str] | None]:
    """The labels of all sources over the classes of all; None without any."""
    class_names = few_classes(
        dict.fromkeys(name for raw in raw_sources for name in raw.class_names)
    )
    if not class_names:
        return None, None
    import pandas as pd

    tables = [
        pd.DataFrame(raw.labels, list(raw.class_names), range(raw.matrix.shape[1]), dtype=bool)
        for raw in raw_sources
    ]
    every_class = [table.reindex(class_names, fill_value=False) for table in tables]
    return [table.to_numpy(dtype=bool) for table in every_class], class_names
