"""The matrix of an AnnData file that stays on disk: samples x features in the file, features x
samples here.

It is read in blocks of samples, which lie together in the file.  A source may be any of its
samples; what lies between them is read and dropped.  Sparse blocks stay sparse, and every index is
checked before it is followed.
"""

import numpy as np
import scipy.sparse

from bjmd.data import streamed
from bjmd.data.matrix import Dense, Sparse, as_floats
from bjmd.errors import InputError, problems_as_sentences

SOUND = "a file with a sound matrix"


class OnDisk(streamed.Streamed):
    """Some rows of an open array of h5py or zarr, or of a group with a sparse matrix by rows."""

    def __init__(self, stored, what, samples=None, features=None, divisor=1.0):
        self.stored = stored
        self.what = what
        self.sparse = hasattr(stored, "keys")
        with problems_as_sentences(what, SOUND):
            streamed.require_whole(stored)
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
        most = streamed.BLOCK_ENTRIES // (4 if self.sparse else 1)
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
