"""Results and data sets on disk: a zip of .npy arrays, which `numpy.load` reads, and metadata.json.

No pickle.  A file is written beside its place and moved there when complete, so a reader never sees
half of one.
"""

import dataclasses
import io
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
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal contents give equal bytes
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
_SHAPES = {
    "components": "mk",
    "memberships": "kn",
    "noise": "c",
    "trace": "t",
    "posterior/noise/shape": "c",
    "posterior/noise/rate": "c",
    "model/alpha0": "ck",
    "model/noise_prior": "2",
    "model/offsets": "cm",
    "model/offsets_sd": "cm",
    "model/feature_precision": "m",
    "model/sample_precision": "n",
    "model/sample_shape": "c",
    "model/degrees_of_freedom": "c",
    "model/component_scales": "k",
    "model/data_extent": "3",
}
"""Sizes of arrays: c sources, k components, m features, n samples of a source."""
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
        families = {name: type(factor).__name__ for name, factor in _factors(d).items()}
        more = {"n_sources": len(d.memberships), "history": list(d.history), "posterior": families}
        runs.append({field: getattr(d, field) for field in _OF_A_RUN} | more)
    return arrays, runs


def arrays_of(d):
    """All arrays of a result by name: components, memberships/0, posterior/noise/rate."""
    arrays = {"components": d.components, "trace": d.trace}
    if d.noise is not None:
        arrays["noise"] = np.asarray(d.noise)
    arrays |= {f"memberships/{c}": h for c, h in enumerate(d.memberships)}
    arrays |= {f"history/{name}": array for name, array in d.history.items()}
    known = {} if d.model is None else vars(d.model)
    for name, value in known.items():
        if isinstance(value, list):
            arrays |= {f"model/{name}/{c}": array for c, array in enumerate(value)}
        elif value is not None:
            arrays[f"model/{name}"] = value
    return arrays | {
        f"posterior/{name}/{part}": a
        for name, f in _factors(d).items()
        for part, a in f.arrays().items()
    }


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
        for decomposition in decompositions:
            _require_sound(decomposition)
        return decompositions, metadata.get("about")


def _require_sound(d):
    """Refuse arrays that are not numbers or do not fit together."""
    sizes = {"c": len(d.memberships), "k": d.n_components, "m": len(d.components)}
    sizes |= {"2": 2, "3": 3, "t": d.trace.size}
    for name, array in arrays_of(d).items():
        kind, _, number = name.rpartition("/")
        if number.isdecimal():
            name = kind
            sizes["n"] = d.memberships[int(number)].shape[1]
        axes = _SHAPES.get(name)
        if axes is not None and array.shape != tuple(sizes[axis] for axis in axes):
            raise ValueError(f"the size of {name} is {array.shape}")
    # the objective of a known truth is not a number
    if not dataclasses.replace(d, objective=0.0).is_finite():
        raise ValueError("some numbers are not finite")


def unpacked(arrays, i, run):
    """Result i of those that `packed` gave."""
    memberships = [arrays[f"{i}/memberships/{c}"] for c in range(run["n_sources"])]
    return Decomposition(
        components=arrays[f"{i}/components"],
        memberships=memberships,
        noise=arrays.get(f"{i}/noise"),
        trace=arrays[f"{i}/trace"],
        history={name: arrays[f"{i}/history/{name}"] for name in run["history"]},
        posterior=_posterior(arrays, f"{i}/posterior", run),
        model=_model(arrays, f"{i}/model/", [h.shape[1] for h in memberships]),
        **{field: run[field] for field in _OF_A_RUN},
    )


def _factors(d):
    """The factors of a posterior by name; those of memberships are numbered."""
    if d.posterior is None:
        return {}
    factors = {"components": d.posterior.components, "noise": d.posterior.noise}
    factors |= {f"memberships/{c}": factor for c, factor in enumerate(d.posterior.memberships)}
    return {name: factor for name, factor in factors.items() if factor is not None}


def _model(arrays, place, n_samples):
    known = {
        name.removeprefix(place): array for name, array in arrays.items() if name.startswith(place)
    }
    if "sample_precision" in known:  # joined over the sources, as version 0.2.0 wrote it
        ends = np.cumsum(n_samples)[:-1]
        known["sample_precision"] = np.split(known["sample_precision"], ends)
    names = [name for name in known if name.startswith("sample_precision/")]
    if names:
        by_source = {int(name.partition("/")[2]): known.pop(name) for name in names}
        known["sample_precision"] = [by_source[c] for c in range(len(by_source))]
    return FittedModel(**known) if known else None


def _posterior(arrays, place, run):
    if not run["posterior"]:
        return None
    factors: dict[str, Any] = {}
    for name, family in run["posterior"].items():
        start = f"{place}/{name}/"
        factors[name] = FACTORS[family](
            **{key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
        )
    columns = [factors[f"memberships/{c}"] for c in range(run["n_sources"])]
    return Posterior(factors["components"], columns, factors.get("noise"))


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
        matrices = []
        for c, n in enumerate(metadata["n_samples"]):
            start = f"{c}/"
            parts = {k.removeprefix(start): a for k, a in arrays.items() if k.startswith(start)}
            matrices.append(from_arrays(parts, (metadata["n_features"], n)))
        labels = (
            [arrays[f"{c}/labels"] for c in range(len(matrices))] if "0/labels" in arrays else None
        )
        return Sources(matrices, labels=labels, **{name: metadata[name] for name in _OF_SOURCES})


def _write(path, kind, arrays, metadata):
    metadata = {"format": "bjmd", "format_version": FORMAT_VERSION, "kind": kind, **metadata}
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        archive.writestr(zipfile.ZipInfo("metadata.json", _EPOCH), json.dumps(metadata, indent=1))
        for name, array in arrays.items():
            with archive.open(
                zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True
            ) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _read(path, kind):
    with zipfile.ZipFile(path) as archive:
        metadata = json.loads(archive.read("metadata.json"))
        if metadata["format"] != "bjmd":
            raise KeyError("format")
        arrays = {
            name.removesuffix(".npy"): np.lib.format.read_array(
                io.BytesIO(archive.read(name)), allow_pickle=False
            )
            for name in archive.namelist()
            if name.endswith(".npy")
        }
    if metadata["format_version"] != FORMAT_VERSION:
        raise InputError(
            f"{path} has format version {metadata['format_version']!r} but {FORMAT_VERSION} is "
            "needed; write it again"
        )
    if metadata["kind"] != kind:
        raise InputError(f"{path} holds {metadata['kind']}, not {kind}; give the right file")
    return arrays, metadata
