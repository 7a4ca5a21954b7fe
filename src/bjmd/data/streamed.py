"""Matrices that are never loaded: memory-mapped files; on_disk.py has those of AnnData files.

Every answer is put together from those of blocks, each of which is a matrix in memory while it is
asked.  Sums over blocks go in a fixed order, so that the number of threads does not change a bit of
the result.  Where entries are missing is kept in memory.
"""

from __future__ import annotations

import copy
import mmap
from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.matrix import Dense, Extent, Matrix, Sparse, as_floats, mapped_file
from bjmd.errors import InputError

BLOCK_ENTRIES = 2**23
"""Entries of a file that are read at once: 64 MB as float64."""
MOST_COMPRESSED = 2000
ALWAYS_FITS = 2**28
"""No compression that anndata uses makes bytes fewer by more than the first; an array of fewer
bytes than the second is read whatever its size in the file.
"""


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

    @abstractmethod
    def blocks(self) -> Iterator[tuple[slice, slice, Any]]:
        """Rows and columns, and the matrix in memory that is there, piece by piece."""

    def scaled(self, block):
        """A block of the stored numbers, divided."""
        return block if self.divisor == 1 else block / self.divisor

    @cached_property
    def _survey(self):
        norms, n_missing = zip(*(block._survey for *_, block in self.blocks()), strict=True)
        return sum(norms), sum(n_missing)

    @cached_property
    def extent(self):
        return Extent.of_all(block.extent for *_, block in self.blocks())

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
        for rows, columns, block in self.blocks():
            total[:, rows] += block.fillable().times_memberships(h[:, columns])
        return total if self.gaps is None else total + self.gaps.times_memberships(h)

    def times_components(self, wt):
        total = np.zeros((len(wt), self.shape[1]))
        for rows, columns, block in self.blocks():
            total[:, columns] += block.fillable().times_components(wt[:, rows])
        return total if self.gaps is None else total + self.gaps.times_components(wt)

    def sums_of_rows(self):
        total = np.zeros(self.shape[0])
        for rows, _, block in self.blocks():
            total[rows] += block.sums_of_rows()
        return total

    def squares(self, base, of_rows, of_columns):
        of_features = np.zeros(self.shape[0])
        of_samples = np.zeros(self.shape[1])
        for rows, columns, block in self.blocks():
            squares = block.squares(base[rows], of_rows[rows], of_columns[columns])
            of_features[rows] += squares[0]
            of_samples[columns] += squares[1]
        return of_features, of_samples

    def where(self, test):
        passed = [np.empty((2, 0), dtype=np.int32)]
        for rows, columns, block in self.blocks():
            start = np.array([[rows.start], [columns.start]], dtype=np.int32)
            passed.append(start + block.where(test).tocoo().coords)
        places = np.hstack(passed)
        passes = np.ones(places.shape[1], dtype=bool)
        return scipy.sparse.csc_array((passes, tuple(places)), shape=self.shape)

    def __array__(self, dtype=None, copy=None):
        # whatever would load the source by accident ends here
        raise InputError(
            "a source on disk was to be loaded as a whole; if it fits into memory, load it first: "
            "without --on-disk, with adata.to_memory(), or numpy.array(x)"
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
