"""python tests/prove [fits inputs stress kills slurm] [--scale 1] [--jobs N] [--first N] [--keep
FILE] [--only N]

See __init__.py.  The table that ends it is Markdown, for docs/trust.md.  With --keep, what was
found is added to FILE, and the table is of all that FILE has, so that a long proof can be had in
slices.  Exit code 1 if anything went wrong.
"""

import argparse
import datetime
import importlib.metadata
import json
import logging
import os
import platform
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from prove import fits, inputs, kills, stress, workers

SIZES = {
    "fits": 10_000 * len(fits.KINDS),
    "inputs": 100_000,
    "stress": len(stress.CASES),
    "kills": 50,
    "slurm": 50,
}
CHECKS = {"fits": fits.check, "inputs": inputs.check, "stress": stress.check}
PACKAGES = ("bjmd", "numpy", "scipy", "numba", "scikit-learn", "h5py")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[*SIZES], default=[*SIZES])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="the number of the first case, to add to an earlier run",
    )
    parser.add_argument(
        "--keep", type=Path, help="a file of earlier slices, to which this one is added"
    )
    parser.add_argument("--only", type=int, help="one case, by its number")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if options.only is not None:
        sys.exit("\n".join(str(CHECKS[what](options.only)) for what in options.what))
    earlier = (
        options.keep.read_text().splitlines() if options.keep and options.keep.exists() else []
    )
    slices = [json.loads(line) for line in earlier]
    for what in options.what:
        started = time.monotonic()
        size = max(1, round(options.scale * SIZES[what]))
        if what == "slurm" and not kills.has_slurm():
            print(
                "There is no SLURM here (no `sbatch`, or `sinfo` failed), so nothing is killed on it."
            )
            continue
        if what in ("kills", "slurm"):
            counts, bad = kills.run(size, seed=options.first, slurm=what == "slurm")
            seconds = {}
        else:
            if what == "inputs":
                inputs.seeds()  # once, before the processes part
            numbers = range(options.first, options.first + size)
            counts, seconds, bad = workers.run(CHECKS[what], numbers, n_jobs=options.jobs)
        found = {
            "what": what,
            "first": options.first,
            "counts": counts,
            "seconds": seconds,
            "wrong": bad,
        }
        slices.append(found)
        if options.keep:
            with options.keep.open("a") as file:
                file.write(json.dumps(found) + "\n")
        print(f"{what}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(table(slices))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    print(
        f"\n{datetime.date.today()}, Python {platform.python_version()}, {versions}, {platform.machine()}."
    )
    wrong = [(found["what"], *one) for found in slices for one in found["wrong"]]
    print(
        "\n".join(f"{what} {number} ({kind}): {said}" for what, kind, number, said in wrong[:100]),
        file=sys.stderr,
    )
    sys.exit(bool(wrong))


def table(slices):
    """Markdown: cases by kind, what went wrong, and what a case costs."""
    counts = Counter()
    seconds = Counter()
    wrong = Counter()
    for found in slices:
        counts.update(found["counts"])
        seconds.update(found["seconds"])
        wrong.update(kind for kind, _, _ in found["wrong"])
    lines = ["| what | cases | went wrong | ms a case |", "|---|---:|---:|---:|"]
    for kind in sorted({*counts, *wrong}):
        cost = f"{1000 * seconds[kind] / counts[kind]:.1f}" if seconds[kind] else ""
        lines.append(f"| {kind} | {counts[kind]:,} | {wrong[kind]} | {cost} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
