"""Sources larger than memory: memory-mapped files, and dask arrays whose chunks may lie on several
machines.

Matrices of AnnData files that stay on disk are in on_disk.py.

An algorithm needs (X H')', W'X and ||X||^2 of a source and nothing else, so the source itself may
stay where it is. Numbers of any real type are turned into float64 block by block before they are
multiplied, so a source of float32 gives the results it would give in memory, and no M x N array of
float64 is ever made.

Sums over blocks go in a fixed order: neither the number of threads nor that of workers changes a
bit of the result.

NaN is a missing entry and counts as 0 in products and sums.  Where the missing entries are is kept
in memory.
"""

import copy
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
    if getattr(x, "chunks", None) is not None or type(x).__module__.startswith(
        "h5py"
    ):  # HDF5, zarr
        try:
            import dask.array
        except ImportError:
            kind = f"{type(x).__module__}.{type(x).__name__}"
            raise InputError(
                f"source {name!r} is a {kind}, which needs dask: pip install 'bjmd[dask]'"
            ) from None
        return Chunked(dask.array.from_array(x), name)
    return None


class Streamed(ABC):
    """A features x samples matrix that shows its two products and its squared norm, never itself."""

    missing: scipy.sparse.csc_array | None = None
    """Where it is NaN, once that is known (`observed`)."""

    def __init__(self, shape, dtype):
        self.shape = shape
        self.ndim = len(shape)
        self.dtype = dtype

    def observed(self, missing):
        """The same matrix with some entries missing."""
        known = copy.copy(self)
        known.missing = missing
        return known

    @abstractmethod
    def data_times_memberships(self, h):
        """(X H')': K x M."""

    @abstractmethod
    def components_times_data(self, wt):
        """W'X, given W' (K x M): K x N."""

    @abstractmethod
    def squared_norm(self):
        """||X||^2 of the observed entries; not finite where an entry is not."""

    @abstractmethod
    def squares_of_rows(self, base):
        """sum_j (x_ij - base_i)^2 over the observed entries."""

    @abstractmethod
    def sums_of_rows(self):
        """sum_j x_ij; in dask not as a product, whose bits depend on how many threads a worker has."""

    @abstractmethod
    def columns(self, part):
        """A slice of the samples, in memory."""

    @abstractmethod
    def blocks(self):
        """Rows and columns as slices, and values, dense or sparse, which the next block may
        overwrite.

        Where entries are known to be missing the values are a copy, which may be changed.
        """

    def where(self, test):
        """Where its entries pass a test that 0 does not: a sparse boolean matrix (CSC)."""
        rows = [np.empty(0, dtype=np.int32)]
        columns = [np.empty(0, dtype=np.int32)]
        for of_rows, of_columns, block in self.blocks():
            if scipy.sparse.issparse(block):
                block = block.tocoo()
                at = tuple(places[test(block.data)] for places in block.coords)
            else:
                at = np.nonzero(test(block))
            rows.append((at[0] + of_rows.start).astype(np.int32))
            columns.append((at[1] + of_columns.start).astype(np.int32))
        places = np.concatenate(rows), np.concatenate(columns)
        return scipy.sparse.csc_array(
            (np.ones(len(places[0]), dtype=bool), places), shape=self.shape
        )

    def __array__(self, dtype=None, copy=None):
        # whatever would load the source by accident ends here
        raise InputError(
            "a source on disk or in chunks was to be loaded as a whole; if it fits into memory, load it first: without "
            "--on-disk, with adata.to_memory(), numpy.array(x), or x.compute() for dask"
        )


class InBlocks(Streamed):
    """A source that is read block by block, from its beginning to its end, for every product."""

    def squared_norm(self):
        total = 0.0
        for *_, block in self.blocks():
            values = block.data if scipy.sparse.issparse(block) else block
            total += dense.squared_norm(
                values if self.missing is None else values[~np.isnan(values)]
            )
        return total

    def views(self, base=None):
        """Rows and columns as above, and the block from that base."""
        from bjmd.data.view import View  # which knows this module

        for rows, columns, block in self.blocks():
            base_of_rows = None if base is None else base[rows]
            if self.missing is not None:
                _fill(block, base_of_rows)
            yield rows, columns, View(block, 0, origin=base_of_rows)

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


def _fill(block, base):
    """Put the base of its row, or 0, where a block is NaN."""
    base = np.zeros(block.shape[0]) if base is None else base
    if scipy.sparse.issparse(block):
        # float32 would round the base
        at = np.isnan(block.data)
        block.data = block.data.astype(float, copy=False)
        block.data[at] = base[block.indices[at]]
        return
    parts = threads.parts(len(block), 4 * block.size)
    threads.each(
        lambda a, b: np.copyto(block[a:b], base[a:b, None], where=np.isnan(block[a:b])), parts
    )


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
        as_they_are = runs.dtype == np.float64 and self.missing is None
        buffer = None if as_they_are else np.empty((step, length))
        mapping, mode = _mapping(self.array)
        for first in range(0, n_runs, step):
            values = runs[first : first + step]
            if buffer is not None:
                values = _copied(values, buffer[: len(values)])
            here = slice(first, first + len(values))
            everything = slice(0, length)
            yield (here, everything, values) if by_rows else (everything, here, values.T)
            if mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
                # else the pages read so far would count as this process's memory until the system
                # is short of it
                mapping.madvise(mmap.MADV_DONTNEED)


def _copied(values, buffer):
    threads.each(
        lambda a, b: np.copyto(buffer[a:b], values[a:b]),
        threads.parts(len(values), 4 * values.size),
    )
    return buffer


class Chunked(Streamed):
    """A dask array; its products run wherever dask runs, on the workers that hold the chunks if
    there are such.
    """

    def __init__(self, array, name):
        super().__init__(array.shape, array.dtype)
        if np.isnan(array.shape).any():
            raise InputError(
                f"source {name!r} has chunks of unknown size; call x.compute_chunk_sizes() first"
            )
        self.multiplied = (
            array  # sparse chunks stay sparse in the products, which are most of the work
        )
        if scipy.sparse.issparse(array._meta):
            array = array.map_blocks(
                lambda block: block.toarray(), meta=np.empty((0, 0), array.dtype)
            )
            self.array = array.astype(np.float64)
        else:
            self.array = self.multiplied = array.astype(
                np.float64
            )  # when a chunk is computed, not now

    def observed(self, missing):
        def without_nan(chunk):  # in here, it reaches workers that have no bjmd
            if not scipy.sparse.issparse(chunk):
                return np.where(np.isnan(chunk), 0.0, chunk)
            chunk = chunk.copy()
            chunk.sum_duplicates()
            chunk.data[np.isnan(chunk.data)] = 0.0
            return chunk

        known = super().observed(missing)
        known.multiplied = self.multiplied.map_blocks(without_nan, meta=self.multiplied._meta)
        return known

    def data_times_memberships(self, h):
        return self._summed(lambda part, x: (part @ x.T)[:, :, None], "kij", h, "kj")

    def components_times_data(self, wt):
        return self._summed(lambda part, x: (part @ x)[:, :, None], "kji", wt, "ki")

    def squared_norm(self):
        return float(self.squares_of_rows(np.zeros(self.shape[0])).sum())

    def squares_of_rows(self, base):
        import dask.array

        centred = self.array - base[:, None]
        centred = (
            centred
            if self.missing is None
            else dask.array.where(dask.array.isnan(centred), 0.0, centred)
        )
        return dask.array.einsum("ij,ij->i", centred, centred).compute()

    def sums_of_rows(self):
        import dask.array

        total = dask.array.sum if self.missing is None else dask.array.nansum
        return total(self.array, axis=1).compute()

    def columns(self, part):
        return self.array[:, part].compute()

    def blocks(self):
        rows, columns = (
            [slice(b - n, b) for n, b in zip(c, np.cumsum(c), strict=True)]
            for c in self.array.chunks
        )
        for i, j in np.ndindex(self.array.numblocks):
            yield rows[i], columns[j], self.array.blocks[i, j].compute()

    def _summed(self, product, places, factor, of_factor):
        """A product of the factor (K x M or K x N, cut as the source is) with x_ij by chunks, added
        up.
        """
        import dask.array

        last = places[2]
        both = (self.multiplied, "ij")
        cut = dask.array.from_array(
            factor, chunks=(len(factor), self.array.chunks["ij".index(last)])
        )
        how = {"adjust_chunks": {last: 1}, "dtype": float, "meta": np.empty((0, 0, 0))}
        return (
            dask.array.blockwise(product, places, cut, of_factor, *both, **how)
            .sum(axis=2)
            .compute()
        )


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
        super().__init__(
            (self.parts[0].shape[0], int(self.ends[-1])),
            np.result_type(*(x.dtype for x in self.parts)),
        )
        if any(x.missing is not None for x in self.parts):
            self.missing = scipy.sparse.hstack(
                [x.where(np.isnan) for x in self.parts], format="csc"
            )

    def observed(self, missing):
        known = super().observed(missing)
        starts = [0, *self.ends]
        each = zip(self.parts, starts[:-1], starts[1:], strict=True)
        known.parts = [part.observed(missing[:, first:last]) for part, first, last in each]
        return known

    def blocks(self):
        for part, end in zip(self.parts, self.ends, strict=True):
            first = int(end) - part.shape[1]
            for rows, columns, block in part.blocks():
                yield rows, slice(columns.start + first, columns.stop + first), block

    def data_times_memberships(self, h):
        pieces = np.split(h, self.ends[:-1], axis=1)
        return sum(
            part.data_times_memberships(piece)
            for part, piece in zip(self.parts, pieces, strict=True)
        )

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
        cuts = [
            (max(first - at, 0), min(last - at, x.shape[1]))
            for at, x in zip(starts, self.parts, strict=True)
        ]
        return np.hstack(
            [x.columns(slice(a, b)) for x, (a, b) in zip(self.parts, cuts, strict=True) if a < b]
        )


def _mapping(x):
    """The mapped file that an array lies in, maybe as a view, and how it was opened; None and None
    in memory.
    """
    mode = None
    while isinstance(x, np.ndarray):
        mode = getattr(x, "mode", mode)
        x = x.base
    return (x, mode) if isinstance(x, mmap.mmap) else (None, None)
