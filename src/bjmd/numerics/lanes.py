"""Many small K x K systems at once, and the gamma functions that go with them.

A fit solves one K x K system for every column and every row of the data: a few thousand at a time,
each too small for a call of LAPACK to pay off.  Here LANES of them go side by side: the last axis
of every array is the lane, every inner loop runs over it, and the compiler turns that loop into
vector instructions.

Everything works in place.  Functions that Python calls are `compiled`: they release the GIL, so
restarts can run in threads, and they are cached on disk if there is a place for it.  Functions that
those call are a `part`, compiled into the caller; called from Python, a part is plain Python.
Compilation is slow for NumPy functions (hence the loops that fill arrays), for every place that
calls a part, and for every further level of calls.

numba caches compiled code beside each file and renews it when that file changes, but not when a
part in another file changes: after editing this file, remove the __pycache__ folders.
"""

import logging

import numpy as np
from numba import njit
from numba.core import event
from numba.extending import register_jitable

LANES = 64
SHIFT = 8
_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


class _FirstCompilation(event.Listener):
    """Says once that our code is being compiled, so that nobody wonders about the first fit."""

    said = False

    def on_start(self, event):
        ours = event.data["dispatcher"].py_func.__module__.startswith("bjmd")
        if ours and not self.said:
            self.said = True
            logging.getLogger(__name__).info("compiling (only in the first run)")

    def on_end(self, event):
        pass


first_compilation = _FirstCompilation()
event.register("numba:compile", first_compilation)


def compiled(function):
    """The function as machine code, from the cache if there is a place for one."""
    options = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package nor the home folder can be written to
        return njit(**options)(function)


part = register_jitable(error_model="numpy")


@part
def load(columns, first, block):
    """Fill the lanes of a block with the columns from `first` on; returns how many there were.

    The last block is filled up with copies of the last column, whose results `store` does not write
    back.
    """
    size, lanes = block.shape
    n_block = min(lanes, columns.shape[1] - first)
    for k in range(size):
        for lane in range(lanes):
            block[k, lane] = columns[k, first + min(lane, n_block - 1)]
    return n_block


@part
def store(block, columns, first):
    """Write the lanes of a block back to the columns from `first` on."""
    size, lanes = block.shape
    for k in range(size):
        for lane in range(min(lanes, columns.shape[1] - first)):
            columns[k, first + lane] = block[k, lane]


@part
def packed(k, p):
    """The place of entry (k, p) of a symmetric matrix among its K(K+1)/2 packed ones."""
    return k * (k + 1) // 2 + p if p <= k else p * (p + 1) // 2 + k


@part
def cholesky(a):
    """Factor a[:, :, lane] = L L' in place (lower triangle); the diagonal holds 1 / L_jj.

    A pivot that rounding made tiny or negative is lifted to machine precision times the diagonal,
    which is what a singular matrix plus a vanishing ridge should give.  Returns each lane's
    smallest pivot relative to its diagonal entry, which is not positive where the matrix was not
    positive definite.
    """
    size = a.shape[0]
    lanes = a.shape[2]
    diagonal = np.empty(lanes)
    smallest = np.empty(lanes)
    for lane in range(lanes):
        smallest[lane] = 1.0
    for j in range(size):
        for lane in range(lanes):
            diagonal[lane] = abs(a[j, j, lane]) + 1e-300
        for p in range(j):
            for i in range(j, size):
                for lane in range(lanes):
                    a[i, j, lane] -= a[i, p, lane] * a[j, p, lane]
        for lane in range(lanes):
            smallest[lane] = min(smallest[lane], a[j, j, lane] / diagonal[lane])
            a[j, j, lane] = 1.0 / np.sqrt(max(a[j, j, lane], 1e-15 * diagonal[lane]))
        for i in range(j + 1, size):
            for lane in range(lanes):
                a[i, j, lane] *= a[j, j, lane]
    return smallest


@part
def solve(factor, x):
    """Overwrite x[:, lane] by the solution of (L L') y = x, given the factor by `cholesky`."""
    size, lanes = x.shape
    for i in range(size):
        for p in range(i):
            for lane in range(lanes):
                x[i, lane] -= factor[i, p, lane] * x[p, lane]
        for lane in range(lanes):
            x[i, lane] *= factor[i, i, lane]
    for i in range(size - 1, -1, -1):
        for p in range(i + 1, size):
            for lane in range(lanes):
                x[i, lane] -= factor[p, i, lane] * x[p, lane]
        for lane in range(lanes):
            x[i, lane] *= factor[i, i, lane]


@part
def invert_factor(factor):
    """Overwrite the lower triangle that `cholesky` left by L^-1, so that the inverse of the matrix
    is L^-1' L^-1.
    """
    size = factor.shape[0]
    lanes = factor.shape[2]
    for i in range(size):
        for j in range(i):
            for lane in range(lanes):
                factor[i, j, lane] *= factor[j, j, lane]
            for p in range(j + 1, i):
                for lane in range(lanes):
                    factor[i, j, lane] += factor[i, p, lane] * factor[p, j, lane]
        for j in range(i):
            for lane in range(lanes):
                factor[i, j, lane] *= -factor[i, i, lane]


@part
def gamma_functions(x, out):
    """out[0..3] = ln Gamma, psi, psi', psi'' of x, which has shape (rows, lanes).

    Each is brought to y = x + 8 by its recurrence and there taken from its asymptotic series.  With
    P(x) = x (x+1) ... (x+7) and r_i = P^(i) / P:

        ln Gamma(x) = ln Gamma(y) - ln P             psi(x)   = psi(y) - r_1
        psi'(x)     = psi'(y) + r_1^2 - r_2          psi''(x) = psi''(y) - r_3 + 3 r_1 r_2 - 2 r_1^3

    so eight shifts cost a few multiplications and no branch.  The relative error is below 2e-13 for
    1e-30 < x < 1e30 (absolute near the zeros of ln Gamma and psi).
    """
    rows, lanes = x.shape
    value = np.empty(lanes)
    first = np.empty(lanes)
    second = np.empty(lanes)
    third = np.empty(lanes)
    shifted = np.empty(lanes)
    log_value = np.empty(lanes)
    log_shifted = np.empty(lanes)
    for k in range(rows):
        for lane in range(lanes):
            value[lane] = x[k, lane]
            first[lane] = 1.0
            second[lane] = 0.0
            third[lane] = 0.0
        for i in range(1, SHIFT):
            for lane in range(lanes):
                factor = x[k, lane] + i
                third[lane] = third[lane] * factor + 3.0 * second[lane]
                second[lane] = second[lane] * factor + 2.0 * first[lane]
                first[lane] = first[lane] * factor + value[lane]
                value[lane] = value[lane] * factor
        for lane in range(lanes):
            shifted[lane] = x[k, lane] + SHIFT
            log_value[lane] = np.log(value[lane])
            log_shifted[lane] = np.log(shifted[lane])
        for lane in range(lanes):
            y = shifted[lane]
            r = 1.0 / y
            q = r * r
            log_y = log_shifted[lane]
            inverse = 1.0 / value[lane]
            r1 = first[lane] * inverse
            r2 = second[lane] * inverse
            r3 = third[lane] * inverse
            series = 1 / 12 - q * (
                1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188 - q * (691 / 360360))))
            )
            out[0, k, lane] = -log_value[lane] + (y - 0.5) * log_y - y + _HALF_LOG_2PI + r * series
            series = 1 / 12 - q * (
                1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132 - q * (691 / 32760))))
            )
            out[1, k, lane] = log_y - r1 - 0.5 * r - q * series
            series = 1 / 6 - q * (
                1 / 30 - q * (1 / 42 - q * (1 / 30 - q * (5 / 66 - q * (691 / 2730))))
            )
            out[2, k, lane] = r1 * r1 - r2 + r + 0.5 * q + r * q * series
            series = 1 / 2 - q * (
                1 / 6 - q * (1 / 6 - q * (3 / 10 - q * (5 / 6 - q * (691 / 210))))
            )
            out[3, k, lane] = -r3 + 3.0 * r1 * r2 - 2.0 * r1 * r1 * r1 - q - r * q - q * q * series
