"""What is known about the data sets, each of which says it in its own file.

A real data set is a module in `real/`, a file or a folder, that defines DATASET, an instance of the
class `Dataset` below.  The catalogue finds it there; the command, the config, the tables, the card
and the report ask the catalogue.
"""

import difflib
import importlib
import pkgutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from bjmd.errors import InputError


@dataclass(frozen=True)
class Member:
    """A file that a data set needs, known by its content."""

    names: tuple[str, ...]
    """What it is called, without folders; several where releases differ.  A pattern stands for many
    files.
    """
    most_bytes: int
    """The largest known size; more is never unpacked."""
    sha256: tuple[str, ...] = ()
    """Of every known version."""
    git_blob: tuple[str, ...] = ()
    """Of versions of which only the object id in a git repository was published."""
    list_sha256: str = ""
    """For a pattern: of the text that `sha256sum` prints for all matching files, sorted by name."""


@dataclass(frozen=True)
class Printed:
    """A row of the paper's tables: AUC (in percent) and noise sd in each source, and the seconds of
    one run.
    """

    auc: tuple[float, ...]
    seconds: float
    noise: tuple[float, ...] = ()


@dataclass(frozen=True)
class Paper:
    """What the paper says about a data set, and why ours differs where it does."""

    n_features: int
    groups: dict[str, int]
    """The sources and their numbers of samples."""
    differences: dict[str, str] = field(default_factory=dict)
    """Row of the card -> the explanation to show if the numbers differ."""
    printed: dict[str, Printed] = field(default_factory=dict)
    """Row of the paper's tables -> its numbers."""
    printed_filtered: dict[str, Printed] = field(default_factory=dict)
    """The same for the features that pass the feature test."""
    why_lower: dict[str, str] = field(default_factory=dict)
    """A fit of the config -> why it stays below the printed number, where that is known."""


@dataclass(frozen=True)
class Dataset:
    """Everything about one real data set."""

    name: str
    title: str
    version: str
    page: str
    terms: str
    citation: str
    sources: Callable
    """The reader: turns a folder that holds the members into Sources."""
    n_classes: int
    folder: str
    """Where its files are in a mirror and in the cache."""
    members: tuple[Member, ...]
    addresses: tuple[str, ...] = ()
    """Of the archive, in order of preference; none if it must be fetched by hand."""
    archive: str = ""
    """The archive's file name."""
    most_bytes: int = 0
    """A download that grows beyond this is not the archive."""
    sha256: tuple[str, ...] = ()
    """Of the archive, where published; an archive is good too if all members are."""
    draw: Callable | None = None
    """A picture of the prepared data: sources and title -> matplotlib figure."""
    nonnegative: str = "as-is"
    """How it is made non-negative for the methods that need that: "clip", "shift", or "as-is" if it
    is so already.
    """
    feature_test: bool = False
    """Whether it is also run with only the features that pass the feature test, as <name>-filtered.
    """
    filtered: bool = False
    """Whether this is the data set after the feature test."""
    paper: Paper | None = None

    @property
    def kind(self):
        return "filtered" if self.filtered else "real"

    @property
    def n_components(self):
        """As many as there are classes, like the paper."""
        return self.n_classes

    @property
    def printed(self):
        """The paper's numbers for it, by row."""
        if self.paper is None:
            return {}
        return self.paper.printed_filtered if self.filtered else self.paper.printed


def described_beside(file, **functions):
    """The data set that the file dataset.toml in the folder of `file` describes, with its reader
    and its picture.
    """
    fields = tomllib.loads((Path(file).parent / "dataset.toml").read_text(encoding="utf-8"))
    members = tuple(Member(**_frozen(member)) for member in fields.pop("members"))
    paper = fields.pop("paper")
    for rows in ("printed", "printed_filtered"):
        paper[rows] = printed_rows(paper.get(rows, {}))
    return Dataset(**_frozen(fields), members=members, paper=Paper(**paper), **functions)


def printed_rows(rows):
    """Rows of the paper's tables as they stand in a TOML file."""
    return {row: Printed(**_frozen(numbers)) for row, numbers in rows.items()}


def _frozen(fields):
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }


def names():
    """The names of all real data sets."""
    return list(_table())


def get(name):
    """The entry of one real data set."""
    return _known(name, _table(), "data set")


def families():
    """Name -> entry of everything that can be fitted: the synthetic scales, the real data sets, and
    those filtered.
    """
    from bjmd_paper.datasets.synthetic import SCALES

    filtered = map(_filtered, _table().values())
    return {**SCALES, **_table(), **{entry.name: entry for entry in filtered}}


def _filtered(entry):
    return replace(
        entry,
        name=f"{entry.name}-filtered",
        title=f"{entry.title}, after the feature test",
        filtered=True,
    )


def family(name):
    """The entry of one of the `families`."""
    return _known(name, families(), "data")


def _known(name, table, what):
    if name not in table:
        close = difflib.get_close_matches(str(name), table, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(table)}"
        raise InputError(f"there is no {what} {name!r}; {hint}")
    return table[name]


@cache
def _table():
    from bjmd_paper.datasets import real

    modules = (f"{real.__name__}.{found.name}" for found in pkgutil.iter_modules(real.__path__))
    entries = (importlib.import_module(module).DATASET for module in modules)
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}
