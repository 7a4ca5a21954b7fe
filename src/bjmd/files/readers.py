"""People's files become `Sources`.

    sources, alignment = read_sources(["cohort1.tsv", "cohort2.csv.gz"])
    print(alignment)

Known formats are text tables (text_files.py), AnnData and MuData (anndata_files.py), Matrix Market,
and .npz: with arrays `matrix` (or `X`), `features` and `samples`, as written by
scipy.sparse.save_npz, or by `storage.save_sources`.  Names for Matrix Market and scipy-sparse files
are looked for beside them: `features.tsv` (or `genes.tsv`) and `barcodes.tsv` beside `matrix.mtx`,
as in 10x Genomics folders, or else `<file>.rows` and `<file>.cols`, one name per line.

Nothing is repaired: a file that cannot be used is refused with one sentence that names the file
and the place.
"""

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.assembly import RawSource, assemble, label_by, source_names
from bjmd.data.matrix import require_sound_sparse
from bjmd.data.sources import Sources
from bjmd.errors import InputError, problems_as_sentences
from bjmd.files import text_files
from bjmd.files.text_files import open_text

ANNDATA_ENDINGS = (".h5ad", ".h5mu", ".zarr")


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
        attach_labels(raw_sources, Path(labels), names)
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
    of_anndata = {"split_by": split_by, "on_disk": on_disk, "layer": layer}
    of_anndata["use_highly_variable"] = use_highly_variable
    content = {path: _read_file(path, samples_in_rows, of_anndata) for path in files}
    for path, stem in unique_stems(files).items():
        for raw in content[path]:
            raw.name = stem
            if len(content[path]) > 1:
                raw.name = str(raw.part) if len(files) == 1 else f"{stem}-{raw.part}"
    return [raw for parts in content.values() for raw in parts]


def attach_labels(
    raw_sources: Sequence[RawSource], path: Path, names: list[str] | None = None
) -> None:
    """Give the sources the classes of their samples.

    They come from a file (text_files.read_labels), or from a column of obs.
    """
    if not path.is_file() and any(str(path) in _columns(raw) for raw in raw_sources):
        label_by(raw_sources, str(path))
        return
    nameless = next((raw for raw in raw_sources if raw.sample_names is None), None)
    if nameless is not None:
        raise InputError(
            f"{nameless} has no sample names, which labels need; add them, or leave out the labels"
        )
    sample_names = [raw.sample_names or [] for raw in raw_sources]
    names = source_names(raw_sources, names)
    labels, class_names = text_files.read_labels(path, names, sample_names)
    for raw, block in zip(raw_sources, labels, strict=True):
        raw.labels = block
        raw.class_names = class_names


def _columns(raw: RawSource) -> Any:
    return () if raw.metadata is None else raw.metadata.columns


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


def _read_file(path: Path, samples_in_rows: bool, of_anndata: dict[str, Any]) -> list[RawSource]:
    ending = _split_ending(path)[1]
    _require_readable(path, ending)
    split_by = of_anndata["split_by"]
    if split_by is not None and ending not in (".h5ad", ".zarr"):
        raise InputError(
            f"{path} cannot be split by {split_by!r}; only .h5ad files have columns about samples"
        )
    if ending not in ANNDATA_ENDINGS:
        if of_anndata["on_disk"]:
            raise InputError(
                f"{path} cannot stay on disk; only .h5ad, .h5mu and .zarr can, so convert it or "
                "load it"
            )
        if of_anndata["layer"] is not None or of_anndata["use_highly_variable"]:
            raise InputError(
                f"{path} has no layers and marks no features; only .h5ad, .h5mu and .zarr do, so "
                "leave out these options"
            )
    with problems_as_sentences(path, _FORMATS[ending]):
        if ending in ANNDATA_ENDINGS:
            from bjmd.files import anndata_files

            return anndata_files.read(path, **of_anndata)
        if ending == ".npz":
            return _read_npz(path, samples_in_rows)
        read = _read_matrix_market if ending == ".mtx" else text_files.read_numbers
        matrix, row_names, column_names = read(path)
        return [_oriented(path, matrix, row_names, column_names, samples_in_rows)]


def _require_readable(path: Path, ending: str) -> None:
    """Refuse what is not there, not a file, or of an unknown format."""
    if path.is_dir() and ending != ".zarr":
        matrices = (path / name for name in ("matrix.mtx.gz", "matrix.mtx"))
        matrix = next((file for file in matrices if file.exists()), "the files in it")
        raise InputError(f"{path} is a folder; give {matrix}")
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    if not path.is_file() and not path.is_dir():
        raise InputError(
            f"{path} is a pipe or a device, which cannot be read twice; write it to a file first"
        )
    if ending in _SPREADSHEETS:
        raise InputError(
            f"{path} is a spreadsheet; save its sheet as CSV or tab-separated text, and give that"
        )
    zipped = path.suffix.lower() == ".gz"
    if ending not in _FORMATS or (zipped and ending not in _MAY_BE_ZIPPED):
        raise InputError(
            f"{path} has an unknown format; known are {', '.join(_FORMATS)}, and with .gz "
            f"{', '.join(_MAY_BE_ZIPPED)}"
        )


def _read_matrix_market(path: Path) -> tuple[Any, list[str] | None, list[str] | None]:
    """The matrix, and the names of its rows and columns."""
    # not by scipy.io.mmread, which reads 1,5 as 1 and crashes on some damaged files
    with open_text(path) as file, warnings.catch_warnings(action="ignore"):
        banner = _MARKET_BANNER.fullmatch(file.readline().lower())
        if banner is None:
            raise ValueError("it must begin with %%MatrixMarket matrix, and be real and general")
        is_sparse = banner["form"] == "coordinate"
        size_line = next((line for line in file if not line.startswith("%") and line.strip()), "")
        size = [int(word) for word in size_line.split()]
        if len(size) != 2 + is_sparse:
            raise ValueError("it has no line with its size")
        numbers = np.loadtxt(file, comments="%", ndmin=2)  # warns if there are none
    n_rows, n_columns = size[:2]
    n_promised = size[2] if is_sparse else n_rows * n_columns
    width = 1 + 2 * is_sparse - (banner["field"] == "pattern")
    if numbers.size == 0:
        numbers = np.empty((0, width))
    if numbers.shape != (n_promised, width):
        found = f"{len(numbers)} lines of {numbers.shape[1]}"
        raise ValueError(f"it promises {n_promised} lines of {width} numbers and has {found}")
    if is_sparse:
        places = numbers[:, :2].astype(int)
        if (places != numbers[:, :2]).any():
            raise ValueError("the places of entries must be whole numbers")
        values = np.ones(n_promised) if banner["field"] == "pattern" else numbers[:, 2]
        matrix: Any = scipy.sparse.coo_array((values, tuple(places.T - 1)), (n_rows, n_columns))
    else:
        matrix = numbers.reshape(n_columns, n_rows).T
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
    ".csv": text_files.TEXT,
    ".tsv": text_files.TEXT,
    ".txt": text_files.TEXT,
    ".mtx": "a complete Matrix Market file",
    ".npz": "an .npz file of numbers and text",
    ".h5ad": "a file of anndata",
    ".h5mu": "a file of mudata",
    ".zarr": "a store of anndata",
}
_MARKET_BANNER = re.compile(
    r"%%matrixmarket\s+matrix\s+(?P<form>coordinate|array)\s+(?P<field>real|integer|pattern)\s+"
    r"general\s*"
)
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_MAY_BE_ZIPPED = (".csv", ".tsv", ".txt", ".mtx")


def _oriented(
    path: Path, matrix: Any, row_names: Any, column_names: Any, samples_in_rows: bool
) -> RawSource:
    """A source with features in rows, whichever way round the file is."""
    if matrix.ndim != 2 or 0 in matrix.shape:
        shape = " x ".join(map(str, matrix.shape))
        raise InputError(f"{path} holds an array of the size {shape}; it must hold a matrix")
    if scipy.sparse.issparse(matrix):
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
    rows = _fields(path, [f"{stem}.rows"])
    columns = _fields(path, [f"{stem}.cols"])
    if stem.endswith("matrix"):
        prefix = stem.removesuffix("matrix")
        columns = columns or _fields(path, [f"{prefix}barcodes.tsv"])
        # the second field is the gene's symbol, the first its id
        rows = rows or _fields(path, [f"{prefix}features.tsv", f"{prefix}genes.tsv"], field=1)
    return rows, columns


def _fields(beside: Path, files: list[str], field: int = 0) -> list[str] | None:
    """A field of every line of the first file that exists, perhaps zipped.

    Repeated symbols of genes get -1, -2, ... as scanpy does it; without symbols, ids are used.
    """
    paths = (beside.with_name(file + gz) for file in files for gz in ("", ".gz"))
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    with problems_as_sentences(path, "a list of names in UTF-8"), open_text(path) as file:
        lines = [line.strip("\n").split("\t") for line in file if line.strip()]
    if field == 0 or not all(line[field:] and line[field].strip() for line in lines):
        return [line[0].strip() for line in lines]
    n_seen: Counter[str] = Counter()
    names: dict[str, None] = {}
    for line in lines:
        name = unique = line[field].strip()
        while unique in names:
            n_seen[name] += 1
            unique = f"{name}-{n_seen[name]}"
        names[unique] = None
    return list(names)
