"""The data of a fit: several sources, features by samples, over the same features."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from bjmd.checks import count, whole_number
from bjmd.data.dense import squared_norm
from bjmd.data.streamed import SideBySide, Streamed, streamed
from bjmd.errors import InputError


class Sources:
    """The data: one features x samples matrix per source.

    Parameters
    ----------
    matrices : list of matrices, features x samples
        Each may be dense, scipy-sparse (and stays sparse), memory-mapped or a dask array (and is
        never loaded).  NaN is a missing entry, and so is a NaN that a sparse matrix stores.
        float32 stays float32; sums over it are float64.
    names : list of str, optional
        Of the sources.
    feature_names : list of str, optional
        Of the rows, which all sources share.
    sample_names : list of lists of str, optional
        Of the columns, by source.
    labels : list of bool arrays, classes x samples, optional
        Known classes by source, for evaluation only; a sample may belong to several.
    class_names : list of str, optional
        Of the rows of the labels.

    Names that are not given are numbered.
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
        if getattr(matrices, "ndim", None) == 2:
            raise InputError(
                "Sources takes a list of matrices, one per source; wrap a single matrix as Sources([X])"
            )
        if isinstance(matrices, str | Mapping) or not isinstance(matrices, Iterable):
            raise InputError(
                f"Sources takes a list of matrices, one per source, not a {type(matrices).__name__}; files are read by "
                "bjmd.files.readers.read_sources, and names go into names=[...]"
            )
        matrices = list(matrices)
        if not matrices:
            raise InputError("no source was given; pass at least one features x samples matrix")
        self.names = _names(names, len(matrices), "source", "names")
        self.matrices = [_matrix(x, name) for x, name in zip(matrices, self.names, strict=True)]
        self.n_features = self.matrices[0].shape[0]
        for x, name in zip(self.matrices, self.names, strict=True):
            if x.shape[0] != self.n_features:
                raise InputError(
                    f"source {name!r} has {x.shape[0]} features but {self.names[0]!r} has {self.n_features}; "
                    "all sources must have the same features in the same order (rows are features)"
                )
        self.n_samples = [x.shape[1] for x in self.matrices]
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
        with threadpool_limits(
            1
        ):  # a fit begins with these norms: the same bits on any number of cores
            surveys = [self._survey(c) for c in range(len(self))]
        self.squared_norms, self.n_missing = (list(part) for part in zip(*surveys, strict=True))
        if any(self.n_missing):
            self._require_observations()
        self.n_observed = [
            self.n_features * n - out for n, out in zip(self.n_samples, self.n_missing, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.matrices)

    def __repr__(self):
        shapes = (
            f"{name}: {self.n_features} x {n}"
            for name, n in zip(self.names, self.n_samples, strict=True)
        )
        return f"Sources({', '.join(shapes)})"

    def replace(self, **changes: Any) -> "Sources":
        """The same sources with some of the constructor's arguments changed."""
        kept = ("matrices", "names", "feature_names", "sample_names", "labels")
        class_names = self.class_names if self.labels is not None else None
        return Sources(
            **(
                {name: getattr(self, name) for name in kept}
                | {"class_names": class_names}
                | changes
            )
        )

    def concatenated(self) -> "Sources":
        """All samples side by side as one source, which is what the cat variants of a method see."""
        if len(self) == 1:
            return self
        if any(isinstance(x, Streamed) for x in self.matrices):
            stacked: Any = SideBySide(self.matrices)
        elif any(scipy.sparse.issparse(x) for x in self.matrices):
            stacked = scipy.sparse.hstack(self.matrices, format="csc")
        else:
            stacked = np.hstack(self.matrices)
        labels = None if self.labels is None else [np.hstack(self.labels)]
        return Sources(
            [stacked], names=["+".join(self.names)], feature_names=self.feature_names, labels=labels
        )

    @property
    def is_single(self) -> bool:
        """Whether a source is float32, so that an objective is known to fewer digits."""
        return any(x.dtype == np.float32 for x in self.matrices)

    @property
    def is_sparse(self) -> list[bool]:
        """Whether each source is sparse."""
        return [scipy.sparse.issparse(x) for x in self.matrices]

    def split(self, columns: np.ndarray) -> list[np.ndarray]:
        """Cut a K x (all samples) matrix back into one block per source."""
        return np.split(columns, np.cumsum(self.n_samples)[:-1], axis=1)

    def require_in_memory(self, what: str, instead: str = "") -> None:
        """Refuse sources on disk and chunked ones for what needs the matrices themselves."""
        for x, name in zip(self.matrices, self.names, strict=True):
            if isinstance(x, Streamed):
                raise InputError(
                    f"{what} needs its data in memory but source {name!r} is on disk or chunked; load it first "
                    f"(without --on-disk, numpy.array(x), or x.compute() for dask){instead}"
                )

    def require_components(self, n_components: int) -> None:
        """Refuse a number of components that the data cannot carry."""
        whole_number("n_components", n_components, least=1)
        most = sum(self.n_samples)
        if n_components > most:
            have = count(most, "sample")
            raise InputError(
                f"n_components is {n_components}, more than the data allow: they have {have}"
            )

    def _require_observations(self):
        """Refuse a sample or a feature of which nothing is known."""
        seen = np.zeros(self.n_features, dtype=bool)
        for c, x in enumerate(self.matrices):
            if not self.n_missing[c]:
                seen[:] = True
                continue
            missing = missing_entries(x)
            empty = np.flatnonzero(missing.sum(axis=0) == self.n_features)
            if len(empty):
                raise InputError(
                    f"sample {self.sample_names[c][empty[0]]!r} of source {self.names[c]!r} has no observed entry"
                    f"{_and_others(empty)}; remove what is empty"
                )
            seen |= missing.sum(axis=1) < x.shape[1]
        empty = np.flatnonzero(~seen)
        if len(empty):
            raise InputError(
                f"feature {self.feature_names[empty[0]]!r} has no observed entry in any source"
                f"{_and_others(empty)}; remove what is empty"
            )

    def _survey(self, c: int) -> tuple[float, int]:
        """The squared norm of the observed entries of a source, and the number of missing ones."""
        x = self.matrices[c]
        if isinstance(x, Streamed):
            norm = x.squared_norm()
            n_missing = 0
            if np.isnan(norm) or x.missing is not None:
                missing = x.where(np.isnan)
                self.matrices[c] = x = x.observed(missing)
                norm = x.squared_norm()
                n_missing = missing.nnz
            if np.isinf(norm):
                raise self._too_large(c)
            return norm, n_missing
        sparse = scipy.sparse.issparse(x)
        values = x.data if sparse else x.ravel(order="K")
        norm = squared_norm(values)
        if np.isfinite(norm):
            return norm, 0
        if np.isinf(values).any():
            raise self._too_large(c)
        missing = np.isnan(values)
        observed = values[~missing]
        norm = squared_norm(observed)
        if not np.isfinite(norm):
            raise self._too_large(c)
        return norm, int(missing.sum())

    def _too_large(self, c: int) -> InputError:
        """What to say of a source whose squared norm is infinite."""
        x = self.matrices[c]
        what = f"source {self.names[c]!r} holds"
        if isinstance(x, Streamed):
            rows, columns = x.where(np.isinf).nonzero()
        elif self.is_sparse[c]:
            rows, columns = (at[np.isinf(x.data)] for at in x.tocoo().coords)
        else:
            rows, columns = np.nonzero(np.isinf(x))
        if not len(rows):
            return InputError(f"{what} numbers whose squares overflow; rescale it")
        first = (
            f"feature {self.feature_names[rows[0]]!r}, sample {self.sample_names[c][columns[0]]!r}"
        )
        many = (
            f"{len(rows)} infinite {'entries, the first' if len(rows) > 1 else 'entry,'} at {first}"
        )
        return InputError(f"{what} {many}; correct or remove them")

    def _checked_labels(self, labels):
        _check_count(labels, len(self), "labels", "source")
        labels = [np.asarray(block) for block in labels]
        for block, n, name in zip(labels, self.n_samples, self.names, strict=True):
            if block.ndim != 2 or block.shape[1] != n or block.shape[0] != labels[0].shape[0]:
                raise InputError(
                    f"labels of source {name!r} have shape {block.shape}; they must be classes x samples, here "
                    f"{labels[0].shape[0]} x {n}"
                )
        return [block.astype(bool) for block in labels]


def missing_entries(x: Any) -> Any:
    """Which entries of a matrix are missing, as a boolean matrix that is sparse (CSC) where the
    other is.
    """
    if isinstance(x, Streamed):
        return x.missing
    if not scipy.sparse.issparse(x):
        return np.isnan(x)
    missing = scipy.sparse.csc_array(
        (np.isnan(x.data), x.indices, x.indptr), shape=x.shape, copy=True
    )
    missing.eliminate_zeros()
    return missing


def _matrix(x, name):
    """A float64 or float32 matrix with at least one row and column; sparse stays sparse (CSC), no
    needless copies.
    """
    if scipy.sparse.issparse(x):
        require_sound_sparse(x, f"source {name!r}")
        matrix = x
        if x.dtype.kind in "biuf":
            matrix = _small_indices(scipy.sparse.csc_array(x))
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                # parts of an entry that is stored twice would be squared one by one
                matrix.sum_duplicates()
    else:
        matrix = streamed(x, name) or np.asarray(x)
    if matrix.dtype.kind not in "biuf":
        held = "text" if matrix.dtype.kind in "US" else f"{matrix.dtype} values"
        raise InputError(f"source {name!r} holds {held}; it must hold real numbers only")
    if matrix.ndim != 2:
        raise InputError(
            f"source {name!r} has {matrix.ndim} dimensions; it must be a features x samples matrix"
        )
    if 0 in matrix.shape:
        shape = " x ".join(map(str, matrix.shape))
        raise InputError(f"source {name!r} is empty ({shape}); remove it or check its file")
    if isinstance(matrix, Streamed):
        return matrix
    single = matrix.dtype.newbyteorder("=") == np.float32
    matrix = matrix.astype(np.float32 if single else np.float64, copy=False)
    # one memory order for all, because BLAS rounds differently in the other and equal data should
    # give equal bits
    return matrix if scipy.sparse.issparse(matrix) else np.ascontiguousarray(matrix)


def require_sound_sparse(x: Any, what: str) -> None:
    """Refuse indices outside a sparse matrix, which compiled code would follow, and a size that
    would fill memory.
    """
    try:
        if max(x.shape) >= 1_000_000 and 1000 * x.nnz < max(x.shape):
            raise ValueError(f"its size is {x.shape[0]} x {x.shape[1]}, its entries are {x.nnz}")
        if x.format in ("csr", "csc", "bsr"):
            x.check_format(full_check=True)
            if (
                np.diff(x.indptr) < 0
            ).any():  # which SciPy overlooks where the last is not positive
                raise ValueError("an index pointer falls")
        elif x.format == "coo" and x.nnz:
            for places, length in zip(x.coords, x.shape, strict=True):
                if places.min() < 0 or places.max() >= length:
                    raise ValueError("an index lies outside the matrix")
    except ValueError as error:
        raise InputError(f"{what} is a damaged sparse matrix ({error}); write it again") from None


def _small_indices(x):
    """The same CSC matrix with 32-bit indices where they suffice, for scikit-learn takes no others."""
    if max(*x.shape, x.nnz) > np.iinfo(np.int32).max:
        return x
    parts = (x.data, x.indices.astype(np.int32, copy=False), x.indptr.astype(np.int32, copy=False))
    return scipy.sparse.csc_array(parts, shape=x.shape)


def _names(given, count, what, argument):
    if given is None:
        return [f"{what} {i + 1}" for i in range(count)]
    _check_count(given, count, argument, what)
    names = [str(name) for name in given]
    odd = next((name for name in names if not name.isprintable()), None)
    if odd is not None:
        raise InputError(
            f"{argument} has {odd[:40]!r}, which holds a character that cannot be printed; rename it"
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
            f"the length of {argument} is {len(given)} but the number of {what}s is {count}; give one each"
        )
