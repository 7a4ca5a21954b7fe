"""Tables about samples: their classes (labels), and metadata."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from bjmd.data.assembly import RawSource, label_by, source_names
from bjmd.errors import InputError, problems_as_sentences
from bjmd.files.readers import SEPARATORS, TEXT, separator_of

log = logging.getLogger(__name__)


def attach_labels(
    raw_sources: Sequence[RawSource], path: Path, names: list[str] | None = None
) -> None:
    """Give the sources the classes of their samples.

    They come from a file (`read_labels`), or from a column of obs.
    """
    if not path.is_file() and any(
        raw.metadata is not None and str(path) in raw.metadata for raw in raw_sources
    ):
        label_by(raw_sources, str(path))
        return
    nameless = next((raw for raw in raw_sources if raw.sample_names is None), None)
    if nameless is not None:
        raise InputError(
            f"{nameless} has no sample names, which labels need; add them, or leave out the labels"
        )
    sample_names = [raw.sample_names or [] for raw in raw_sources]
    names = source_names(raw_sources, names)
    labels, class_names = read_labels(path, names, sample_names)
    for raw, block in zip(raw_sources, labels, strict=True):
        raw.labels = block
        raw.class_names = class_names


def read_labels(
    path: Path, names: list[str], sample_names: list[list[str]]
) -> tuple[list[np.ndarray], list[str]]:
    """One boolean classes x samples array per source, and the class names in order of appearance.

    The columns are sample, class and, optionally, source.  A sample with several classes has
    several lines.  Without a source, a line is about the samples of that name in every source.  A
    first line whose first field is not a sample is a header.
    """
    table = _label_table(path, {sample for samples in sample_names for sample in samples})
    classes, class_names = pd.factorize(table[1])
    labels = []
    is_known = np.zeros(len(table), dtype=bool)
    for name, samples in zip(names, sample_names, strict=True):
        columns = pd.Index(samples).get_indexer(table[0])
        here = np.asarray((columns >= 0) & (table.get(2, name) == name))
        block = np.zeros((len(class_names), len(samples)), dtype=bool)
        block[classes[here], columns[here]] = True
        labels.append(block)
        is_known |= here
    if not is_known.all():
        unknown = " of source ".join(table[~is_known].iloc[0, ::2])
        known = f"{sample_names[0][0]} of source {names[0]}"
        message = f"of the {len(table)} lines in {path} name samples that are not in the data "
        message += f"(for example {unknown}, where the data have {known})"
        if not is_known.any():
            raise InputError(f"all {message}; correct its first column, or its third")
        log.warning("%d %s", (~is_known).sum(), message)
    return labels, list(class_names)


def _label_table(path: Path, samples: set[str]) -> pd.DataFrame:
    """The lines of a label file without its header: sample, class and perhaps source."""
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
            f"sample names, its source, separated by {SEPARATORS[separator]}; check the file"
        )
    return table


def read_metadata(path: Path, names: list[str], sample_names: list[list[str]]) -> list:
    """A data frame about the samples of each source.

    The first column of the file holds sample names; a column `source` distinguishes samples that
    share a name.
    """
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
