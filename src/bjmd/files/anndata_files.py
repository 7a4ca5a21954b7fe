"""AnnData and MuData: samples are obs, features are var, so their matrices are transposed here.

An .h5ad file or an AnnData .zarr store is one source, or one for each value of a column of obs; an
.h5mu file has one for each modality.  Matrices may stay on disk (data/on_disk.py).  After a fit,
`write_back` makes copies of the files with the result in the places where such files keep a
decomposition; bjmd.tl puts it into an object in memory.

Needs the extra bjmd[anndata]; nothing else in the package imports these libraries.
"""

import importlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bjmd import __version__
from bjmd.data.assembly import RawSource
from bjmd.data.matrix import transposed
from bjmd.data.on_disk import OnDisk
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files.readers import ANNDATA_ENDINGS, unique_stems
from bjmd.files.text_files import problems_as_sentences
from bjmd.results.decomposition import Decomposition


def read(path: Path, split_by: str | None = None, on_disk: bool = False) -> list[RawSource]:
    """The sources of one file."""
    data, file = _open_without_matrices(path) if on_disk else (_open(path), None)
    if path.suffix.lower() == ".h5mu":
        stored = {name: file and file["mod"][name].get("X") for name in data.mod}
        sources = [
            _source(str(path), modality, name, None, stored[name])
            for name, modality in data.mod.items()
        ]
    else:
        sources = split(data, split_by, str(path), stored=file and file.get("X"))
    return [replace(source, path=path) for source in sources]


def split(
    data: Any,
    by: str | None,
    what: str,
    *,
    layer: str | None = None,
    features: Any = slice(None),
    stored: Any = None,
) -> list[RawSource]:
    """An AnnData object as one source, or as one for each value of a column of obs.

    `what` is its name in messages.  The matrix of a backed object stays on disk, and so does
    `stored`, the matrix of an object that was read without it.
    """
    if data.isbacked and not data.is_view and layer is None:
        stored = getattr(data.X, "group", data.X)
    if by is None:
        return [_source(what, data, None, layer, stored, features=features)]
    if by not in data.obs:
        raise InputError(
            f"{what} has no column {by!r} in obs; it has {', '.join(data.obs) or 'none'}"
        )
    values = data.obs[by]
    without = data.obs_names[values.isna()]
    if len(without):
        raise InputError(
            f"{what} has no value in the column {by!r} for {len(without)} of its {len(values)} "
            f"samples, for example {without[0]!r}; fill it in, or remove them"
        )
    n_values = values.nunique()
    if values.dtype.kind in "iuf" and (n_values > len(values) / 2 or (values % 1 != 0).any()):
        raise InputError(
            f"{what} has {n_values} different numbers for {len(values)} samples in the column "
            f"{by!r}, which look like measurements; split by a column of groups, such as cohorts"
        )
    values = values.astype(str)
    return [
        _source(what, data, value, layer, stored, np.flatnonzero(values == value), features)
        for value in values.unique()
    ]


def write_back(
    folder: Path,
    raw_sources: Sequence[RawSource],
    sources: Sources,
    result: Decomposition,
    variance_explained: np.ndarray | None = None,
) -> None:
    """Copy the AnnData and MuData files that the sources came from, with the fit in them.

    If a matrix stays on disk, only obs and var are copied.  `annotate` says what goes where.
    """
    paths = [raw.path for raw in raw_sources if raw.path]
    copied = [path for path in paths if path.suffix.lower() in ANNDATA_ENDINGS]
    for path, stem in unique_stems(copied).items():
        numbers = [c for c, raw in enumerate(raw_sources) if raw.path == path]
        on_disk = raw_sources[numbers[0]].on_disk
        with problems_as_sentences(path, "the file that was fitted"):
            data = _open_without_matrices(path)[0] if on_disk else _open(path)
        ending = path.suffix.lower()
        fit = (raw_sources, sources, result, variance_explained)
        if ending == ".h5mu":
            for c in numbers:
                annotate(data.mod[raw_sources[c].part], [c], *fit)
        else:
            annotate(data, numbers, *fit)
        with _quietly():
            data.write(folder / (stem + ending.replace(".zarr", ".h5ad")))


def annotate(
    data: Any,
    numbers: list[int],
    raw_sources: Sequence[RawSource],
    sources: Sources,
    result: Decomposition,
    variance_explained: np.ndarray | None = None,
    key: str | None = None,
) -> None:
    """Put a fit into the AnnData object that the sources with these numbers came from.

    obsm["X_bjmd"] holds the memberships (samples x components), varm["bjmd"] the components
    (features x components, NaN where a feature was not in the fit), and uns["bjmd"] the rest.
    Where the fit has them, varm["bjmd_offsets"] holds the offsets (features x sources),
    var["bjmd_precision"] and obs["bjmd_precision"] the precision of features and samples, and
    uns["bjmd"] the degrees of freedom.  `key` replaces these names, as scanpy's key_added does.
    """
    in_obsm = key or "X_bjmd"
    key = key or "bjmd"
    rows_in_data = [data.obs_names.get_indexer(raw_sources[c].sample_names) for c in numbers]
    order = np.argsort(np.concatenate(rows_in_data))  # from source after source to rows of the data
    data.obsm[in_obsm] = np.hstack([result.memberships[c] for c in numbers]).T[order]
    row_of = {feature: i for i, feature in enumerate(sources.feature_names)}
    rows = np.array([row_of.get(feature, -1) for feature in data.var_names])
    in_fit = rows >= 0
    data.varm[key] = np.where(in_fit[:, None], result.components[rows], np.nan)
    data.uns[key] = {
        "sources": np.array([sources.names[c] for c in numbers]),
        "noise": np.array([np.nan if result.noise is None else result.noise[c] for c in numbers]),
        "version": __version__,
        **{name: getattr(result, name) for name in ("method", "seed", "objective", "converged")},
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


def _library(path: Path, name: str | None = None) -> Any:
    name = name or ("mudata" if path.suffix.lower() == ".h5mu" else "anndata")
    try:
        with _quietly():
            return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f"{path} needs the package {name}; install it with: pip install 'bjmd[anndata]'"
        ) from None


def _open(path: Path) -> Any:
    library = _library(path)
    with _quietly():
        return getattr(library, f"read_{path.suffix.lower()[1:]}")(path)


def _open_without_matrices(path: Path) -> tuple[Any, Any]:
    """The object with obs and var alone, and the open file that keeps everything else."""
    library = _library(path)
    anndata = _library(path, "anndata")
    with _quietly():
        if path.is_dir():
            file = _library(path, "zarr").open_group(path, mode="r")
        else:
            file = _library(path, "h5py").File(path, mode="r")
        modalities = file["mod"].attrs.get("mod-order", [*file["mod"]]) if "mod" in file else []
        groups = [file["mod"][name] for name in modalities] or [file]
        parts = [
            anndata.AnnData(**{name: anndata.io.read_elem(group[name]) for name in ("obs", "var")})
            for group in groups
        ]
        if len(modalities):
            return library.MuData(dict(zip(modalities, parts, strict=True))), file
        return parts[0], file


def _source(
    what: str,
    data: Any,
    part: str | None,
    layer: str | None,
    stored: Any = None,
    samples: Any = slice(None),
    features: Any = slice(None),
) -> RawSource:
    if layer is not None and layer not in data.layers:
        raise InputError(
            f"{what} has no layer {layer!r}; it has {', '.join(data.layers) or 'none'}"
        )
    if stored is not None:
        matrix: Any = OnDisk(stored, what, np.arange(data.n_obs)[samples])[features]
    else:
        chosen = data[samples, features]
        x = chosen.X if layer is None else chosen.layers[layer]
        if x is None:
            where = f" in {part!r}" if part else ""
            raise InputError(f"{what} has no matrix X{where}; put the values to fit there")
        matrix = transposed(x)
    obs = data.obs.iloc[samples]
    return RawSource(
        matrix,
        [str(name) for name in data.var_names[features]],
        [str(name) for name in obs.index],
        name=part or what,
        part=part,
        on_disk=stored is not None,
        metadata=obs,
    )


@contextmanager
def _quietly() -> Iterator[None]:
    """Without these libraries' warnings on their future and on repeated names, which we refuse."""
    with warnings.catch_warnings(action="ignore"):
        yield
