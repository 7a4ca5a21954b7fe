"""Results and data sets on disk: a zip of .npy arrays, which `numpy.load` reads, and metadata.json.

No pickle.  A file is written beside its place and moved there when complete, so a reader never sees
half of one.
"""

import json
import platform
import tempfile
import zipfile
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bjmd import __version__
from bjmd.data.matrix import from_arrays
from bjmd.data.sources import Sources
from bjmd.errors import InputError, problems_as_sentences
from bjmd.results.decomposition import Decomposition, FittedModel
from bjmd.results.posterior import FACTORS, Posterior

FORMAT_VERSION = 2
_OF_A_RUN = (
    "method",
    "seed",
    "options",
    "objective",
    "converged",
    "reason",
    "seconds",
    "trace_step",
)
_OF_SOURCES = ("names", "feature_names", "sample_names", "class_names")
"""What metadata.json holds of a result and of a data set as it is; the rest are arrays."""
OURS = "a complete file of bjmd"


@contextmanager
def atomic_path(path):
    """A temporary path, for a file or a folder to be written.

    It replaces `path` when the block ends well, and else vanishes.
    """
    path = Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    # in a folder, since mkstemp makes private files; results have the user's usual permissions
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        new = Path(folder) / "new"
        old = Path(folder) / "old"
        yield new
        if path.is_dir() and new.is_dir():  # which cannot be replaced in one step
            path.rename(old)
        try:
            new.replace(path)
        except OSError:
            if old.exists():
                old.rename(path)
            raise


def save_decompositions(path, decompositions, about=None):
    """Write the results of several restarts as one file, and what else to know about them."""
    arrays, runs = packed(decompositions)
    metadata = {"runs": runs, "versions": versions(), "about": about}
    _write(path, "decompositions", arrays, metadata)


def packed(decompositions):
    """Results as arrays by name, and a dictionary for each that json can write."""
    arrays: dict[str, np.ndarray] = {}
    runs = []
    for i, d in enumerate(decompositions):
        arrays |= {f"{i}/{name}": array for name, array in arrays_of(d).items()}
        factors = d.posterior.factors() if d.posterior else {}
        families = {name: type(factor).__name__ for name, factor in factors.items()}
        run = {field: getattr(d, field) for field in _OF_A_RUN}
        runs.append(run | {"n_sources": len(d.memberships), "posterior": families})
    return arrays, runs


def arrays_of(d):
    """All arrays of a result by name: its estimates, trace, history/auc, model/alpha0."""
    arrays = d.estimates() | {"trace": d.trace}
    arrays |= {f"history/{name}": array for name, array in d.history.items()}
    for name, value in vars(d.model).items() if d.model else ():
        if value is not None:
            arrays[f"model/{name}"] = np.hstack(value) if isinstance(value, list) else value
    return arrays


def versions():
    """The versions that the bits of a result depend on."""
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"bjmd": __version__, "python": platform.python_version(), **libraries}


def load_decompositions(path):
    """Read back the results that `save_decompositions` wrote."""
    return load_with_about(path)[0]


def load_with_about(path):
    """Read back what `save_decompositions` wrote: the results, and what else is known of them."""
    with problems_as_sentences(path, OURS):
        arrays, metadata = _read(path, "decompositions")
        decompositions = [unpacked(arrays, i, run) for i, run in enumerate(metadata["runs"])]
        if not decompositions:
            raise ValueError("it holds no fit")
        return decompositions, metadata.get("about")


def unpacked(arrays, i, run):
    """Result i of those that `packed` gave."""
    arrays = _inside(arrays, f"{i}/")
    memberships = [arrays[f"memberships/{c}"] for c in range(run["n_sources"])]
    return Decomposition(
        components=arrays["components"],
        memberships=memberships,
        noise=arrays.get("noise"),
        trace=arrays["trace"],
        history=_inside(arrays, "history/"),
        posterior=_posterior(_inside(arrays, "posterior/"), run),
        model=_model(_inside(arrays, "model/"), [h.shape[1] for h in memberships]),
        **{field: run[field] for field in _OF_A_RUN},
    )


def _model(arrays, n_samples):
    if "sample_precision" in arrays:
        ends = np.cumsum(n_samples)[:-1]
        arrays["sample_precision"] = np.split(arrays["sample_precision"], ends)
    return FittedModel(**arrays) if arrays else None


def _posterior(arrays, run):
    if not run["posterior"]:
        return None
    factors: dict[str, Any] = {
        name: FACTORS[family](**_inside(arrays, f"{name}/"))
        for name, family in run["posterior"].items()
    }
    columns = [factors[f"memberships/{c}"] for c in range(run["n_sources"])]
    return Posterior(factors["components"], columns, factors.get("noise"))


def _inside(arrays, start):
    """The arrays whose names begin so, by what follows."""
    return {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}


def save_sources(path, sources):
    """Write a data set; sparse sources are stored as their CSC parts."""
    sources.require_in_memory("writing a data set")
    arrays: dict[str, np.ndarray] = {}
    for c, x in enumerate(sources.data):
        arrays |= {f"{c}/{part}": array for part, array in x.arrays().items()}
        if sources.labels is not None:
            arrays[f"{c}/labels"] = sources.labels[c]
    shape = {"n_features": sources.n_features, "n_samples": sources.n_samples}
    _write(path, "sources", arrays, shape | {name: getattr(sources, name) for name in _OF_SOURCES})


def load_sources(path):
    """Read back what `save_sources` wrote."""
    with problems_as_sentences(path, OURS):
        arrays, metadata = _read(path, "sources")
        parts = [_inside(arrays, f"{c}/") for c in range(len(metadata["n_samples"]))]
        matrices = [
            from_arrays(part, (metadata["n_features"], n))
            for part, n in zip(parts, metadata["n_samples"], strict=True)
        ]
        labels = [part["labels"] for part in parts] if "labels" in parts[0] else None
        return Sources(matrices, labels=labels, **{name: metadata[name] for name in _OF_SOURCES})


def _write(path, kind, arrays, metadata):
    metadata = {"format": "bjmd", "format_version": FORMAT_VERSION, "kind": kind, **metadata}
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        # ZipInfo dates from 1980 unless told otherwise, so equal contents give equal bytes
        archive.writestr(zipfile.ZipInfo("metadata.json"), json.dumps(metadata, indent=1))
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _read(path, kind):
    with Path(path).open("rb") as file:
        if not zipfile.is_zipfile(file):  # about which numpy talks of pickles
            raise ValueError("it is not a .npz archive")
        arrays = dict(np.load(file, allow_pickle=False))
    metadata = json.loads(arrays.pop("metadata.json"))
    if metadata["format"] != "bjmd":
        raise KeyError("format")
    if metadata["format_version"] != FORMAT_VERSION:
        raise InputError(
            f"{path} has format version {metadata['format_version']!r} but {FORMAT_VERSION} is "
            "needed; write it again"
        )
    if metadata["kind"] != kind:
        raise InputError(f"{path} holds {metadata['kind']}, not {kind}; give the right file")
    return arrays, metadata
