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
from bjmd.errors import InputError
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
_OF_A_MODEL = {
    "alpha0": "ck",
    "noise_prior": "2",
    "offsets": "cm",
    "offsets_sd": "cm",
    "feature_precision": "m",
    "sample_shape": "c",
    "degrees_of_freedom": "c",
    "component_scales": "k",
}
"""Shapes: c sources, k components, m features."""


@contextmanager
def atomic_path(path):
    """A temporary path that replaces `path` when the block ends well, and else vanishes."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # in a folder, for mkstemp makes private files; results are as readable as any other file of the
    # user's
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        temporary.replace(path)


def save_decompositions(path, decompositions):
    """Write the results of several restarts as one file."""
    arrays, runs = packed(decompositions)
    _write(path, "decompositions", arrays, {"runs": runs, "versions": versions()})


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
    """Read back what `save_decompositions` wrote."""
    with complete(path):
        arrays, metadata = _read(path, "decompositions")
        decompositions = [unpacked(arrays, i, run) for i, run in enumerate(metadata["runs"])]
        if not decompositions or not all(map(_is_sound, decompositions)):
            raise ValueError("arrays do not fit together")
        return decompositions


def _is_sound(d):
    """Whether the arrays of a result fit together and are numbers."""
    floats = [d.components, d.trace, *d.memberships] + ([] if d.noise is None else [d.noise])
    if (
        any(array.dtype.kind != "f" for array in floats)
        or d.components.ndim != 2
        or d.trace.ndim != 1
    ):
        return False
    if any(h.ndim != 2 or len(h) != d.n_components for h in d.memberships):
        return False
    sizes = {"c": len(d.memberships), "k": d.n_components, "m": len(d.components), "2": 2}
    of_model = {
        name: array for name in _OF_A_MODEL if (array := getattr(d.model, name, None)) is not None
    }
    if any(
        array.shape != tuple(map(sizes.get, _OF_A_MODEL[name])) for name, array in of_model.items()
    ):
        return False
    if d.model is not None and d.model.sample_precision is not None:
        n_samples = [(h.shape[1],) for h in d.memberships]
        if [u.shape for u in d.model.sample_precision] != n_samples:
            return False
    # the objective of a known truth is not a number
    noise = [d.noise] if d.noise is not None else []
    noise += d.posterior.noise.arrays().values() if d.posterior and d.posterior.noise else []
    return (
        all(array.shape == (len(d.memberships),) for array in noise)
        and dataclasses.replace(d, objective=0.0).is_finite()
    )


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
    with complete(path):
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


@contextmanager
def complete(path):
    """Whatever goes wrong with the content of a file or folder of ours, in one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception:  # a parser that meets garbage may raise anything
        raise InputError(
            f"{path} is not complete, or was not written by bjmd; write it again"
        ) from None


def _read(path, kind):
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path, or run the step that writes it")
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
