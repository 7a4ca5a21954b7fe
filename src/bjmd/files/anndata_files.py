"""AnnData and MuData: samples are obs, features are var, so their matrices are the transpose of
ours.

An .h5ad file or an AnnData .zarr store is one source, or one for each value of a column of obs; an
.h5mu file has one for each modality.  Matrices may stay on disk (data/on_disk.py).  After a fit,
`write_back` makes copies of the files with the result in the places where such files keep a
decomposition; bjmd.tl puts it into an object in memory.

Needs the extra bjmd[anndata]; nothing else in the package imports these libraries.
"""

import importlib
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bjmd import __version__
from bjmd.analysis import variance
from bjmd.data.matrix import transposed
from bjmd.data.on_disk import OnDisk
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files.readers import unique_stems
from bjmd.files.tables import Table
from bjmd.files.text_tables import problems_as_sentences
from bjmd.inference import registry
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition

ENDINGS = (".h5ad", ".h5mu", ".zarr")
WALK = """
import sys, h5py
with h5py.File(sys.argv[1]) as file:
    dict(file.attrs)
    file.visititems(lambda name, node: dict(node.attrs).clear())
"""
PATIENCE = 60
"""Seconds that the walk may take; through a good file it takes milliseconds."""


def read(path: Path, split_by: str | None = None, on_disk: bool = False) -> list[Table]:
    """The sources of one file."""
    data, file = _without_matrices(path) if on_disk else (_open(path), None)
    if path.suffix.lower() == ".h5mu":
        stored = {name: file and file["mod"][name].get("X") for name in data.mod}
        found = [_table(str(path), one, name, None, stored[name]) for name, one in data.mod.items()]
    else:
        found = split(data, split_by, str(path), stored=file and file.get("X"))
    return [replace(table, path=path) for table in found]


def split(
    data: Any,
    by: str | None,
    what: str,
    *,
    layer: str | None = None,
    features: Any = slice(None),
    stored: Any = None,
) -> list[Table]:
    """An AnnData object as one table, or as one for each value of a column of obs; `what` is its
    name in messages.

    The matrix of a backed object stays on disk, as does `stored`, that of one without.
    """
    if data.isbacked and not data.is_view and layer is None:
        stored = getattr(data.X, "group", data.X)
    if by is None:
        return [_table(what, data, None, layer, stored, features=features)]
    if by not in data.obs:
        raise InputError(
            f"{what} has no column {by!r} in obs; it has {', '.join(data.obs) or 'none'}"
        )
    values = data.obs[by]
    without = data.obs_names[values.isna()]
    if len(without):
        raise InputError(
            f"{what} has no value in the column {by!r} for {len(without)} of its {len(values)} samples, for "
            f"example {without[0]!r}; fill it in, or remove them"
        )
    n_values = values.nunique()
    if values.dtype.kind in "iuf" and (n_values > len(values) / 2 or (values % 1 != 0).any()):
        raise InputError(
            f"{what} has {n_values} different numbers for {len(values)} samples in the column {by!r}, which look like "
            "measurements; sources are split by a column of groups, such as cohorts"
        )
    values = values.astype(str)
    parts = ((value, np.flatnonzero(values == value)) for value in values.unique())
    return [_table(what, data, value, layer, stored, samples, features) for value, samples in parts]


def write_back(
    folder: Path, tables: Sequence[Table], sources: Sources, result: Decomposition
) -> None:
    """Copies of the AnnData and MuData files among the tables, with memberships, components and
    noise in them.

    Of a file that stays on disk, obs and var are copied, and its matrix is not.

    obsm["X_bjmd"] holds the memberships (samples x components), varm["bjmd"] the components
    (features x components, NaN where a feature was not in the fit), and uns["bjmd"] the rest.
    Where the fit has them, varm["bjmd_offsets"] holds the offsets (features x sources),
    var["bjmd_precision"] and obs["bjmd_precision"] how precise features and samples are, and
    uns["bjmd"] the degrees of freedom.
    """
    paths = [table.path for table in tables if table.path and table.path.suffix.lower() in ENDINGS]
    for path, stem in unique_stems(paths).items():
        own = [c for c, table in enumerate(tables) if table.path == path]
        on_disk = isinstance(tables[own[0]].matrix, OnDisk)
        data = _without_matrices(path)[0] if on_disk else _open(path)
        ending = path.suffix.lower()
        if ending == ".h5mu":
            for c in own:
                annotate(data.mod[tables[c].part], [c], tables, sources, result)
        else:
            annotate(data, own, tables, sources, result)
        with _quietly():
            data.write(folder / (stem + ending.replace(".zarr", ".h5ad")))


def annotate(
    data: Any,
    own: list[int],
    tables: Sequence[Table],
    sources: Sources,
    result: Decomposition,
    key: str | None = None,
) -> None:
    """Put what the fit found into the AnnData object that the sources `own` (by number) came from.

    `key` names its places, as scanpy's key_added does.
    """
    in_obsm = key or "X_bjmd"
    key = key or "bjmd"
    # where each sample of the file is among those of its sources, one source after the other
    back = np.argsort(
        np.concatenate([data.obs_names.get_indexer(tables[c].sample_names) for c in own])
    )
    data.obsm[in_obsm] = np.hstack([result.memberships[c] for c in own]).T[back]
    place = {feature: i for i, feature in enumerate(sources.feature_names)}
    rows = np.array([place.get(feature, -1) for feature in data.var_names])
    data.varm[key] = np.where(rows[:, None] >= 0, result.components[rows], np.nan)
    known = result.model
    if known is not None and known.offsets is not None:
        data.varm[f"{key}_offsets"] = np.where(
            rows[:, None] >= 0, known.offsets[own][:, rows].T, np.nan
        )
    if known is not None and known.feature_precision is not None:
        data.var[f"{key}_precision"] = np.where(rows >= 0, known.feature_precision[rows], np.nan)
    if known is not None and known.sample_precision is not None:
        data.obs[f"{key}_precision"] = np.concatenate(
            [predictive.sample_precision(result, c) for c in own]
        )[back]
    data.uns[key] = {
        "sources": np.array([sources.names[c] for c in own]),
        "noise": np.array([np.nan if result.noise is None else result.noise[c] for c in own]),
        "version": __version__,
        **{name: getattr(result, name) for name in ("method", "seed", "objective", "converged")},
    }
    if registry.get(result.method).infers_bjmd:
        data.uns[key]["variance_explained"] = variance.explained(sources, result)[own]
    if known is not None and known.degrees_of_freedom is not None:
        data.uns[key]["degrees_of_freedom"] = known.degrees_of_freedom[own]


def _library(path: Path, name: str | None = None) -> Any:
    name = name or ("mudata" if path.suffix.lower() == ".h5mu" else "anndata")
    try:
        with _quietly():
            return importlib.import_module(name)
    except ImportError:
        raise InputError(
            f"{path} needs the package {name}; install it with: pip install 'bjmd[anndata]'"
        ) from None


def _require_sound(path: Path) -> None:
    """Refuse a file whose damage keeps the HDF5 library busy without an end, or ends the process.

    Nothing can interrupt that library, so another process walks through the file first, without
    reading matrices.
    """
    if path.is_dir():
        return
    try:
        walk = subprocess.run(
            [sys.executable, "-P", "-c", WALK, path], capture_output=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        slow = f"{path} could not be looked through in {PATIENCE} seconds, so it is damaged or its disk is very slow"
        raise InputError(f"{slow}; write it again, or copy it to a faster disk") from None
    if walk.returncode < 0:
        raise InputError(
            f"the HDF5 library crashes when it opens {path}, so the file is damaged; write it again"
        )


def _open(path: Path) -> Any:
    library = _library(path)
    _require_sound(path)
    with problems_as_sentences(path, f"a file of {library.__name__}"), _quietly():
        return getattr(library, f"read_{path.suffix.lower()[1:]}")(path)


def _without_matrices(path: Path) -> tuple[Any, Any]:
    """The AnnData or MuData object with obs and var alone, and the open file, in which all else is
    left.
    """
    library = _library(path)
    anndata = _library(path, "anndata")
    _require_sound(path)
    file = _library(path, "zarr").open_group if path.is_dir() else _library(path, "h5py").File
    with problems_as_sentences(path, f"a file of {library.__name__}"), _quietly():
        file = file(path, mode="r")
        mods = file["mod"].attrs.get("mod-order", [*file["mod"]]) if "mod" in file else []
        parts = [
            anndata.AnnData(**{name: anndata.io.read_elem(group[name]) for name in ("obs", "var")})
            for group in ([file["mod"][name] for name in mods] or [file])
        ]
        return library.MuData(dict(zip(mods, parts, strict=True))) if mods else parts[0], file


def _table(
    what: str,
    data: Any,
    part: str | None,
    layer: str | None,
    stored: Any = None,
    samples: Any = slice(None),
    features: Any = slice(None),
) -> Table:
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
            raise InputError(
                f"{what} has no matrix X{f' in {part!r}' if part else ''}; put the values to fit there"
            )
        matrix = transposed(x)
    obs = data.obs.iloc[samples]
    names = [*map(str, data.var_names[features])]
    return Table(matrix, names, [*map(str, obs.index)], name=part or what, part=part, metadata=obs)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what these libraries say about their own future, and about double names, which we
    refuse.
    """
    with warnings.catch_warnings(action="ignore"):
        yield
