"""python tests/prove [fits inputs stress kills] [--scale 1] [--jobs N] [--only N]

See __init__.py.  Prints a Markdown table for docs/trust.md.  Exit code 1 if anything went wrong.
"""

import argparse
import importlib.metadata
import logging
import os
import platform
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from prove import fits, inputs, kills, stress, workers

CHECKS = {"fits": fits.check, "inputs": inputs.check, "stress": stress.check}
SIZES = {
    "fits": 10_000 * len(fits.KINDS),
    "inputs": 100_000,
    "stress": len(stress.CASES),
    "kills": 100,
}
PACKAGES = ("bjmd", "numpy", "scipy", "numba", "scikit-learn", "h5py")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[*SIZES], default=[*SIZES])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", type=int, help="one case, by its number")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    if options.only is not None:
        sys.exit("\n".join(str(CHECKS[what](options.only)) for what in options.what))
    inputs.seeds()  # once, before the processes part
    print("| what | cases | went wrong | ms a case |\n|---|---:|---:|---:|")
    wrong = []
    for what in options.what:
        size = max(1, round(options.scale * SIZES[what]))
        if what == "kills":
            counts, sentences = kills.run(size)
            seconds = {}
        else:
            counts, seconds, sentences = workers.run(CHECKS[what], range(size), options.jobs)
        wrong += [f"{what} {number} ({kind}): {said}" for kind, number, said in sentences]
        for kind in sorted({*counts, *(kind for kind, _, _ in sentences)}):
            n_wrong = sum(one == kind for one, _, _ in sentences)
            cost = f"{1000 * seconds[kind] / counts[kind]:.1f}" if seconds.get(kind) else ""
            print(f"| {kind} | {counts.get(kind, 0):,} | {n_wrong} | {cost} |", flush=True)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    print(f"\nPython {platform.python_version()}, {versions}, {platform.machine()}.")
    print("\n".join(wrong[:100]), file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
