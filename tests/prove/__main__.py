"""python tests/prove [fits inputs stress kills] [--scale 1] [--jobs N] [--first N] [--only N]: see __init__.py.

The table that ends it is Markdown, for docs/trust.md.  Exit code 1 if anything went wrong.
"""

import argparse
import datetime
import importlib.metadata
import logging
import os
import platform
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from prove import fits, inputs, kills, stress, workers

SIZES = {"fits": 10_000 * len(fits.KINDS), "inputs": 100_000, "stress": len(stress.CASES), "kills": 50}
CHECKS = {"fits": fits.check, "inputs": inputs.check, "stress": stress.check}
PACKAGES = ("bjmd", "numpy", "scipy", "numba", "scikit-learn", "h5py")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[*SIZES], default=[*SIZES])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--first", type=int, default=0, help="the number of the first case, to add to an earlier run")
    parser.add_argument("--only", type=int, help="one case, by its number")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if options.only is not None:
        sys.exit("\n".join(str(CHECKS[what](options.only)) for what in options.what))
    rows, wrong = [], []
    for what in options.what:
        started, size = time.monotonic(), max(1, round(options.scale * SIZES[what]))
        if what == "kills":
            found = kills.run(size)
            counts = {kind: times for kind, (times, _) in found.items()}
            bad = [(kind, 0, sentence) for kind, (_, sentences) in found.items() for sentence in sentences]
        else:
            if what == "inputs":
                inputs.seeds()  # once, before the processes part
            numbers = range(options.first, options.first + size)
            counts, bad = workers.run(CHECKS[what], numbers, n_jobs=options.jobs)
        rows += [(kind, count, sum(one[0] == kind for one in bad)) for kind, count in sorted(counts.items())]
        wrong += [f"{what} {number} ({kind}): {sentence}" for kind, number, sentence in bad]
        print(f"{what}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print("\n".join(["| what | cases | went wrong |", "|---|---:|---:|"]))
    print("\n".join(f"| {kind} | {count:,} | {bad} |" for kind, count, bad in rows if kind != "?" or count or bad))
    if "kills" in options.what and not kills.has_slurm():
        print("\nThere was no SLURM (no `sbatch`, or `sinfo` failed), so nothing was killed on it.")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    print(f"\n{datetime.date.today()}, Python {platform.python_version()}, {versions}, {platform.machine()}.")
    print("\n".join(wrong[:100]), file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
