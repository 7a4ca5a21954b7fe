"""The data of a fit: several sources, features by samples, over the same features."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bjmd.data.matrix import as_matrix, side_by_side
from bjmd.errors import InputError, count, whole_number
from bjmd.numerics import threads


class Sources:
    """The data: one features x samples matrix per source.

    Parameters
    ----------
    matrices : list of matrices, features x samples
        Each may be dense or sparse, or a memory-mapped file, which is never loaded.  NaN is a
        missing entry, also where a sparse matrix stores it.  float32 stays float32 in memory; all
        arithmetic is in float64.
    names : list of str, optional
        Names of the sources.
    feature_names : list of str, optional
        Names of the rows, which all sources share.
    sample_names : list of lists of str, optional
        Names of the columns, by source.
    labels : list of bool arrays, classes x samples, optional
        Known classes by source, for evaluation only; a sample may belong to several.
    class_names : list of str, optional
        Names of the rows of the labels.

    Names that are not given are numbered.

    Attributes
    ----------
    matrices : list of arrays, CSC matrices or streamed matrices
        The data as users know them.
    data : list of `bjmd.data.matrix.Matrix`
        The same data as fits ask for them, whatever kind they are.
    n_features, n_samples : int and list of int
        The shape of the sources.
    n_observed, n_missing : lists of int
        The number of observed and missing entries, by source.
    squared_norms : list of float
        The sum of squares of the observed entries, by source.
    """

    def __init__(
        self,
        matrices: Iterable[Any],
        *,
        names: Collection[str] | None = None,
        feature_names: Collection[str] | None = None,
        sample_names: Collection[Collection[str] | None] | None = None,
        labels: Sequence[Any] | None = None,
        class_names: Collection[str] | None = None,
    ) -> None:
        is_matrix = getattr(matrices, "ndim", None) == 2
        if is_matrix or isinstance(matrices, str | Mapping) or not isinstance(matrices, Iterable):
            raise InputError(
                "Sources takes a list of matrices, one per source, not a "
                f"{type(matrices).__name__}; wrap a single matrix as Sources([X]), read files with "
                "bjmd.files.readers.read_sources, and give names as names=[...]"
            )
        matrices = list(matrices)
        if not matrices:
            raise InputError("no source was given; pass at least one features x samples matrix")
        self.names = _names(names, len(matrices), "source", "names")
        self.data = [as_matrix(x, name) for x, name in zip(matrices, self.names, strict=True)]
        self.n_features = self.data[0].shape[0]
        for x, name in zip(self.data, self.names, strict=True):
            if x.shape[0] != self.n_features:
                raise InputError(
                    f"source {name!r} has {x.shape[0]} features but {self.names[0]!r} has "
                    f"{self.n_features}; all sources must have the same features in the same order "
                    "(rows are features)"
                )
        self.n_samples = [x.shape[1] for x in self.data]
        self.feature_names = _names(feature_names, self.n_features, "feature", "feature_names")
        sample_names = [None] * len(self) if sample_names is None else sample_names
        _check_count(sample_names, len(self), "sample_names", "source")
        self.sample_names = [
            _names(given, n, f"{name}-sample", f"sample_names of source {name!r}")
            for given, n, name in zip(sample_names, self.n_samples, self.names, strict=True)
        ]
        self.labels = None if labels is None else self._checked_labels(labels)
        n_classes = 0 if self.labels is None else self.labels[0].shape[0]
        self.class_names = _names(class_names, n_classes, "class", "class_names")
        with threads.blas_on_one_thread():  # the same bits on any number of cores
            self.squared_norms = [x.squared_norm for x in self.data]
        self.n_missing = [x.n_missing for x in self.data]
        self.n_observed = [x.shape[0] * x.shape[1] - x.n_missing for x in self.data]
        for c in range(len(self)):
            self._require_finite(c)
        self._require_observations()

    @property
    def matrices(self) -> list[Any]:
        """The sources as arrays, CSC matrices or streamed matrices."""
        return [x.raw for x in self.data]

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self):
        shapes = (
            f"{name}: {self.n_features} x {n}"
            for name, n in zip(self.names, self.n_samples, strict=True)
        )
        return f"Sources({', '.join(shapes)})"

    def replace(self, **changes: Any) -> "Sources":
        """The same sources with some of the constructor's arguments changed."""
        kept = {
            "matrices": self.data,
            "names": self.names,
            "feature_names": self.feature_names,
            "sample_names": self.sample_names,
            "labels": self.labels,
            "class_names": None if self.labels is None else self.class_names,
        }
        return Sources(**(kept | changes))

    def concatenated(self) -> "Sources":
        """All samples side by side as one source, as the cat variants of a method see them."""
        if len(self) == 1:
            return self
        self.require_in_memory("pooling sources")
        return Sources([side_by_side(self.data)], names=["+".join(self.names)])

    @property
    def is_sparse(self) -> list[bool]:
        """Whether each source is sparse."""
        return [x.is_sparse for x in self.data]

    def split(self, columns: np.ndarray) -> list[np.ndarray]:
        """Cut a K x (all samples) matrix back into one block per source."""
        return np.split(columns, np.cumsum(self.n_samples)[:-1], axis=1)

    def require_in_memory(self, what: str, instead: str = "") -> None:
        """Refuse sources on disk for what needs the matrices themselves."""
        for x, name in zip(self.data, self.names, strict=True):
            if not x.in_memory:
                raise InputError(
                    f"{what} needs the data in memory, but source {name!r} is on disk; load it "
                    f"first (without --on-disk, or with numpy.array(x)){instead}"
                )

    def require_components(self, n_components: int) -> None:
        """Refuse a number of components that the data cannot carry."""
        whole_number("n_components", n_components, least=1)
        most = sum(self.n_samples)
        if n_components > most:
            have = count(most, "sample")
            raise InputError(
                f"n_components is {n_components}, more than the data allow: they have {have}; "
                f"give at most {most}"
            )

    def _require_observations(self):
        """Refuse a sample or a feature of which nothing is known."""
        for x, name, samples in zip(self.data, self.names, self.sample_names, strict=True):
            empty = np.flatnonzero(x.counts_of_columns == 0)
            if len(empty):
                raise InputError(
                    f"sample {samples[empty[0]]!r} of source {name!r} has no observed entry"
                    f"{_and_others(empty)}; remove what is empty"
                )
        empty = np.flatnonzero(sum(x.counts_of_rows for x in self.data) == 0)
        if len(empty):
            raise InputError(
                f"feature {self.feature_names[empty[0]]!r} has no observed entry in any source"
                f"{_and_others(empty)}; remove what is empty"
            )

    def _require_finite(self, c):
        """Refuse a source with an infinite entry, or with entries whose squares overflow."""
        x = self.data[c]
        if np.isfinite(x.squared_norm):
            return
        rows, columns = x.where(np.isinf).nonzero()
        if not len(rows):
            raise InputError(
                f"source {self.names[c]!r} holds numbers whose squares overflow; rescale it"
            )
        many = f"{len(rows)} infinite entries, the first" if len(rows) > 1 else "1 infinite entry,"
        raise InputError(
            f"source {self.names[c]!r} holds {many} at feature {self.feature_names[rows[0]]!r}, "
            f"sample {self.sample_names[c][columns[0]]!r}; correct or remove them"
        )

    def _checked_labels(self, labels):
        _check_count(labels, len(self), "labels", "source")
        labels = [np.asarray(block) for block in labels]
        for block, n, name in zip(labels, self.n_samples, self.names, strict=True):
            if block.ndim != 2 or block.shape[1] != n or block.shape[0] != labels[0].shape[0]:
                raise InputError(
                    f"labels of source {name!r} have shape {block.shape}; they must be "
                    f"classes x samples, here {labels[0].shape[0]} x {n}"
                )
        return [block.astype(bool) for block in labels]


def _names(given, count, what, argument):
    if given is None:
        return [f"{what} {i + 1}" for i in range(count)]
    _check_count(given, count, argument, what)
    names = [str(name) for name in given]
    odd = next((name for name in names if not name.isprintable()), None)
    if odd is not None:
        raise InputError(
            f"{argument} has {odd[:40]!r}, which holds a character that cannot be printed; "
            "rename it"
        )
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{argument} has {double!r} more than once; names must be unique")
    return names


def _and_others(places):
    return f", nor have {len(places) - 1} others" if len(places) > 1 else ""


def _check_count(given, count, argument, what):
    if len(given) != count:
        raise InputError(
            f"the length of {argument} is {len(given)} but the number of {what}s is {count}; "
            "give one each"
        )
