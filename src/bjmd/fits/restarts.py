"""Many random starts of one method, and the best of them by objective (never by score)."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from bjmd.checks import whole_number
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.fits import registry
from bjmd.fits.decomposition import Decomposition
from bjmd.numerics import threads

log = logging.getLogger(__name__)

MOST = 10_000


def run(
    name: str, sources: Sources, n_components: int, *, n_restarts: int, seed: int = 0, jobs: int = 1, **options: Any,
) -> list[Decomposition]:  # fmt: skip
    """Fit from n starts, with the seeds seed, seed + 1, ..., and return all results in that order.

    There are `jobs` threads (the compiled updates and BLAS release the GIL): one for every restart, and what is left
    over goes into the fits (threads.py).  The results do not depend on `jobs`.  `options` are those of `bjmd.fit`.  A
    progress bar is shown in a terminal, a log line per restart elsewhere.
    """
    if whole_number("n_restarts", n_restarts, least=1) > MOST:
        raise InputError(f"{MOST:,} restarts are the most that can be asked for; give fewer")
    whole_number("jobs", jobs, least=1)
    whole_number("seed", seed, least=0)
    fits = [partial(registry.fit, name, sources, n_components, seed=seed + i, **options) for i in range(n_restarts)]
    with progress_bar(n_restarts, name) as bar:

        def report(result, n_done):
            bar.update()
            if bar.disable:
                log.info(
                    "%s: restart %d of %d (seed %d): objective %.8g after %.2f s; %s",
                    name, n_done, n_restarts, result.seed, result.objective, result.seconds, result.reason,
                )  # fmt: skip

        return in_threads(fits, jobs, report)


def progress_bar(n_fits, name):
    """A bar in a terminal; elsewhere a disabled one."""
    return tqdm(total=n_fits, desc=name, unit="fit", disable=not sys.stderr.isatty())


def in_threads(fits, jobs, report):
    """Call the functions in threads and return their results in order; report(result, number done) as each one ends."""
    at_once = max(1, min(jobs, len(fits)))

    def run_one(fit):
        with threads.limited(jobs // at_once):
            return fit()

    with threadpool_limits(1), ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(run_one, fit) for fit in fits]
        try:
            for n_done, future in enumerate(as_completed(futures), start=1):
                report(future.result(), n_done)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def best(results, n_best):
    """The n_best results of lowest objective, best first; equal objectives in the order of their seeds."""
    if not 1 <= n_best <= len(results):
        raise InputError(f"the best {n_best} of {len(results)} restarts were asked for; ask for 1 to {len(results)}")
    return sorted(results, key=lambda result: result.objective)[:n_best]
