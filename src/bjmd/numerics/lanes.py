"""Many small K x K systems at once.

A fit solves one K x K system for every column and every row of the data, a few thousand at a time
and each too small for LAPACK to be worth a call.  Here LANES of them go side by side: the last axis
of every array is the lane, every inner loop runs over it, and the compiler turns that loop into
vector instructions.

All work in place.  What Python calls is `compiled`: it releases the GIL, so restarts can run in
threads, and is kept on disk.  What that calls is a `part`, compiled into it; called from Python, a
part is plain Python.  The first fit after an installation waits for the compiler, which takes its
time for every function of NumPy (hence loops that fill arrays), for every place that calls a part,
and for every level of calls below another.

numba keeps compiled code beside each file and renews it when that file changes.  What it inlined
from another file it does not renew: after editing this file, remove the __pycache__ folders.
"""

import logging

import numpy as np
from numba import njit
from numba.core import event
from numba.extending import register_jitable

LANES = 64


class _FirstCompilation(event.Listener):
    """Says once that our code is being compiled, so that nobody wonders about the first fit."""

    said = False

    def on_start(self, event):
        ours = event.data["dispatcher"].py_func.__module__.startswith("bjmd")
        if ours and not self.said:
            self.said = True
            logging.getLogger(__name__).info("compiling; first run only, about 15 s")

    def on_end(self, event):
        pass


first_compilation = _FirstCompilation()
event.register("numba:compile", first_compilation)

compiled = njit(cache=True, nogil=True, error_model="numpy")
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
def whiten(precision, root, matrix):
    """matrix = I + D P D in every lane, with D = diag(root); lower triangle.

    (P + D^-2)^-1 = D (I + D P D)^-1 D stays well conditioned as entries of D go to 0.
    """
    size, lanes = root.shape
    for k in range(size):
        for p in range(k + 1):
            for lane in range(lanes):
                matrix[k, p, lane] = root[k, lane] * precision[k, p] * root[p, lane]
        for lane in range(lanes):
            matrix[k, k, lane] += 1.0


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
    """Overwrite x[:, lane] by the solution of (L L') y = x, with the factor that `cholesky` left."""
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
