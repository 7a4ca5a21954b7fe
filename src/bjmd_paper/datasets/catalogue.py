"""What is known about the data sets.

A real data set is a folder in `real/`.  Its `dataset.toml` has the fields of the class `Dataset`
below, and its `__init__.py` has a function `read(folder)` that turns the files in a folder into
`Sources`.  Two more functions are optional: `draw(sources, title)` returns a matplotlib figure, and
`shares(folder)` the true shares of all samples as a data frame, samples x parts, where the samples
are mixtures of known composition.  The command, the config, the tables, the card and the report
find a data set through this catalogue.
"""

import difflib
import importlib
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from bjmd.errors import InputError

REAL = Path(__file__).parent / "real"


@dataclass(frozen=True)
class Member:
    """A file that a data set needs, known by its content."""

    names: tuple[str, ...]
    """Its file name without folders; several if releases differ.  A pattern stands for many files.
    """
    most_bytes: int
    """The largest known size; a larger file is never unpacked."""
    sha256: tuple[str, ...] = ()
    """The hash of every known version."""
    git_blob: tuple[str, ...] = ()
    """Object ids of versions that are known only from a git repository."""
    number: int = 1
    """For a pattern: how many files match it."""
    list_sha256: str = ""
    """For a pattern: the hash of what `sha256sum` prints for all matching files, sorted by name."""


@dataclass(frozen=True)
class Printed:
    """A row of the paper's tables: AUC in percent and noise sd by source, and seconds a run."""

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
    n_classes: int
    folder: str
    """The folder of its files in a mirror and in the cache."""
    members: tuple[Member, ...]
    module: str
    """The module with the functions `read` and `draw`; the catalogue fills it in."""
    addresses: tuple[str, ...] = ()
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
    filtered: bool = False
    """Whether this is the data set after the feature test."""
    paper: Paper | None = None

    @property
    def kind(self):
        return "filtered" if self.filtered else "real"

    @property
    def n_components(self):
        """As many as there are classes, as in the paper."""
        return self.n_classes

    @property
    def most_bytes(self):
        """The size of all its files."""
        return sum(member.number * member.most_bytes for member in self.members)

    @property
    def printed(self):
        """The paper's numbers for it, by row."""
        if self.paper is None:
            return {}
        return self.paper.printed_filtered if self.filtered else self.paper.printed

    def read(self, folder):
        """The sources from a folder that holds the members."""
        return self._function("read")(folder)

    @property
    def draw(self):
        """The function that draws the prepared data, or None."""
        return self._function("draw")

    @property
    def shares(self):
        """The function that reads the true shares of the samples, or None."""
        return self._function("shares")

    def _function(self, name):
        return getattr(importlib.import_module(self.module), name, None)


@dataclass(frozen=True)
class Scale:
    """The constants of one size of the synthetic data, named as in the paper."""

    title: str
    a: float
    n_components: int
    L: int
    coh: int
    samples_per_source: int
    p: float
    printed: dict[str, Printed]
    """The paper's numbers, by row of its table."""

    kind = "synthetic"
    nonnegative = "clip"

    @property
    def n_features(self):
        return self.L + (self.n_components - 2) * (self.L - self.coh)


def _read_toml(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _printed(rows):
    return {row: Printed(**_frozen(numbers)) for row, numbers in rows.items()}


def _frozen(fields):
    """The fields with tuples in place of lists."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }


SCALES = {
    name: Scale(**{**fields, "printed": _printed(fields["printed"])})
    for name, fields in _read_toml(Path(__file__).with_name("synthetic.toml")).items()
}
"""The paper's two sizes of synthetic data, "small" and "large"."""


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
            filtered=True,
        )
        for entry in _real().values()
    ]
    return {**SCALES, **_real(), **{entry.name: entry for entry in filtered}}


def family(name):
    """The entry of one of the `families`."""
    return _known(name, families(), "data")


@cache
def _real():
    entries = map(_dataset, REAL.glob("*/dataset.toml"))
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _dataset(path):
    fields = _read_toml(path)
    fields["members"] = tuple(Member(**_frozen(member)) for member in fields["members"])
    if "paper" in fields:
        paper = fields["paper"]
        for rows in ("printed", "printed_filtered"):
            paper[rows] = _printed(paper.get(rows, {}))
        fields["paper"] = Paper(**paper)
    return Dataset(**_frozen(fields), module=f"bjmd_paper.datasets.real.{path.parent.name}")


def _known(name, entries, what):
    if name not in entries:
        close = difflib.get_close_matches(str(name), entries, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(entries)}"
        raise InputError(f"there is no {what} {name!r}; {hint}")
    return entries[name]
