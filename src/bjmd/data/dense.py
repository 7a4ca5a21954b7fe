"""The two products of a dense matrix, on as many cores as the fit may use (threads.py).

A large matrix is cut along its longer side.  Along it one product has parts that do not touch each
other, and the other has parts of the size of the small factor, which are added in order.

float32 data are never copied as a whole.  They become float64 block by block; or, for a view that
knows an origin near the data, they are multiplied as they are, by a factor rounded to float32, and
no more than INNER products are added before the sum goes on in float64: the error of a sum is that
of INNER terms, however many it has.
"""

import numpy as np

from bjmd.numerics import threads

BLAS_GAIN = 4
"""How many times as fast BLAS multiplies as compiled loops do."""
INNER = 1024
BLOCK = 2**18
"""Products of float32 numbers that are added in float32, and the most numbers in a copied block."""


def data_times_memberships(x, h, near=None):
    """(X H')': K x M; with `near`, float32 that X - near is multiplied in, ((X - near) H')'."""
    both = _broadcast(x, near)
    if x.shape[1] >= x.shape[0]:
        return total(
            threads.each(
                lambda a, b: product(h[:, a:b], *(y[:, a:b].T for y in both)), _parts(x, h)
            )
        )
    return side_by_side(
        threads.each(lambda a, b: product(h, *(y[a:b].T for y in both)), _parts(x, h))
    )


def components_times_data(wt, x, near=None):
    """W'X, given W' (K x M): K x N; with `near`, W'(X - near)."""
    both = _broadcast(x, near)
    if x.shape[1] >= x.shape[0]:
        return side_by_side(
            threads.each(lambda a, b: product(wt, *(y[:, a:b] for y in both)), _parts(x, wt))
        )
    return total(
        threads.each(lambda a, b: product(wt[:, a:b], *(y[a:b] for y in both)), _parts(x, wt))
    )


def product(factor, x, near=None):
    """factor @ x in float64, or factor @ (x - near) with the rounding of float32."""
    if x.dtype != np.float32:
        return factor @ x
    copies = near is None or any(near.strides)  # not where near is a single 0
    step = max(1, min(INNER, BLOCK // x.shape[1])) if copies else INNER
    factor, sums = (
        factor.astype(float if near is None else np.float32),
        np.zeros((len(factor), x.shape[1])),
    )
    for first in range(0, len(x), step):
        at = slice(first, first + step)
        block = x[at] if not copies else x[at].astype(float) if near is None else x[at] - near[at]
        sums += factor[:, at] @ block
    return sums


def squared_norm(values):
    """The sum of squares, in float64, without a copy."""
    values = values.ravel(order="K")
    if values.dtype == np.float64:
        return float(np.vdot(values, values))
    return float(np.einsum("i,i->", values, values, dtype=float))


def _broadcast(x, near):
    return (x,) if near is None else (x, np.broadcast_to(near, x.shape))


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
