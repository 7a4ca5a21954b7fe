"""Matrices that are never loaded: memory-mapped files, and AnnData files that stay on disk.

Every answer is put together from those of blocks, each of which is a matrix in memory while it is
asked (matrix.py).  Sums over blocks go in a fixed order, so that the number of threads does not
change a bit of the result.  Where entries are missing is kept in memory.
"""

import mmap

import numpy as np
import scipy.sparse

from bjmd.data.matrix import Dense, Matrix, Sparse, as_floats, cut, mapped_file
from bjmd.errors import InputError, problems_as_sentences

BLOCK_ENTRIES = 2**23
"""Entries of a file that are read at once: 64 MB as float64."""
MOST_COMPRESSED = 2000
ALWAYS_FITS = 2**28
"""No compression that anndata uses makes bytes fewer by more than the first; an array of fewer
bytes than the second is read whatever its size in the file.
"""
SOUND = "a file with a sound matrix"


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
            raise ValueError(f"{stored.name} should have {n_bytes} bytes but has {n_stored}")


class Streamed(Matrix):
    """A matrix that is read block by block for every answer, and divided."""

    def __init__(self, shape, dtype, divisor=1.0):
        super().__init__(shape, dtype)
        self.divisor = divisor

    def scaled(self, block):
        """A block of the stored numbers, divided."""
        return block if self.divisor == 1 else block / self.divisor

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
        mapping, mode = mapped_file(self.array)
        everything = slice(0, length)
        for here in cut(n_runs, length, BLOCK_ENTRIES):
            values = as_floats(runs[here])
            if by_rows:
                yield here, everything, self.scaled(Dense(values))
            else:
                yield everything, here, self.scaled(Dense(values.T))
            if mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
                # pages would count as this process's memory until the system is short of it
                mapping.madvise(mmap.MADV_DONTNEED)


class OnDisk(Streamed):
    """Some samples of the matrix of an AnnData file.

    It is an open array of h5py or zarr, samples x features, or a group with a sparse matrix by
    rows.  Blocks of samples lie together in the file; what lies between the samples is read and
    dropped.  Sparse blocks stay sparse, and every index is checked before it is followed.
    """

    def __init__(self, stored, what, samples=None, features=None, divisor=1.0):
        self.stored = stored
        self.what = what
        self.sparse = hasattr(stored, "keys")
        with problems_as_sentences(what, SOUND):
            require_whole(stored)
            shape, dtype, self.starts = self._sparse() if self.sparse else self._dense()
        n_rows, self.n_stored = shape
        self.samples = np.arange(n_rows) if samples is None else samples
        self.features = np.arange(self.n_stored) if features is None else features
        super().__init__((len(self.features), len(self.samples)), dtype, divisor)

    def _dense(self):
        """Shape, type, and the number of entries before every row of the file."""
        shape = self.stored.shape
        return shape, self.stored.dtype, shape[1] * np.arange(shape[0] + 1)

    def _sparse(self):
        kind = str(self.stored.attrs.get("encoding-type"))
        if kind == "csc_matrix":
            raise InputError(
                f"{self.what} is stored by features ({kind}), so blocks of samples cannot be read; "
                "write it by samples (adata.X = adata.X.tocsr()), or load it"
            )
        if kind != "csr_matrix":
            raise ValueError(f"its matrix is stored as {kind}")
        shape = tuple(map(int, self.stored.attrs["shape"]))
        data = self.stored["data"]
        starts = self.stored["indptr"][:]
        fits = starts.shape == (shape[0] + 1,) and starts[0] == 0
        n_entries = (data.shape, self.stored["indices"].shape)
        if not fits or n_entries != 2 * ((starts[-1],),) or (np.diff(starts) < 0).any():
            raise ValueError(f"its row pointers do not fit its {data.shape[0]} entries")
        return shape, data.dtype, starts

    def __getitem__(self, places):
        """Some features, and perhaps samples, given as slices or increasing numbers."""
        features, samples = places if isinstance(places, tuple) else (places, slice(None))
        return OnDisk(
            self.stored, self.what, self.samples[samples], self.features[features], self.divisor
        )

    def __truediv__(self, number):
        return OnDisk(self.stored, self.what, self.samples, self.features, self.divisor * number)

    def blocks(self, first=0, last=None):
        everything = slice(0, self.shape[0])
        last = self.shape[1] if last is None else last
        # entries with indices take more memory and more work
        most = BLOCK_ENTRIES // (4 if self.sparse else 1)
        while first < last:
            begin = int(self.samples[first])
            limit = np.searchsorted(self.starts, self.starts[begin] + most, side="right") - 1
            stop = min(last, int(np.searchsorted(self.samples, max(begin + 1, limit))))
            end = int(self.samples[stop - 1]) + 1
            with problems_as_sentences(self.what, SOUND):
                block = self.read(begin, end)
            if end - begin > stop - first:
                block = block[:, self.samples[first:stop] - begin]
            if not np.array_equal(self.features, np.arange(self.n_stored)):
                block = block[self.features]
            block = Sparse(block) if self.sparse else Dense(block)
            yield everything, slice(first, stop), self.scaled(block)
            first = stop

    def read(self, first, last):
        """Rows of the file, transposed: features x samples."""
        if not self.sparse:
            return as_floats(self.stored[first:last].T)
        begin = int(self.starts[first])
        end = int(self.starts[last])
        data, indices = (self.stored[name][begin:end] for name in ("data", "indices"))
        if end > begin and not 0 <= indices.min() <= indices.max() < self.n_stored:
            raise ValueError("an index lies outside it")
        parts = as_floats(data), indices, self.starts[first : last + 1] - begin
        block = scipy.sparse.csc_array(parts, shape=(self.n_stored, last - first))
        block.sum_duplicates()  # parts of an entry that is stored twice would be squared one by one
        return block

    def columns(self, part):
        first, last, _ = part.indices(self.shape[1])
        pieces = [block.columns(slice(None)) for *_, block in self.blocks(first, last)]
        return np.hstack(pieces)

    def numbers(self):
        for *_, block in self.blocks():
            if self.sparse:
                yield from (block.array.data, block.array.indices, np.diff(block.array.indptr))
            else:
                yield block.columns(slice(None)).T
