"""Decompose data sources into components that they share.

Many fits from random starts are run and the best is kept. FOLDER gets tables,
figures and a report.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from bjmd.commands import common
from bjmd.errors import InputError
from bjmd.inference import registry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd fit FILE [FILE ...] -k K -o FOLDER [options]"
    parser.epilog = common.HELP["examples_of_fit"] + common.FORMATS
    parser.add_argument(
        "-k", "--components", type=int, required=True, metavar="K", help="number of components"
    )
    common.add_output(parser, "fit")
    data = common.add_sources(parser)
    parser.add_argument(
        "--no-figures", action="store_true", help="write tables and text only, which is quicker"
    )
    columns = "sample, class and, where sources share sample names, source"
    labels = f"a table of known classes, shown but not used in the fit; columns: {columns}"
    data.add_argument("--labels", type=Path, metavar="FILE", help=labels)
    about = "a table about the samples, their names in its first column; its columns are tested for association"
    data.add_argument(
        "--metadata",
        type=Path,
        metavar="FILE",
        help=f"{about} with the components (default: obs of .h5ad)",
    )
    agree = "also find the components that the restarts agree on, and how many restarts have each"
    parser.add_argument("--consensus", action="store_true", help=agree)
    plain = "run all restarts to the tolerance, not few of them far beyond it (also with --consensus, --priors paper)"
    parser.add_argument("--plain-restarts", action="store_true", help=plain)
    common.add_method(parser, n_restarts=20)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import label_files, outputs
    from bjmd.report import text

    options = common.method_options(arguments)
    if arguments.consensus and (
        arguments.restarts < 2 or not registry.get(arguments.method).infers_bjmd
    ):
        raise InputError(
            "--consensus needs two or more --restarts of a method that infers BJMD, such as cavi-bjmd"
        )
    folder = arguments.output
    outputs.require_free(folder, arguments.force)
    tables, sources, settings = common.read(arguments, arguments.labels)
    if arguments.metadata is not None:
        about = label_files.read_metadata(arguments.metadata, sources.names, sources.sample_names)
        tables = [replace(table, metadata=own) for table, own in zip(tables, about, strict=True)]
    sources.require_components(arguments.components)
    common.require_writable(folder.parent)
    fits = common.fits(arguments, sources, options)
    report = outputs.write(
        folder,
        sources,
        fits.results,
        consensus=fits.consensus,
        settings=settings,
        tables=tables,
        figures=not arguments.no_figures,
        overwrite=arguments.force,
    )
    print(text.plain([part for part in report if part.brief], common.width()))
    written = "Tables" if arguments.no_figures else "Tables, figures"
    print(f"{written} and the fit are in {folder}; begin with {folder / 'report.html'}")
