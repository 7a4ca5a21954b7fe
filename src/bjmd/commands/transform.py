"""Compute the memberships of new samples in the components of a fit.

The components stay as they are. Features are matched by name: those that the
file lacks count as missing, and those unknown to the fit are ignored.
"""

import argparse
from pathlib import Path

from bjmd.checks import count
from bjmd.commands import common
from bjmd.data.assembly import RawSource, Settings, normalized, over_features, scales
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import readers
from bjmd.results import storage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = common.FORMATS
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a folder that `bjmd fit` wrote")
    add("file", type=Path, metavar="FILE", help="the new samples (formats below)")
    text = (
        "the source of the fit that the samples belong to, with its noise, offsets and scale "
        "(default: estimate noise and scale from the samples)"
    )
    add("--source", metavar="NAME", help=text)
    text = "a .tsv file to write to (default: the terminal)"
    add("-o", "--output", type=Path, metavar="FILE", help=text)
    common.add_samples_in_rows(parser)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import outputs
    from bjmd.inference import projection
    from bjmd.report.tables import by_component, without_formulas

    source = arguments.source
    output = arguments.output
    if output is not None and output.is_dir():
        raise InputError(f"{output} is a folder; give the name of a .tsv file for the memberships")
    fit = outputs.load(arguments.folder)
    if source is not None and source not in fit.names:
        raise InputError(
            f"the fit has no source {source!r}; its sources are {', '.join(fit.names)}"
        )
    number = None if source is None else fit.names.index(source)
    raw_sources = readers.read_files(arguments.file, samples_in_rows=arguments.samples_in_rows)
    if len(raw_sources) > 1:
        raise InputError(f"{arguments.file} holds {len(raw_sources)} sources; give a file with one")
    raw = raw_sources[0]
    if fit.settings.reading.get("normalize"):
        raw = normalized(raw)
    raw.matrix = raw.matrix / _divisor(fit.settings, raw, number)
    matrix, report = over_features(raw, fit.feature_names)
    common.log.info(report)
    projected = projection.project(fit.results[0], matrix, source=number)
    origin = "estimated from the samples" if source is None else f"that of source {source!r}"
    common.log.info("noise sd %.4g, %s", projected.noise, origin)
    samples = raw.sample_names or range(1, matrix.shape[1] + 1)
    table = without_formulas(by_component(projected.memberships.T, samples, "sample"))
    text = table.to_csv(sep="\t", float_format="%.6g")
    if output is None:
        print(text, end="")
        return
    common.require_writable(output.parent)
    with storage.atomic_path(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    common.log.info("memberships of %s are in %s", count(len(samples), "sample"), output)


def _divisor(settings: Settings, raw: RawSource, number: int | None) -> float:
    """What the fit divided the source by; for a new source, what it would have divided it by."""
    if settings.scale == "none":
        return 1.0
    if number is not None:
        return settings.divisors[number]
    return scales(Sources([raw.matrix], names=[raw.name]), settings.scale)[0]
