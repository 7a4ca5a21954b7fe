"""Sources larger than memory: memory-mapped files, and dask arrays whose chunks may lie on several machines.

An algorithm needs (X H')', W'X and ||X||^2 of a source and nothing else, so the source itself may stay where it is.
Numbers of any real type are turned into float64 block by block before they are multiplied, so a source of float32
gives the results it would give in memory, and no M x N array of float64 is ever made.

Sums over blocks go in a fixed order: neither the number of threads nor that of workers changes a bit of the result.
"""

import mmap
import sys
from abc import ABC, abstractmethod

import numpy as np
import scipy.sparse

from bjmd.data import dense
from bjmd.errors import InputError
from bjmd.numerics import threads

BLOCK_ENTRIES = 2**23
"""Entries of a memory-mapped source that are read at once: 64 MB as float64."""


def streamed(x, name):
    """The matrix as a Streamed where it is memory-mapped or a dask array, else None."""
    if isinstance(x, Streamed):
        return x
    dask_array = sys.modules.get("dask.array")  # who has a dask array has imported it
    if dask_array is not None and isinstance(x, dask_array.Array):
        return Chunked(x, name)
    if isinstance(x, np.ndarray) and _mapping(x)[0] is not None:
        return Mapped(x)
    if getattr(x, "chunks", None) is not None:
        raise InputError(
            f"source {name!r} is a chunked {type(x).__module__}.{type(x).__name__}, which would be loaded as a whole; "
            "wrap it as dask.array.from_array(x), or load it with numpy.asarray(x)"
        )
    return None


class Streamed(ABC):
    """A features x samples matrix that shows its two products and its squared norm, never itself."""

    def __init__(self, shape, dtype):
        self.shape, self.ndim, self.dtype = shape, len(shape), dtype

    @abstractmethod
    def data_times_memberships(self, h):
        """(X H')': K x M."""

    @abstractmethod
    def components_times_data(self, wt):
        """W'X, given W' (K x M): K x N."""

    @abstractmethod
    def squared_norm(self):
        """||X||^2; not finite where an entry is not."""

    @abstractmethod
    def squares_of_rows(self, base):
        """sum_j (x_ij - base_i)^2."""

    @abstractmethod
    def sums_of_rows(self):
        """sum_j x_ij; not as a product, whose bits depend on how many threads a worker has."""

    @abstractmethod
    def columns(self, part):
        """A slice of the samples, in memory."""

    @abstractmethod
    def not_finite(self):
        """The number of NaN or infinite entries, and the feature and the sample of the first, row by row."""

    def __array__(self, dtype=None, copy=None):
        # whatever would load the source by accident ends here
        raise InputError(
            "a memory-mapped or chunked source was to be loaded as a whole; if it fits into memory, load it before "
            "Sources is made: numpy.array(x), or x.compute() for dask"
        )


class Mapped(Streamed):
    """A memory-mapped array, read from the beginning to the end of its file for every product."""

    def __init__(self, array):
        super().__init__(array.shape, array.dtype)
        self.array = array.view(np.ndarray)

    def data_times_memberships(self, h):
        total = np.zeros((len(h), self.shape[0]))
        for rows, columns, block in self._blocks():
            total[:, rows] += dense.data_times_memberships(block, h[:, columns])
        return total

    def components_times_data(self, wt):
        total = np.zeros((len(wt), self.shape[1]))
        for rows, columns, block in self._blocks():
            total[:, columns] += dense.components_times_data(wt[:, rows], block)
        return total

    def squared_norm(self):
        return float(sum(np.einsum("ij,ij->", block, block) for *_, block in self._blocks()))

    def squares_of_rows(self, base):
        total = np.zeros(self.shape[0])
        for rows, _, block in self._blocks():
            step = max(1, 2**18 // len(block))  # a copy of the whole block would double the memory
            for first in range(0, block.shape[1], step):
                piece = block[:, first : first + step] - base[rows, None]
                total[rows] += np.einsum("ij,ij->i", piece, piece)
        return total

    def sums_of_rows(self):
        total = np.zeros(self.shape[0])
        for rows, _, block in self._blocks():
            total[rows] += block.sum(axis=1)
        return total

    def columns(self, part):
        return self.array[:, part].astype(float)

    def not_finite(self):
        count, first = 0, None
        for rows, columns, block in self._blocks():
            bad = np.argwhere(~np.isfinite(block))
            if len(bad):
                place = (rows.start + int(bad[0, 0]), columns.start + int(bad[0, 1]))
                count, first = count + len(bad), min(first or place, place)
        return count, first

    def _blocks(self):
        """Rows, columns and float64 values of block after block; the values are overwritten by the next block's."""
        # runs are what lies together in the file: the rows in C order, the columns in Fortran order
        by_rows = abs(self.array.strides[0]) >= abs(self.array.strides[1])
        runs = self.array if by_rows else self.array.T
        n_runs, length = runs.shape
        step = min(n_runs, max(1, BLOCK_ENTRIES // length))
        buffer = None if runs.dtype == np.float64 else np.empty((step, length))
        mapping, mode = _mapping(self.array)
        for first in range(0, n_runs, step):
            values = runs[first : first + step]
            if buffer is not None:
                values = _copied(values, buffer[: len(values)])
            here, everything = slice(first, first + len(values)), slice(0, length)
            yield (here, everything, values) if by_rows else (everything, here, values.T)
            if mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
                # else the pages read so far would count as this process's memory until the system is short of it
                mapping.madvise(mmap.MADV_DONTNEED)


def _copied(values, buffer):
    threads.each(lambda a, b: np.copyto(buffer[a:b], values[a:b]), threads.parts(len(values), 4 * values.size))
    return buffer


class Chunked(Streamed):
    """A dask array; its products run wherever dask runs, on the workers that hold the chunks if there are such."""

    def __init__(self, array, name):
        super().__init__(array.shape, array.dtype)
        if np.isnan(array.shape).any():
            raise InputError(f"source {name!r} has chunks of unknown size; call x.compute_chunk_sizes() first")
        if scipy.sparse.issparse(array._meta):
            array = array.map_blocks(lambda block: block.toarray(), meta=np.empty((0, 0), array.dtype))
        self.array = array.astype(np.float64)  # when a chunk is computed, not now

    def data_times_memberships(self, h):
        return (self._chunked_alike(h, axis=1) @ self.array.T).compute()

    def components_times_data(self, wt):
        return (self._chunked_alike(wt, axis=0) @ self.array).compute()

    def squared_norm(self):
        import dask.array

        return float(dask.array.einsum("ij,ij->", self.array, self.array).compute())

    def squares_of_rows(self, base):
        return ((self.array - base[:, None]) ** 2).sum(axis=1).compute()

    def sums_of_rows(self):
        return self.array.sum(axis=1).compute()

    def columns(self, part):
        return self.array[:, part].compute()

    def not_finite(self):
        import dask.array

        bad = ~dask.array.isfinite(self.array)
        counts = bad.sum(axis=1).compute()
        row = int((counts > 0).argmax())
        return int(counts.sum()), (row, int(bad[row].compute().argmax()))

    def _chunked_alike(self, factor, axis):
        """The K x M or K x N factor, cut as that axis of the source is."""
        import dask.array

        return dask.array.from_array(factor, chunks=(len(factor), self.array.chunks[axis]))


class SideBySide(Streamed):
    """Several sources next to each other as one, with nothing copied."""

    def __init__(self, matrices):
        if any(scipy.sparse.issparse(x) for x in matrices):
            raise InputError(
                "sparse sources cannot be put side by side with memory-mapped or chunked ones; load all of them, or "
                "use a method that keeps sources apart, such as map-bjmd or cavi-bjmd"
            )
        self.parts = [x if isinstance(x, Streamed) else Mapped(x) for x in matrices]
        self.ends = np.cumsum([part.shape[1] for part in self.parts])
        super().__init__((self.parts[0].shape[0], int(self.ends[-1])), np.result_type(*(x.dtype for x in self.parts)))

    def data_times_memberships(self, h):
        pieces = np.split(h, self.ends[:-1], axis=1)
        return sum(part.data_times_memberships(piece) for part, piece in zip(self.parts, pieces, strict=True))

    def components_times_data(self, wt):
        return np.hstack([part.components_times_data(wt) for part in self.parts])

    def squared_norm(self):
        return sum(part.squared_norm() for part in self.parts)

    def squares_of_rows(self, base):
        return sum(part.squares_of_rows(base) for part in self.parts)

    def sums_of_rows(self):
        return sum(part.sums_of_rows() for part in self.parts)

    def columns(self, part):
        first, last, _ = part.indices(self.shape[1])
        starts = self.ends - [x.shape[1] for x in self.parts]
        cuts = [(max(first - at, 0), min(last - at, x.shape[1])) for at, x in zip(starts, self.parts, strict=True)]
        return np.hstack([x.columns(slice(a, b)) for x, (a, b) in zip(self.parts, cuts, strict=True) if a < b])

    def not_finite(self):
        starts = self.ends - [part.shape[1] for part in self.parts]
        found = [(*part.not_finite(), start) for part, start in zip(self.parts, starts, strict=True)]
        places = [(first[0], int(start) + first[1]) for count, first, start in found if count]
        return sum(count for count, *_ in found), min(places, default=None)


def _mapping(x):
    """The mapped file that an array lies in, maybe as a view, and how it was opened; None and None in memory."""
    mode = None
    while isinstance(x, np.ndarray):
        mode = getattr(x, "mode", mode)
        x = x.base
    return (x, mode) if isinstance(x, mmap.mmap) else (None, None)
