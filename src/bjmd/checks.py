"""Checks of single arguments; each says in one sentence what is wrong."""

from collections.abc import Iterable
from math import inf
from numbers import Integral, Real
from typing import Any

from bjmd.errors import InputError


def whole_number(name: str, value: Any, least: int) -> int:
    """An int of at least `least` (True and 3.0 are not whole numbers here)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """A finite number greater than 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf:
        raise InputError(f"{name} is {value!r}; it must be a finite number greater than 0")
    return float(value)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """One of the given words."""
    if value not in choices:
        raise InputError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    return value
