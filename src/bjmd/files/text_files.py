"""Text files: tables of numbers, classes of samples, and metadata about samples.

.csv files have commas, .tsv and .txt files have tabs; all may be gzipped.  A table of numbers has
sample names in its first row and feature names in its first column.  A header without a field
above the row names, as R writes it, is recognised by its length.  A cell that is empty or holds
one of MISSING is a missing value, NaN.
"""

import csv
import gzip
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bjmd.errors import InputError

log = logging.getLogger(__name__)

MISSING = ("", "NA", "na", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None")
TEXT = "a table of text in UTF-8"
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "spaces"}


@contextmanager
def problems_as_sentences(path: Path, expected: str) -> Iterator[None]:
    """Turn whatever a library raises about a bad file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except MemoryError:
        raise InputError(
            f"{path} holds more than fits into memory; check the file, or use a larger machine"
        ) from None
    except Exception as error:  # a parser that meets garbage may raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is not {expected} ({reason}); check the file, or write it again"
        ) from None


def read_numbers(path: Path) -> tuple[np.ndarray, list[str], list[str]]:
    """The numbers as a float64 array, the names of its rows, and the names of its columns."""
    separator = separator_of(path)
    header, frame = _parse(path, separator)
    first_column = frame.pop(0)
    n_columns = frame.shape[1]
    if n_columns == 0:
        raise InputError(_one_column(path, separator, header))
    if len(header) not in (n_columns, n_columns + 1):
        raise InputError(_wrong_length(path, "the first line", len(header), n_columns + 1))
    rows = [name.strip() for name in first_column]
    columns = [name.strip() for name in header[-n_columns:]]
    if columns[-1] == "" and frame.iloc[:, -1].isna().all():
        raise InputError(
            f"the lines of {path} end with a separator, as if a column were empty; remove it"
        )
    has_text = any(column.kind not in "iuf" for column in frame.dtypes)
    # pandas fills a line that ends early with missing values, so a truncated file would pass
    if has_text or frame.iloc[:, -1].isna().any():
        _find_fault(path, separator, columns, check_cells=has_text)
    for names, place in ((columns, "first row"), (rows, "first column")):
        # whole numbers may be names; other numbers show that the names are missing
        if all(_is_number(name) and not name.isdecimal() for name in names):
            raise InputError(
                f"the {place} of {path} holds numbers such as {names[0]}; it must hold names"
            )
    if all(map(str.isdecimal, columns)):
        message = "the samples of %s have numbers for names, such as %s; is its header missing?"
        log.warning(message, path, columns[0])
    return np.ascontiguousarray(frame.to_numpy(dtype=float)), rows, columns


def read_labels(
    path: Path, names: list[str], sample_names: list[list[str]]
) -> tuple[list[np.ndarray], list[str]]:
    """One boolean classes x samples array per source, and the class names in order of appearance.

    The columns are sample, class and, optionally, source.  A sample with several classes has
    several lines.  Without a source, a line is about the samples of that name in every source.  A
    first line whose first field is not a sample is a header.
    """
    column_of = [{sample: j for j, sample in enumerate(samples)} for samples in sample_names]
    lines = _label_lines(path, set().union(*column_of))
    class_names = list(dict.fromkeys(label for _, label, *_ in lines))
    labels = [np.zeros((len(class_names), len(samples)), dtype=bool) for samples in sample_names]
    unknown = []
    for sample, label, *source in lines:
        if source and source[0] not in names:
            raise InputError(
                f"{path} names the source {source[0]!r}; the sources are {', '.join(names)}; "
                "correct its third column"
            )
        matching = [
            c for c, name in enumerate(names) if sample in column_of[c] and source in ([], [name])
        ]
        for c in matching:
            labels[c][class_names.index(label), column_of[c][sample]] = True
        if not matching:
            unknown.append(sample)
    if len(unknown) == len(lines):
        raise InputError(
            f"none of the {len(lines)} samples in {path} is in the data: it has for example "
            f"{unknown[0]!r}, they have {sample_names[0][0]!r}; its first column must hold the "
            "names of samples"
        )
    if unknown:
        message = "%d of the %d samples in %s are not in the data, for example %r"
        log.warning(message, len(unknown), len(lines), path, unknown[0])
    for name, samples, block in zip(names, sample_names, labels, strict=True):
        without = np.flatnonzero(~block.any(axis=0))
        if len(without):
            message = "%d of the %d samples of source %r have no class in %s, for example %r"
            log.warning(message, len(without), len(samples), name, path, samples[without[0]])
    return labels, class_names


def read_metadata(path: Path, names: list[str], sample_names: list[list[str]]) -> list:
    """A data frame about the samples of each source.

    The first column of the file holds sample names; a column `source` distinguishes samples that
    share a name.
    """
    import pandas as pd

    with problems_as_sentences(path, TEXT):
        table = pd.read_csv(path, sep=separator_of(path), index_col=0).rename(index=str)
    if "source" in table:
        source = table.pop("source").astype(str)
        parts = [table[source == name] for name in names]
    else:
        parts = [table] * len(names)
    if not all(part.index.is_unique for part in parts):
        raise InputError(
            f"{path} lists a sample more than once; give each sample one line, and add a column "
            "source if sources share sample names"
        )
    if not table.index.isin([sample for samples in sample_names for sample in samples]).any():
        raise InputError(
            f"none of the samples in {path} is in the data; its first column must hold their names"
        )
    return [part.reindex(samples) for part, samples in zip(parts, sample_names, strict=True)]


def separator_of(path: Path) -> str:
    return "," if path.name.lower().removesuffix(".gz").endswith(".csv") else "\t"


def open_bytes(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


def _parse(path: Path, separator: str) -> tuple[list[str], Any]:
    """The fields of the first line, and the other lines as a data frame."""
    import pandas as pd

    _check_bytes(path)
    with open_text(path) as file:
        header = next(filter(None, csv.reader(file, delimiter=separator)), None)
        if header is None:
            raise InputError(f"{path} is empty; check that it was written completely")
        if header[0].startswith("#1."):
            raise InputError(
                f"{path} is a GCT file; remove its first two lines and its column of descriptions"
            )
        if header[0].startswith("#") and len(header) == 1:
            raise InputError(f"{path} begins with a comment; remove the lines that begin with #")
        if len(header) == 1 and ";" in header[0]:
            raise InputError(_one_column(path, separator, header))
        try:
            # _find_fault says more than pandas' warning about mixed types
            with warnings.catch_warnings(action="ignore", category=pd.errors.DtypeWarning):
                frame = pd.read_csv(
                    file,
                    sep=separator,
                    header=None,
                    converters={0: str},
                    keep_default_na=False,
                    na_values=MISSING,
                    float_precision="round_trip",
                )
        except pd.errors.EmptyDataError:
            raise InputError(
                f"{path} has one line only; below the names it must have lines of numbers"
            ) from None
        except pd.errors.ParserError as error:
            _find_fault(path, separator, [], check_cells=False)
            raise InputError(
                f"{path} is not a table ({str(error).strip()}); check its quotation marks"
            ) from None
    return header, frame


def _check_bytes(path: Path) -> None:
    """Refuse null bytes, at which pandas would silently end a number."""
    with open_bytes(path) as file:
        while block := file.read(2**24):
            if 0 in block:
                raise InputError(
                    f"{path} holds a null byte, which no text file does; check that it is complete "
                    "and in UTF-8"
                )


def _find_fault(path: Path, separator: str, columns: list[str], *, check_cells: bool) -> None:
    """Go through the table line by line and say what is wrong with the first bad line, if any."""
    with open_text(path) as file:
        lines = csv.reader(file, delimiter=separator)
        next(filter(None, lines))
        n_fields = None
        for fields in filter(None, lines):
            n_fields = n_fields or len(fields)
            if len(fields) != n_fields:
                place = f"line {lines.line_num}"
                raise InputError(_wrong_length(path, place, len(fields), n_fields))
            if check_cells:
                _check_cells(path, fields, columns)


def _check_cells(path: Path, fields: list[str], columns: list[str]) -> None:
    for field, column in zip(fields[1:], columns, strict=True):
        if field not in MISSING and not _is_number(field):
            raise InputError(
                f"{path} holds the text {field[:40]!r} in row {fields[0]!r}, column {column!r}; "
                "a cell must hold a number, or NA where the value is missing"
            )


def _wrong_length(path: Path, place: str, n_fields: int, expected: int) -> str:
    return (
        f"{path} has {n_fields} fields in {place} but {expected} in others; "
        "check that it was written completely"
    )


def _one_column(path: Path, separator: str, header: list[str]) -> str:
    present = [
        word for mark, word in _SEPARATORS.items() if mark in header[0] and mark != separator
    ]
    seems = f" but seems to have {present[0]}" if present else ""
    if present[:1] == ["semicolons"]:
        seems += ", perhaps with decimal commas, which must be points"
    ending = "".join(path.suffixes)
    return (
        f"{path} has one column only: {ending} needs {_SEPARATORS[separator]} between columns"
        f"{seems}; write it again"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python allows it in numbers; nobody else does


def _label_lines(path: Path, samples: set[str]) -> list[list[str]]:
    if not path.is_file():
        raise InputError(f"there is no label file {path}; check the path")
    separator = separator_of(path)
    with problems_as_sentences(path, TEXT), open_text(path) as file:
        lines = [
            [field.strip() for field in line]
            for line in csv.reader(file, delimiter=separator)
            if line
        ]
    if lines and lines[0][0] not in samples:
        del lines[0]
    if not lines:
        raise InputError(
            f"the label file {path} has no line with a sample and its class; check the file"
        )
    widths = sorted({len(line) for line in lines})
    if widths not in ([2], [3]):
        raise InputError(
            f"the label file {path} has lines of {' and '.join(map(str, widths))} fields; it must "
            "have the columns sample, class and, optionally, source, separated by "
            f"{_SEPARATORS[separator]}"
        )
    return lines
