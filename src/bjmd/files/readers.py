"""People's files become `Sources`.

    sources, alignment = read_sources(["cohort1.tsv", "cohort2.csv.gz"])
    print(alignment)

Text tables have sample names in their first row and feature names in their first column; .csv files
have commas, .tsv and .txt files have tabs.  A header without a field above the row names, as R
writes it, is recognised by its length.  A cell that is empty or holds one of MISSING is a missing
value, NaN.  AnnData and MuData are read by anndata_files.py.

Other formats are Matrix Market (coordinate, real or integer, general), and .npz: with arrays
`matrix` (or `X`), `features` and `samples`, as written by scipy.sparse.save_npz, or by
`storage.save_sources`.  Names for Matrix Market and scipy-sparse files are looked for beside them:
`features.tsv` (or `genes.tsv`) and `barcodes.tsv` beside `matrix.mtx`, as in 10x Genomics folders,
or else `<file>.rows` and `<file>.cols`, one name per line.

Nothing is repaired: a file that cannot be used is refused with one sentence that names the file
and the place.
"""

import contextlib
import csv
import gzip
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import scipy.sparse

from bjmd.data.assembly import RawSource, assemble
from bjmd.data.matrix import require_sound_sparse
from bjmd.data.sources import Sources
from bjmd.errors import InputError, problems_as_sentences

ANNDATA_ENDINGS = (".h5ad", ".h5mu", ".zarr")
MISSING = ("", "NA", "na", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None")
TEXT = "a table of text in UTF-8"
SEPARATORS = {",": "commas", "\t": "tabs"}


def read_sources(
    paths: str | Path | Iterable[str | Path],
    *,
    names: list[str] | None = None,
    labels: str | Path | None = None,
    join: str = "outer",
    **reading: Any,
) -> tuple[Sources, str]:
    """Read files as `Sources`, their features matched by name, and a sentence on how they matched.

    `names` replaces the names of the files,
    `labels` is a file with the classes of samples, `join` is that of `assembly.assemble`, and the
    rest is passed to `read_files`.
    """
    raw_sources = read_files(paths, **reading)
    if labels is not None:
        from bjmd.files import about_samples

        about_samples.attach_labels(raw_sources, Path(labels), names)
    return assemble(raw_sources, names=names, join=join)


def read_files(
    paths: str | Path | Iterable[str | Path],
    *,
    samples_in_rows: bool = False,
    split_by: str | None = None,
    on_disk: bool = False,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
) -> list[RawSource]:
    """Every source in the files, named after its file, before features are matched.

    With `samples_in_rows`, text tables, Matrix Market and .npz have samples in rows and features in
    columns.  The rest is for AnnData and MuData: `split_by` names a column of an .h5ad file's obs;
    each of its values makes a source.  With `on_disk`, matrices stay there (docs/large.md).
    `layer` is fitted instead of X.  `use_highly_variable` takes only the features so marked; by
    default it does where a single .h5ad file marks any.
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path, n_times in Counter(path.resolve() for path in files).items():
        if n_times > 1:
            raise InputError(
                f"{path} is given {n_times} times, perhaps by different paths; give it once"
            )
    if use_highly_variable is None and len(files) > 1:  # each of which may mark others
        use_highly_variable = False
    anndata_options = {
        "split_by": split_by,
        "on_disk": on_disk,
        "layer": layer,
        "use_highly_variable": use_highly_variable,
    }
    content = {path: _read_file(path, samples_in_rows, anndata_options) for path in files}
    for path, stem in unique_stems(files).items():
        for raw in content[path]:
            raw.name = stem
            if len(content[path]) > 1:
                raw.name = str(raw.part) if len(files) == 1 else f"{stem}-{raw.part}"
    return [raw for parts in content.values() for raw in parts]


def unique_stems(paths: Iterable[Path]) -> dict[Path, str]:
    """File names without endings; equal ones get the folder's name before them, then a number."""
    stems = {path: _stem(path) for path in paths}
    n_alike = Counter(stems.values())
    names = [
        f"{path.resolve().parent.name}-{stem}" if n_alike[stem] > 1 else stem
        for path, stem in stems.items()
    ]
    return dict(zip(stems, distinct(names), strict=True))


def distinct(names: Iterable[str]) -> list[str]:
    """The same names; of those that are equal, as files may be, all but the first get a number."""
    used: dict[str, str] = {}
    for name in names:
        unique = name
        number = 2
        while unique.lower() in used:  # some file systems do not distinguish A from a
            unique = f"{name}_{number}"
            number += 1
        used[unique.lower()] = unique
    return list(used.values())


def _stem(path: Path) -> str:
    stem, ending = _split_ending(path)
    if ending == ".mtx" and stem.endswith("matrix"):
        # 10x Genomics calls every matrix so; the prefix or the folder is more telling
        return stem.removesuffix("matrix").rstrip("_.-") or path.resolve().parent.name
    return stem


def _split_ending(path: Path) -> tuple[str, str]:
    """The name of a file and the ending that tells its format, without .gz."""
    unzipped = path if path.suffix.lower() != ".gz" else path.with_suffix("")
    return unzipped.stem, unzipped.suffix.lower()


def _read_file(
    path: Path, samples_in_rows: bool, anndata_options: dict[str, Any]
) -> list[RawSource]:
    ending = _split_ending(path)[1]
    zipped = path.suffix.lower() == ".gz"
    if ending not in _FORMATS or (zipped and ending not in _MAY_BE_ZIPPED):
        known = f"{', '.join(_FORMATS)}, and with .gz {', '.join(_MAY_BE_ZIPPED)}"
        what = "is a folder" if path.is_dir() else "has an unknown format"
        raise InputError(
            f"{path} {what}; give a file in one of these formats: {known} (in a 10x Genomics "
            "folder matrix.mtx.gz; save the sheet of a spreadsheet as .csv)"
        )
    for option, value in anndata_options.items():
        if value and (ending not in ANNDATA_ENDINGS or (option, ending) == ("split_by", ".h5mu")):
            raise InputError(
                f"{path} cannot be read with {option}={value!r}; only AnnData files can (for "
                "split_by .h5ad and .zarr, for the others .h5mu, too), so leave it out"
            )
    with problems_as_sentences(path, _FORMATS[ending]):
        if ending in ANNDATA_ENDINGS:
            from bjmd.files import anndata_files

            return anndata_files.read(path, **anndata_options)
        if ending == ".npz":
            return _read_npz(path, samples_in_rows)
        read = _read_matrix_market if ending == ".mtx" else _read_text
        matrix, row_names, column_names = read(path)
        return [_oriented(path, matrix, row_names, column_names, samples_in_rows)]


def _read_text(path: Path) -> tuple[np.ndarray, list[str], list[str]]:
    """The numbers as a float64 array, the names of its rows, and the names of its columns."""
    separator = separator_of(path)
    rows = []
    numbers = []
    with open_text(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        lines = filter(None, reader)
        header = next(lines, [])
        first = next(lines, [])
        n_columns = len(first) - 1
        if n_columns < 1 or len(header) not in (n_columns, n_columns + 1):
            raise InputError(
                f"{path} must have a line of names, and below it lines of a name and numbers, with "
                f"{SEPARATORS[separator]} between them, but its first two lines have {len(header)} "
                f"and {len(first)} fields; check that it was written completely"
            )
        columns = [name.strip() for name in header[-n_columns:]]
        for fields in chain([first], lines):
            if len(fields) != len(first):
                raise InputError(
                    f"{path} has {len(fields)} fields in line {reader.line_num} but {len(first)} "
                    "in others; check that it was written completely"
                )
            rows.append(fields[0].strip())
            numbers.append(_numbers(path, fields, columns))
    for names, place in ((columns, "first row"), (rows, "first column")):
        # whole numbers may be names; other numbers show that the names are missing
        if all(_is_number(name) and not name.isdecimal() for name in names):
            raise InputError(
                f"the {place} of {path} holds numbers such as {names[0]}; it must hold names"
            )
    return np.array(numbers), rows, columns


def _numbers(path: Path, fields: list[str], columns: list[str]) -> np.ndarray:
    """The numbers of a line after its name."""
    with contextlib.suppress(ValueError):  # something is missing, or wrong
        return np.fromiter(map(float, fields[1:]), dtype=float)
    for field, column in zip(fields[1:], columns, strict=True):
        if field not in MISSING and not _is_number(field):
            raise InputError(
                f"{path} holds the text {field[:40]!r} in row {fields[0]!r}, column {column!r}; "
                "a cell must hold a number, or NA where the value is missing"
            )
    return np.array([np.nan if field in MISSING else float(field) for field in fields[1:]])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def separator_of(path: Path) -> str:
    return "," if path.name.lower().removesuffix(".gz").endswith(".csv") else "\t"


def open_text(path: Path) -> TextIO:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def _read_matrix_market(path: Path) -> tuple[Any, list[str] | None, list[str] | None]:
    """The matrix, and the names of its rows and columns."""
    # not by scipy.io.mmread, which reads 1,5 as 1 and crashes on some damaged files
    with open_text(path) as file, warnings.catch_warnings(action="ignore"):
        if _MARKET_BANNER.fullmatch(file.readline().lower()) is None:
            raise ValueError("it must begin with %%MatrixMarket matrix coordinate real general")
        size_line = next((line for line in file if not line.startswith("%") and line.strip()), "")
        entries = np.loadtxt(file, comments="%", ndmin=2).reshape(-1, 3)  # warns if there are none
    n_rows, n_columns, n_entries = (int(word) for word in size_line.split())
    if len(entries) != n_entries:
        raise ValueError(f"its header says {n_entries} entries, but it has {len(entries)}")
    places = entries[:, :2].astype(int)
    if (places != entries[:, :2]).any():
        raise ValueError("the places of entries must be whole numbers")
    matrix = scipy.sparse.coo_array((entries[:, 2], tuple(places.T - 1)), (n_rows, n_columns))
    return matrix, *_names_beside(path)


def _read_npz(path: Path, samples_in_rows: bool) -> list[RawSource]:
    with np.load(path) as arrays:
        members = set(arrays)
        if "metadata.json" in members:
            return _read_saved_sources(path)
        if {"format", "shape", "data"} <= members:
            matrix = scipy.sparse.load_npz(path)
            return [_oriented(path, matrix, *_names_beside(path), samples_in_rows)]
        key = next((key for key in ("matrix", "X") if key in members), None)
        if key is None:
            raise InputError(
                f"{path} holds {', '.join(sorted(members)) or 'nothing'}; it must hold an array "
                "'matrix' or 'X', and may hold the names 'features' and 'samples'"
            )
        axes = ("samples", "features") if samples_in_rows else ("features", "samples")
        rows, columns = (arrays[axis].ravel() if axis in members else None for axis in axes)
        # a member that is not an array comes as bytes
        return [_oriented(path, np.asarray(arrays[key]), rows, columns, samples_in_rows)]


def _read_saved_sources(path: Path) -> list[RawSource]:
    """What `storage.save_sources` wrote."""
    from bjmd.results import storage

    sources = storage.load_sources(path)
    return [
        RawSource(
            matrix,
            sources.feature_names,
            sources.sample_names[c],
            path=path,
            part=sources.names[c],
            labels=sources.labels[c] if sources.labels else None,
            class_names=sources.class_names,
        )
        for c, matrix in enumerate(sources.matrices)
    ]


_FORMATS = {
    ".csv": TEXT,
    ".tsv": TEXT,
    ".txt": TEXT,
    ".mtx": "a complete Matrix Market file",
    ".npz": "an .npz file of numbers and text",
    ".h5ad": "a file of anndata",
    ".h5mu": "a file of mudata",
    ".zarr": "a store of anndata",
}
_MARKET_BANNER = re.compile(r"%%matrixmarket\s+matrix\s+coordinate\s+(real|integer)\s+general\s*")
_MAY_BE_ZIPPED = (".csv", ".tsv", ".txt", ".mtx")


def _oriented(
    path: Path, matrix: Any, row_names: Any, column_names: Any, samples_in_rows: bool
) -> RawSource:
    """A source with features in rows, whichever way round the file is."""
    if matrix.ndim != 2 or 0 in matrix.shape:
        shape = " x ".join(map(str, matrix.shape))
        raise InputError(f"{path} holds an array of the size {shape}; it must hold a matrix")
    require_sound_sparse(matrix, str(path))
    for n, names, axis in zip(
        matrix.shape, (row_names, column_names), ("rows", "columns"), strict=True
    ):
        if names is not None and len(names) != n:
            raise InputError(
                f"{path} has {n} {axis} but names for {len(names)}; check which way round it is"
            )
    features, samples = (
        None if names is None else [str(name) for name in names]
        for names in (row_names, column_names)
    )
    if samples_in_rows:
        return RawSource(matrix.T, samples, features, path=path)
    return RawSource(matrix, features, samples, path=path)


def _names_beside(path: Path) -> tuple[list[str] | None, list[str] | None]:
    """The names of rows and columns from files beside a matrix, or None."""
    stem = _split_ending(path)[0]
    rows = _listed(path, f"{stem}.rows")
    columns = _listed(path, f"{stem}.cols")
    if stem.endswith("matrix"):
        prefix = stem.removesuffix("matrix")
        columns = columns or _listed(path, f"{prefix}barcodes.tsv")
        rows = rows or _symbols(path, f"{prefix}features.tsv", f"{prefix}genes.tsv")
    return rows, columns


def _listed(beside: Path, *files: str, field: int = 0) -> list[str] | None:
    """A field of every line of the first file that exists, or the last field of a shorter line."""
    paths = (beside.with_name(file + gz) for file in files for gz in ("", ".gz"))
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    with problems_as_sentences(path, "a list of names in UTF-8"), open_text(path) as file:
        lines = [line.strip("\n").split("\t") for line in file if line.strip()]
        return [line[: field + 1][-1].strip() for line in lines]


def _symbols(beside: Path, *files: str) -> list[str] | None:
    """The genes of 10x Genomics: symbols, the repeated with -1, -2, ... as scanpy does it."""
    symbols = _listed(beside, *files, field=1)
    n_before: Counter[str] = Counter()
    names = []
    for symbol in symbols or ():
        names.append(f"{symbol}-{n_before[symbol]}" if n_before[symbol] else symbol)
        n_before[symbol] += 1
    return names or None
