"""Compute the memberships of new samples in the components of a fit.

The components stay as they are. Features are matched by name: those that the
file lacks count as missing, and those unknown to the fit are ignored.
"""

import argparse
from pathlib import Path

from bjmd.commands import common
from bjmd.data.assembly import over_features, prepared_as
from bjmd.errors import InputError, count
from bjmd.files import readers
from bjmd.results import storage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = common.FORMATS
    add = parser.add_argument
    common.add_folder(parser)
    add("file", type=Path, metavar="FILE", help="the new samples (formats below)")
    add(
        "--source",
        metavar="NAME",
        help="the source of the fit that the samples belong to, with its noise, offsets and scale "
        "(default: estimate noise and scale from the samples)",
    )
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="a .tsv file to write to (default: the terminal)",
    )
    add(
        "--any-scale",
        action="store_true",
        help="accept samples that look as if they were on another scale than the data of the fit",
    )
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
    reading = {"samples_in_rows": arguments.samples_in_rows, "use_highly_variable": False}
    if arguments.file.suffix.lower() in readers.ANNDATA_ENDINGS:
        reading["layer"] = fit.settings.reading.get("layer")
    raw_sources = readers.read_files(arguments.file, **reading)
    if len(raw_sources) > 1:
        raise InputError(f"{arguments.file} holds {len(raw_sources)} sources; give a file with one")
    raw = prepared_as(raw_sources[0], fit.settings, number)
    matrix, report = over_features(raw, fit.feature_names)
    common.log.info(report)
    projected = projection.project(
        fit.results[0], matrix, source=number, any_scale=arguments.any_scale
    )
    origin = "estimated from the samples" if source is None else f"that of source {source!r}"
    common.log.info("noise sd %.4g, %s", projected.noise, origin)
    samples = raw.sample_names or range(1, matrix.shape[1] + 1)
    table = without_formulas(by_component(projected.memberships.T, samples, "sample"))
    text = table.to_csv(sep="\t", float_format="%.6g")
    if output is None:
        print(text, end="")
        return
    with storage.atomic_path(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    common.log.info("memberships of %s are in %s", count(len(samples), "sample"), output)
