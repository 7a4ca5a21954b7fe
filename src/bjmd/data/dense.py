"""The two products of a dense matrix, on as many cores as the fit may use (threads.py).

A large matrix is cut along its longer side.  Along it one product has parts that do not touch each other, and the other
has parts of the size of the small factor, which are added in order.
"""

import numpy as np

from bjmd.numerics import threads

BLAS_GAIN = 4
"""How many times as fast BLAS multiplies as compiled loops do."""


def data_times_memberships(x, h):
    """(X H')': K x M."""
    if x.shape[1] >= x.shape[0]:
        return total(threads.each(lambda a, b: h[:, a:b] @ x[:, a:b].T, _parts(x, h)))
    return side_by_side(threads.each(lambda a, b: h @ x[a:b].T, _parts(x, h)))


def components_times_data(wt, x):
    """W'X, given W' (K x M): K x N."""
    if x.shape[1] >= x.shape[0]:
        return side_by_side(threads.each(lambda a, b: wt @ x[:, a:b], _parts(x, wt)))
    return total(threads.each(lambda a, b: wt[:, a:b] @ x[a:b], _parts(x, wt)))


def _parts(x, factor):
    return threads.parts(max(x.shape), x.size * len(factor) / BLAS_GAIN)


def total(blocks):
    """The sum of blocks, in their order."""
    first, *others = blocks
    for block in others:
        first += block
    return first


def side_by_side(blocks):
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)
