"""Text tables: sample names in the first row, feature names in the first column, and numbers.

.csv files have commas, .tsv and .txt files have tabs; all may be gzipped.  A header without a field
above the row names, as R writes it, is known by its length.  A cell that is empty or holds one of
MISSING is a missing value, NaN.
"""

import csv
import gzip
import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from bjmd.errors import InputError

log = logging.getLogger(__name__)

MISSING = ("", "NA", "na", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None")
# pandas' fast conversion is exact up to 15 digits: so many characters with a sign or a point
EXACT_LENGTH = 16
_NAMING = re.compile(
    r"^id|id$|name|gene|feature|symbol|probe|entrez|index|word|pixel|^#|^x$", re.IGNORECASE
)
"""What people write above a column of names."""
_DATE = re.compile(
    r"(\d{1,2}-)?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)(-\d{1,2})?", re.IGNORECASE
)
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "spaces"}


def read(path: Path) -> tuple[np.ndarray, list[str], list[str]]:
    """The numbers as a float64 array, the names of its rows, and the names of its columns."""
    separator = separator_of(path)
    with problems_as_sentences(path, "a table of text in UTF-8"):
        head, frame = _parse(path, separator)
        first_column = frame.pop(0)
        n_columns = frame.shape[1]
        if n_columns == 0:
            raise InputError(_one_column(path, separator, head))
        if len(head) not in (n_columns, n_columns + 1):
            raise InputError(_wrong_length(path, "the first line", len(head), n_columns + 1))
        rows, columns = (
            [name.strip() for name in names] for names in (first_column, head[-n_columns:])
        )
        if columns[-1] == "" and frame.iloc[:, -1].isna().all():
            raise InputError(
                f"the lines of {path} end with a separator, as if a column were empty; remove it"
            )
        has_text = any(column.kind not in "iuf" for column in frame.dtypes)
        # pandas fills a line that ends early with missing values, so a file that was cut off would
        # pass
        if has_text or frame.iloc[:, -1].isna().any():
            _find_fault(path, separator, columns, look_at_cells=has_text)
    numbers = np.ascontiguousarray(frame.to_numpy(dtype=float))
    heading = head[0].strip() if len(head) > n_columns else ""
    _check_names(path, rows, columns, heading, whole=bool((numbers == np.rint(numbers)).all()))
    return numbers, rows, columns


def _check_names(
    path: Path, rows: list[str], columns: list[str], heading: str, *, whole: bool
) -> None:
    """Refuse names that are cells of a table without names, or that a stray quotation mark made of
    several cells.

    Whole numbers may be names or, where all cells are `whole`, a row or a column of the data.
    """
    for names, place, more in ((columns, "first row", "a row"), (rows, "first column", "a column")):
        odd = next((name for name in names if any(ord(character) < 32 for character in name)), None)
        if odd is not None:
            raise InputError(
                f"the {place} of {path} has the name {odd[:40]!r}; check its quotation marks"
            )
        # a plain whole number may be a name; no one would choose any other
        if all(_is_number(name) and not re.fullmatch(r"\d+", name) for name in names):
            raise InputError(
                f"the {place} of {path} holds numbers such as {names[0]}; it must hold names"
            )
        called_names = _NAMING.search(heading) or not heading
        if (
            whole
            and all(map(str.isdecimal, names))
            and not (_count_on(names) or (names is rows and called_names))
        ):
            cure = "put a letter before each" if names is columns else "call the column id"
            raise InputError(
                f"the {place} of {path} holds whole numbers such as {names[0]}, as its cells do; if they are names, "
                f"{cure}; if not, add {more} of names"
            )
    dates = [name for name in (*rows, *columns) if _DATE.fullmatch(name)]
    if dates:
        changed = (
            "%d names in %s look like dates, for example %r; a spreadsheet may have changed them"
        )
        log.warning(changed, len(dates), path, dates[0])


def _count_on(names: list[str]) -> bool:
    """Whether the names are numbers in sequence, as people number things."""
    return [int(name) for name in names] == list(range(int(names[0]), int(names[0]) + len(names)))


def _parse(path: Path, separator: str) -> tuple[list[str], Any]:
    """The fields of the first line, and the other lines as a data frame."""
    import pandas as pd

    precision = "high" if _longest_number(path, separator) <= EXACT_LENGTH else "round_trip"
    with open_text(path) as file:
        head = next(filter(None, csv.reader(file, delimiter=separator)), None)
        if head is None:
            raise InputError(f"{path} is empty; check that it was written completely")
        if head[0].startswith("#1."):
            raise InputError(
                f"{path} is a GCT file; remove its first two lines and its column of descriptions"
            )
        if head[0].startswith("#") and len(head) == 1:
            raise InputError(f"{path} begins with a comment; remove the lines that begin with #")
        if len(head) == 1 and ";" in head[0]:
            raise InputError(_one_column(path, separator, head))
        try:
            with warnings.catch_warnings(
                action="ignore", category=pd.errors.DtypeWarning
            ):  # _find_fault says more
                frame = pd.read_csv(
                    file,
                    sep=separator,
                    header=None,
                    converters={0: str},
                    keep_default_na=False,
                    na_values=MISSING,
                    float_precision=precision,
                )
        except pd.errors.EmptyDataError:
            raise InputError(
                f"{path} has one line only; below the names it must have lines of numbers"
            ) from None
        except pd.errors.ParserError as error:
            _find_fault(path, separator, [], look_at_cells=False)
            raise InputError(
                f"{path} is not a table ({str(error).strip()}); check its quotation marks"
            ) from None
    return head, frame


def _longest_number(path: Path, separator: str) -> int:
    """The number of characters of the longest field below the header that does not begin a line."""
    longest = 0
    rest = b""
    mark = ord(separator)
    with open_bytes(path) as file:
        has_null = 0 in file.readline()
        while block := file.read(2**24):
            has_null |= 0 in block
            text = np.frombuffer(rest + block, np.uint8)
            ends = np.flatnonzero((text == mark) | (text == ord("\n")))
            lengths = np.diff(ends)[text[ends[:-1]] == mark] - 1
            longest = max(longest, lengths.max(initial=0))
            rest = text[ends[-1] if len(ends) else 0 :].tobytes()
    if has_null:
        raise InputError(
            f"{path} holds a null byte, which no text does; check that it is complete and in UTF-8"
        )
    return max(longest, len(rest))  # the last line may end without a mark


def _find_fault(path: Path, separator: str, columns: list[str], *, look_at_cells: bool) -> None:
    """Go through the table line by line, slowly, and say what is wrong with the first bad line, if
    any is.
    """
    with open_text(path) as file:
        lines = csv.reader(file, delimiter=separator)
        next(filter(None, lines))
        n_fields = None
        for fields in filter(None, lines):
            n_fields = n_fields or len(fields)
            if len(fields) != n_fields:
                raise InputError(
                    _wrong_length(path, f"line {lines.line_num}", len(fields), n_fields)
                )
            if look_at_cells:
                for field, column in zip(fields[1:], columns, strict=True):
                    if field not in MISSING and not _is_number(field):
                        raise InputError(
                            f"{path} holds the text {field[:40]!r} in row {fields[0]!r}, column {column!r}; "
                            "a cell must hold a number, or NA where the value is missing"
                        )


def _wrong_length(path: Path, place: str, found: int, expected: int) -> str:
    return f"{path} has {found} fields in {place} but {expected} in others; check that it was written completely"


def _one_column(path: Path, separator: str, head: list[str]) -> str:
    others = [word for mark, word in _SEPARATORS.items() if mark in head[0] and mark != separator]
    seems = f" but seems to have {others[0]}" if others else ""
    seems += (
        ", perhaps with decimal commas, which must be points"
        if others[:1] == ["semicolons"]
        else ""
    )
    ending = "".join(path.suffixes)
    return f"{path} has one column only: {ending} needs {_SEPARATORS[separator]} between columns{seems}; write it again"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python allows in numbers, and no one else


def separator_of(path: Path) -> str:
    return "," if path.name.lower().removesuffix(".gz").endswith(".csv") else "\t"


def open_bytes(path: Path) -> Any:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def open_text(path: Path) -> TextIO:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")


@contextmanager
def problems_as_sentences(path: Path, what: str) -> Iterator[None]:
    """What a library says about a bad file, in one sentence."""
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
            f"{path} is not {what} ({reason}); check the file, or write it again"
        ) from None
