"""Hashes of what a fit was made of and what it wrote, so that `bjmd verify` can tell whether any of it has changed."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.files.tables import Settings, Table
from bjmd.fits import storage
from bjmd.fits.decomposition import Decomposition


def of_table(table: Table) -> str:
    """Of the numbers and names of a source as its file has them; the format of the file does not matter."""
    digest = hashlib.sha256(_json([table.matrix.shape, table.feature_names, table.sample_names]))
    if scipy.sparse.issparse(table.matrix):
        x = scipy.sparse.csc_array(table.matrix, copy=True)
        x.sum_duplicates()  # which also sorts, so that equal matrices have equal parts
        parts = [x.data.astype(float), x.indices.astype(np.int64), x.indptr.astype(np.int64)]
    else:
        parts = [np.asarray(table.matrix, dtype=float)]
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def of_settings(results: Sequence[Decomposition], settings: Settings, versions: dict[str, str]) -> str:
    """Of what the numbers depend on besides the data: method, K, seeds, options, preparation and versions."""
    runs = [[run.method, run.n_components, run.seed, run.options] for run in results]
    made = {name: value for name, value in asdict(settings).items() if name not in ("files", "notes")}
    return hashlib.sha256(_json([runs, made, versions])).hexdigest()


def of_files(folder: Path, names: Sequence[str]) -> dict[str, str | None]:
    """Of every file in a folder by its name; None for one that is not there."""
    paths = {name: folder / name for name in names}
    return {name: _of_file(path) if path.is_file() else None for name, path in paths.items()}


def of_fit(
    folder: Path, files: Sequence[str], tables: Sequence[Table], names: Sequence[str], settings: Settings,
    results: Sequence[Decomposition],
) -> dict[str, Any]:  # fmt: skip
    """What hashes.json holds."""
    versions = storage.versions()
    return {
        "data": {name: of_table(table) for name, table in zip(names, tables, strict=True)},
        "settings": of_settings(results, settings, versions),
        "versions": versions,
        "files": of_files(folder, files),
    }


def _of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
