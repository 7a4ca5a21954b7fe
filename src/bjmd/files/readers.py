"""People's files become `Sources`.

    sources, alignment = read_sources(["cohort1.tsv", "cohort2.csv.gz"])
    print(alignment)

Known are text tables (text_tables.py), AnnData and MuData (anndata_files.py), Matrix Market, and .npz: with arrays
`matrix` (or `X`), `features` and `samples`, as written by scipy.sparse.save_npz, or by `storage.save_sources`.  Names
for Matrix Market and scipy-sparse files are looked for beside them: `features.tsv` (or `genes.tsv`) and `barcodes.tsv`
beside `matrix.mtx`, as 10x Genomics has them, or else `<file>.rows` and `<file>.cols`, one name a line.

Nothing is repaired: what cannot be used is refused with one sentence that names the file and the place.
"""

import logging
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse

from bjmd.data.alignment import align
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import label_files, text_tables
from bjmd.files.text_tables import open_text, problems_as_sentences

log = logging.getLogger(__name__)

FEW = 0.1
"""The share of common names below which two tables look as if one was named differently, or transposed."""


@dataclass
class Table:
    """One source as its file has it: features x samples, with names where the file has any."""

    path: Path
    matrix: np.ndarray | scipy.sparse.sparray
    feature_names: list[str] | None
    sample_names: list[str] | None
    part: str | None = None
    """Which of several sources in the file it is."""
    labels: np.ndarray | None = None
    """classes x samples"""
    class_names: tuple[str, ...] = ()


def read_sources(paths, *, names=None, labels=None, samples_in_rows=False, join="outer", split_by=None):
    """The files as `Sources`, their features matched by name, and an `Alignment` that tells what did not match.

    names            of the sources; by default those of the files
    labels           a file with the classes of samples (label_files.py)
    samples_in_rows  text tables, Matrix Market and .npz have samples in rows and features in columns
    join             "outer": all features, missing in sources that lack them; "inner": those that every source has
    split_by         a column of an .h5ad file's obs; each of its values makes a source
    """
    tables = read_tables(paths, samples_in_rows=samples_in_rows, split_by=split_by)
    return assemble(tables, names=names, labels=labels, join=join)


def read_tables(paths, *, samples_in_rows=False, split_by=None):
    """Every source in the files, not yet brought together."""
    if isinstance(paths, str | Path):
        paths = [paths]
    paths = [Path(path) for path in paths]
    for path, times in Counter(paths).items():
        if times > 1:
            raise InputError(f"{path} is given {times} times; a source counts once")
    tables = [table for path in paths for table in _read_file(path, samples_in_rows, split_by)]
    for table in tables:
        _require_unique(table.path, table.sample_names, "sample")
        _require_unique(table.path, table.feature_names, "feature")
    return tables


def assemble(tables, *, names=None, labels=None, join="outer"):
    """Tables brought to common features: `Sources`, and an `Alignment`."""
    if not tables:
        raise InputError("no file was given; give at least one table of features x samples")
    if names is None:
        names = source_names(tables)
    elif len(names) != len(tables):
        found = ", ".join(source_names(tables))
        raise InputError(
            f"the number of names is {len(names)} but there are {len(tables)} sources ({found}); give one each"
        )
    if not all(name.strip() for name in names):
        raise InputError("a source has an empty name; give each a name of its own")
    matrices, alignment = align([table.matrix for table in tables], _feature_names(tables), names, join)
    indicators, class_names = _labels(tables, names, labels)
    sources = Sources(
        matrices,
        names=names,
        feature_names=alignment.feature_names,
        sample_names=[table.sample_names for table in tables],
        labels=indicators,
        class_names=class_names,
    )
    return sources, alignment


def over_features(table, feature_names):
    """The matrix of new samples over the features of a fit, and a sentence that tells how they were matched.

    Features that the table lacks are missing (NaN); those that the fit does not know are left out.
    """
    place = {feature: row for row, feature in enumerate(_feature_names([table])[0])}
    rows = np.array([place.get(feature, -1) for feature in feature_names])
    known = rows >= 0
    if not known.any():
        columns = set(feature_names).intersection(table.sample_names or ())
        turned = f", but {len(columns)} of its samples are, as if it were transposed" if columns else ""
        raise InputError(
            f"none of the {len(place)} features of {table.path}, such as {next(iter(place))!r}, is among the "
            f"{len(rows)} of the fit, such as {feature_names[0]!r}{turned}; features are matched by name"
        )
    n_unknown = len(place) - known.sum()
    report = (
        f"{table.path} has {known.sum()} of the {len(rows)} features of the fit"
        f"{'' if known.all() else '; the others are missing values'}"
        f"{f'; unknown to the fit and left out: {n_unknown}' if n_unknown else ''}"
    )
    found = table.matrix[rows[known]]
    if known.all():
        return found, report
    matrix = np.full((len(rows), found.shape[1]), np.nan)
    matrix[known] = found.toarray() if scipy.sparse.issparse(found) else found
    return matrix, report


def source_names(tables):
    """A name for every table: its file's, or its part's where a file holds several sources."""
    stems, n_parts = unique_stems([table.path for table in tables]), Counter(table.path for table in tables)
    names = []
    for table in tables:
        if n_parts[table.path] == 1:
            names.append(stems[table.path])
        else:
            names.append(table.part if len(n_parts) == 1 else f"{stems[table.path]}-{table.part}")
    return names


def unique_stems(paths):
    """Path -> its name without endings; with the folder's before it, and then numbered, where two are the same."""
    stems = {path: _stem(path) for path in paths}
    count = Counter(stems.values())
    seen = Counter()
    for path, stem in stems.items():
        if count[stem] > 1:
            stems[path] = f"{path.resolve().parent.name}-{stem}"
        seen[stems[path]] += 1
        if seen[stems[path]] > 1:
            stems[path] += f"-{seen[stems[path]]}"
    return stems


def _stem(path):
    stem, ending = _split_ending(path)
    if ending == ".mtx" and stem.endswith("matrix"):
        # the name that 10x Genomics gives every matrix says nothing; what is before it, or the folder, does
        return stem.removesuffix("matrix").rstrip("_.-") or path.resolve().parent.name
    return stem


def _split_ending(path):
    """The file's name, and the ending that tells its format, without .gz."""
    name = Path(path.name.removesuffix(".gz"))
    return name.stem, name.suffix.lower()


def _read_file(path, samples_in_rows, split_by):
    if path.is_dir():
        matrix = next((path / name for name in ("matrix.mtx.gz", "matrix.mtx") if (path / name).exists()), None)
        raise InputError(f"{path} is a folder; give {matrix or 'the files in it'}")
    if not path.exists():
        raise InputError(f"{path} does not exist; check the path")
    ending = _split_ending(path)[1]
    zipped = path.name.endswith(".gz")
    if ending not in _READERS or (zipped and ending not in _MAY_BE_ZIPPED):
        raise InputError(
            f"{path} is of a kind that is not known; known are {', '.join(_READERS)}, "
            f"and with .gz {', '.join(_MAY_BE_ZIPPED)}"
        )
    if split_by is not None and ending != ".h5ad":
        raise InputError(f"{path} cannot be split by {split_by!r}; only .h5ad files have columns about their samples")
    if ending in (".h5ad", ".h5mu"):
        from bjmd.files import anndata_files

        return anndata_files.read(path, split_by)
    return _READERS[ending](path, samples_in_rows)


def _read_text(path, samples_in_rows):
    return [_table(path, *text_tables.read(path), samples_in_rows)]


def _read_matrix_market(path, samples_in_rows):
    with problems_as_sentences(path, "a Matrix Market file"):
        matrix = scipy.io.mmread(path)
    return [_table(path, matrix, *_names_beside(path), samples_in_rows)]


def _read_npz(path, samples_in_rows):
    with problems_as_sentences(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy") for name in archive.namelist()}
    if "metadata.json" in members:
        return _read_own(path)
    if {"format", "shape", "data"} <= members:
        with problems_as_sentences(path, "a file of scipy.sparse.save_npz"):
            return [_table(path, scipy.sparse.load_npz(path), *_names_beside(path), samples_in_rows)]
    key = next((key for key in ("matrix", "X") if key in members), None)
    if key is None:
        raise InputError(
            f"{path} holds {', '.join(sorted(members)) or 'nothing'}; it must hold an array 'matrix' or 'X', and may "
            "hold the names 'features' and 'samples'"
        )
    with problems_as_sentences(path, "an .npz file of numbers and text only"), np.load(path) as arrays:
        matrix = arrays[key]
        features, samples = (
            [str(name) for name in arrays[key]] if key in members else None for key in ("features", "samples")
        )
    rows, columns = (samples, features) if samples_in_rows else (features, samples)
    return [_table(path, matrix, rows, columns, samples_in_rows)]


def _read_own(path):
    """What `storage.save_sources` wrote."""
    from bjmd.fits import storage

    sources = storage.load_sources(path)
    return [
        Table(
            path=path,
            matrix=sources.matrices[c],
            feature_names=sources.feature_names,
            sample_names=sources.sample_names[c],
            part=name,
            labels=None if sources.labels is None else sources.labels[c],
            class_names=tuple(sources.class_names),
        )
        for c, name in enumerate(sources.names)
    ]


_READERS = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".mtx": _read_matrix_market,
    ".npz": _read_npz,
    ".h5ad": None,  # anndata_files.py, which needs an extra
    ".h5mu": None,
}
_MAY_BE_ZIPPED = (".csv", ".tsv", ".txt", ".mtx")


def _table(path, matrix, rows, columns, samples_in_rows):
    """A table with features in rows, whichever way the file has them."""
    if matrix.ndim != 2:
        raise InputError(f"{path} holds an array of {matrix.ndim} dimensions; it must hold a matrix")
    for names, count, what in ((rows, matrix.shape[0], "rows"), (columns, matrix.shape[1], "columns")):
        if names is not None and len(names) != count:
            raise InputError(f"{path} has {count} {what} but {len(names)} names for them; check which way round it is")
    if samples_in_rows:
        matrix, rows, columns = matrix.T, columns, rows
    if not scipy.sparse.issparse(matrix):
        matrix = np.ascontiguousarray(matrix)  # one layout in memory, so that every format gives the same bits
    return Table(path, matrix, rows, columns)


def _names_beside(path):
    """The names of rows and of columns from files beside a matrix, or None."""
    stem = _split_ending(path)[0]
    rows, columns = [f"{stem}.rows"], [f"{stem}.cols"]
    if stem.endswith("matrix"):
        prefix = stem.removesuffix("matrix")
        rows += [f"{prefix}features.tsv", f"{prefix}genes.tsv"]
        columns += [f"{prefix}barcodes.tsv"]
    candidates = ([path.with_name(file + gz) for file in files for gz in ("", ".gz")] for files in (rows, columns))
    return [_first_fields(paths) for paths in candidates]


def _first_fields(paths):
    """The first field of every line of the first file that exists.

    10x Genomics has the gene's id there, which is unique, and its symbol, which is not, in the second field.
    """
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    with problems_as_sentences(path, "a list of names in UTF-8"), open_text(path) as file:
        return [line.split("\t")[0].strip() for line in file if line.strip()]


def _require_unique(path, names, what):
    if names is None:
        return
    times = Counter(names)
    if "" in times:
        raise InputError(f"{path} lacks the names of {times['']} of its {len(names)} {what}s; name every {what}")
    doubles = sum(n > 1 for n in times.values())
    if doubles:
        name, n = times.most_common(1)[0]
        more = f" (and repeats {doubles} names in all)" if doubles > 1 else ""
        raise InputError(f"{path} has the {what} name {name!r} {n} times{more}; make its names unique")


def _feature_names(tables):
    """Every table's feature names, ready to be matched; numbered if no table has any."""
    nameless = next((table for table in tables if table.feature_names is None), None)
    if nameless is None:
        if len(tables) > 1:
            for c, table in enumerate(tables):
                _check_direction(table, tables[:c] + tables[c + 1 :])
        return [table.feature_names for table in tables]
    sizes = [table.matrix.shape[0] for table in tables]
    if any(table.feature_names is not None for table in tables) or len(set(sizes)) > 1:
        raise InputError(
            f"{nameless.path} has no feature names, so its {nameless.matrix.shape[0]} features cannot be matched with "
            "those of the other sources; add their names"
        )
    return [[f"feature {i + 1}" for i in range(size)] for size in sizes]


def _check_direction(table, others):
    """Refuse a table that looks transposed; warn of one whose features have few names in common with the others."""
    features = set().union(*(other.feature_names for other in others))
    samples = set().union(*(other.sample_names or () for other in others))
    n_features, columns = len(table.feature_names), set(table.sample_names or ())
    common = len(features.intersection(table.feature_names))
    if common >= FEW * min(n_features, len(features)):
        return
    if len(columns & features) > max(common, len(columns) / 2):
        raise InputError(
            f"{table.path} looks transposed: {len(columns & features)} of its {len(columns)} samples are features "
            f"of other sources, but only {common} of its {n_features} features are; transpose it"
        )
    if len(columns & samples) > max(common, len(columns) / 2):
        raise InputError(
            f"{table.path} has {len(columns & samples)} of its {len(columns)} samples in common with other sources "
            f"but only {common} of its {n_features} features, as if the two were swapped; say samples_in_rows (on "
            "the command line --samples-in-rows) if features are in columns, and not if they are in rows"
        )
    if common:  # a table with none is refused where it is used
        log.warning(
            "only %d of the %d features of %s are in another source; check that they are named alike",
            common, n_features, table.path,
        )  # fmt: skip


def _labels(tables, names, path):
    """The labels from a file, or else those that came with the tables, over the classes of all; None without any."""
    if path is not None:
        nameless = next((table.path for table in tables if table.sample_names is None), None)
        if nameless is not None:
            raise InputError(f"{nameless} has no sample names, which labels need; add them, or leave the labels out")
        return label_files.read(Path(path), names, [table.sample_names for table in tables])
    class_names = list(dict.fromkeys(name for table in tables for name in table.class_names))
    if not class_names:
        return None, None
    labels = [np.zeros((len(class_names), table.matrix.shape[1]), dtype=bool) for table in tables]
    for table, block in zip(tables, labels, strict=True):
        if table.labels is not None:
            block[[class_names.index(name) for name in table.class_names]] = table.labels
    return labels, class_names
