"""Tables about samples: their classes (labels), and metadata."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bjmd.data.assembly import RawSource, label_by, source_names
from bjmd.errors import InputError, problems_as_sentences
from bjmd.files.readers import TEXT, separator_of


def attach_labels(
    raw_sources: Sequence[RawSource], path: Path, names: list[str] | None = None
) -> None:
    """Give the sources the classes of their samples.

    They come from the column `class` of a table like those of `read_metadata`, or from a column of
    obs.
    """
    in_obs = any(raw.metadata is not None and str(path) in raw.metadata for raw in raw_sources)
    if in_obs and not path.is_file():
        label_by(raw_sources, [raw.metadata for raw in raw_sources], str(path))
        return
    nameless = next((raw for raw in raw_sources if raw.sample_names is None), None)
    if nameless is not None:
        raise InputError(
            f"{nameless} has no sample names, which labels need; add them, or leave out the labels"
        )
    sample_names = [raw.sample_names or [] for raw in raw_sources]
    tables = read_metadata(path, source_names(raw_sources, names), sample_names, dtype=str)
    if "class" not in tables[0]:
        raise InputError(
            f"the label file {path} has no column 'class'; its columns must be sample, class and, "
            "if sources share sample names, source"
        )
    label_by(raw_sources, tables, "class")


def read_metadata(
    path: Path, names: list[str], sample_names: list[list[str]], dtype: type | None = None
) -> list:
    """A data frame about the samples of each source.

    The first column of the file holds sample names; a column `source` distinguishes samples that
    share a name.
    """
    with problems_as_sentences(path, TEXT):
        table = pd.read_csv(path, sep=separator_of(path), index_col=0, dtype=dtype)
    table = table.rename(index=str)
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
