"""The matrix of one source: the questions that a fit asks of it, and the answers of data in memory.

`Matrix` has the questions, and answers them block by block for files that are never loaded
(streamed.py).  `Dense` and `Sparse` answer them for NumPy arrays and SciPy's sparse matrices.
Nothing else in the package needs to know what kind of matrix it has.

Large work is cut into parts by its size alone (threads.py).  float32 data stay float32 in memory
and become float64 in blocks of fixed size, so all arithmetic has the digits of float64.
"""

from __future__ import annotations

import copy
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bjmd.errors import InputError
from bjmd.numerics import threads

BLAS_GAIN = 4
"""How many times as fast BLAS multiplies as compiled loops do."""
BLOCK = 2**18
"""The most numbers that are copied at once."""


class Extent(NamedTuple):
    """What the entries of data are like."""

    least: float
    largest: float
    is_whole: bool
    """Whether all are whole numbers."""

    @classmethod
    def of_all(cls, extents: Iterable[Extent]) -> Extent:
        """That of several data together."""
        least, largest, is_whole = zip(*extents, strict=True)
        return cls(min(least), max(largest), all(is_whole))

    def __str__(self) -> str:
        what = "whole numbers" if self.is_whole else "numbers"
        return f"{what} from {self.least:.6g} to {self.largest:.6g}"


class Matrix(ABC):
    """A features x samples matrix of real numbers; NaN is a missing entry.

    Missing entries count as nothing in norms, sums and squares.  Products need numbers in their
    place: those of `fillable`.  Answers are put together from those of blocks, in a fixed order;
    what is in memory has shorter ways to most of them.
    """

    is_sparse = False
    in_memory = False
    gaps: Any = None
    """A `Sparse` with what `fill` put into the missing entries, which count as 0 in the data."""

    def __init__(self, shape: tuple[int, int], dtype: np.dtype) -> None:
        self.shape = shape
        self.dtype = dtype

    def blocks(self) -> Iterable[tuple[slice, slice, Any]]:
        """Rows and columns, and the matrix in memory that is there, piece by piece."""
        return [(slice(0, self.shape[0]), slice(0, self.shape[1]), self)]

    @abstractmethod
    def columns(self, part: slice) -> np.ndarray:
        """Some samples as a dense float64 array, NaN where an entry is missing."""

    @abstractmethod
    def __truediv__(self, number: float) -> Any:
        """The same divided by a number; float32 in memory stays float32."""

    @property
    def raw(self) -> Any:
        """What users see: an array, a CSC matrix, or, of what is streamed, the matrix itself."""
        return self

    @cached_property
    def _survey(self) -> tuple[float, int]:
        """The squared norm, and the number of missing entries."""
        norms, n_missing = zip(*(block._survey for *_, block in self.blocks()), strict=True)
        return sum(norms), sum(n_missing)

    @property
    def squared_norm(self) -> float:
        """||X||^2; infinite where an entry is, or where a square overflows."""
        return self._survey[0]

    @property
    def n_missing(self) -> int:
        return self._survey[1]

    @cached_property
    def extent(self) -> Extent:
        """Of the observed entries, the zeros of sparse data included."""
        return Extent.of_all(block.extent for *_, block in self.blocks())

    @cached_property
    def missing(self) -> Any:
        """Where entries are missing: a boolean CSC matrix, or None."""
        return self.where(np.isnan) if self.n_missing else None

    @cached_property
    def counts_of_rows(self) -> np.ndarray:
        """The number of observed entries of every feature."""
        n_missing = 0 if self.missing is None else self.missing.sum(axis=1)
        return np.full(self.shape[0], float(self.shape[1])) - n_missing

    @cached_property
    def counts_of_columns(self) -> np.ndarray:
        """The number of observed entries of every sample."""
        n_missing = 0 if self.missing is None else self.missing.sum(axis=0)
        return np.full(self.shape[1], float(self.shape[0])) - n_missing

    @cached_property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the missing entries."""
        columns = np.repeat(np.arange(self.shape[1]), np.diff(self.missing.indptr))
        return self.missing.indices.astype(np.int64), columns

    def fillable(self) -> Any:
        """A copy with 0 in place of missing entries, which `fill` can change.

        Without missing entries it is the matrix itself.
        """
        if not self.n_missing:
            return self
        with_gaps = copy.copy(self)
        with_gaps.gaps = Sparse(0.0 * self.missing)
        return with_gaps

    def fill(self, values: Any) -> None:
        """Put values into the missing entries of what `fillable` returned, in order of `places`."""
        self.gaps.array.data[:] = values

    def times_memberships(self, h: np.ndarray) -> np.ndarray:
        """(X H')': K x M.  One of the two products through which algorithms see the data."""
        total = np.zeros((len(h), self.shape[0]))
        for rows, columns, block in self.blocks():
            total[:, rows] += block.fillable().times_memberships(h[:, columns])
        return total if self.gaps is None else total + self.gaps.times_memberships(h)

    def times_components(self, wt: np.ndarray) -> np.ndarray:
        """W'X, given W' (K x M): K x N.  The other product."""
        total = np.zeros((len(wt), self.shape[1]))
        for rows, columns, block in self.blocks():
            total[:, columns] += block.fillable().times_components(wt[:, rows])
        return total if self.gaps is None else total + self.gaps.times_components(wt)

    def sums_of_rows(self) -> np.ndarray:
        """sum_j x_ij of every feature."""
        total = np.zeros(self.shape[0])
        for rows, _, block in self.blocks():
            total[rows] += block.sums_of_rows()
        return total

    @cached_property
    def means_of_rows(self) -> np.ndarray:
        """The mean of the observed entries of every feature; 0 where there are none."""
        return self.sums_of_rows() / np.maximum(self.counts_of_rows, 1)

    @cached_property
    def _spread_of_rows(self):
        return self.squares(self.means_of_rows, *map(np.ones, self.shape))[0]

    def squares_around(self, origin) -> np.ndarray:
        """sum_j (x_ij - origin_i)^2 of every feature, whose data are only looked at once."""
        return self._spread_of_rows + self.counts_of_rows * (self.means_of_rows - origin) ** 2

    def squares(self, base, of_rows, of_columns) -> tuple[np.ndarray, np.ndarray]:
        """Weighted squares around the base of every row, summed over every row and every column.

            sum_j q_j (x_ij - base_i)^2,    sum_i phi_i (x_ij - base_i)^2

        of_rows has the phi_i, of_columns the q_j.
        """
        of_features = np.zeros(self.shape[0])
        of_samples = np.zeros(self.shape[1])
        for rows, columns, block in self.blocks():
            squares = block.squares(base[rows], of_rows[rows], of_columns[columns])
            of_features[rows] += squares[0]
            of_samples[columns] += squares[1]
        return of_features, of_samples

    def where(self, test: Callable[[np.ndarray], np.ndarray]) -> scipy.sparse.csc_array:
        """Where entries pass a test that 0 does not: a sparse boolean matrix (CSC)."""
        passed = [np.empty((2, 0), dtype=np.int32)]
        for rows, columns, block in self.blocks():
            start = np.array([[rows.start], [columns.start]], dtype=np.int32)
            passed.append(start + block.where(test).tocoo().coords)
        places = np.hstack(passed)
        passes = np.ones(places.shape[1], dtype=bool)
        return scipy.sparse.csc_array((passes, tuple(places)), shape=self.shape)


class InMemory(Matrix):
    """What `Dense` and `Sparse` share: an array whose `values` hold all entries that are not 0."""

    in_memory = True
    unfilled: InMemory
    """What `fillable` was asked of."""

    def __init__(self, array: Any) -> None:
        super().__init__(array.shape, array.dtype)
        self.array = array

    @property
    def raw(self):
        return self.array

    @property
    @abstractmethod
    def stored(self) -> np.ndarray:
        """The array of all entries, or of those that sparse data store."""

    @property
    def values(self) -> np.ndarray:
        """The stored numbers, in one dimension."""
        return self.stored.ravel(order="K")

    @abstractmethod
    def with_missing(self, values: Any) -> Any:
        """A float64 copy with other values, one or one per stored entry, in place of NaN."""

    @abstractmethod
    def without(self, hidden: scipy.sparse.csc_array) -> InMemory:
        """A copy in which some entries, given as a boolean CSC matrix, are missing."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Its parts by name; see `from_arrays`."""

    def numbers(self) -> Iterable[np.ndarray]:
        """All that sets the matrix apart from others of its shape, in pieces, to be hashed."""
        kinds = {"f": float, "i": np.int64}
        return [part.astype(kinds[part.dtype.kind], copy=False) for part in self.arrays().values()]

    @cached_property
    def _survey(self):
        values = self.values
        norm = _squared_norm(values)
        if np.isfinite(norm):
            return norm, 0
        missing = np.isnan(values)
        return _squared_norm(values[~missing]), int(missing.sum())

    @cached_property
    def extent(self):
        values = self.values
        start = 0.0 if self.is_sparse else np.inf
        parts = (values[part] for part in cut(len(values), 1, BLOCK))
        is_whole = all(((part == np.rint(part)) | np.isnan(part)).all() for part in parts)
        least = np.fmin.reduce(values, initial=start)
        return Extent(float(least), float(np.fmax.reduce(values, initial=-start)), is_whole)

    def fillable(self):
        if not self.n_missing:
            return self
        filled = self.with_missing(np.float64(0))
        filled.unfilled = self
        return filled

    @cached_property
    def stored_gaps(self) -> Any:
        """Where the missing entries are stored."""
        return np.nonzero(np.isnan(self.stored))

    def fill(self, values):
        self.stored[self.unfilled.stored_gaps] = values

    def sums_of_rows(self):
        return self.fillable().times_memberships(np.ones((1, self.shape[1])))[0]

    def sums_of_columns(self) -> np.ndarray:
        """sum_i x_ij of every sample."""
        return np.asarray(self.fillable().array.sum(axis=0, dtype=float))

    def __truediv__(self, number: float) -> InMemory:
        return type(self)((self.array / number).astype(self.dtype, copy=False))


class Dense(InMemory):
    """A NumPy array of float64 or float32."""

    @property
    def stored(self):
        return self.array

    @cached_property
    def places(self):
        return self.stored_gaps

    def with_missing(self, values):
        return Dense(np.where(np.isnan(self.array), values, self.array))

    # A large matrix is cut along its longer side.  Along it one product has parts that do not touch
    # each other, and the other has parts of the size of the small factor, which are added in order.

    def times_memberships(self, h):
        x = self.array
        if x.shape[1] >= x.shape[0]:
            return reduce(np.add, self._each(lambda a, b: _product(h[:, a:b], x[:, a:b].T), h))
        return _joined(self._each(lambda a, b: _product(h, x[a:b].T), h))

    def times_components(self, wt):
        x = self.array
        if x.shape[1] >= x.shape[0]:
            return _joined(self._each(lambda a, b: _product(wt, x[:, a:b]), wt))
        return reduce(np.add, self._each(lambda a, b: _product(wt[:, a:b], x[a:b]), wt))

    def _each(self, function, factor):
        work = self.array.size * len(factor) / BLAS_GAIN
        return threads.each(function, threads.parts(max(self.shape), work))

    def squares(self, base, of_rows, of_columns):
        from bjmd.numerics import moments  # compiled code, which few callers need

        return moments.weighted_squares(self.array, base, of_rows, of_columns)

    def columns(self, part):
        return self.array[:, part].astype(float, copy=False)

    def where(self, test):
        return scipy.sparse.csc_array(test(self.array))

    def without(self, hidden):
        array = self.array.copy()
        array[hidden.nonzero()] = np.nan
        return Dense(array)

    def arrays(self):
        return {"dense": self.array}


class Sparse(InMemory):
    """A CSC matrix of float64 or float32; a NaN that it stores is a missing entry."""

    is_sparse = True

    @property
    def stored(self):
        return self.array.data

    def with_missing(self, values):
        x = self.array
        data = np.where(np.isnan(x.data), values, x.data)
        return Sparse(scipy.sparse.csc_array((data, x.indices, x.indptr), shape=x.shape))

    def times_memberships(self, h):
        return np.ascontiguousarray(
            reduce(np.add, self._each(lambda x, a, b: x @ h[:, a:b].T, h)).T
        )

    def times_components(self, wt):
        w = np.ascontiguousarray(wt.T)
        return _joined(self._each(lambda x, a, b: np.ascontiguousarray((x.T @ w).T), wt))

    def _each(self, function, factor):
        ranges = threads.parts(self.shape[1], self.array.nnz * len(factor))
        return threads.each(lambda a, b: function(self._samples(a, b), a, b), ranges)

    def _samples(self, first, last):
        """Some columns as float64; of float64 data only the starts are copied.

        SciPy would convert the whole of a float32 matrix for every product.
        """
        x = self.array
        if (first, last) == (0, x.shape[1]):
            return x.astype(float, copy=False)
        begin = x.indptr[first]
        end = x.indptr[last]
        part = scipy.sparse.csc_array((x.shape[0], last - first))  # given parts, it would copy them
        part.data = x.data[begin:end].astype(float, copy=False)
        part.indices = x.indices[begin:end]
        part.indptr = x.indptr[first : last + 1] - begin
        return part

    def squares(self, base, of_rows, of_columns):
        from bjmd.numerics import moments

        x = self.array
        if self.n_missing:
            x = self.with_missing(base[x.indices]).array
        # sum over the stored entries of (x - base)^2 - base^2, and base^2 for all
        rows, columns = moments.stored_squares(
            x.data, x.indices, x.indptr, base, of_rows, of_columns
        )
        return rows + base**2 * of_columns.sum(), columns + base**2 @ of_rows

    def columns(self, part):
        return self.array[:, part].toarray().astype(float, copy=False)

    def where(self, test):
        x = self.array
        passed = scipy.sparse.csc_array((test(x.data), x.indices, x.indptr), x.shape, copy=True)
        passed.eliminate_zeros()
        return passed

    def without(self, hidden):
        unknown = np.full(hidden.nnz, np.nan, dtype=self.dtype), hidden.indices, hidden.indptr
        return Sparse(self.array + scipy.sparse.csc_array(unknown, shape=self.shape))

    def arrays(self):
        return {name: getattr(self.array, name) for name in ("data", "indices", "indptr")}


def cut(length: int, width: int, size: int) -> list[slice]:
    """Slices of a range, so that about `size` numbers hold `width` for each place in one."""
    step = max(1, size // width)
    return [slice(first, min(first + step, length)) for first in range(0, length, step)]


def as_matrix(x: Any, name: str = "matrix") -> Any:
    """The `Matrix` of an array, a sparse matrix, or what is to be streamed; no needless copies."""
    if hasattr(x, "chunks"):
        kind = f"{type(x).__module__.partition('.')[0]} {type(x).__name__}"
        raise InputError(
            f"source {name!r} is a {kind}, which is not read piece by piece; load it with "
            "numpy.asarray(x) or adata.to_memory(), or keep the data in an AnnData file on disk or "
            "a memory-mapped .npy file (docs/large.md)"
        )
    is_sparse = scipy.sparse.issparse(x)
    if not is_sparse and not isinstance(x, Matrix):
        x = np.asarray(x)
    if x.dtype.kind not in "biuf":
        content = "text" if x.dtype.kind in "US" else f"{x.dtype} values"
        raise InputError(f"source {name!r} holds {content}; it must hold real numbers only")
    if len(x.shape) != 2:
        raise InputError(
            f"source {name!r} has {len(x.shape)} dimensions; it must be a features x samples matrix"
        )
    if 0 in x.shape:
        shape = " x ".join(map(str, x.shape))
        raise InputError(f"source {name!r} is empty ({shape}); remove it or check its file")
    if isinstance(x, Matrix):
        return x
    if is_sparse:
        require_sound_sparse(x, f"source {name!r}")
        return Sparse(as_floats(_canonical(x)))
    if mapped_file(x)[0] is not None:
        from bjmd.data.streamed import Mapped

        return Mapped(x)
    # BLAS rounds differently in another memory order, and equal data should give equal bits
    return Dense(np.ascontiguousarray(as_floats(x)))


def as_floats(x: Any) -> Any:
    """The same as float32 if it is that, else as float64."""
    single = x.dtype.newbyteorder("=") == np.float32
    return x.astype(np.float32 if single else np.float64, copy=False)


def from_arrays(arrays: dict[str, np.ndarray], shape: tuple[int, int]) -> Any:
    """The array or CSC matrix whose parts `arrays` gave."""
    if "dense" in arrays:
        return arrays["dense"]
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    return scipy.sparse.csc_array(parts, shape=shape)


def side_by_side(matrices: Sequence[Any]) -> Any:
    """All samples of several matrices in memory as one."""
    if any(x.is_sparse for x in matrices):
        return Sparse(scipy.sparse.hstack([x.array for x in matrices], format="csc"))
    return Dense(np.hstack([x.array for x in matrices]))


def residual_sum_of_squares(squared_norm, gram, projection, h):
    """||X - WH||^2 = ||X||^2 - 2 <W'X, H> + <W'W, HH'>, given W'W and W'X: no M x N residual."""
    value = squared_norm - 2 * np.vdot(projection, h) + np.vdot(gram, h @ h.T)
    return max(value, 0.0)  # rounding may cross zero where the fit is perfect


def require_sound_sparse(x: Any, what: str) -> None:
    """Refuse indices outside what is sparse, and a size that would fill memory."""
    if not scipy.sparse.issparse(x):
        return
    try:
        if max(x.shape) >= 1_000_000 and 1000 * x.nnz < max(x.shape):
            raise ValueError(f"its size is {x.shape[0]} x {x.shape[1]}, its entries are {x.nnz}")
        if x.format in ("csr", "csc", "bsr"):
            x.check_format(full_check=True)
            # SciPy overlooks a pointer that falls where the last one is not positive
            if (np.diff(x.indptr) < 0).any():
                raise ValueError("an index pointer falls")
    except ValueError as error:
        raise InputError(f"{what} is a damaged sparse matrix ({error}); write it again") from None


def mapped_file(x: Any) -> tuple[Any, str | None]:
    """The mapped file behind an array or a view of one, and its mode; None and None in memory."""
    mode = None
    while isinstance(x, np.ndarray):
        mode = getattr(x, "mode", mode)
        x = x.base
    return (x, mode) if isinstance(x, mmap.mmap) else (None, None)


def _canonical(x):
    """A CSC matrix that stores every entry once, with 32-bit indices where these suffice.

    scikit-learn takes no others.
    """
    x = scipy.sparse.csc_array(x)
    if max(*x.shape, x.nnz) <= np.iinfo(np.int32).max:
        indices, indptr = (part.astype(np.int32, copy=False) for part in (x.indices, x.indptr))
        x = scipy.sparse.csc_array((x.data, indices, indptr), shape=x.shape)
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()  # parts of an entry would be squared one by one
    return x


def _product(factor, x):
    """factor @ x in float64."""
    if x.dtype == np.float64:
        return factor @ x
    total = np.zeros((len(factor), x.shape[1]))
    for rows in cut(len(x), x.shape[1], BLOCK):
        total += factor[:, rows] @ x[rows].astype(float)
    return total


def _squared_norm(values):
    if values.dtype == np.float64:
        return float(np.vdot(values, values))
    return float(np.einsum("i,i->", values, values, dtype=float))


def _joined(blocks):
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)
