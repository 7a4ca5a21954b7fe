"""The table of real data sets (catalogue.toml): where they come from, on what terms, and how to know them again."""

import difflib
import importlib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from bjmd.errors import InputError


@dataclass(frozen=True)
class Member:
    """A file that a data set needs, known by its content."""

    names: tuple[str, ...]
    """What it is called, without folders; several where releases differ.  A pattern stands for many files."""
    most_bytes: int
    """The largest known size; more is never unpacked."""
    sha256: tuple[str, ...] = ()
    """Of every known version."""
    git_blob: tuple[str, ...] = ()
    """Of versions of which only the object id in a git repository was published."""
    list_sha256: str = ""
    """For a pattern: of the text that `sha256sum` prints for all matching files, sorted by name."""


@dataclass(frozen=True)
class Dataset:
    """One entry of the table."""

    name: str
    title: str
    version: str
    page: str
    terms: str
    citation: str
    prepare: str
    """The function, as module:name, that turns a folder of the members into Sources."""
    folder: str
    """Where its files are in a mirror and in the cache."""
    members: tuple[Member, ...]
    addresses: tuple[str, ...]
    """Of the archive, in order of preference; none if it must be fetched by hand."""
    archive: str = ""
    """The archive's file name."""
    most_bytes: int = 0
    """A download that grows beyond this is not the archive."""
    sha256: tuple[str, ...] = ()
    """Of the archive, where published; an archive is good too if all members are."""

    def sources(self, folder):
        """The prepared data set from a folder that holds the members."""
        module, function = self.prepare.split(":")
        return getattr(importlib.import_module(module), function)(folder)


def names():
    """The names of all real data sets."""
    return list(_table())


def get(name):
    """The entry of one data set."""
    if name not in _table():
        close = difflib.get_close_matches(str(name), names(), n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known data sets: {', '.join(names())}"
        raise InputError(f"there is no data set {name!r}; {hint}")
    return _table()[name]


@cache
def _table():
    text = resources.files("bjmd.paper.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return {name: _dataset(name, fields) for name, fields in tomllib.loads(text).items()}


def _dataset(name, fields):
    members = tuple(Member(**_frozen(member)) for member in fields.pop("members"))
    return Dataset(name=name, members=members, **_frozen(fields))


def _frozen(fields):
    return {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
