"""One factor of a non-negative decomposition with the other fixed: every entry in turn, at its mode or drawn.

The columns of a are independent of each other, and one entry has, given the rest of its column, the density

    exp(-p a^2 / 2 + q a),  a >= 0,      p = P_kk,      q = L_k - sum_{m != k} P_km a_m - rate.

With P and L from least squares and rate 0, the modes max(q/p, 0) are a pass of hierarchical alternating least squares.
"""

import numpy as np

from bjmd_numerics.lanes import LANES, compiled

NEARLY_FLAT = 1e-300
"""The least p: for a component that the other factor leaves empty the density is exponential."""


@compiled
def update_factor(precision, linear, rate, a, rng, draw):
    """One pass over the entries of a (K x n), each given the others; in place.

    Columns go in blocks, whose q is one vector operation a component.
    """
    size, n_columns = a.shape
    q = np.empty(LANES)
    for first in range(0, n_columns, LANES):
        n_block = min(LANES, n_columns - first)
        for k in range(size):
            p = max(precision[k, k], NEARLY_FLAT)
            for lane in range(n_block):
                q[lane] = linear[k, first + lane] - rate
            for m in range(size):
                if m != k:
                    for lane in range(n_block):
                        q[lane] -= precision[k, m] * a[m, first + lane]
            if draw:
                for lane in range(n_block):
                    a[k, first + lane] = rectified_gaussian(p, q[lane], rng)
            else:
                for lane in range(n_block):
                    a[k, first + lane] = max(q[lane] / p, 0.0)


@compiled
def rectified_gaussian(p, q, rng):
    """A draw from the density exp(-p a^2 / 2 + q a) on a >= 0, exact by rejection.

    In units of the standard deviation it is a standard Gaussian above low = -q / sqrt(p), less low.  Up to low = 1/4
    Gaussians are drawn until one is above.  Beyond, an exponential z of rate t = (low + sqrt(low^2 + 4)) / 2 is
    accepted with chance exp(-(z + low - t)^2 / 2), where low - t = -1/t (Robert 1995); at least 3 of 4 are.
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
