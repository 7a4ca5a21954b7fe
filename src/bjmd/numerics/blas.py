"""BLAS on one thread, so that a fit has the same bits on any number of cores."""

import sys
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController

_found: tuple[int, ThreadpoolController] | None = None


def on_one_thread() -> AbstractContextManager[object]:
    """A context in which BLAS has one thread.

    To look for the libraries takes 3 ms, a third of a small fit, so it is done again only after an
    import.
    """
    global _found
    if _found is None or _found[0] != len(sys.modules):
        _found = len(sys.modules), ThreadpoolController()
    return _found[1].limit(limits=1)
