"""Recompute the best run of a fit from its data, and compare.

The data are read from the files that were fitted, or from those that you
give, in the same order. The exit code is 0 if everything agrees, up to
rounding, and 1 if anything differs.
"""

import argparse

import numpy as np

from bjmd.commands import common
from bjmd.errors import FitError
from bjmd.inference import registry
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition

# up to this share of the largest entry a difference is rounding, which sweeps amplify
ROUNDING = 1e-8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd verify FOLDER [FILE ...]"
    common.add_fit(parser)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.analysis import intervals
    from bjmd.files import outputs

    folder = arguments.folder
    fit = outputs.load(folder)
    hashes = outputs.load_hashes(folder)
    raw_sources, sources = common.read_again(folder, fit, arguments.files, "verify")

    differences = [
        f"Source {name!r} is not what was fitted: {raw} holds other numbers or names."
        for name, raw in zip(fit.names, raw_sources, strict=True)
        if hashes["data"].get(name) != outputs.hash_of_source(raw)
    ]
    for name, stored in hashes["files"].items():
        now = outputs.hash_of_file(folder / name)
        if now is None:
            differences.append(f"{folder / name} is missing.")
        elif now != stored:
            differences.append(f"{folder / name} has changed since it was written.")
    print("\n".join(differences) or "The data, the settings and all files are unchanged.")
    for name, here in storage.versions().items():
        then = hashes["versions"].get(name)
        if then != here:
            print(f"The fit was made with {name} {then}; this is {name} {here}.")

    best = fit.results[0]
    with common.ctrl_c_ends_at_once():
        again = registry.fit(
            best.method, sources, best.n_components, best.seed or 0, **best.options
        )
        again = intervals.widened(sources, again)
    print(f"The best run (seed {best.seed}) was recomputed:")
    recomputed = _numbers(again)
    for name, arrays in _numbers(best).items():
        difference = _difference(arrays, recomputed.get(name, []))
        print(f"  {name}: {_verdict(difference)}")
        if difference > ROUNDING:
            differences.append(name)
    if differences:
        raise FitError(f"the fit in {folder} is not confirmed; the differences are listed above")
    print(f"The fit in {folder} is confirmed.")


def _verdict(difference: float) -> str:
    if difference == 0:
        return "identical"
    if not np.isfinite(difference):
        return "different: the shapes differ"
    size = f"by {difference:.2g} of the largest entry"
    return f"different, {size}" if difference > ROUNDING else f"equal within rounding, {size}"


def _numbers(result: Decomposition) -> dict[str, list[np.ndarray]]:
    """The arrays of a result, by what people call them."""
    numbers: dict[str, list[np.ndarray]] = {"objective": [np.array(result.objective)]}
    for name, array in storage.arrays_of(result).items():
        numbers.setdefault(name.partition("/")[0], []).append(array)
    return {name: arrays for name, arrays in numbers.items() if name not in ("trace", "history")}


def _difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference, relative to an array's largest entry; inf if shapes differ."""
    if [a.shape for a in ours] != [a.shape for a in theirs]:
        return np.inf
    tiny = np.finfo(float).tiny
    return max(
        float(np.abs(a - b).max() / max(np.abs(a).max(), tiny))
        for a, b in zip(ours, theirs, strict=True)
    )
