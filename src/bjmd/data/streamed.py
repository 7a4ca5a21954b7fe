"""Matrices that are never loaded: memory-mapped files, and dask arrays whose chunks may lie on
several machines.

Matrices of AnnData files that stay on disk are in on_disk.py.

Every answer is put together from those of blocks, each of which is a matrix in memory while it is
asked.  Sums over blocks go in a fixed order: neither the number of threads nor that of workers
changes a bit of the result.  Where entries are missing is kept in memory.
"""

from __future__ import annotations

import copy
import mmap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.matrix import Dense, Extent, Matrix, Sparse, as_floats, as_matrix, mapped_file
from bjmd.errors import InputError, problems_as_sentences
from bjmd.numerics import threads

BLOCK_ENTRIES = 2**23
"""Entries of a file that are read at once: 64 MB as float64."""
MOST_COMPRESSED = 2000
ALWAYS_FITS = 2**28
"""No compression that anndata uses makes bytes fewer by more than the first; an array of fewer
bytes than the second is read whatever its size in the file.
"""


def streamed(x, name):
    """A memory-mapped array, a dask array, or an array of h5py or zarr as a `Matrix`."""
    if isinstance(x, np.ndarray):
        return Mapped(x)
    try:
        import dask.array
    except ImportError:
        kind = f"{type(x).__module__}.{type(x).__name__}"
        raise InputError(
            f"source {name!r} is a {kind}, which needs dask: pip install 'dask[array,distributed]'"
        ) from None
    if not isinstance(x, dask.array.Array):
        with problems_as_sentences(f"source {name!r}", "all in its file"):
            require_whole(x)
        x = dask.array.from_array(x)
    return Chunked(x, name)


def require_whole(stored):
    """Refuse arrays whose numbers are not all in their file, or are more than it can hold."""
    if hasattr(stored, "keys"):
        for name in stored:
            part = stored[name]
            if hasattr(part, "file") and part.file.filename != stored.file.filename:
                raise ValueError(f"{name} lies in another file")
            require_whole(part)
    elif hasattr(stored, "nchunks_initialized"):
        n_lost = stored.nchunks - stored.nchunks_initialized
        if n_lost:
            raise ValueError(
                f"{stored.name} lacks {n_lost} of its {stored.nchunks} chunks: they are lost, or "
                "have only zeros, which zarr writes with array.write_empty_chunks"
            )
    elif hasattr(stored, "is_virtual"):
        if stored.is_virtual or stored.external:
            raise ValueError(f"the numbers of {stored.name} lie in another file")
        n_bytes = (stored.size or 0) * stored.dtype.itemsize
        n_stored = stored.id.get_storage_size()
        if n_bytes > max(ALWAYS_FITS, MOST_COMPRESSED * n_stored):
            raise ValueError(f"{stored.name} promises {n_bytes} bytes and has {n_stored}")


class Streamed(Matrix):
    """A matrix that is read block by block for every answer."""

    in_memory = False
    gaps: Any = None
    """A `Sparse` with what `fill` put into the missing entries, which count as 0 in the data."""

    def __init__(self, shape, dtype, divisor=1.0):
        self.shape = shape
        self.dtype = dtype
        self.divisor = divisor

    @property
    def raw(self):
        return self

    def blocks(self) -> Iterator[tuple[slice, slice, Any]]:
        """Rows and columns, and the matrix in memory that is there, piece by piece."""
        raise NotImplementedError

    def scaled(self, block):
        """A block of the stored numbers, divided."""
        return block if self.divisor == 1 else block / self.divisor

    def answers(self, ask, arguments=lambda rows, columns: ()):
        """Rows and columns of every block, and ask(block, *arguments(rows, columns))."""
        for rows, columns, block in self.blocks():
            yield rows, columns, ask(block, *arguments(rows, columns))

    @cached_property
    def _survey(self):
        surveys = [survey for *_, survey in self.answers(lambda block: block._survey)]
        return sum(norm for norm, _ in surveys), sum(n_missing for _, n_missing in surveys)

    @cached_property
    def extent(self):
        return Extent.of_all(extent for *_, extent in self.answers(lambda block: block.extent))

    def fillable(self):
        if not self.n_missing:
            return self
        with_gaps = copy.copy(self)
        with_gaps.gaps = Sparse(0.0 * self.missing)
        return with_gaps

    def fill(self, places, values):
        self.gaps.array.data[:] = values

    def times_memberships(self, h):
        total = np.zeros((len(h), self.shape[0]))
        parts = self.answers(
            lambda block, h: block.fillable().times_memberships(h),
            lambda rows, columns: [h[:, columns]],
        )
        for rows, _, product in parts:
            total[:, rows] += product
        return total if self.gaps is None else total + self.gaps.times_memberships(h)

    def times_components(self, wt):
        total = np.zeros((len(wt), self.shape[1]))
        parts = self.answers(
            lambda block, wt: block.fillable().times_components(wt),
            lambda rows, columns: [wt[:, rows]],
        )
        for _, columns, product in parts:
            total[:, columns] += product
        return total if self.gaps is None else total + self.gaps.times_components(wt)

    def sums_of_rows(self):
        total = np.zeros(self.shape[0])
        for rows, _, sums in self.answers(lambda block: block.sums_of_rows()):
            total[rows] += sums
        return total

    def squares(self, base, of_rows, of_columns):
        totals = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        parts = self.answers(
            lambda block, *weights: block.squares(*weights),
            lambda rows, columns: [base[rows], of_rows[rows], of_columns[columns]],
        )
        for rows, columns, squares in parts:
            totals[0][rows] += squares[0]
            totals[1][columns] += squares[1]
        return totals

    def where(self, test):
        passed = [(np.empty(0, dtype=np.int32),) * 2]
        for rows, columns, found in self.answers(lambda block: block.where(test)):
            i, j = found.tocoo().coords
            passed.append((i + np.int32(rows.start), j + np.int32(columns.start)))
        places = tuple(np.concatenate(part) for part in zip(*passed, strict=True))
        passes = np.ones(len(places[0]), dtype=bool)
        return scipy.sparse.csc_array((passes, places), shape=self.shape)

    def __array__(self, dtype=None, copy=None):
        # whatever would load the source by accident ends here
        raise InputError(
            "a source on disk or in chunks was to be loaded as a whole; if it fits into memory, "
            "load it first: without --on-disk, with adata.to_memory(), numpy.array(x), or "
            "x.compute() for dask"
        )


class Mapped(Streamed):
    """A memory-mapped array, read in the order of its file."""

    def __init__(self, array, divisor=1.0):
        super().__init__(array.shape, array.dtype, divisor)
        self.array = array.view(np.ndarray)

    def __truediv__(self, number):
        return Mapped(self.array, self.divisor * number)

    def columns(self, part):
        return self.array[:, part] / self.divisor

    def blocks(self):
        # runs are what lies together in the file: the rows in C order, the columns in Fortran order
        by_rows = abs(self.array.strides[0]) >= abs(self.array.strides[1])
        runs = self.array if by_rows else self.array.T
        n_runs, length = runs.shape
        step = max(1, BLOCK_ENTRIES // length)
        mapping, mode = mapped_file(self.array)
        everything = slice(0, length)
        for first in range(0, n_runs, step):
            here = slice(first, min(first + step, n_runs))
            values = as_floats(runs[here])
            if by_rows:
                yield here, everything, self.scaled(Dense(values))
            else:
                yield everything, here, self.scaled(Dense(values.T))
            if mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
                # pages would count as this process's memory until the system is short of it
                mapping.madvise(mmap.MADV_DONTNEED)


class Chunked(Streamed):
    """A dask array; its blocks are asked where dask runs, perhaps on workers that hold them."""

    def __init__(self, array, name, divisor=1.0):
        super().__init__(array.shape, array.dtype, divisor)
        if np.isnan(array.shape).any():
            raise InputError(
                f"source {name!r} has chunks of unknown size; call x.compute_chunk_sizes() first"
            )
        self.name = name
        self.array = array

    def __truediv__(self, number):
        return Chunked(self.array, self.name, self.divisor * number)

    def columns(self, part):
        return self.scaled(as_matrix(self.array[:, part].compute())).columns(slice(None))

    def answers(self, ask, arguments=lambda rows, columns: ()):
        import dask
        from dask.array.core import slices_from_chunks

        # chunks may be empty, and have nothing to say then
        chunks = [
            (rows, columns, chunk)
            for (rows, columns), chunk in zip(
                slices_from_chunks(self.array.chunks), self.array.to_delayed().ravel(), strict=True
            )
            if rows.start < rows.stop and columns.start < columns.stop
        ]
        answers = dask.compute(
            *(
                dask.delayed(_asked)(ask, chunk, self.divisor, arguments(rows, columns))
                for rows, columns, chunk in chunks
            )
        )
        for (rows, columns, _), answer in zip(chunks, answers, strict=True):
            yield rows, columns, answer


def _asked(ask, chunk, divisor, arguments):
    """The answer of one chunk, perhaps on a worker; dask has threads enough."""
    block = as_matrix(chunk)
    with threads.limited(1):
        return ask(block if divisor == 1 else block / divisor, *arguments)
