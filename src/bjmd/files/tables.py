"""Tables become `Sources`: the one way for files, for the command and for the estimator.

A table is one source as its owner has it.  `assemble` brings several to common features, and
`prepare` also brings them to one scale and notes down how.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data import preparation
from bjmd.data.alignment import Alignment, align
from bjmd.data.matrix import as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import label_files

log = logging.getLogger(__name__)

# the share of common names below which two tables look as if one was named differently, or
# transposed
FEW = 0.1


@dataclass
class Table:
    """One source: features x samples, with names where there are any."""

    matrix: np.ndarray | scipy.sparse.sparray
    feature_names: list[str] | None
    sample_names: list[str] | None = None
    name: str = ""
    path: Path | None = None  # the file that it comes from
    part: str | None = None  # which of several sources in the file it is
    labels: np.ndarray | None = None  # classes x samples
    class_names: tuple[str, ...] = ()
    metadata: Any = None
    """A DataFrame about the samples, or None."""

    def __str__(self) -> str:
        """What messages call it."""
        return f"source {self.name!r}" if self.path is None else str(self.path)


@dataclass(frozen=True)
class Settings:
    """How the data of a fit were made, for its report and for whoever brings new samples to it."""

    files: Sequence[str] = ()
    notes: Sequence[str] = ()  # sentences for the user and the report
    scale: str = "none"
    divisors: Sequence[float] = ()  # what each source was divided by
    reading: Mapping[str, Any] = field(
        default_factory=dict
    )  # the options with which the files were read and joined


def prepare(
    tables: Sequence[Table],
    *,
    names: list[str] | None = None,
    labels: str | Path | None = None,
    join: str = "outer",
    scale: str = "none",
    reading: Mapping[str, Any] | None = None,
) -> tuple[Sources, Settings]:
    """The sources of a fit, over common features and on one scale; `reading` is kept in the
    settings.
    """
    sources, alignment = assemble(tables, names=names, labels=labels, join=join)
    divisors = preparation.scales(sources, scale)
    notes = [f"{str(alignment)[0].upper()}{str(alignment)[1:]}."] if len(sources) > 1 else []
    if scale != "none":
        sources = preparation.divided(sources, divisors)
        notes.append(
            f"Each source was divided by its {'root mean square' if scale == 'rms' else scale}."
        )
    files = list(dict.fromkeys(str(table) for table in tables))
    return sources, Settings(
        files, notes, scale, divisors.tolist(), {**(reading or {}), "join": join}
    )


def assemble(
    tables: Sequence[Table],
    *,
    names: list[str] | None = None,
    labels: str | Path | None = None,
    join: str = "outer",
) -> tuple[Sources, Alignment]:
    """Tables brought to common features, and what became of those that they do not share.

    `names` replaces the names of the tables, `labels` is a file with the classes of samples
    (label_files.py), and `join` takes all features, missing in sources that lack them ("outer"), or
    those that every source has ("inner").
    """
    if not tables:
        raise InputError("no source was given; give at least one table of features x samples")
    own_names = [table.name for table in tables]
    names = own_names if names is None else names
    if len(names) != len(tables):
        there = f"{len(tables)} ({', '.join(own_names)})"
        raise InputError(
            f"the number of names is {len(names)} but that of sources is {there}; give one each"
        )
    if not all(name.strip() for name in names):
        raise InputError("a source has an empty name; give each a name of its own")
    matrices, alignment = align(
        [table.matrix for table in tables], _feature_names(tables), names, join
    )
    indicators, class_names = _labels(tables, names, labels)
    sources = Sources(
        matrices,
        names=names,
        feature_names=alignment.feature_names,
        labels=indicators,
        class_names=class_names,
        sample_names=[table.sample_names for table in tables],
    )
    return sources, alignment


def over_features(
    table: Table, feature_names: Sequence[str]
) -> tuple[np.ndarray | scipy.sparse.sparray, str]:
    """The matrix of new samples over the features of a fit, and a sentence that tells how they were
    matched.

    Features that the table lacks are missing (NaN); those that the fit does not know are left out.
    """
    place = {feature: row for row, feature in enumerate(_feature_names([table])[0])}
    rows = np.array([place.get(feature, -1) for feature in feature_names])
    known = rows >= 0
    if not known.any():
        columns = set(feature_names).intersection(table.sample_names or ())
        turned = (
            f", but {len(columns)} of its samples are, as if it were transposed" if columns else ""
        )
        raise InputError(
            f"none of the {len(place)} features of {table}, such as {next(iter(place))!r}, is among the "
            f"{len(rows)} of the fit, such as {feature_names[0]!r}{turned}; features are matched by name"
        )
    n_unknown = len(place) - known.sum()
    report = (
        f"{table} has {known.sum()} of the {len(rows)} features of the fit"
        f"{'' if known.all() else '; the others count as missing'}"
        f"{f'; left out, for the fit does not know them: {n_unknown}' if n_unknown else ''}"
    )
    found = table.matrix[rows[known]]
    if known.all():
        return found, report
    matrix = np.full((len(rows), found.shape[1]), np.nan)
    matrix[known] = as_matrix(found, table.name).columns(slice(None))
    return matrix, report


def _feature_names(tables: Sequence[Table]) -> list[list[str]]:
    """Every table's feature names, ready to be matched; numbered if no table has any."""
    given = [table.feature_names for table in tables if table.feature_names is not None]
    if len(given) == len(tables):
        for c, table in enumerate(tables):
            _check_direction(table, [*tables[:c], *tables[c + 1 :]])
        return given
    if given:
        named, nameless = (
            next(t for t in tables if (t.feature_names is None) == none) for none in (False, True)
        )
        raise InputError(
            f"{nameless} has no feature names but {named} has, so their features cannot be matched; "
            "give names to the features of all sources, or of none"
        )
    if len({table.matrix.shape[0] for table in tables}) > 1:
        counts = ", ".join(f"{table} has {table.matrix.shape[0]}" for table in tables)
        turned = len({table.matrix.shape[1] for table in tables}) == 1
        raise InputError(
            f"the sources have no feature names and different numbers of features ({counts}), so these cannot be "
            f"matched; {'transpose them if features and samples are swapped, or ' if turned else ''}name the features"
        )
    return [[f"feature {i + 1}" for i in range(table.matrix.shape[0])] for table in tables]


def _check_direction(table: Table, others: list[Table]) -> None:
    """Refuse a table that looks transposed; warn of one whose features have few names in common
    with the others.
    """
    features = {name for other in others for name in other.feature_names or ()}
    samples = {name for other in others for name in other.sample_names or ()}
    rows = table.feature_names or []
    columns = set(table.sample_names or ())
    n_features = len(rows)
    common = len(features.intersection(rows))
    if common >= FEW * min(n_features, len(features)):
        return
    if len(columns & features) > max(common, len(columns) / 2):
        raise InputError(
            f"{table} looks transposed: {len(columns & features)} of its {len(columns)} samples are features "
            f"of other sources, but only {common} of its {n_features} features are; transpose it"
        )
    if len(columns & samples) > max(common, len(columns) / 2):
        raise InputError(
            f"{table} has {len(columns & samples)} of its {len(columns)} samples in common with other sources "
            f"but only {common} of its {n_features} features, as if the two were swapped; transpose the sources (for "
            "files, add or drop --samples-in-rows)"
        )
    if common:  # a table with none is refused where it is used
        few = "only %d of the %d features of %s are in another source; check that they are named alike"
        log.warning(few, common, n_features, table)


def _labels(tables: Sequence[Table], names: list[str], path: str | Path | None) -> tuple:
    """The labels from a file, or else those that came with the tables, over the classes of all;
    None without any.
    """
    if path is not None:
        nameless = next((table for table in tables if table.sample_names is None), None)
        if nameless is not None:
            raise InputError(
                f"{nameless} has no sample names, which labels need; add them, or leave the labels out"
            )
        return label_files.read(Path(path), names, [table.sample_names or [] for table in tables])
    class_names = list(dict.fromkeys(name for table in tables for name in table.class_names))
    if not class_names:
        return None, None
    labels = [np.zeros((len(class_names), table.matrix.shape[1]), dtype=bool) for table in tables]
    for table, block in zip(tables, labels, strict=True):
        if table.labels is not None:
            block[[class_names.index(name) for name in table.class_names]] = table.labels
    return labels, class_names
