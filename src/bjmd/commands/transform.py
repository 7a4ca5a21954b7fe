"""Compute the memberships of new samples in the components of a fit.

The components stay as they are. Features are matched by name: those that the
file lacks count as missing, those that the fit does not know are left out.
"""

import argparse
from pathlib import Path

from bjmd.checks import count
from bjmd.commands import common
from bjmd.data import preparation
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import readers
from bjmd.files.tables import Settings, Table, over_features
from bjmd.results import storage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = common.FORMATS
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="a folder that `bjmd fit` wrote")
    add("file", type=Path, metavar="FILE", help="the new samples (formats below)")
    shared = "whose noise, offsets and scale they share (default: noise and scale are estimated from the samples)"
    add(
        "--source",
        metavar="NAME",
        help=f"the source of the fit that the samples belong to, {shared}",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="a .tsv file to write to (default: the terminal)",
    )
    common.add_samples_in_rows(parser)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import outputs
    from bjmd.inference import projection
    from bjmd.report.tables import by_component, harmless

    source = arguments.source
    output = arguments.output
    if output is not None and output.is_dir():
        raise InputError(f"{output} is a folder; give the name of a .tsv file for the memberships")
    fit = outputs.load(arguments.folder)
    if source is not None and source not in fit.names:
        raise InputError(
            f"the fit has no source {source!r}; its sources are {', '.join(fit.names)}"
        )
    place = None if source is None else fit.names.index(source)
    tables = readers.read_tables(arguments.file, samples_in_rows=arguments.samples_in_rows)
    if len(tables) > 1:
        raise InputError(f"{arguments.file} holds {len(tables)} sources; give a file with one")
    (table,) = tables
    table.matrix = table.matrix / _divisor(fit.settings, table, place)
    matrix, report = over_features(table, fit.feature_names)
    common.log.info(report)
    projected = projection.project(fit.results[0], matrix, source=place)
    origin = "estimated from the samples" if place is None else f"that of source {source!r}"
    common.log.info("noise sd %.4g, %s", projected.noise, origin)
    samples = table.sample_names or range(1, matrix.shape[1] + 1)
    text = harmless(by_component(projected.memberships.T, samples, "sample")).to_csv(
        sep="\t", float_format="%.6g"
    )
    if output is None:
        print(text, end="")
        return
    common.require_writable(output.parent)
    with storage.atomic_path(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    common.log.info("memberships of %s are in %s", count(len(samples), "sample"), output)


def _divisor(settings: Settings, table: Table, place: int | None) -> float:
    """What the fit divided the source by, or would have divided these samples by if they were a
    source of their own.
    """
    if settings.scale == "none":
        return 1.0
    if place is not None:
        return settings.divisors[place]
    return preparation.scales(Sources([table.matrix], names=[table.name]), settings.scale)[0]
