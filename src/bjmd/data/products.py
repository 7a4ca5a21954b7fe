"""The two products through which every algorithm sees a source, whether it is dense, sparse or
streamed.
"""

import numpy as np
import scipy.sparse

from bjmd.data import dense
from bjmd.data.streamed import Streamed
from bjmd.numerics import threads


def data_times_memberships(x, h, near=None):
    """(X H')' for one source: K x M.  One of the two products through which algorithms see the
    data; near: dense.py.
    """
    if isinstance(x, Streamed):
        return x.data_times_memberships(h)
    if scipy.sparse.issparse(x):
        blocks = threads.each(lambda a, b: _columns(x, a, b) @ h[:, a:b].T, _parts(x, h))
        return np.ascontiguousarray(dense.total(blocks).T)
    return dense.data_times_memberships(x, h, near)


def components_times_data(wt, x, near=None):
    """W'X for one source, given W' (K x M): K x N.  The other product."""
    if isinstance(x, Streamed):
        return x.components_times_data(wt)
    if scipy.sparse.issparse(x):
        w = np.ascontiguousarray(wt.T)
        return dense.side_by_side(
            threads.each(
                lambda a, b: np.ascontiguousarray((_columns(x, a, b).T @ w).T), _parts(x, wt)
            )
        )
    return dense.components_times_data(wt, x, near)


def _parts(x, factor):
    return threads.parts(x.shape[1], x.nnz * len(factor))


def _columns(x, first, last):
    """Columns of a sparse matrix, of one of float64 in CSC format with nothing copied but their
    starts.

    float32 becomes float64, a part at a time: SciPy would turn all of it into float64 for every
    product.
    """
    if (first, last) == (0, x.shape[1]):
        return x.astype(float, copy=False)
    if x.format != "csc":
        return x[:, first:last].astype(float, copy=False)
    begin = x.indptr[first]
    end = x.indptr[last]
    part = scipy.sparse.csc_array(
        (x.shape[0], last - first)
    )  # its constructor would copy what is given to it
    part.data = x.data[begin:end].astype(float, copy=False)
    part.indices = x.indices[begin:end]
    part.indptr = x.indptr[first : last + 1] - begin
    return part
