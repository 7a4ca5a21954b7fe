"""Many random starts of one method, and the best of them by objective (never by score).

A search mostly reaches a lower objective than plain restarts, in half the time.  Restarts that end
at different objectives are often on their way to the same optimum: they have stopped where a sweep
gains at most `tol` nats per entry, and on data with millions of entries hundreds of such sweeps are
left.  So there are fewer starts, and in rounds the best of them, ever fewer, continue to an ever
smaller tolerance (ROUNDS).

Every run is one of `bjmd.fit` with its own seed and `tol`, which its result carries, and can be
repeated by itself.
"""

import itertools
import logging
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from bjmd.data.sources import Sources
from bjmd.errors import InputError, whole_number
from bjmd.inference import loop, registry
from bjmd.inference.loop import Course
from bjmd.numerics import threads
from bjmd.results.decomposition import Decomposition

log = logging.getLogger(__name__)

MOST = 10_000
#: of every round of a search: the runs as a share of the restarts, and the tolerance over `tol`
ROUNDS = ((0.4, 3.0), (0.2, 1.0), (0.05, 0.01))
FEWEST = 20  #: restarts, below which there is nothing to choose among


def run(
    name: str,
    sources: Sources,
    n_components: int,
    *,
    n_restarts: int,
    seed: int = 0,
    jobs: int = 1,
    search: bool = False,
    **options: Any,
) -> list[Decomposition]:
    """Fit from n starts, with the seeds seed, seed + 1, ..., and return all results in that order.

    There are `jobs` threads (the compiled updates and BLAS release the GIL): one for every restart,
    and those left over work within the fits (threads.py).  The results do not depend on `jobs`.
    `options` are those of `bjmd.fit`.  A progress bar is shown in a terminal, a log line per
    restart elsewhere.

    `search` searches in place of n plain restarts, where that makes sense: not with fewer than
    FEWEST restarts, with the paper's priors or its form of them, or for methods that cannot be
    continued.
    """
    if whole_number("n_restarts", n_restarts, least=1) > MOST:
        raise InputError(f"{MOST:,} restarts are the most that can be asked for; give fewer")
    whole_number("jobs", jobs, least=1)
    whole_number("seed", seed, least=0)
    method = registry.get(name)
    fit = partial(registry.fit, name, sources, n_components)
    as_printed = options.get("priors") == "paper" or options.get("prior", "laplace") != "laplace"
    if not search or n_restarts < FEWEST or as_printed or not method.takes("course"):
        seeds = range(seed, seed + n_restarts)
        return _reported(name, [partial(fit, seed=s, **options) for s in seeds], jobs)
    registry.check_options(name, options)
    tol = options.get("tol", method.options()["tol"])
    courses = {seed + i: Course() for i in range(round(ROUNDS[0][0] * n_restarts))}
    results: dict[int, Decomposition] = {}
    for number, (share, factor) in enumerate(ROUNDS, start=1):
        ranked = sorted(courses, key=lambda s: results[s].objective if results else s)
        kept = sorted(ranked[: round(share * n_restarts)])
        courses = {s: courses[s] for s in kept}  # the others need no memory any more
        further = options | {"tol": factor * tol}
        fits = [partial(fit, seed=s, course=course, **further) for s, course in courses.items()]
        for result in _reported(f"{name}, round {number}", fits, jobs):
            if result.seed in results:
                result.seconds += results[result.seed].seconds
            results[result.seed] = _judged(result, tol, sum(sources.n_observed))
    return list(results.values())


def _judged(result: Decomposition, tol: float, n_entries: int) -> Decomposition:
    """A run at its limit of sweeps has converged if its last sweeps changed less than `tol`."""
    # the last entry of the trace also has what the last touches gained
    changes = -np.diff(result.trace[-4:-1])
    if result.converged or len(changes) < 2 or changes.max() > tol * n_entries:
        return result
    reason = f"{result.reason}, with changes per entry below tol = {tol:g}"
    return replace(result, converged=True, reason=reason)


def _reported(name, fits, jobs):
    """Run fits of one method, with a progress bar or a log line for each."""
    with progress_bar(len(fits), name) as bar:

        def report(result, n_done):
            bar.update()
            if bar.disable:
                log.info(
                    "%s: restart %d of %d (seed %d): objective %.8g after %.2f s; %s",
                    name,
                    n_done,
                    len(fits),
                    result.seed,
                    result.objective,
                    result.seconds,
                    result.reason,
                )

        return in_threads(fits, jobs, report)


@contextmanager
def progress_bar(n_fits, name):
    """A bar in a terminal that counts fits and their sweeps; elsewhere a disabled one."""
    terminal = sys.stderr.isatty()
    n_sweeps = itertools.count(1)

    def count_sweep():
        bar.set_postfix_str(f"{next(n_sweeps):,} sweeps", refresh=False)
        bar.update(0)  # which redraws it now and then

    style = {"desc": name, "unit": "fit", "miniters": 0, "smoothing": 0}
    with tqdm(total=n_fits, disable=not terminal, **style) as bar:
        if terminal:
            loop.after_sweep.append(count_sweep)
        try:
            yield bar
        finally:
            if terminal:
                loop.after_sweep.remove(count_sweep)


def in_threads(fits, jobs, report):
    """Call the functions in threads and return their results in order.

    report(result, number done) is called as each one ends.
    """
    at_once = max(1, min(jobs, len(fits)))

    def run_one(fit):
        with threads.limited(jobs // at_once):
            return fit()

    with threads.blas_on_one_thread(), ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(run_one, fit) for fit in fits]
        try:
            for n_done, future in enumerate(as_completed(futures), start=1):
                report(future.result(), n_done)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def best(results, n_best):
    """The n_best results of lowest objective, best first; equal ones in the order of seeds."""
    if not 1 <= n_best <= len(results):
        raise InputError(
            f"the best {n_best} of {len(results)} restarts were asked for; "
            f"ask for 1 to {len(results)}"
        )
    return sorted(results, key=lambda result: result.objective)[:n_best]
