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

import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bjmd.data.assembly import Alignment, RawSource, assemble, source_names
from bjmd.data.matrix import require_sound_sparse
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import text_files
from bjmd.files.text_files import open_bytes, open_text, problems_as_sentences

ANNDATA_ENDINGS = (".h5ad", ".h5mu", ".zarr")


def read_sources(
    paths: str | Path | Iterable[str | Path],
    *,
    names: list[str] | None = None,
    labels: str | Path | None = None,
    join: str = "outer",
    **reading: Any,
) -> tuple[Sources, Alignment]:
    """Read files as `Sources`, their features matched by name.

    The `Alignment` says which features did not match.  `names` replaces the names of the files,
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
) -> list[RawSource]:
    """Every source in the files, named after its file, before features are matched.

    With `samples_in_rows`, text tables, Matrix Market and .npz have samples in rows and features in
    columns.  `split_by` names a column of an .h5ad file's obs; each of its values makes a source.
    With `on_disk`, matrices of AnnData and MuData files stay there (docs/large.md).
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    for path, n_times in Counter(path.resolve() for path in files).items():
        if n_times > 1:
            raise InputError(
                f"{path} is given {n_times} times, perhaps by different paths; give it once"
            )
    content = {path: _read_file(path, samples_in_rows, split_by, on_disk) for path in files}
    for path, stem in unique_stems(files).items():
        for raw in content[path]:
            _require_unique(path, raw.sample_names, "sample")
            _require_unique(path, raw.feature_names, "feature")
            raw.name = stem
            if len(content[path]) > 1:
                raw.name = str(raw.part) if len(files) == 1 else f"{stem}-{raw.part}"
    return [raw for parts in content.values() for raw in parts]


def attach_labels(
    raw_sources: Sequence[RawSource], path: Path, names: list[str] | None = None
) -> None:
    """Give the sources the classes of their samples from a file (text_files.read_labels)."""
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


def unique_stems(paths: Iterable[Path]) -> dict[Path, str]:
    """File names without endings; equal ones get the folder's name before them, then a number."""
    stems = {path: _stem(path) for path in paths}
    n_alike = Counter(stems.values())
    n_used: Counter[str] = Counter()
    for path, stem in stems.items():
        if n_alike[stem] > 1:
            stems[path] = f"{path.resolve().parent.name}-{stem}"
        n_used[stems[path]] += 1
        if n_used[stems[path]] > 1:
            stems[path] += f"-{n_used[stems[path]]}"
    return stems


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
    path: Path, samples_in_rows: bool, split_by: str | None, on_disk: bool
) -> list[RawSource]:
    ending = _split_ending(path)[1]
    _require_readable(path, ending)
    file_format = _FORMATS[ending]
    if split_by is not None and ending not in (".h5ad", ".zarr"):
        raise InputError(
            f"{path} cannot be split by {split_by!r}; only .h5ad files have columns about samples"
        )
    if on_disk and ending not in ANNDATA_ENDINGS:
        raise InputError(
            f"{path} cannot stay on disk; only .h5ad, .h5mu and .zarr can, so convert it or load it"
        )
    with problems_as_sentences(path, file_format.description):
        if ending in ANNDATA_ENDINGS:
            return _read_anndata(path, split_by, on_disk)
        return file_format.read(path, samples_in_rows)


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


def _read_text(path: Path, samples_in_rows: bool) -> list[RawSource]:
    return [_oriented(path, *text_files.read_numbers(path), samples_in_rows)]


def _read_matrix_market(path: Path, samples_in_rows: bool) -> list[RawSource]:
    from scipy.io import mmread

    is_sparse = _check_matrix_market(path)
    if path.suffix.lower() == ".gz":
        with open_bytes(path) as file:
            matrix = mmread(file, spmatrix=False).astype(float)
    else:
        # not the open file: SciPy's reader would end Python at some damaged ones
        matrix = mmread(str(path), spmatrix=False).astype(float)
    if is_sparse:
        require_sound_sparse(matrix, str(path))
        matrix = matrix.tocsc()
    return [_oriented(path, matrix, *_names_beside(path), samples_in_rows)]


def _check_matrix_market(path: Path) -> bool:
    """Check what SciPy's reader trusts, the size in the header and the last number.

    Returns whether the matrix is sparse.
    """
    with open_bytes(path) as file:
        banner = file.readline().lower().split()
        if banner[:2] != [b"%%matrixmarket", b"matrix"] or b"complex" in banner:
            raise InputError(
                f"{path} does not begin with %%MatrixMarket matrix, or is complex; "
                "give a matrix of real numbers"
            )
        lines = (line for line in file if line.strip() and not line.startswith(b"%"))
        size = next(lines, b"").split()
        is_sparse = b"coordinate" in banner
        if len(size) != 2 + is_sparse or not all(word.isdigit() for word in size):
            raise InputError(f"{path} has no line with its size; check whether it was cut off")
        n_rows, n_columns, *n_entries = map(int, size)
        n_lines = 0
        tail = b""
        while block := file.read(2**22):
            if b"\0" in block:
                raise InputError(f"{path} contains zero bytes, so it is damaged; get it again")
            n_lines += block.count(b"\n")
            tail = (tail + block)[-100:]
    n_lines += bool(tail) and not tail.endswith(b"\n")
    n_triangle = n_rows * (n_rows - 1) // 2
    in_array = n_rows * n_columns if b"general" in banner else n_triangle
    n_promised = n_entries[0] if is_sparse else in_array
    if n_rows * n_columns == 0 or n_lines < n_promised:
        raise InputError(
            f"{path} promises a {n_rows} x {n_columns} matrix with {n_promised} entries and has "
            f"{n_lines}; check whether it was cut off"
        )
    if tail.strip():
        float(tail.split()[-1])
    return is_sparse


def _read_npz(path: Path, samples_in_rows: bool) -> list[RawSource]:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy") for name in archive.namelist()}
    if "metadata.json" in members:
        return _read_saved_sources(path)
    if {"format", "shape", "data"} <= members:
        matrix = scipy.sparse.load_npz(path)
        require_sound_sparse(matrix, str(path))
        return [_oriented(path, matrix, *_names_beside(path), samples_in_rows)]
    key = next((key for key in ("matrix", "X") if key in members), None)
    if key is None:
        raise InputError(
            f"{path} holds {', '.join(sorted(members)) or 'nothing'}; it must hold an array "
            "'matrix' or 'X', and may hold the names 'features' and 'samples'"
        )
    with np.load(path) as arrays:
        matrix = np.asarray(arrays[key])  # a member that is not an array comes as bytes
        features, samples = (
            [str(name) for name in arrays[axis].ravel()] if axis in members else None
            for axis in ("features", "samples")
        )
    names = (samples, features) if samples_in_rows else (features, samples)
    return [_oriented(path, matrix, *names, samples_in_rows)]


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


def _read_anndata(path: Path, split_by: str | None, on_disk: bool) -> list[RawSource]:
    from bjmd.files import anndata_files

    return anndata_files.read(path, split_by, on_disk)


class _Format(NamedTuple):
    read: Callable[..., list[RawSource]]
    description: str


_FORMATS = {
    ".csv": _Format(_read_text, text_files.TEXT),
    ".tsv": _Format(_read_text, text_files.TEXT),
    ".txt": _Format(_read_text, text_files.TEXT),
    ".mtx": _Format(_read_matrix_market, "a complete Matrix Market file"),
    ".npz": _Format(_read_npz, "an .npz file of numbers and text"),
    ".h5ad": _Format(_read_anndata, "a file of anndata"),
    ".h5mu": _Format(_read_anndata, "a file of mudata"),
    ".zarr": _Format(_read_anndata, "a store of anndata"),
}
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
_MAY_BE_ZIPPED = (".csv", ".tsv", ".txt", ".mtx")


def _oriented(
    path: Path,
    matrix: Any,
    row_names: list[str] | None,
    column_names: list[str] | None,
    samples_in_rows: bool,
) -> RawSource:
    """A source with features in rows, whichever way round the file is."""
    if matrix.ndim != 2:
        raise InputError(
            f"{path} holds an array of {matrix.ndim} dimensions; it must hold a matrix"
        )
    names_of_axes = ((row_names, "rows"), (column_names, "columns"))
    for n, (names, axis) in zip(matrix.shape, names_of_axes, strict=True):
        if names is not None and len(names) != n:
            raise InputError(
                f"{path} has {n} {axis} but names for {len(names)}; check which way round it is"
            )
    if samples_in_rows:
        matrix = matrix.T
        row_names, column_names = column_names, row_names
    return RawSource(matrix, row_names, column_names, path=path)


def _names_beside(path: Path) -> tuple[list[str] | None, list[str] | None]:
    """The names of rows and columns from files beside a matrix, or None."""
    stem = _split_ending(path)[0]
    rows = [f"{stem}.rows"]
    columns = [f"{stem}.cols"]
    if stem.endswith("matrix"):
        prefix = stem.removesuffix("matrix")
        rows += [f"{prefix}features.tsv", f"{prefix}genes.tsv"]
        columns += [f"{prefix}barcodes.tsv"]
    return _first_fields(path, rows), _first_fields(path, columns)


def _first_fields(beside: Path, files: list[str]) -> list[str] | None:
    """The first field of every line of the first file that exists, perhaps zipped."""
    # in 10x Genomics files this is the gene's id, which is unique; the symbol after it is not
    paths = (beside.with_name(file + gz) for file in files for gz in ("", ".gz"))
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    with problems_as_sentences(path, "a list of names in UTF-8"), open_text(path) as file:
        return [line.split("\t")[0].strip() for line in file if line.strip()]


def _require_unique(path: Path, names: Sequence[str] | None, what: str) -> None:
    n_times = Counter(names)
    if "" in n_times:
        raise InputError(
            f"{path} lacks the names of {n_times['']} of its {n_times.total()} {what}s; "
            f"name every {what}"
        )
    n_repeated = sum(n > 1 for n in n_times.values())
    if n_repeated:
        name, n = n_times.most_common(1)[0]
        others = f" (and repeats {n_repeated} names in all)" if n_repeated > 1 else ""
        raise InputError(
            f"{path} has the {what} name {name!r} {n} times{others}; make its names unique"
        )
