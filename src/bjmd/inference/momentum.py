"""Momentum for a fixed-point iteration, with a way back (docs/derivation.md, 4.8).

Sweeps of coordinate ascent creep along valleys when components overlap.  Each new sweep therefore
starts not where the last one ended but beyond it, by a share of the way from the end of the sweep
before.  The share grows while that goes well.  Where it does harm, which only the caller can tell,
the caller goes back with `undo`, and the share and its ceiling become smaller.
"""

import numpy as np

from bjmd.numerics import threads

FIRST_SHARE = 0.5
HIGHEST_SHARE = 1.0
GROWTH = 1.05
GROWTH_OF_CEILING = 1.01
SHRINKAGE = 1.5
"""How share and ceiling grow with every step, and how the share shrinks after a harmful one."""
LONGEST = 2.0
"""The most that momentum may change an entry beyond the sweep itself."""


class Momentum:
    def __init__(self):
        self._last = None
        self._share = self._used = FIRST_SHARE
        self._ceiling = HIGHEST_SHARE

    def beyond(self, end):
        """Where to start the next sweep, given where the last one ended."""
        last = self._last
        self._last = end
        if last is None:
            return end
        self._used = self._share
        self._ceiling = min(HIGHEST_SHARE, GROWTH_OF_CEILING * self._ceiling)
        self._share = min(self._ceiling, GROWTH * self._share)

        def part(a, b):
            last[a:b] = end[a:b] + np.clip(self._used * (end[a:b] - last[a:b]), -LONGEST, LONGEST)

        threads.each(part, _parts(end))
        return last

    def undo(self):
        """The end of the last sweep; the share that did harm becomes the ceiling."""
        self._ceiling = self._used
        self._share = self._used / SHRINKAGE
        return self._last


def logarithms(arrays):
    """Positive numbers as logarithms in one vector."""
    vector = np.maximum(np.concatenate([array.ravel() for array in arrays]), np.finfo(float).tiny)
    threads.each(lambda a, b: np.log(vector[a:b], out=vector[a:b]), _parts(vector))
    return vector


def exponentials(vector, shapes):
    """The arrays of such shapes whose logarithms are in the vector."""
    numbers = np.empty_like(vector)
    threads.each(lambda a, b: np.exp(vector[a:b], out=numbers[a:b]), _parts(vector))
    pieces = np.split(numbers, np.cumsum([np.prod(shape) for shape in shapes])[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]


def _parts(vector):
    return threads.parts(len(vector), 32 * len(vector))  # about what a logarithm costs
