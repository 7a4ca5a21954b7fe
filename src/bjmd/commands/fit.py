"""Decompose data sources into components that they share.

Fits the model from several random starts and keeps the best fit. Writes tables,
figures and a report to FOLDER.
"""

import argparse
from pathlib import Path

from bjmd.commands import common
from bjmd.errors import InputError
from bjmd.inference import registry

EXAMPLES = """
examples:
  bjmd fit a.tsv b.tsv -k 5 -o out --names Oslo,Paris --labels classes.tsv
  bjmd fit counts.h5ad --split-by cohort -k 8 -o out --normalize
  bjmd fit a.tsv b.tsv -k 5 -o out --noise robust --scale rms
  bjmd fit a.tsv b.tsv -k 5 -o out --method map-bjmd --option max_sweeps=500

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd fit FILE [FILE ...] -k K -o FOLDER [options]"
    parser.epilog = EXAMPLES + common.FORMATS
    add = parser.add_argument
    add("-k", "--components", type=int, required=True, metavar="K", help="number of components")
    common.add_output(parser, "fit")
    data = common.add_sources(parser)
    data.add_argument(
        "--labels",
        type=Path,
        metavar="LABELS",
        help="known classes, shown in figures but not used in the fit: a column of obs of .h5ad "
        "files, or a table with the columns sample, class and, if sources share sample names, "
        "source",
    )
    data.add_argument(
        "--metadata",
        type=Path,
        metavar="FILE",
        help="a table about the samples, with their names in its first column; its columns are "
        "tested for association with the components (default: obs of .h5ad)",
    )
    add("--no-figures", action="store_true", help="write tables and text only, which is faster")
    add(
        "--consensus",
        action="store_true",
        help="also find the components that the restarts agree on (implies --no-search)",
    )
    add(
        "--no-search",
        action="store_true",
        help="run every restart to convergence (default: of 20 or more restarts, run only two "
        "fifths, and continue the best of these)",
    )
    add("--plain-restarts", action="store_true", help=argparse.SUPPRESS)
    common.add_method(parser, n_restarts=20)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.analysis import fitting
    from bjmd.analysis.fitting import summarise
    from bjmd.files import outputs
    from bjmd.report import pages
    from bjmd.report.tables import Named

    if arguments.plain_restarts:
        common.log.warning(
            "--plain-restarts is now called --no-search; the old name will be removed"
        )
        arguments.no_search = True
    options = common.method_options(arguments)
    infers_bjmd = registry.get(arguments.method).infers_bjmd
    if arguments.consensus and (arguments.restarts < 2 or not infers_bjmd):
        raise InputError(
            "--consensus needs at least two --restarts of a BJMD method, such as cavi-bjmd"
        )
    folder = arguments.output
    outputs.require_free(folder, arguments.force)
    raw_sources, sources, settings = common.read(arguments, arguments.labels)
    if arguments.metadata is not None:
        from bjmd.files import about_samples

        metadata = about_samples.read_metadata(
            arguments.metadata, sources.names, sources.sample_names
        )
    else:
        metadata = [raw.metadata for raw in raw_sources]
    sources.require_components(arguments.components)
    common.require_writable(folder.parent)
    with common.ctrl_c_ends_at_once():
        fits = fitting.fit(
            arguments.method,
            sources,
            arguments.components,
            n_restarts=arguments.restarts,
            seed=arguments.seed,
            jobs=arguments.jobs,
            search=not arguments.no_search,
            agree=arguments.consensus,
            **options,
        )
    summary = summarise(sources, fits.results, metadata=metadata, consensus=fits.consensus)
    outputs.write(
        folder,
        sources,
        summary,
        settings=settings,
        raw_sources=raw_sources,
        n_restarts=arguments.restarts,
        figures=not arguments.no_figures,
        overwrite=arguments.force,
    )
    said = pages.in_brief(Named.of(sources), summary.results, arguments.restarts)
    print(pages.plain(said, common.width()))
    written = "Tables" if arguments.no_figures else "Tables, figures"
    print(f"{written} and the fit are in {folder}; begin with {folder / 'report.html'}")
    in_memory = all(x.in_memory for x in sources.data)
    if in_memory and "noise" in registry.get(arguments.method).options():
        print(f"To see whether another noise model is worth trying, run: bjmd check {folder}")
