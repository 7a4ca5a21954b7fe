"""One factor of a non-negative decomposition, with the other fixed.

The columns of the factor are independent.  Given the rest of its column, an entry a_k has the
density

    exp(-p a^2 / 2 + q a),  a >= 0,      p = P_kk,      q = L_k - sum_{m != k} P_km a_m - rate.

`improve_factor` moves every entry in turn to its mode max(q/p, 0), and `draw_factor` draws it.
With P and L from least squares and rate 0, the modes are a pass of hierarchical alternating least
squares.  Columns are processed in blocks of lanes, so that q is one vector operation per
component.  `multiply` is the multiplicative update of semi-NMF.
"""

import numpy as np

from bjmd.numerics.lanes import LANES, compiled, load, store

NEARLY_FLAT = 1e-300
"""The least p: for a component that the other factor leaves empty the density is exponential."""


@compiled
def improve_factor(precision, linear, rate, a, passes):
    """Move every entry of a (K x n) to its mode given the others, in some passes; in place."""
    size, n_columns = a.shape
    block = np.empty((size, LANES))
    b = np.empty((size, LANES))
    q = np.empty(LANES)
    for first in range(0, n_columns, LANES):
        load(a, first, block)
        load(linear, first, b)
        for _ in range(passes):
            for k in range(size):
                p = _conditional(precision, b, rate, block, k, q)
                for lane in range(LANES):
                    block[k, lane] = max(q[lane] / p, 0.0)
        store(block, a, first)


@compiled
def draw_factor(precision, linear, rate, a, rng):
    """Draw every entry of a (K x n) given the others; in place."""
    size, n_columns = a.shape
    block = np.empty((size, LANES))
    b = np.empty((size, LANES))
    q = np.empty(LANES)
    for first in range(0, n_columns, LANES):
        n_block = load(a, first, block)
        load(linear, first, b)
        for k in range(size):
            p = _conditional(precision, b, rate, block, k, q)
            for lane in range(n_block):
                block[k, lane] = rectified_gaussian(p, q[lane], rng)
        store(block, a, first)


@compiled
def _conditional(precision, b, rate, block, k, q):
    """q of component k in every lane, and p."""
    size, lanes = block.shape
    for lane in range(lanes):
        q[lane] = b[k, lane] - rate
    for m in range(size):
        if m != k:
            weight = precision[k, m]
            for lane in range(lanes):
                q[lane] -= weight * block[m, lane]
    return max(precision[k, k], NEARLY_FLAT)


@compiled
def rectified_gaussian(p, q, rng):
    """A draw from the density exp(-p a^2 / 2 + q a) on a >= 0, exact by rejection.

    In units of the standard deviation it is a standard Gaussian above low = -q / sqrt(p), minus
    low.  Up to low = 1/4, Gaussians are drawn until one is above low.  Beyond, an exponential z of
    rate t = (low + sqrt(low^2 + 4)) / 2 is accepted with probability exp(-(z + low - t)^2 / 2),
    where low - t = -1/t (Robert 1995); at least 3 of 4 are accepted.
    """
    sd = 1.0 / np.sqrt(p)
    low = -q * sd
    if low < 0.25:
        z = rng.standard_normal() - low
        while z < 0.0:
            z = rng.standard_normal() - low
        return z * sd
    t = 0.5 * (low + np.sqrt(low * low + 4.0))
    z = rng.standard_exponential() / t
    while 2.0 * rng.standard_exponential() < (z - 1.0 / t) ** 2:
        z = rng.standard_exponential() / t
    return z * sd


@compiled
def multiply(projection, raised, lowered, h):
    """h *= sqrt((B+ + raised) / (B- + lowered)) with B the projection, in place."""
    for k in range(h.shape[0]):
        for j in range(h.shape[1]):
            b = projection[k, j]
            up = max(b, 0.0) + raised[k, j]
            down = max(-b, 0.0) + lowered[k, j]
            # down is 0 only if w_k is zero or h is zero already
            if down > 0.0:
                h[k, j] *= np.sqrt(up / down)
