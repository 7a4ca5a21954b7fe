"""Known classes of samples, from a text table with the columns sample, class and, if need be,
source.

A sample with several classes has several lines.  Without the column source, a line is about the
samples of that name in every source.  A first line whose first field is no sample is the header.
"""

import csv
import logging
from pathlib import Path

import numpy as np

from bjmd.errors import InputError
from bjmd.files.text_tables import open_text, problems_as_sentences, separator_of

log = logging.getLogger(__name__)


def read(
    path: Path, names: list[str], sample_names: list[list[str]]
) -> tuple[list[np.ndarray], list[str]]:
    """One boolean classes x samples indicator per source, and the names of the classes in order of
    appearance.
    """
    places = [{sample: j for j, sample in enumerate(samples)} for samples in sample_names]
    lines = _lines(path, set().union(*places))
    class_names = list(dict.fromkeys(label for _, label, *_ in lines))
    row = {label: i for i, label in enumerate(class_names)}
    labels = [np.zeros((len(class_names), len(samples)), dtype=bool) for samples in sample_names]
    unknown = []
    for sample, label, *source in lines:
        if source and source[0] not in names:
            raise InputError(
                f"{path} names the source {source[0]!r}; the sources are {', '.join(names)}; correct its third column"
            )
        found = [
            c for c, name in enumerate(names) if sample in places[c] and source in ([], [name])
        ]
        for c in found:
            labels[c][row[label], places[c][sample]] = True
        if not found:
            unknown.append(sample)
    if len(unknown) == len(lines):
        raise InputError(
            f"none of the {len(lines)} samples in {path} is in the data: it has for example {unknown[0]!r}, they have "
            f"{sample_names[0][0]!r}; its first column must hold the names of samples"
        )
    if unknown:
        more = "%d of the %d samples in %s are not in the data, for example %r"
        log.warning(more, len(unknown), len(lines), path, unknown[0])
    for name, samples, block in zip(names, sample_names, labels, strict=True):
        without = np.flatnonzero(~block.any(axis=0))
        if len(without):
            fewer = "%d of the %d samples of source %r have no class in %s, for example %r"
            log.warning(fewer, len(without), len(samples), name, path, samples[without[0]])
    return labels, class_names


def read_metadata(path: Path, names: list[str], sample_names: list[list[str]]) -> list:
    """The columns about the samples of every source, from a table whose first column has their
    names; a column `source` tells samples of one name apart.
    """
    import pandas as pd  # which `bjmd fit --help` need not wait for

    with problems_as_sentences(path, "a table of text in UTF-8"):
        table = pd.read_csv(path, sep=separator_of(path), index_col=0).rename(index=str)
    of = table.pop("source").astype(str) if "source" in table else None
    found = [table if of is None else table[of == name] for name in names]
    if not all(own.index.is_unique for own in found):
        raise InputError(
            f"{path} has a sample more than once; give one line each, and a column source where they share names"
        )
    if not table.index.isin([sample for samples in sample_names for sample in samples]).any():
        raise InputError(
            f"none of the samples in {path} is in the data; its first column must hold their names"
        )
    return [own.reindex(samples) for own, samples in zip(found, sample_names, strict=True)]


def _lines(path: Path, samples: set[str]) -> list[list[str]]:
    if not path.is_file():
        raise InputError(f"there is no label file {path}; check the path")
    separator = separator_of(path)
    with problems_as_sentences(path, "a table of text in UTF-8"), open_text(path) as file:
        lines = [
            [field.strip() for field in line]
            for line in csv.reader(file, delimiter=separator)
            if line
        ]
    if lines and lines[0][0] not in samples:
        del lines[0]
    if not lines:
        raise InputError(
            f"the label file {path} has no line with a sample and its class; check the file"
        )
    widths = sorted({len(line) for line in lines})
    if widths not in ([2], [3]):
        raise InputError(
            f"the label file {path} has lines of {' and '.join(map(str, widths))} fields; it must have the columns "
            f"sample, class and perhaps source, separated by {'commas' if separator == ',' else 'tabs'}"
        )
    return lines
