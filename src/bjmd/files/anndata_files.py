"""AnnData and MuData: samples are obs, features are var, so their matrices are the transpose of ours.

An .h5ad file is one source, or one for each value of a column of obs; an .h5mu file has one for each modality.  After
a fit, `write_back` makes copies of the files with the result in the places where such files keep a decomposition;
bjmd.tl puts it into an object in memory.

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
import scipy.sparse

from bjmd import __version__
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files.readers import unique_stems
from bjmd.files.tables import Table
from bjmd.files.text_tables import problems_as_sentences
from bjmd.fits import predictive, registry, variance
from bjmd.fits.decomposition import Decomposition


def read(path: Path, split_by: str | None = None) -> list[Table]:
    """The sources of one file."""
    data = _open(path)
    if path.suffix.lower() == ".h5mu":
        found = [_table(str(path), modality, name, None) for name, modality in data.mod.items()]
    else:
        found = split(data, split_by, str(path))
    return [replace(table, path=path) for table in found]


def split(
    data: Any, by: str | None, what: str, *, layer: str | None = None, features: Any = slice(None)
) -> list[Table]:
    """An AnnData object as one table, or as one for each value of a column of obs; `what` is its name in messages."""
    if by is None:
        return [_table(what, data[:, features], None, layer)]
    if by not in data.obs:
        raise InputError(f"{what} has no column {by!r} in obs; it has {', '.join(data.obs) or 'none'}")
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
    return [_table(what, data[(values == value).to_numpy(), features], value, layer) for value in values.unique()]


def write_back(folder: Path, tables: Sequence[Table], sources: Sources, result: Decomposition) -> None:
    """Copies of the .h5ad and .h5mu files among the tables, with memberships, components and noise in them.

    obsm["X_bjmd"] holds the memberships (samples x components), varm["bjmd"] the components (features x components,
    NaN where a feature was not in the fit), and uns["bjmd"] the rest.  Where the fit has them, varm["bjmd_offsets"]
    holds the offsets (features x sources), var["bjmd_precision"] and obs["bjmd_precision"] how precise features and
    samples are, and uns["bjmd"] the degrees of freedom.
    """
    paths = [table.path for table in tables if table.path and table.path.suffix.lower() in (".h5ad", ".h5mu")]
    for path, stem in unique_stems(paths).items():
        data = _open(path)
        own = [c for c, table in enumerate(tables) if table.path == path]
        if path.suffix.lower() == ".h5mu":
            for c in own:
                annotate(data.mod[tables[c].part], [c], tables, sources, result)
        else:
            annotate(data, own, tables, sources, result)
        with _quietly():
            data.write(folder / (stem + path.suffix.lower()))


def annotate(
    data: Any, own: list[int], tables: Sequence[Table], sources: Sources, result: Decomposition, key: str | None = None
) -> None:
    """Put what the fit found into the AnnData object that the sources `own` (by number) came from.

    `key` names its places, as scanpy's key_added does.
    """
    in_obsm, key = key or "X_bjmd", key or "bjmd"
    # where each sample of the file is among those of its sources, one source after the other
    back = np.argsort(np.concatenate([data.obs_names.get_indexer(tables[c].sample_names) for c in own]))
    data.obsm[in_obsm] = np.hstack([result.memberships[c] for c in own]).T[back]
    place = {feature: i for i, feature in enumerate(sources.feature_names)}
    rows = np.array([place.get(feature, -1) for feature in data.var_names])
    data.varm[key] = np.where(rows[:, None] >= 0, result.components[rows], np.nan)
    known = result.model
    if known is not None and known.offsets is not None:
        data.varm[f"{key}_offsets"] = np.where(rows[:, None] >= 0, known.offsets[own][:, rows].T, np.nan)
    if known is not None and known.feature_precision is not None:
        data.var[f"{key}_precision"] = np.where(rows >= 0, known.feature_precision[rows], np.nan)
    if known is not None and known.sample_precision is not None:
        data.obs[f"{key}_precision"] = np.concatenate([predictive.sample_precision(result, c) for c in own])[back]
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


def _open(path: Path) -> Any:
    name, function = {".h5ad": ("anndata", "read_h5ad"), ".h5mu": ("mudata", "read_h5mu")}[path.suffix.lower()]
    try:
        with _quietly():
            module = importlib.import_module(name)
    except ImportError:
        raise InputError(f"{path} needs the package {name}; install it with: pip install 'bjmd[anndata]'") from None
    with problems_as_sentences(path, f"a file of {name}"), _quietly():
        return getattr(module, function)(path)


def _table(what: str, data: Any, part: str | None, layer: str | None) -> Table:
    if layer is not None and layer not in data.layers:
        raise InputError(f"{what} has no layer {layer!r}; it has {', '.join(data.layers) or 'none'}")
    x = data.X if layer is None else data.layers[layer]
    if x is None:
        raise InputError(f"{what} has no matrix X{f' in {part!r}' if part else ''}; put the values to fit there")
    matrix = x.T if scipy.sparse.issparse(x) or hasattr(x, "chunks") else np.ascontiguousarray(np.asarray(x).T)
    names = [*map(str, data.var_names)], [*map(str, data.obs_names)]
    return Table(matrix, *names, name=part or what, part=part, metadata=data.obs)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what these libraries say about their own future, and about double names, which we refuse."""
    with warnings.catch_warnings(action="ignore"):
        yield
