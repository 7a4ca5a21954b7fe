"""Hashes of what a fit was made of and what it wrote, so that `bjmd verify` can tell whether any of
it has changed.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bjmd.data.matrix import as_matrix
from bjmd.files.tables import Settings, Table
from bjmd.results.decomposition import Decomposition


def of_table(table: Table) -> str:
    """Of the numbers and names of a source as its file has them; the format of the file does not
    matter.
    """
    digest = hashlib.sha256(_json([table.matrix.shape, table.feature_names, table.sample_names]))
    for part in as_matrix(table.matrix, table.name).numbers():
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def of_settings(
    results: Sequence[Decomposition], settings: Settings, versions: dict[str, str]
) -> str:
    """Of what the numbers depend on besides the data: method, K, seeds, options, preparation and
    versions.
    """
    runs = [[run.method, run.n_components, run.seed, run.options] for run in results]
    made = [settings.scale, settings.divisors, settings.reading]
    return hashlib.sha256(_json([runs, made, versions])).hexdigest()


def of_file(path: Path) -> str | None:
    """Of the content of a file; None if it is not there."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
