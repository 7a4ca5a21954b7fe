"""The two ways in which bjmd says no, and the door at which libraries' exceptions become one."""

from collections.abc import Iterator
from contextlib import contextmanager
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
