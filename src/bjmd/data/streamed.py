"""Matrices that are never loaded: memory-mapped files, and dask arrays whose chunks may lie on
several machines.

Matrices of AnnData files that stay on disk are in on_disk.py.

Numbers of any real type become float64 block by block before they are multiplied, so a source of
float32 gives the results it would give in memory, and no M x N array of float64 is ever made.
Sums over blocks go in a fixed order: neither the number of threads nor that of workers changes a
bit of the result.  Where entries are missing is kept in memory.
"""

from __future__ import annotations

import copy
import mmap
from abc import abstractmethod
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.matrix import Dense, Matrix, Sparse, mapped_file
from bjmd.errors import InputError

BLOCK_ENTRIES = 2**23
"""Entries of a file that are read at once: 64 MB as float64."""


def streamed(x, name):
    """A memory-mapped array, a dask array, or an array of h5py or zarr as a `Matrix`."""
    if isinstance(x, np.ndarray):
        return Mapped(x)
    try:
        import dask.array
    except ImportError:
        kind = f"{type(x).__module__}.{type(x).__name__}"
        raise InputError(
            f"source {name!r} is a {kind}, which needs dask: pip install 'bjmd[dask]'"
        ) from None
    return Chunked(x if isinstance(x, dask.array.Array) else dask.array.from_array(x), name)


class Streamed(Matrix):
    """A matrix that is read piece by piece for every answer."""

    in_memory = False
    gaps: Any = None
    """A `Sparse` with what `fill` put into the missing entries, which count as 0 in the data."""

    def __init__(self, shape, dtype):
        self.shape = shape
        self.dtype = dtype

    @property
    def raw(self):
        return self

    def fillable(self):
        if not self.n_missing:
            return self
        with_gaps = copy.copy(self)
        with_gaps.gaps = Sparse(0.0 * self.missing)
        return with_gaps

    def fill(self, places, values):
        self.gaps.array.data[:] = values

    def times_memberships(self, h):
        product = self._times_memberships(h)
        return product if self.gaps is None else product + self.gaps.times_memberships(h)

    def times_components(self, wt):
        product = self._times_components(wt)
        return product if self.gaps is None else product + self.gaps.times_components(wt)

    @abstractmethod
    def _times_memberships(self, h):
        """The product with 0 in place of what is missing."""

    @abstractmethod
    def _times_components(self, wt):
        """The product with 0 in place of what is missing."""

    @abstractmethod
    def blocks(self):
        """Rows and columns as slices, and the `Matrix` that is there, piece by piece."""

    def where(self, test):
        passed = [(np.empty(0, dtype=np.int32),) * 2]
        for rows, columns, block in self.blocks():
            i, j = block.where(test).tocoo().coords
            passed.append((i + np.int32(rows.start), j + np.int32(columns.start)))
        places = tuple(np.concatenate(part) for part in zip(*passed, strict=True))
        passes = np.ones(len(places[0]), dtype=bool)
        return scipy.sparse.csc_array((passes, places), shape=self.shape)

    def numbers(self):
        for *_, block in self.blocks():
            yield from block.numbers()

    def __array__(self, dtype=None, copy=None):
        # whatever would load the source by accident ends here
        raise InputError(
            "a source on disk or in chunks was to be loaded as a whole; if it fits into memory, "
            "load it first: without --on-disk, with adata.to_memory(), numpy.array(x), or "
            "x.compute() for dask"
        )


class InBlocks(Streamed):
    """A matrix that is read block by block, from its beginning to its end, for every product."""

    divisor = np.float64(1)

    def __truediv__(self, number):
        return self._changed(divisor=np.float64(self.divisor * number))

    def _changed(self, **attributes):
        """A copy with other attributes, of whose entries nothing is known yet."""
        changed = copy.copy(self)
        for known in ("_survey", "missing", "places", "counts_of_rows", "counts_of_columns"):
            vars(changed).pop(known, None)
        vars(changed).update(attributes)
        return changed

    @cached_property
    def _survey(self):
        surveys = [block._survey for *_, block in self.blocks()]
        return sum(norm for norm, _ in surveys), sum(n_missing for _, n_missing in surveys)

    def _complete_blocks(self):
        for rows, columns, block in self.blocks():
            yield rows, columns, block.fillable() if self.n_missing else block

    def _times_memberships(self, h):
        total = np.zeros((len(h), self.shape[0]))
        for rows, columns, block in self._complete_blocks():
            total[:, rows] += block.times_memberships(h[:, columns])
        return total

    def _times_components(self, wt):
        total = np.zeros((len(wt), self.shape[1]))
        for rows, columns, block in self._complete_blocks():
            total[:, columns] += block.times_components(wt[:, rows])
        return total

    def sums_of_rows(self):
        total = np.zeros(self.shape[0])
        for rows, _, block in self._complete_blocks():
            total[rows] += block.sums_of_rows()
        return total

    def squares(self, base, of_rows, of_columns):
        totals = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        for rows, columns, block in self.blocks():
            parts = block.squares(base[rows], of_rows[rows], of_columns[columns])
            totals[0][rows] += parts[0]
            totals[1][columns] += parts[1]
        return totals


class Mapped(InBlocks):
    """A memory-mapped array, read in the order of its file."""

    def __init__(self, array):
        super().__init__(array.shape, array.dtype)
        self.array = array.view(np.ndarray)

    def columns(self, part):
        return self.array[:, part] / self.divisor

    def blocks(self):
        # runs are what lies together in the file: the rows in C order, the columns in Fortran order
        by_rows = abs(self.array.strides[0]) >= abs(self.array.strides[1])
        runs = self.array if by_rows else self.array.T
        n_runs, length = runs.shape
        step = max(1, BLOCK_ENTRIES // length)
        dtype = np.float32 if runs.dtype == np.float32 else np.float64
        mapping, mode = mapped_file(self.array)
        everything = slice(0, length)
        for first in range(0, n_runs, step):
            values = runs[first : first + step].astype(dtype, copy=False)
            if self.divisor != 1:
                values = values / self.divisor
            here = slice(first, first + len(values))
            if by_rows:
                yield here, everything, Dense(values)
            else:
                yield everything, here, Dense(values.T)
            if mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
                # pages would count as this process's memory until the system is short of it
                mapping.madvise(mmap.MADV_DONTNEED)


class Chunked(Streamed):
    """A dask array; its products run where dask runs, perhaps on workers that hold the chunks."""

    def __init__(self, array, name):
        super().__init__(array.shape, array.dtype)
        if np.isnan(array.shape).any():
            raise InputError(
                f"source {name!r} has chunks of unknown size; call x.compute_chunk_sizes() first"
            )
        self.name = name
        self.stored = array  # sparse chunks stay sparse in the products, which are most of the work
        if scipy.sparse.issparse(array._meta):
            meta = np.empty((0, 0), array.dtype)
            array = array.map_blocks(lambda block: block.toarray(), meta=meta)
            self.array = array.astype(np.float64)
        else:
            self.array = self.stored = array.astype(np.float64)  # when a chunk is computed, not now

    @cached_property
    def _survey(self):
        import dask.array

        n_missing = int(dask.array.isnan(self.array).sum().compute())
        norm = self.squares(np.zeros(self.shape[0]), *map(np.ones, self.shape))[0].sum()
        return float(norm), n_missing

    def __truediv__(self, number):
        return Chunked(self.stored / number, self.name)

    @cached_property
    def _multiplied(self):
        def without_nan(chunk):  # in here, it reaches workers that have no bjmd
            if not scipy.sparse.issparse(chunk):
                return np.where(np.isnan(chunk), 0.0, chunk)
            chunk = chunk.copy()
            chunk.sum_duplicates()
            chunk.data[np.isnan(chunk.data)] = 0.0
            return chunk

        if not self.n_missing:
            return self.stored
        return self.stored.map_blocks(without_nan, meta=self.stored._meta)

    def _times_memberships(self, h):
        return self._summed(lambda part, x: (part @ x.T)[:, :, None], "kij", h, "kj")

    def _times_components(self, wt):
        return self._summed(lambda part, x: (part @ x)[:, :, None], "kji", wt, "ki")

    def _summed(self, product, places, factor, of_factor):
        """The sum over chunks of products with a factor (K x M or K x N, cut as the source is)."""
        import dask.array

        last = places[2]
        chunks = (len(factor), self.array.chunks["ij".index(last)])
        cut = dask.array.from_array(factor, chunks=chunks)
        how = {"adjust_chunks": {last: 1}, "dtype": float, "meta": np.empty((0, 0, 0))}
        products = dask.array.blockwise(
            product, places, cut, of_factor, self._multiplied, "ij", **how
        )
        return products.sum(axis=2).compute()

    def sums_of_rows(self):
        import dask.array

        # not as a product, whose bits depend on how many threads a worker has
        return dask.array.nansum(self.array, axis=1).compute()

    def squares(self, base, of_rows, of_columns):
        import dask
        import dask.array

        centred = self.array - base[:, None]
        centred = dask.array.where(dask.array.isnan(centred), 0.0, centred)
        rows = dask.array.einsum("ij,ij,j->i", centred, centred, of_columns)
        columns = dask.array.einsum("ij,ij,i->j", centred, centred, of_rows)
        return dask.compute(rows, columns)

    def columns(self, part):
        return self.array[:, part].compute()

    def blocks(self):
        rows, columns = (
            [slice(end - n, end) for n, end in zip(lengths, np.cumsum(lengths), strict=True)]
            for lengths in self.array.chunks
        )
        for i, j in np.ndindex(self.array.numblocks):
            yield rows[i], columns[j], Dense(self.array.blocks[i, j].compute())


class SideBySide(InBlocks):
    """Several matrices next to each other as one, with nothing copied."""

    def __init__(self, parts):
        self.parts = parts
        ends = [0, *np.cumsum([part.shape[1] for part in parts]).tolist()]
        self.ranges = [slice(first, last) for first, last in pairwise(ends)]
        dtype = np.result_type(*(part.dtype for part in parts))
        super().__init__((parts[0].shape[0], ends[-1]), dtype)

    def __truediv__(self, number):
        return SideBySide([part / number for part in self.parts])

    def blocks(self):
        for samples, part in zip(self.ranges, self.parts, strict=True):
            yield slice(0, self.shape[0]), samples, part

    def columns(self, part):
        first, last, _ = part.indices(self.shape[1])
        pieces = [
            x.columns(slice(max(first - samples.start, 0), last - samples.start))
            for samples, x in zip(self.ranges, self.parts, strict=True)
            if samples.start < last and first < samples.stop
        ]
        return np.hstack(pieces)
