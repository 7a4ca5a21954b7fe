"""One fit on several cores, with the same bits for any number of them.

Work is cut into parts by its size alone, never by the number of threads, and sums over parts are
added in order.  Small work is one part and runs where it is called.  The functions that do the
parts release the GIL: BLAS and compiled loops.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

PART_OF_WORK = 2**23
"""The least work of a part, in multiplications of compiled loops: a few milliseconds."""
MOST_PARTS = 32

Result = TypeVar("Result")
_mine = threading.local()
_pool: ThreadPoolExecutor | None = None
_blas: tuple[int, ThreadpoolController] | None = None


def available() -> int:
    """The cores of this process: BJMD_THREADS if it is set, else what the system allows."""
    given = os.environ.get("BJMD_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited(n_threads: int) -> Iterator[None]:
    """Let fits of the calling thread use so many threads, itself included."""
    before = getattr(_mine, "n_threads", None)
    _mine.n_threads = n_threads
    try:
        yield
    finally:
        _mine.n_threads = before


def parts(length: int, work: float, step: int = 1) -> list[tuple[int, int]]:
    """Cut 0 ... length at multiples of `step` into equal ranges of PART_OF_WORK or more."""
    n_steps = -(-length // step)
    n_parts = min(MOST_PARTS, int(work / PART_OF_WORK), n_steps)
    if n_parts <= 1:
        return [(0, length)]
    cuts = [step * (n_steps * i // n_parts) for i in range(n_parts)] + [length]
    return list(pairwise(cuts))


def each(function: Callable[..., Result], ranges: list[tuple[int, int]]) -> list[Result]:
    """function(first, last) of every range, in order, on as many threads as the caller may use."""
    if len(ranges) == 1:
        return [function(*ranges[0])]
    n_threads = getattr(_mine, "n_threads", None) or available()
    n_helpers = min(n_threads, len(ranges)) - 1
    if n_helpers <= 0:
        return [function(*ends) for ends in ranges]
    results: list[Any] = [None] * len(ranges)
    # the next item is one step of the interpreter, so no two threads get the same
    left = iter(range(len(ranges)))

    def work():
        started = time.thread_time()
        for i in left:
            results[i] = function(*ranges[i])
        return time.thread_time() - started

    helpers = [_helpers().submit(work) for _ in range(n_helpers)]
    try:
        work()
    finally:
        seconds_of_helpers = sum(helper.result() for helper in helpers)
        _mine.elsewhere = getattr(_mine, "elsewhere", 0.0) + seconds_of_helpers
    return results


def blas_on_one_thread() -> AbstractContextManager[object]:
    """A context in which BLAS has one thread, so that sums do not depend on the number of cores.

    Looking for the libraries takes 3 ms, a third of a small fit, so it is repeated only after an
    import.
    """
    global _blas
    if _blas is None or _blas[0] != len(sys.modules):
        _blas = len(sys.modules), ThreadpoolController()
    return _blas[1].limit(limits=1)


def seconds() -> float:
    """Processor time of the calling thread and of what others did for it."""
    return time.thread_time() + getattr(_mine, "elsewhere", 0.0)


def _helpers():
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(MOST_PARTS, thread_name_prefix="bjmd")
    return _pool


def _forget():
    """A forked process has the pool but not its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
