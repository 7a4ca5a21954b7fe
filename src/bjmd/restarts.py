"""Many random starts of one method, and the best of them by objective (never by score)."""

import logging
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from bjmd import methods
from bjmd.checks import whole_number
from bjmd.errors import InputError

log = logging.getLogger(__name__)


def run(name, sources, n_components, *, n_restarts, seed=0, jobs=1, **options):
    """Fit from n starts, with the seeds seed, seed + 1, ..., and return all results in that order.

    Restarts run in `jobs` threads (the compiled updates and BLAS release the GIL) with one BLAS thread each, so the
    results do not depend on `jobs`.  A progress bar is shown in a terminal, a log line per restart elsewhere.
    """
    whole_number("n_restarts", n_restarts, least=1)
    whole_number("jobs", jobs, least=1)
    whole_number("seed", seed, least=0)
    seeds = range(seed, seed + n_restarts)
    results = {}
    in_terminal = sys.stderr.isatty()
    bar = tqdm(total=n_restarts, desc=name, unit="fit", disable=not in_terminal)
    with threadpool_limits(1), ThreadPoolExecutor(jobs) as pool, bar:
        futures = {pool.submit(methods.fit, name, sources, n_components, seed=s, **options): s for s in seeds}
        try:
            for future in as_completed(futures):
                result = results[futures[future]] = future.result()
                bar.update()
                if not in_terminal:
                    log.info(
                        "%s: restart %d of %d (seed %d): objective %.8g after %.2f s; %s",
                        name, len(results), n_restarts, result.seed, result.objective, result.seconds, result.reason,
                    )  # fmt: skip
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [results[s] for s in seeds]


def best(results, n_best):
    """The n_best results of lowest objective, best first; equal objectives in the order of their seeds."""
    if not 1 <= n_best <= len(results):
        raise InputError(f"the best {n_best} of {len(results)} restarts were asked for; ask for 1 to {len(results)}")
    return sorted(results, key=lambda result: result.objective)[:n_best]
