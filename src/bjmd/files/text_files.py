"""Text files: tables of numbers, classes of samples, and metadata about samples.

.csv files have commas, .tsv and .txt files have tabs; all may be gzipped.  A table of numbers has
sample names in its first row and feature names in its first column.  A header without a field
above the row names, as R writes it, is recognised by its length.  A cell that is empty or holds
one of MISSING is a missing value, NaN.
"""

import contextlib
import csv
import gzip
import io
import logging
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bjmd.errors import InputError, problems_as_sentences

log = logging.getLogger(__name__)

MISSING = ("", "NA", "na", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None")
TEXT = "a table of text in UTF-8"
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "spaces"}


def read_numbers(path: Path) -> tuple[np.ndarray, list[str], list[str]]:
    """The numbers as a float64 array, the names of its rows, and the names of its columns."""
    separator = separator_of(path)
    rows = []
    numbers = []
    with open_text(path) as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        lines = filter(None, reader)
        header = next(lines, None)
        if header is None:
            raise InputError(f"{path} is empty; check that it was written completely")
        if header[0].startswith("#") and len(header) == 1:
            raise InputError(
                f"{path} begins with a comment, or is a GCT file; remove the lines above the names "
                "and the column of descriptions"
            )
        first = next(lines, None)
        if first is None:
            raise InputError(
                f"{path} has one line only; below the names it must have lines of numbers"
            )
        n_columns = len(first) - 1
        if n_columns == 0 or (len(header) == 1 and ";" in header[0]):
            raise InputError(_one_column(path, separator, header))
        if len(header) not in (n_columns, n_columns + 1):
            raise InputError(_wrong_length(path, "the first line", len(header), n_columns + 1))
        columns = [name.strip() for name in header[-n_columns:]]
        for fields in chain([first], lines):
            if len(fields) != n_columns + 1:
                place = f"line {reader.line_num}"
                raise InputError(_wrong_length(path, place, len(fields), n_columns + 1))
            rows.append(fields[0].strip())
            numbers.append(_numbers(path, fields, columns))
    for names, place in ((columns, "first row"), (rows, "first column")):
        # whole numbers may be names; other numbers show that the names are missing
        if all(_is_number(name) and not name.isdecimal() for name in names):
            raise InputError(
                f"the {place} of {path} holds numbers such as {names[0]}; it must hold names"
            )
    if all(map(str.isdecimal, columns)):
        message = "the samples of %s have numbers for names, such as %s; is its header missing?"
        log.warning(message, path, columns[0])
    return np.array(numbers), rows, columns


def _numbers(path: Path, fields: list[str], columns: list[str]) -> np.ndarray:
    """The numbers of a line after its name."""
    if not any("_" in field for field in fields[1:]):  # Python would take 1_0 for a number
        with contextlib.suppress(ValueError):  # something is missing, or wrong
            return np.fromiter(map(float, fields[1:]), dtype=float)
    for field, column in zip(fields[1:], columns, strict=True):
        if field not in MISSING and not _is_number(field):
            raise InputError(
                f"{path} holds the text {field[:40]!r} in row {fields[0]!r}, column {column!r}; "
                "a cell must hold a number, or NA where the value is missing"
            )
    return np.array([np.nan if field in MISSING else float(field) for field in fields[1:]])


def read_labels(
    path: Path, names: list[str], sample_names: list[list[str]]
) -> tuple[list[np.ndarray], list[str]]:
    """One boolean classes x samples array per source, and the class names in order of appearance.

    The columns are sample, class and, optionally, source.  A sample with several classes has
    several lines.  Without a source, a line is about the samples of that name in every source.  A
    first line whose first field is not a sample is a header.
    """
    import pandas as pd

    table = _label_table(path, {sample for samples in sample_names for sample in samples})
    if 2 in table and not table[2].isin(names).all():
        unknown_source = table[2][~table[2].isin(names)].iloc[0]
        raise InputError(
            f"{path} names the source {unknown_source!r}; the sources are {', '.join(names)}; "
            "correct its third column"
        )
    classes, class_names = pd.factorize(table[1])
    labels = []
    is_known = np.zeros(len(table), dtype=bool)
    for name, samples in zip(names, sample_names, strict=True):
        columns = pd.Index(samples).get_indexer(table[0])
        here = (columns >= 0) & (True if 2 not in table else (table[2] == name).to_numpy())
        block = np.zeros((len(class_names), len(samples)), dtype=bool)
        block[classes[here], columns[here]] = True
        labels.append(block)
        is_known |= here
    unknown = table[0][~is_known]
    if not is_known.any():
        raise InputError(
            f"none of the {len(table)} samples in {path} is in the data: it has for example "
            f"{unknown.iloc[0]!r}, they have {sample_names[0][0]!r}; its first column must hold "
            "the names of samples"
        )
    if len(unknown):
        message = "%d of the %d samples in %s are not in the data, for example %r"
        log.warning(message, len(unknown), len(table), path, unknown.iloc[0])
    for name, samples, block in zip(names, sample_names, labels, strict=True):
        without = np.flatnonzero(~block.any(axis=0))
        if len(without):
            message = "%d of the %d samples of source %r have no class in %s, for example %r"
            log.warning(message, len(without), len(samples), name, path, samples[without[0]])
    return labels, list(class_names)


def _label_table(path: Path, samples: set[str]) -> Any:
    """The lines of a label file without its header: sample, class and perhaps source."""
    import pandas as pd

    separator = separator_of(path)
    with problems_as_sentences(path, TEXT):
        table = pd.read_csv(
            path, sep=separator, header=None, dtype=str, keep_default_na=False, encoding="utf-8-sig"
        )
        table = table.fillna("").apply(lambda column: column.str.strip())
    if table.iloc[0, 0] not in samples:
        table = table[1:]
    if not len(table) or table.shape[1] not in (2, 3) or table.eq("").any(axis=None):
        raise InputError(
            f"the label file {path} must have lines with a sample, its class and, if sources share "
            f"sample names, its source, separated by {_SEPARATORS[separator]}; check the file"
        )
    return table


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
    return True
