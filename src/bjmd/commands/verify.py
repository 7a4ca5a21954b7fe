"""Read the data of a fit again, compute its best run again, and say what agrees.

The data are read from the files that the fit was made of, or from those that
you give, in the same order. The exit code is 0 if everything is as it was, up
to rounding, and 1 if anything differs.
"""

import argparse
import inspect
from pathlib import Path

import numpy as np

from bjmd.analysis import intervals
from bjmd.checks import one_of
from bjmd.commands import common
from bjmd.data import preparation
from bjmd.data.alignment import JOINS
from bjmd.errors import FitError, InputError
from bjmd.files import hashes, readers, tables
from bjmd.inference import registry
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition

# up to this share of the largest entry a difference is rounding, which the sweeps of a fit enlarge
ROUNDING = 1e-8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd verify FOLDER [FILE ...]"
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a folder that `bjmd fit` wrote"
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="its data, if they are elsewhere by now"
    )


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import outputs

    folder = arguments.folder
    fit = outputs.load(folder)
    kept = outputs.load_hashes(folder)
    with storage.complete(folder / "settings.json"):
        paths = arguments.files or [Path(file) for file in fit.settings.files]
        how = {"samples_in_rows": False, "split_by": None, **fit.settings.reading}
        join = one_of("join", how.pop("join"), JOINS)
        scale = one_of("scale", fit.settings.scale, preparation.SCALES)
        inspect.signature(readers.read_tables).bind(paths, **how)  # which no damaged name passes
    lost = next((path for path in paths if not path.exists()), None)
    if lost is not None:
        raise InputError(
            f"{lost} is not there; say where the data are now: bjmd verify {folder} FILE ..."
        )
    read = readers.read_tables(paths, **how)
    if len(read) != len(fit.names):
        raise InputError(
            f"the number of sources in the files is {len(read)}, but in the fit it is {len(fit.names)} "
            f"({', '.join(fit.names)}); give the files of the fit, in their order"
        )
    differs = [
        f"Source {name!r} is not what was fitted: {table} holds other numbers or names."
        for name, table in zip(fit.names, read, strict=True)
        if kept["data"].get(name) != hashes.of_table(table)
    ]
    found = {name: hashes.of_file(folder / name) for name in kept["files"]}
    differs += [
        f"{folder / name} {'has changed since it was written' if found[name] else 'is missing'}."
        for name, then in kept["files"].items()
        if then != found[name]
    ]
    if kept["settings"] != hashes.of_settings(fit.results, fit.settings, kept["versions"]):
        differs.append("The settings that are stored are not those of the fit.")
    print(
        "\n".join(
            differs or [f"Data ({', '.join(fit.names)}), settings and files are those of the fit."]
        )
    )
    for name, here in storage.versions().items():
        if kept["versions"].get(name) != here:
            print(f"The fit was made with {name} {kept['versions'].get(name)}, and here is {here}.")

    best = fit.results[0]
    sources, _ = tables.prepare(read, names=fit.names, join=join, scale=scale)
    with common.ctrl_c_ends_at_once():
        again = registry.fit(
            best.method, sources, best.n_components, best.seed or 0, **best.options
        )
        again = intervals.widened(sources, again)
    print(f"The best run (seed {best.seed}) was computed again:")
    then = _numbers(best)
    now = _numbers(again)
    for name in then:
        difference = _difference(then[name], now.get(name, []))
        size = f"by {difference:.2g} of the largest entry"
        if difference > ROUNDING:
            print(f"  {name}: different, {size if np.isfinite(difference) else 'even in shape'}")
            differs.append(name)
        else:
            print(
                f"  {name}: {f'equal within rounding, {size}' if difference else 'equal to the bit'}"
            )
    if differs:
        raise FitError(f"the fit in {folder} is not confirmed; what differs is listed above")
    print(f"The fit in {folder} is confirmed.")


def _numbers(result: Decomposition) -> dict[str, list[np.ndarray]]:
    """What a run found, by what people call it."""
    numbers: dict[str, list[np.ndarray]] = {"objective": [np.array(result.objective)]}
    for name, array in storage.arrays_of(result).items():
        numbers.setdefault(name.partition("/")[0], []).append(array)
    return {name: arrays for name, arrays in numbers.items() if name not in ("trace", "history")}


def _difference(ours: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The largest difference between two lists of arrays, as a share of an array's largest entry;
    inf for shapes.
    """
    if [a.shape for a in ours] != [a.shape for a in theirs]:
        return np.inf
    tiny = np.finfo(float).tiny
    return max(
        float(np.abs(a - b).max() / max(np.abs(a).max(), tiny))
        for a, b in zip(ours, theirs, strict=True)
    )
