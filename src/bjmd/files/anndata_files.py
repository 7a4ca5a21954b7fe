"""AnnData and MuData: samples are obs, features are var, so their matrices are transposed here.

An .h5ad file or an AnnData .zarr store is one source, or one for each value of a column of obs; an
.h5mu file has one for each modality.  Matrices may stay on disk (data/streamed.py).  After a fit,
`write_back` makes copies of the files with the result in the places where such files keep a
decomposition; bjmd.tl puts it into an object in memory.

Needs the extra bjmd[anndata]; nothing else in the package imports these libraries.
"""

import importlib
import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bjmd import __version__
from bjmd.data.assembly import RawSource, Settings
from bjmd.data.matrix import require_sound_sparse
from bjmd.data.sources import Sources
from bjmd.data.streamed import OnDisk, require_whole
from bjmd.errors import InputError, problems_as_sentences
from bjmd.files.readers import ANNDATA_ENDINGS, unique_stems
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import Posterior


def read(
    path: Path,
    *,
    split_by: str | None = None,
    on_disk: bool = False,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
) -> list[RawSource]:
    """The sources of one file."""
    data, stored = _open(path, on_disk, layer)
    how: dict[str, Any] = {"layer": layer, "use_highly_variable": use_highly_variable}
    if path.suffix.lower() != ".h5mu":
        sources = split(data, split_by, str(path), stored=stored.get(None), **how)
        return [replace(source, path=path) for source in sources]
    how["use_highly_variable"] = bool(use_highly_variable)
    parts = {
        name: split(part, None, str(path), stored=stored.get(name), **how)[0]
        for name, part in data.mod.items()
    }
    return [replace(part, path=path, name=name, part=name) for name, part in parts.items()]


def highly_variable(data: Any, wanted: bool | None) -> tuple[Any, str]:
    """The features to use, and a sentence if they are not all.

    By default they are those that var["highly_variable"] marks, if there is such a column.
    """
    is_marked = "highly_variable" in data.var
    if wanted and not is_marked:
        raise InputError(
            'var has no column "highly_variable"; call scanpy.pp.highly_variable_genes first, or '
            "use all features"
        )
    if wanted is False or not is_marked:
        return slice(None), ""
    marked = np.flatnonzero(data.var["highly_variable"])
    note = f"Of {data.n_vars:,} features, the {len(marked):,} highly variable ones were used."
    return marked, note


def split(
    data: Any,
    by: str | None,
    what: str,
    *,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    stored: Any = None,
) -> list[RawSource]:
    """An AnnData object as one source, or as one for each value of a column of obs.

    `what` is its name in messages.  `highly_variable` says which features are used.  The matrix of
    a backed object stays on disk, and so does `stored`, the matrix of an object that was read
    without it.
    """
    if data.isbacked and not data.is_view and layer is None:
        stored = getattr(data.X, "group", data.X)
    features, note = highly_variable(data, use_highly_variable)
    x = _matrix(what, data, layer, stored)
    if not isinstance(features, slice):
        x = x[features]
    names = [str(feature) for feature in data.var_names[features]]
    groups: dict[str | None, Any] = {None: slice(None)}
    if by is not None:
        values = _values(data, by, what)
        groups = {value: np.flatnonzero(values == value) for value in values.unique()}
    return [
        RawSource(
            x if value is None else x[:, rows],
            names,
            [str(sample) for sample in data.obs_names[rows]],
            name=value or what,
            part=value,
            metadata=data.obs.iloc[rows],
            note=note,
        )
        for value, rows in groups.items()
    ]


def _values(data: Any, column: str, what: str) -> pd.Series:
    """A column of obs as text."""
    if column not in data.obs:
        raise InputError(
            f"{what} has no column {column!r} in obs; it has {', '.join(data.obs) or 'none'}"
        )
    values = data.obs[column]
    without = data.obs_names[values.isna()]
    if len(without):
        raise InputError(
            f"{what} has no value in the column {column!r} for {len(without)} of its {len(values)} "
            f"samples, for example {without[0]!r}; fill it in, or remove them"
        )
    return values.astype(str)


def write_back(
    folder: Path,
    raw_sources: Sequence[RawSource],
    sources: Sources,
    result: Decomposition,
    settings: Settings,
    variance_explained: np.ndarray | None = None,
) -> None:
    """Copy the AnnData and MuData files that the sources came from, with the fit in them.

    If a matrix stays on disk, only obs and var are copied.  `annotate` says what goes where.
    """
    paths = [raw.path for raw in raw_sources if raw.path]
    copied = [path for path in paths if path.suffix.lower() in ANNDATA_ENDINGS]
    for path, stem in unique_stems(copied).items():
        numbers = [c for c, raw in enumerate(raw_sources) if raw.path == path]
        with problems_as_sentences(path, "the file that was fitted"):
            data, _ = _open(path, bool(settings.reading.get("on_disk")))
        ending = path.suffix.lower()
        fit = (raw_sources, sources, settings, result, variance_explained)
        if ending == ".h5mu":
            for c in numbers:
                annotate(data.mod[raw_sources[c].part], [c], *fit)
        else:
            annotate(data, numbers, *fit)
        with _quietly():
            data.write(folder / (stem + ending.replace(".zarr", ".h5ad")))


def annotate(
    data: Any,
    numbers: Sequence[int],
    raw_sources: Sequence[RawSource],
    sources: Sources,
    settings: Settings,
    result: Decomposition,
    variance_explained: np.ndarray | None = None,
    key: str | None = None,
) -> None:
    """Put a fit into the AnnData object that the sources with these numbers came from.

    obsm["X_bjmd"] holds the memberships (samples x components), varm["bjmd"] the components
    (features x components, NaN where a feature was not in the fit), obs["bjmd_source"] the source
    of every sample if there are several, and uns["bjmd"] the rest, from which `stored_fit` gets the
    fit back.  Where the fit has them, varm["bjmd_offsets"] holds the offsets (features x sources),
    var["bjmd_precision"] and obs["bjmd_precision"] the precision of features and samples, and
    uns["bjmd"] the degrees of freedom.  `key` replaces these names, as scanpy's key_added does.
    """
    in_obsm = key or "X_bjmd"
    key = key or "bjmd"
    rows_in_data = [data.obs_names.get_indexer(raw_sources[c].sample_names) for c in numbers]
    order = np.argsort(np.concatenate(rows_in_data))  # from source after source to rows of the data
    data.obsm[in_obsm] = np.hstack([result.memberships[c] for c in numbers]).T[order]
    rows = pd.Index(sources.feature_names).get_indexer(data.var_names)
    in_fit = rows >= 0
    names = np.array([sources.names[c] for c in numbers])
    if len(sources) > 1:
        source_of_sample = np.repeat(names, [sources.n_samples[c] for c in numbers])
        data.obs[f"{key}_source"] = pd.Categorical(source_of_sample[order])
    data.varm[key] = np.where(in_fit[:, None], result.components[rows], np.nan)
    params = {"n_components": result.n_components, **settings.reading, **result.options}
    params["source_key"] = params.pop("split_by", None)
    data.uns[key] = {
        "sources": names,
        "noise": np.array([np.nan if result.noise is None else result.noise[c] for c in numbers]),
        "version": __version__,
        **{name: getattr(result, name) for name in ("method", "seed", "objective", "converged")},
        "params": {name: value for name, value in params.items() if value is not None},
        "fit": _packed(result, sources, settings),
    }
    if variance_explained is not None:
        data.uns[key]["variance_explained"] = variance_explained[numbers]
    model = result.model
    if model is None:
        return
    if model.offsets is not None:
        offsets = model.offsets[numbers][:, rows].T
        data.varm[f"{key}_offsets"] = np.where(in_fit[:, None], offsets, np.nan)
    if model.feature_precision is not None:
        data.var[f"{key}_precision"] = np.where(in_fit, model.feature_precision[rows], np.nan)
    if model.sample_precision is not None:
        precision = [model.sample_precision[c] for c in numbers]
        data.obs[f"{key}_precision"] = np.concatenate(precision)[order]
    if model.degrees_of_freedom is not None:
        data.uns[key]["degrees_of_freedom"] = model.degrees_of_freedom[numbers]


def _packed(result: Decomposition, sources: Sources, settings: Settings) -> dict[str, Any]:
    """A fit without its samples, in types that an .h5ad file can hold."""
    posterior = result.posterior and Posterior(
        result.posterior.components, [], result.posterior.noise
    )
    model = result.model and replace(result.model, sample_precision=None)
    bare = replace(
        result, memberships=[], trace=np.empty(0), history={}, posterior=posterior, model=model
    )
    arrays, (run,) = storage.packed([bare])
    # a slash in a name would make a group
    arrays = {name.replace("/", "."): array for name, array in arrays.items()}
    return {
        "run": json.dumps(run),
        "settings": json.dumps(asdict(settings)),
        "features": np.array(sources.feature_names),
        "sources": np.array(sources.names),
        **arrays,
    }


def stored_fit(stored: Any) -> tuple[Decomposition, Settings]:
    """The fit that `annotate` put into uns, without memberships, and how its data were prepared."""
    arrays = {name.replace(".", "/"): array for name, array in stored["fit"].items()}
    result = storage.unpacked(arrays, 0, json.loads(arrays["run"]))
    return result, Settings(**json.loads(arrays["settings"]))


def _library(path: Path, name: str) -> Any:
    try:
        with _quietly():
            return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f"{path} needs the package {name}; install it with: pip install {name}"
        ) from None


def _open(path: Path, on_disk: bool, layer: str | None = None) -> tuple[Any, dict[str | None, Any]]:
    """What is in a file, without its matrices if these stay there; and these, by modality."""
    ending = path.suffix.lower()
    anndata = _library(path, "anndata")
    library = _library(path, "mudata") if ending == ".h5mu" else anndata
    with _quietly():
        file: Any
        if path.is_dir():
            file = _library(path, "zarr").open_group(path, mode="r")
        else:
            file = _library(path, "h5py").File(path, mode="r")
            require_whole(file)
        groups: dict[str | None, Any] = {None: file}
        if ending == ".h5mu":
            order = file["mod"].attrs.get("mod-order", [*file["mod"]])
            groups = {name: file["mod"][name] for name in order}
        stored = {
            name: _chosen(str(path), group.get("X"), group.get("layers", {}), layer)
            for name, group in groups.items()
        }
        stored = {name: x for name, x in stored.items() if x is not None}
        if not on_disk:
            for x in stored.values():
                require_whole(x)
            return getattr(library, f"read_{ending[1:]}")(path), {}
        parts = {
            name: anndata.AnnData(
                obs=anndata.io.read_elem(group["obs"]), var=anndata.io.read_elem(group["var"])
            )
            for name, group in groups.items()
        }
        return library.MuData(parts) if ending == ".h5mu" else parts[None], stored


def _matrix(what: str, data: Any, layer: str | None, stored: Any) -> Any:
    """Features x samples, sound if it is sparse, so that samples may be taken out of it."""
    if stored is not None:
        on_disk = OnDisk(stored, what)
        if on_disk.shape != data.shape[::-1]:
            n_features, n_samples = on_disk.shape
            raise InputError(
                f"{what} has a matrix of {n_samples} samples x {n_features} features, but names of "
                f"{data.n_obs} samples and {data.n_vars} features; write it again"
            )
        return on_disk
    x = _chosen(what, data.X, data.layers, layer)
    if x is None:
        raise InputError(f"{what} has no matrix X; put the values to fit there")
    require_sound_sparse(x, what)
    return np.asarray(x).T if isinstance(x, np.ndarray) else x.T  # not one of anndata's views


def _chosen(what: str, x: Any, layers: Any, layer: str | None) -> Any:
    """The matrix x, or a layer."""
    if layer is None:
        return x
    if layer not in layers:
        raise InputError(f"{what} has no layer {layer!r}; it has {', '.join(layers) or 'none'}")
    return layers[layer]


@contextmanager
def _quietly() -> Iterator[None]:
    """Without these libraries' warnings on their future and on repeated names, which we refuse."""
    with warnings.catch_warnings(action="ignore"):
        yield
