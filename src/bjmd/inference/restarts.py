"""Many random starts of one method, and the best of them by objective (never by score)."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from tqdm import tqdm

from bjmd.checks import whole_number
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.numerics import threads
from bjmd.results.decomposition import Decomposition

log = logging.getLogger(__name__)

MOST = 10_000


def run(
    name: str,
    sources: Sources,
    n_components: int,
    *,
    n_restarts: int,
    seed: int = 0,
    jobs: int = 1,
    widen: bool = True,
    **options: Any,
) -> list[Decomposition]:
    """Fit from n starts, with the seeds seed, seed + 1, ..., and return all results in that order.

    The best has its intervals by linear response (intervals.py), the others as their factors have
    them; with widen=False it has them so too, which saves time where nobody looks at intervals.

    There are `jobs` threads (the compiled updates and BLAS release the GIL): one for every restart,
    and what is left over goes into the fits (threads.py).  The results do not depend on `jobs`.
    `options` are those of `bjmd.fit`.  A progress bar is shown in a terminal, a log line per
    restart elsewhere.
    """
    require_number(n_restarts)
    whole_number("jobs", jobs, least=1)
    whole_number("seed", seed, least=0)
    fits = [
        partial(registry.fit, name, sources, n_components, seed=seed + i, **options)
        for i in range(n_restarts)
    ]
    results = reported(name, fits, jobs)
    return best_widened(sources, results, jobs) if widen else results


def require_number(n_restarts):
    """Refuse a number of restarts that cannot be meant."""
    if whole_number("n_restarts", n_restarts, least=1) > MOST:
        raise InputError(f"{MOST:,} restarts are the most that can be asked for; give fewer")


def reported(name, fits, jobs):
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


def best_widened(sources, results, jobs):
    """The same results, the best of them with intervals by linear response."""
    from bjmd.analysis import intervals  # which imports numba; to rank restarts nobody needs it

    (chosen,) = best(results, 1)
    with threads.limited(jobs):
        return [
            intervals.widened(sources, result) if result is chosen else result for result in results
        ]


def progress_bar(n_fits, name):
    """A bar in a terminal; elsewhere a disabled one."""
    return tqdm(total=n_fits, desc=name, unit="fit", disable=not sys.stderr.isatty())


def in_threads(fits, jobs, report):
    """Call the functions in threads and return their results in order; report(result, number done)
    as each one ends.
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
    """The n_best results of lowest objective, best first; equal objectives in the order of their
    seeds.
    """
    if not 1 <= n_best <= len(results):
        raise InputError(
            f"the best {n_best} of {len(results)} restarts were asked for; ask for 1 to {len(results)}"
        )
    return sorted(results, key=lambda result: result.objective)[:n_best]
