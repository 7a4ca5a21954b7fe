"""The matrix of an AnnData file that stays on disk: samples x features in the file, features x
samples here.

It is read in blocks of samples, which lie together in the file.  A source may be any of its
samples; what lies between them is read and dropped.  Sparse blocks stay sparse, and every index is
checked before it is followed.
"""

import numpy as np
import scipy.sparse

from bjmd.data import streamed
from bjmd.data.matrix import Dense, Sparse
from bjmd.errors import InputError


class OnDisk(streamed.InBlocks):
    """Some rows of an open array of h5py or zarr, or of a group with a sparse matrix by rows."""

    def __init__(self, stored, what, samples):
        self.stored = stored
        self.what = what
        self.samples = samples
        self.sparse = hasattr(stored, "keys")
        if self.sparse:
            shape, dtype, self.starts = self._checked()
        else:
            shape = stored.shape
            dtype = stored.dtype
            self.starts = stored.shape[1] * np.arange(stored.shape[0] + 1)
        # starts has the number of entries before every row of the file
        self.n_stored = shape[1]
        self.features = np.arange(shape[1])
        super().__init__((shape[1], len(samples)), dtype)

    def _checked(self):
        """Shape, type and starts of a sparse matrix."""
        kind = self.stored.attrs.get("encoding-type")
        if kind != "csr_matrix":
            raise InputError(
                f"{self.what} is stored by features ({kind}), so blocks of samples cannot be read; "
                "write it by samples (adata.X = adata.X.tocsr()), or load it"
            )
        try:
            data = self.stored["data"]
            indices = self.stored["indices"]
            starts = self.stored["indptr"][:]
            shape = tuple(map(int, self.stored.attrs["shape"]))
        except (KeyError, OSError) as error:
            raise self._damaged(error) from None
        fits = (
            len(starts) == shape[0] + 1
            and starts[0] == 0
            and starts[-1] == data.shape[0] == indices.shape[0]
        )
        if not fits or (np.diff(starts) < 0).any():
            raise self._damaged(f"its row pointers do not fit its {data.shape[0]} entries")
        return shape, data.dtype, starts

    def _damaged(self, why):
        return InputError(f"{self.what} holds a damaged matrix ({why}); write it again")

    def __getitem__(self, features):
        """The same samples with some of the features."""
        chosen = self.features[features]
        return self._changed(features=chosen, shape=(len(chosen), self.shape[1]))

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
            try:
                block = self.read(begin, end)
            except OSError as error:
                raise self._damaged(error) from None
            if end - begin > stop - first:
                block = block[:, self.samples[first:stop] - begin]
            if not np.array_equal(self.features, np.arange(self.n_stored)):
                block = block[self.features]
            if self.divisor != 1:
                block = block / self.divisor
            yield everything, slice(first, stop), Sparse(block) if self.sparse else Dense(block)
            first = stop

    def read(self, first, last):
        """Rows of the file, transposed: features x samples."""
        if not self.sparse:
            return self.stored[first:last].T.astype(float)
        begin = int(self.starts[first])
        end = int(self.starts[last])
        data, indices = (self.stored[name][begin:end] for name in ("data", "indices"))
        if end > begin and not 0 <= indices.min() <= indices.max() < self.n_stored:
            raise self._damaged("an index lies outside it")
        parts = data, indices, self.starts[first : last + 1] - begin
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
                yield block.array.T
