"""Sources larger than memory: memory-mapped files, and dask arrays whose chunks may lie on several machines.

Matrices of AnnData files that stay on disk are in on_disk.py.

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

from bjmd.errors import InputError
from bjmd_numerics import threads

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
    if getattr(x, "chunks", None) is not None or type(x).__module__.startswith("h5py"):  # HDF5, zarr
        try:
            import dask.array
        except ImportError:
            kind = f"{type(x).__module__}.{type(x).__name__}"
            raise InputError(f"source {name!r} is a {kind}, which needs dask: pip install 'bjmd[dask]'") from None
        return Chunked(dask.array.from_array(x), name)
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
    def squares_of_rows(self, base):
        """sum_j (x_ij - base_i)^2."""

    def squared_norm(self):
        """||X||^2; not finite where an entry is not."""
        return float(self.squares_of_rows(np.zeros(self.shape[0])).sum())

    @abstractmethod
    def sums_of_rows(self):
        """sum_j x_ij; in dask not as a product, whose bits depend on how many threads a worker has."""

    @abstractmethod
    def columns(self, part):
        """A slice of the samples, in memory."""

    def not_finite(self):
        """The number of samples with NaN or infinite entries, and the feature and the sample of the first."""
        bad = np.flatnonzero(~np.isfinite(self.components_times_data(np.ones((1, self.shape[0])))[0]))
        column = self.columns(slice(bad[0], bad[0] + 1)) if len(bad) else np.ones(1)
        if np.isfinite(column).all():  # finite numbers may have an infinite sum
            return 0, None
        return len(bad), (int(np.isfinite(column).argmin()), int(bad[0]))

    def __array__(self, dtype=None, copy=None):
        # whatever would load the source by accident ends here
        raise InputError(
            "a source on disk or in chunks was to be loaded as a whole; if it fits into memory, load it first: without "
            "--on-disk, with adata.to_memory(), numpy.array(x), or x.compute() for dask"
        )


class InBlocks(Streamed):
    """A source that is read block by block, from its beginning to its end, for every product."""

    @abstractmethod
    def blocks(self):
        """Rows and columns as slices, and values, dense or sparse, which the next block may overwrite."""

    def views(self, base=None):
        """Rows and columns as above, and the block from that base."""
        from bjmd.data.view import View  # which knows this module

        for rows, columns, block in self.blocks():
            yield rows, columns, View(block, 0, origin=None if base is None else base[rows])

    def data_times_memberships(self, h):
        total = np.zeros((len(h), self.shape[0]))
        for rows, columns, view in self.views():
            total[:, rows] += view.times_memberships(h[:, columns])
        return total

    def components_times_data(self, wt):
        total = np.zeros((len(wt), self.shape[1]))
        for rows, columns, view in self.views():
            total[:, columns] += view.times_components(wt[:, rows])
        return total

    def squares_of_rows(self, base):
        total = np.zeros(self.shape[0])
        for rows, _, view in self.views(base):
            total[rows] += view.squares_of_rows()
        return total

    def sums_of_rows(self):
        total = np.zeros(self.shape[0])
        for rows, _, view in self.views():
            total[rows] += view.sums_of_rows()
        return total


class Mapped(InBlocks):
    """A memory-mapped array, read in the order of its file."""

    def __init__(self, array):
        super().__init__(array.shape, array.dtype)
        self.array = array.view(np.ndarray)

    def columns(self, part):
        return self.array[:, part].astype(float)

    def blocks(self):
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
        self.multiplied = array  # sparse chunks stay sparse in the products, which are most of the work
        if scipy.sparse.issparse(array._meta):
            array = array.map_blocks(lambda block: block.toarray(), meta=np.empty((0, 0), array.dtype))
            self.array = array.astype(np.float64)
        else:
            self.array = self.multiplied = array.astype(np.float64)  # when a chunk is computed, not now

    def data_times_memberships(self, h):
        return self._summed(lambda part, x: (part @ x.T)[:, :, None], "kij", h, "kj")

    def components_times_data(self, wt):
        return self._summed(lambda part, x: (part @ x)[:, :, None], "kji", wt, "ki")

    def squares_of_rows(self, base):
        import dask.array

        centred = self.array - base[:, None]
        return dask.array.einsum("ij,ij->i", centred, centred).compute()

    def sums_of_rows(self):
        return self.array.sum(axis=1).compute()

    def columns(self, part):
        return self.array[:, part].compute()

    def _summed(self, product, places, factor, of_factor):
        """A product of the factor (K x M or K x N, cut as the source is) with x_ij by chunks, added up."""
        import dask.array

        last, both = places[2], (self.multiplied, "ij")
        cut = dask.array.from_array(factor, chunks=(len(factor), self.array.chunks["ij".index(last)]))
        how = {"adjust_chunks": {last: 1}, "dtype": float, "meta": np.empty((0, 0, 0))}
        return dask.array.blockwise(product, places, cut, of_factor, *both, **how).sum(axis=2).compute()


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

    def squares_of_rows(self, base):
        return sum(part.squares_of_rows(base) for part in self.parts)

    def sums_of_rows(self):
        return sum(part.sums_of_rows() for part in self.parts)

    def columns(self, part):
        first, last, _ = part.indices(self.shape[1])
        starts = self.ends - [x.shape[1] for x in self.parts]
        cuts = [(max(first - at, 0), min(last - at, x.shape[1])) for at, x in zip(starts, self.parts, strict=True)]
        return np.hstack([x.columns(slice(a, b)) for x, (a, b) in zip(self.parts, cuts, strict=True) if a < b])


def _mapping(x):
    """The mapped file that an array lies in, maybe as a view, and how it was opened; None and None in memory."""
    mode = None
    while isinstance(x, np.ndarray):
        mode = getattr(x, "mode", mode)
        x = x.base
    return (x, mode) if isinstance(x, mmap.mmap) else (None, None)
