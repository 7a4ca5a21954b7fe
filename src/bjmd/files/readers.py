"""People's files become `Sources`.

    sources, alignment = read_sources(["cohort1.tsv", "cohort2.csv.gz"])
    print(alignment)

Known are text tables (text_tables.py), AnnData and MuData (anndata_files.py), Matrix Market, and
.npz: with arrays `matrix` (or `X`), `features` and `samples`, as written by scipy.sparse.save_npz,
or by `storage.save_sources`.  Names for Matrix Market and scipy-sparse files are looked for beside
them: `features.tsv` (or `genes.tsv`) and `barcodes.tsv` beside `matrix.mtx`, as 10x Genomics has
them, or else `<file>.rows` and `<file>.cols`, one name a line.

Nothing is repaired: what cannot be used is refused with one sentence that names the file and the
place.
"""

import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.alignment import Alignment
from bjmd.data.matrix import require_sound_sparse
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import matrix_market, text_tables
from bjmd.files.tables import Table, assemble
from bjmd.files.text_tables import open_text, problems_as_sentences


def read_sources(
    paths: str | Path | Iterable[str | Path],
    *,
    names: list[str] | None = None,
    labels: str | Path | None = None,
    join: str = "outer",
    **reading: Any,
) -> tuple[Sources, Alignment]:
    """The files as `Sources`, their features matched by name, and an `Alignment` that tells what
    did not match.

    `names`, `labels` and `join` are those of `tables.assemble`; the rest is that of `read_tables`.
    """
    return assemble(read_tables(paths, **reading), names=names, labels=labels, join=join)


def read_tables(
    paths: str | Path | Iterable[str | Path],
    *,
    samples_in_rows: bool = False,
    split_by: str | None = None,
    on_disk: bool = False,
) -> list[Table]:
    """Every source in the files, named after its file, not yet brought together.

    With `samples_in_rows`, text tables, Matrix Market and .npz have samples in rows and features in
    columns. `split_by` names a column of an .h5ad file's obs; each of its values makes a source.
    With `on_disk`, matrices of AnnData and MuData files stay there (docs/large.md).
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path, times in Counter(path.resolve() for path in files).items():
        if times > 1:
            raise InputError(
                f"{path} is given {times} times, perhaps by different paths; a source counts once"
            )
    found = {path: _read_file(path, samples_in_rows, split_by, on_disk) for path in files}
    for path, stem in unique_stems(files).items():
        for table in found[path]:
            _require_unique(path, table.sample_names, "sample")
            _require_unique(path, table.feature_names, "feature")
            table.name = stem
            if len(found[path]) > 1:
                table.name = str(table.part) if len(files) == 1 else f"{stem}-{table.part}"
    return [table for tables in found.values() for table in tables]


def unique_stems(paths: Iterable[Path]) -> dict[Path, str]:
    """Path -> its name without endings; with the folder's before it, and then numbered, where two
    are the same.
    """
    stems = {path: _stem(path) for path in paths}
    count = Counter(stems.values())
    seen: Counter[str] = Counter()
    for path, stem in stems.items():
        if count[stem] > 1:
            stems[path] = f"{path.resolve().parent.name}-{stem}"
        seen[stems[path]] += 1
        if seen[stems[path]] > 1:
            stems[path] += f"-{seen[stems[path]]}"
    return stems


def _stem(path: Path) -> str:
    stem, ending = _split_ending(path)
    if ending == ".mtx" and stem.endswith("matrix"):
        # the name that 10x Genomics gives every matrix says nothing; what is before it, or the
        # folder, does
        return stem.removesuffix("matrix").rstrip("_.-") or path.resolve().parent.name
    return stem


def _split_ending(path: Path) -> tuple[str, str]:
    """The file's name, and the ending that tells its format, without .gz."""
    name = path if path.suffix.lower() != ".gz" else path.with_suffix("")
    return name.stem, name.suffix.lower()


def _read_file(
    path: Path, samples_in_rows: bool, split_by: str | None, on_disk: bool
) -> list[Table]:
    if path.is_dir() and path.suffix.lower() != ".zarr":
        matrix = next(
            (path / name for name in ("matrix.mtx.gz", "matrix.mtx") if (path / name).exists()),
            None,
        )
        raise InputError(f"{path} is a folder; give {matrix or 'the files in it'}")
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    if not path.is_file() and not path.is_dir():
        raise InputError(
            f"{path} is a pipe or a device, which cannot be read twice; write its content to a file first"
        )
    ending = _split_ending(path)[1]
    zipped = path.suffix.lower() == ".gz"
    if ending in _SPREADSHEETS:
        raise InputError(
            f"{path} is a spreadsheet; save its sheet as CSV or tab-separated text, and give that file"
        )
    if ending not in _READERS or (zipped and ending not in _MAY_BE_ZIPPED):
        known = f"{', '.join(_READERS)}, and with .gz {', '.join(_MAY_BE_ZIPPED)}"
        raise InputError(f"{path} is of an unknown kind; known are {known}")
    if split_by is not None and ending not in (".h5ad", ".zarr"):
        raise InputError(
            f"{path} cannot be split by {split_by!r}; only .h5ad files have columns about their samples"
        )
    reader = _READERS[ending]
    if reader is None:
        from bjmd.files import anndata_files

        return anndata_files.read(path, split_by, on_disk)
    if on_disk:
        raise InputError(
            f"{path} cannot stay on disk; that is for .h5ad, .h5mu and .zarr, so convert it, or load it"
        )
    return reader(path, samples_in_rows)


def _read_text(path: Path, samples_in_rows: bool) -> list[Table]:
    return [_table(path, *text_tables.read(path), samples_in_rows)]


def _read_matrix_market(path: Path, samples_in_rows: bool) -> list[Table]:
    with problems_as_sentences(path, "a Matrix Market file"):
        matrix = matrix_market.read(path)
    return [_table(path, matrix, *_names_beside(path), samples_in_rows)]


def _read_npz(path: Path, samples_in_rows: bool) -> list[Table]:
    with problems_as_sentences(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy") for name in archive.namelist()}
    if "metadata.json" in members:
        return _read_own(path)
    if {"format", "shape", "data"} <= members:
        with problems_as_sentences(path, "a file of scipy.sparse.save_npz"):
            matrix = scipy.sparse.load_npz(path)
            require_sound_sparse(matrix, str(path))
        return [_table(path, matrix, *_names_beside(path), samples_in_rows)]
    key = next((key for key in ("matrix", "X") if key in members), None)
    if key is None:
        raise InputError(
            f"{path} holds {', '.join(sorted(members)) or 'nothing'}; it must hold an array 'matrix' or 'X', and may "
            "hold the names 'features' and 'samples'"
        )
    with (
        problems_as_sentences(path, "an .npz file of numbers and text only"),
        np.load(path) as arrays,
    ):
        matrix = np.asarray(arrays[key])  # the bytes of what is no array
        order = ("samples", "features") if samples_in_rows else ("features", "samples")
        rows, columns = (
            [str(name) for name in arrays[of].ravel()] if of in members else None for of in order
        )
    return [_table(path, matrix, rows, columns, samples_in_rows)]


def _read_own(path: Path) -> list[Table]:
    """What `storage.save_sources` wrote."""
    from bjmd.results import storage

    sources = storage.load_sources(path)
    labels = sources.labels or [None] * len(sources)
    class_names = tuple(sources.class_names)
    each = zip(sources.matrices, sources.sample_names, sources.names, labels, strict=True)
    return [
        Table(
            x,
            sources.feature_names,
            samples,
            path=path,
            part=name,
            labels=indicator,
            class_names=class_names,
        )
        for x, samples, name, indicator in each
    ]


_READERS = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".mtx": _read_matrix_market,
    ".npz": _read_npz,
    ".h5ad": None,  # anndata_files.py, which needs an extra
    ".h5mu": None,
    ".zarr": None,
}
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_MAY_BE_ZIPPED = (".csv", ".tsv", ".txt", ".mtx")


def _table(
    path: Path, matrix: Any, rows: list | None, columns: list | None, samples_in_rows: bool
) -> Table:
    """A table with features in rows, whichever way the file has them."""
    if matrix.ndim != 2:
        raise InputError(
            f"{path} holds an array of {matrix.ndim} dimensions; it must hold a matrix"
        )
    for names, count, what in (
        (rows, matrix.shape[0], "rows"),
        (columns, matrix.shape[1], "columns"),
    ):
        if names is not None and len(names) != count:
            raise InputError(
                f"{path} has {count} {what} but names for {len(names)}; check which way round it is"
            )
    if samples_in_rows:
        matrix, rows, columns = matrix.T, columns, rows
    return Table(matrix, rows, columns, path=path)


def _names_beside(path: Path) -> tuple[list[str] | None, list[str] | None]:
    """The names of rows and of columns from files beside a matrix, or None."""
    stem = _split_ending(path)[0]
    rows = [f"{stem}.rows"]
    columns = [f"{stem}.cols"]
    if stem.endswith("matrix"):
        prefix = stem.removesuffix("matrix")
        rows += [f"{prefix}features.tsv", f"{prefix}genes.tsv"]
        columns += [f"{prefix}barcodes.tsv"]
    return _first_fields(path, rows), _first_fields(path, columns)


def _first_fields(beside: Path, files: list[str]) -> list[str] | None:
    """The first field of every line of the first file that exists beside another one, perhaps
    zipped.
    """
    # there 10x Genomics has the gene's id, which is unique; the symbol in the second field is not
    paths = (beside.with_name(file + gz) for file in files for gz in ("", ".gz"))
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    with problems_as_sentences(path, "a list of names in UTF-8"), open_text(path) as file:
        return [line.split("\t")[0].strip() for line in file if line.strip()]


def _require_unique(path: Path, names: Sequence[str] | None, what: str) -> None:
    if names is None:
        return
    times = Counter(names)
    if "" in times:
        raise InputError(
            f"{path} lacks the names of {times['']} of its {len(names)} {what}s; name every {what}"
        )
    doubles = sum(n > 1 for n in times.values())
    if doubles:
        name, n = times.most_common(1)[0]
        more = f" (and repeats {doubles} names in all)" if doubles > 1 else ""
        raise InputError(
            f"{path} has the {what} name {name!r} {n} times{more}; make its names unique"
        )
