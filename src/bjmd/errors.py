"""How bjmd says no: two exceptions, checks of single arguments, and the door for files.

Each check says in one sentence what is wrong; at the door, libraries' exceptions become one.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import inf
from numbers import Integral, Real
from typing import Any


class InputError(ValueError):
    """Input that cannot be used; the message says what, where and what to do."""


class FitError(RuntimeError):
    """A fit broke down numerically; nothing it computed should be used."""


@contextmanager
def problems_as_sentences(path: Any, expected: str) -> Iterator[None]:
    """Turn whatever goes wrong with the content of a file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{error.filename or path} does not exist; check the path") from None
    except MemoryError:
        raise InputError(
            f"{path} holds more than fits into memory; check the file, or use a larger machine"
        ) from None
    except Exception as error:  # a parser that meets garbage may raise anything
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is not {expected} ({reason}); check the file, or write it again"
        ) from None


def whole_number(name: str, value: Any, least: int) -> int:
    """An int of at least `least` (True and 3.0 are not whole numbers here)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    return int(value)


LEAST = 1e-150
MOST = 1e150
"""The range of positive numbers whose squares are numbers, too."""


def positive_number(name: str, value: Any, least: float = LEAST) -> float:
    """A number greater than 0 that can be squared."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < inf:
        text = (
            " (it is text; YAML reads 1.0e-05 as a number, but not 1e-5, and Snakemake nothing in "
            "braces after --config, so use --configfile)"
        )
        hint = text if isinstance(value, str) and value[-1:].isdigit() else ""
        raise InputError(f"{name} is {value!r}; it must be a finite number greater than 0{hint}")
    if not least <= value <= MOST:
        raise InputError(f"{name} is {value!r}; it must be between {least:g} and {MOST:g}")
    return float(value)


def true_or_false(name: str, value: Any) -> bool:
    """True or False and nothing else: "no" is true to Python."""
    if type(value).__name__ not in ("bool", "bool_"):  # NumPy's too, without its import
        raise InputError(f"{name} is {value!r}; it must be True or False")
    return bool(value)


def count(n: int, what: str) -> str:
    """1 sample, 2 samples."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of the given words."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    return value
