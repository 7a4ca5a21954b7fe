"""What is known about the data sets.

A real data set is a folder in `real/`.  Its `dataset.toml` has the fields of the class `Dataset`
below, and its `__init__.py` has a function `read(folder)` that turns the files in a folder into
`Sources`.  Another function is optional: `shares(folder)` returns the true shares of all samples as
a data frame, samples x parts, where the samples are mixtures of known composition.  The command,
the config, the tables, the card and the report find a data set through this catalogue.
"""

import difflib
import importlib
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from bjmd.errors import InputError
from bjmd_paper.datasets.synthetic import SCALES


@dataclass(frozen=True)
class Member:
    """A file that a data set needs, known by its content."""

    names: list[str]
    """Its file name without folders; several if releases differ.  A pattern stands for many files.
    """
    sha256: list[str]
    """The hash of every known version; for many files, of what `sha256sum` prints for all of them,
    sorted by name.
    """
    git_blob: str = ""
    """The object id of a version that is known only from a git repository."""
    number: int = 1
    """For a pattern: how many files match it."""


@dataclass(frozen=True)
class Paper:
    """What the paper says about a data set, and why ours differs where it does."""

    n_features: int
    groups: dict[str, int]
    """The sources and their numbers of samples."""
    differences: dict[str, str] = field(default_factory=dict)
    """Row of the card -> the explanation to show if the numbers differ."""
    printed: dict[str, dict] = field(default_factory=dict)
    """Row of the paper's tables -> its numbers: AUC in percent and, if it has one, noise sd by
    source, and seconds a run.
    """
    printed_filtered: dict[str, dict] = field(default_factory=dict)
    """The same for the features that pass the feature test."""


@dataclass(frozen=True)
class Dataset:
    """Everything about one real data set."""

    name: str
    title: str
    version: str
    page: str
    terms: str
    citation: str
    megabytes: int
    """The size of its files."""
    n_classes: int
    folder: str
    """The folder of its files in a mirror and in the cache."""
    members: list[Member]
    module: str
    """The module with the function `read`; the catalogue fills it in."""
    addresses: list[str] = field(default_factory=list)
    """Addresses of the archive, the best first; without an archive, of a folder with the members.
    None if it must be downloaded by hand.
    """
    archive: str = ""
    """The archive's file name, a .zip or a .tar.gz."""
    note: str = ""
    """What everybody who uses the data must know; the card shows it."""
    nonnegative: str = "as-is"
    """How it is made non-negative for methods that need that: "clip", "shift", or "as-is"."""
    feature_test: bool = False
    """Whether it is also run with only the features that pass the test, as <name>-filtered."""
    kind: str = "real"
    """Either "real", or "filtered" for the data set after the feature test."""
    paper: Paper | None = None

    @property
    def n_components(self):
        """As many as there are classes, as in the paper."""
        return self.n_classes

    @property
    def printed(self):
        """The paper's numbers for it, by row."""
        if self.paper is None:
            return {}
        return self.paper.printed_filtered if self.kind == "filtered" else self.paper.printed

    @property
    def read(self):
        """The function that reads the sources from a folder with the members."""
        return importlib.import_module(self.module).read

    @property
    def shares(self):
        """The function that reads the true shares of the samples, or None."""
        return getattr(importlib.import_module(self.module), "shares", None)


def names():
    """The names of all real data sets."""
    return list(_real())


def get(name):
    """The entry of one real data set."""
    return _known(name, _real(), "data set")


def families():
    """Everything that can be fitted, by name: synthetic scales, real data sets, filtered ones."""
    filtered = [
        replace(
            entry,
            name=f"{entry.name}-filtered",
            title=f"{entry.title}, after the feature test",
            kind="filtered",
        )
        for entry in _real().values()
    ]
    return {**SCALES, **_real(), **{entry.name: entry for entry in filtered}}


def family(name):
    """The entry of one of the `families`."""
    return _known(name, families(), "data")


def printed():
    """All numbers that the paper prints: a row for every family, row of its tables, and source."""
    import pandas as pd

    rows = [
        {
            "data": name,
            "row": row,
            "source": c + 1,
            "auc": auc,
            "seconds": numbers["seconds"],
            "noise": numbers["noise"][c] if "noise" in numbers else None,
        }
        for name, entry in families().items()
        for row, numbers in entry.printed.items()
        for c, auc in enumerate(numbers["auc"])
    ]
    return pd.DataFrame(rows)


@cache
def _real():
    entries = map(_dataset, Path(__file__).parent.glob("real/*/dataset.toml"))
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _dataset(path):
    fields = tomllib.loads(path.read_text(encoding="utf-8"))
    fields["members"] = [Member(**member) for member in fields["members"]]
    if "paper" in fields:
        fields["paper"] = Paper(**fields["paper"])
    return Dataset(**fields, module=f"bjmd_paper.datasets.real.{path.parent.name}")


def _known(name, entries, what):
    if name not in entries:
        close = difflib.get_close_matches(str(name), entries, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(entries)}"
        raise InputError(f"there is no {what} {name!r}; {hint}")
    return entries[name]
