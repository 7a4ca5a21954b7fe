"""The two products through which every algorithm sees a source, whether it is dense, sparse or streamed."""

import numpy as np
import scipy.sparse

from bjmd.data.streamed import Streamed


def data_times_memberships(x, h):
    """(X H')' for one source: K x M.  One of the two products through which algorithms see the data."""
    if isinstance(x, Streamed):
        return x.data_times_memberships(h)
    if scipy.sparse.issparse(x):
        return np.ascontiguousarray((x @ h.T).T)
    return h @ x.T


def components_times_data(wt, x):
    """W'X for one source, given W' (K x M): K x N.  The other product."""
    if isinstance(x, Streamed):
        return x.components_times_data(wt)
    if scipy.sparse.issparse(x):
        return np.ascontiguousarray((x.T @ wt.T).T)
    return wt @ x
