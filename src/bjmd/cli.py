"""The command `bjmd`.

Every subcommand is a parser and a function below; the work is done by the modules that Python users call, so the
numbers are the same.  They are imported where they are used: `bjmd --help` answers at once.
"""

import argparse
import inspect
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path

from bjmd import __version__
from bjmd.errors import FitError, InputError

SELECTION = ("selection.tsv", "selection.svg", "selection.png")
"""What `select` writes."""
DIFFERENT_SCALES, FAR_FROM_ONE = 10, 30
"""Sources whose entries differ by the first factor get a hint, and data that are off unit size by the second."""

_DESCRIPTION = """\
Bayesian joint matrix decomposition: the patterns that several data sources
share, each sample's membership in them, and each source's noise.
"""
_EXAMPLES = """\
examples:
  bjmd fit cohort1.tsv cohort2.csv.gz -k 5 -o out    fit five components
  bjmd select cohort1.tsv cohort2.csv.gz -o number   how many components?
  bjmd show out                                      the fit in short
  bjmd transform out new.tsv --source cohort1        memberships of new samples
"""
_FIT_EXAMPLES = """\
examples:
  bjmd fit a.tsv b.tsv -k 5 -o out --names Oslo,Paris --labels classes.tsv
  bjmd fit all.h5ad --split-by cohort -k 8 -o out --scale rms
  bjmd fit a.tsv b.tsv -k 5 -o out --method map-bjmd --option max_sweeps=500

"""
_FORMATS = """\
files:
  .csv .tsv .txt   sample names in the first row, feature names in the first
                   column; an empty cell or NA is a missing value (also .gz)
  .mtx             Matrix Market (also .gz); names from features.tsv and
                   barcodes.tsv beside matrix.mtx, as 10x Genomics has them,
                   or from NAME.rows and NAME.cols beside NAME.mtx
  .npz             arrays `matrix`, `features` and `samples`; or written by
                   scipy.sparse.save_npz, with names like .mtx; or by bjmd,
                   and then it may hold several sources
  .h5ad .h5mu      AnnData, and MuData with a source for each modality; needs
                   pip install 'bjmd[anndata]'
"""


def main(argv=None):
    """Run one command; returns the exit code: 0, 1 for what broke down, 2 for a mistake, 130 for Ctrl-C."""
    arguments = _parser().parse_args(argv)
    with _notes_on_stderr():
        try:
            arguments.run(arguments)
            sys.stdout.flush()
        except (InputError, FitError) as error:
            print(f"bjmd: {error}", file=sys.stderr)
            return 1 if isinstance(error, FitError) else 2
        except KeyboardInterrupt:
            print("bjmd: interrupted; nothing was written", file=sys.stderr)
            return 130
        except BrokenPipeError:  # as in `bjmd show out | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:  # a full disk, a folder of someone else's
            print(f"bjmd: {error.filename or 'a file'} cannot be used ({error.strerror}); check it", file=sys.stderr)
            return 1
    return 0


class _Parser(argparse.ArgumentParser):
    """A mistake in the command line is one sentence as well, without half a page about all options before it."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser():
    style = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = _Parser("bjmd", description=_DESCRIPTION, epilog=_EXAMPLES, **style)
    parser.add_argument("--version", action="version", version=f"bjmd {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    fit = commands.add_parser(
        "fit", help="decompose data sources", description=inspect.getdoc(_fit), epilog=_FIT_EXAMPLES + _FORMATS, **style
    )
    fit.set_defaults(run=_fit)
    fit.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one source each (see below)")
    fit.add_argument("-k", "--components", type=int, required=True, metavar="K", help="number of components")
    fit.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the results go")
    fit.add_argument("--force", action="store_true", help="replace the fit that FOLDER holds")
    fit.add_argument("--no-figures", action="store_true", help="write tables only")

    _add_data(fit).add_argument(
        "--labels", type=Path, metavar="FILE", help="a table of known classes: sample, class and, if need be, source"
    )
    _add_method(fit, n_restarts=20)

    select = commands.add_parser(
        "select", help="find the number of components", description=inspect.getdoc(_select), epilog=_FORMATS, **style
    )
    select.set_defaults(run=_select, labels=None)
    select.add_argument("files", nargs="+", type=Path, metavar="FILE", help="one source each (see below)")
    select.add_argument(
        "-k", "--components", default="2..10", metavar="K..K", help="a range, or numbers like 2,4,8 (default: 2..10)"
    )
    select.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the results go")
    select.add_argument("--force", action="store_true", help="replace the selection that FOLDER holds")
    select.add_argument(
        "--held-out", type=float, default=0.1, metavar="SHARE", help="of the entries, to be predicted (default: 0.1)"
    )
    select.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="times that entries are held out (default: 3)"
    )
    _add_data(select)
    _add_method(select, n_restarts=5)

    transform = commands.add_parser(
        "transform", help="memberships of new samples", description=inspect.getdoc(_transform), epilog=_FORMATS, **style
    )
    transform.set_defaults(run=_transform)
    transform.add_argument("folder", type=Path, metavar="FOLDER", help="of a fit")
    transform.add_argument("file", type=Path, metavar="FILE", help="the new samples (see below)")
    transform.add_argument(
        "--source", metavar="NAME", help="the source whose noise the samples have (default: their noise is estimated)"
    )
    transform.add_argument("-o", "--output", type=Path, metavar="FILE", help="a .tsv file (default: the terminal)")
    _add_samples_in_rows(transform)

    show = commands.add_parser("show", help="a fit in short", description=inspect.getdoc(_show))
    show.set_defaults(run=_show)
    show.add_argument("folder", type=Path, metavar="FOLDER", help="of a fit")

    datasets = commands.add_parser(
        "datasets", help="real data sets, and how to get them", description=inspect.getdoc(_datasets), **style
    )
    datasets.set_defaults(run=_datasets)
    datasets.add_argument("name", nargs="?", metavar="NAME", help="the one to get")
    datasets.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it (default: NAME.npz)")
    return parser


def _add_data(parser):
    """Options of the commands that read sources; returns their group."""
    data = parser.add_argument_group("data")
    _add_samples_in_rows(data)
    data.add_argument("--names", metavar="NAME,NAME", help="of the sources (default: of the files)")
    data.add_argument(
        "--join",
        choices=("outer", "inner"),
        default="outer",
        help="features to use: outer = all, missing in sources that lack them (default); inner = those in every source",
    )
    data.add_argument("--split-by", metavar="COLUMN", help="a column of obs that splits an .h5ad file into sources")
    data.add_argument(
        "--scale",
        choices=("none", "mean", "rms"),
        default="none",
        help="divide each source by its mean, or by its root mean square (default: none)",
    )
    return data


def _add_method(parser, n_restarts):
    method = parser.add_argument_group("method")
    method.add_argument("--method", default="cavi-bjmd", metavar="NAME", help="default: cavi-bjmd")
    method.add_argument(
        "--restarts",
        type=int,
        default=n_restarts,
        metavar="N",
        help="random starts; the best counts (default: %(default)s)",
    )
    method.add_argument("--seed", type=int, default=0, metavar="S", help="of the first start (default: 0)")
    method.add_argument(
        "--jobs", type=int, default=_n_cores(), metavar="N", help="starts at a time (default: one a core)"
    )
    method.add_argument(
        "--alpha0", type=float, metavar="A", help="prior of memberships: 1 = flat, larger = more mixed (default: 1.1)"
    )
    method.add_argument("--lambda", type=float, dest="lambda_", metavar="L", help="prior scale of W (default: 1)")
    method.add_argument(
        "--tol", type=float, metavar="T", help="relative change of the objective at which a start is done"
    )
    method.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="any other option of the method; repeatable"
    )


def _add_samples_in_rows(parser):
    parser.add_argument(
        "--samples-in-rows", action="store_true", help="features are in columns of the files, not in rows"
    )


def _fit(arguments):
    """Fit the sources jointly from many random starts; write tables, figures and the best."""
    from bjmd.files import outputs, own_data
    from bjmd.fits import registry, restarts
    from bjmd.report import text

    options = _options(arguments)
    registry.check_options(arguments.method, options)
    outputs.require_free(arguments.output, arguments.force)
    tables, sources, settings = _read(arguments)
    sources.require_components(arguments.components)
    _require_writable(arguments.output.parent)
    with _ctrl_c_ends_at_once():
        results = restarts.run(
            arguments.method, sources, arguments.components,
            n_restarts=arguments.restarts, seed=arguments.seed, jobs=arguments.jobs, **options,
        )  # fmt: skip
    results = restarts.best(results, len(results))
    outputs.write(
        arguments.output,
        sources,
        results,
        notes=settings["notes"],
        figures=not arguments.no_figures,
        add=lambda folder: own_data.add_to(folder, settings, tables, sources, results[0]),
        overwrite=arguments.force,
    )
    parts = [part for part in text.sections(sources, results) if part.title in ("Sources and noise", "Restarts")]
    print(text.plain(parts, _width()))
    written = "Tables" if arguments.no_figures else "Tables, figures"
    print(f"{written} and the fit are in {arguments.output}; begin with {arguments.output / 'report.html'}")


def _read(arguments):
    """The tables in the files, the sources made of them, and how they were made."""
    from bjmd.files import own_data, readers

    tables = readers.read_tables(
        arguments.files, samples_in_rows=arguments.samples_in_rows, split_by=arguments.split_by
    )
    sources, settings = own_data.prepare(
        tables,
        names=arguments.names and arguments.names.split(","),
        labels=arguments.labels,
        join=arguments.join,
        scale=arguments.scale,
    )
    sizes = (f"{n} samples of {name}" for n, name in zip(sources.n_samples, sources.names, strict=True))
    _note(f"{sources.n_features} features; {', '.join(sizes)}")
    if arguments.scale == "none":
        _hint_at_scales(sources, arguments.lambda_)
    for note in settings["notes"]:
        _note(note)
    return tables, sources, settings


def _select(arguments):
    """How many components do the data carry?

    Every number is fitted to the data less a share of their entries, and judged
    by how well it predicts these; docs/components.md explains the columns.
    """
    from bjmd.fits import number_of_components, registry, storage
    from bjmd.report import style, text

    options = _options(arguments)
    registry.check_options(arguments.method, options)
    ks = _numbers(arguments.components)
    _require_free_for_selection(arguments.output, arguments.force)
    _, sources, _ = _read(arguments)
    _require_writable(arguments.output.parent)
    with _ctrl_c_ends_at_once():
        selection = number_of_components.select(
            sources, ks,
            method=arguments.method, n_restarts=arguments.restarts, held_out=arguments.held_out,
            n_repeats=arguments.repeats, seed=arguments.seed, jobs=arguments.jobs, **options,
        )  # fmt: skip
    arguments.output.mkdir(exist_ok=True)
    table, svg, png = (arguments.output / name for name in SELECTION)
    with (
        storage.atomic_path(table) as new_table,
        storage.atomic_path(svg) as new_svg,
        storage.atomic_path(png) as new_png,
    ):
        selection.table.to_csv(new_table, sep="\t", index=False, float_format="%.8g")
        style.save(selection.figure(), new_svg, new_png)
    print(text.plain([text.Section("Components", [str(selection)], selection.text_table())], _width()))
    print(f"The table and its figure are in {arguments.output}")


def _numbers(text):
    """[2, 3, 4] from "2..4" or "2,3,4"."""
    try:
        first, dots, last = text.partition("..")
        numbers = list(range(int(first), int(last) + 1)) if dots else [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(set(numbers)) < 2 or min(numbers) < 1:
        raise InputError(f"-k is {text!r}; write a range like 2..10, or two or more numbers like 2,4,8")
    return numbers


def _require_free_for_selection(folder, force):
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give another name for the output folder")
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if held - set(SELECTION):
        raise InputError(f"folder {folder} holds other files; give a new or an empty folder")
    if held and not force:
        raise InputError(f"folder {folder} holds an earlier selection; give another one, or --force to replace it")


def _require_writable(folder):
    """Fail now, not after a long fit."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"nothing can be written to {folder} ({error.strerror}); give another output") from None


def _options(arguments):
    """What the user said about the options of the method; the rest is left to its defaults."""
    named = {name: getattr(arguments, name) for name in ("alpha0", "lambda_", "tol")}
    options = {name: value for name, value in named.items() if value is not None}
    for option in arguments.option:
        name, equals, text = option.partition("=")
        if not equals:
            raise InputError(f"--option {option!r} has no value; write it as KEY=VALUE, for example max_sweeps=500")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options


def _hint_at_scales(sources, lambda_):
    """Sources of different scale share no components, and priors have a scale; say so where it is plain to see."""
    from bjmd.data import preparation

    if not all(sources.squared_norms):
        return
    sizes = dict(zip(sources.names, preparation.scales(sources, "rms"), strict=True))
    small, large = min(sizes, key=sizes.get), max(sizes, key=sizes.get)
    if sizes[large] > DIFFERENT_SCALES * sizes[small]:
        _note(
            f"hint: entries of source {large!r} are {sizes[large] / sizes[small]:.0f} times as large as those of "
            f"{small!r} (root mean square), but one set of components is to serve both; consider --scale rms"
        )
    size = sizes[large]
    if lambda_ is None and not 1 / FAR_FROM_ONE < size < FAR_FROM_ONE:
        _note(
            f"hint: entries are of the size {size:.2g}, but the priors are made for about 1; consider --scale rms, or "
            "priors in the unit of the data (docs/options.md)"
        )


def _transform(arguments):
    """Memberships of new samples in the components of a fit, which stay as they are.

    Features are matched by name: those that the file lacks are missing values,
    those that the fit lacks are left out.
    """
    import pandas as pd

    from bjmd.files import outputs, readers
    from bjmd.fits import projection, storage
    from bjmd.report import figures

    if arguments.output is not None and arguments.output.is_dir():
        raise InputError(f"{arguments.output} is a folder; give the name of a .tsv file for the memberships")
    fit = outputs.load(arguments.folder)
    best = fit.results[0]
    place = None if arguments.source is None else _place(arguments.source, fit.names)
    tables = readers.read_tables(arguments.file, samples_in_rows=arguments.samples_in_rows)
    if len(tables) > 1:
        raise InputError(f"{arguments.file} holds {len(tables)} sources; give a file with one")
    table = tables[0]
    table.matrix = table.matrix / _divisor(arguments.folder, table, place)
    matrix, report = readers.over_features(table, fit.feature_names)
    _note(report)
    noise = None if place is None or best.noise is None else best.noise[place]
    projected = projection.project(best, matrix, noise=noise)
    _note(f"noise sd {projected.noise:.4g}, {'estimated' if noise is None else f'that of source {arguments.source!r}'}")
    samples = pd.Index(table.sample_names or range(1, matrix.shape[1] + 1), name="sample")
    memberships = pd.DataFrame(projected.memberships.T, samples, figures.component_names(best))
    text = memberships.to_csv(sep="\t", float_format="%.6g")
    if arguments.output is None:
        print(text, end="")
    else:
        _require_writable(arguments.output.parent)
        with storage.atomic_path(arguments.output) as temporary:
            temporary.write_text(text, encoding="utf-8")
        _note(f"memberships of {len(samples)} samples are in {arguments.output}")


def _place(source, names):
    if source not in names:
        raise InputError(f"the fit has no source {source!r}; its sources are {', '.join(names)}")
    return names.index(source)


def _divisor(folder, table, place):
    """What the fit divided the source by, or would have divided these samples by if they were a source of their own."""
    from bjmd.data import preparation
    from bjmd.data.sources import Sources
    from bjmd.files import own_data

    settings = own_data.settings_of(folder)
    if settings.get("scale", "none") == "none":
        return 1.0
    if place is not None:
        return settings["divisors"][place]
    return preparation.scales(Sources([table.matrix], names=[str(table.path)]), settings["scale"])[0]


def _show(arguments):
    """A fit in short: sources, noise, components with their features, and how the restarts went."""
    from bjmd.files import outputs, own_data
    from bjmd.report import text

    fit = outputs.load(arguments.folder)
    notes = own_data.settings_of(arguments.folder).get("notes", ())
    print(text.plain(text.sections(fit, fit.results, notes=notes), _width()))
    print(f"All tables are in {arguments.folder}")


def _datasets(arguments):
    """The real data sets that this package knows: list them, or get the one that is named.

    To get it is to find or download it, to verify and prepare it, and to write
    it as a file that `bjmd fit` reads.
    """
    from bjmd.paper.datasets import catalogue

    if arguments.name is not None:
        _get_dataset(catalogue.get(arguments.name), arguments.output or Path(f"{arguments.name}.npz"))
        return
    try:
        from bjmd.paper.datasets.fetch import at_hand
    except ImportError:
        at_hand = None
    for name in catalogue.names():
        dataset = catalogue.get(name)
        size = (dataset.most_bytes or sum(member.most_bytes for member in dataset.members)) / 1e6
        where = "unknown" if at_hand is None else "yes" if at_hand(name) else "no"
        if not dataset.addresses:
            where += f"; must be fetched by hand from {dataset.page}"
        print(f"{name}\n  what     {dataset.title}, {dataset.version}\n  size     at most {size:,.0f} MB")
        print(f"  terms    {dataset.terms}\n  at hand  {where}\n")
    print("Get one with: bjmd datasets NAME")
    if at_hand is None:
        print("To see what is at hand, and to download: pip install 'bjmd[workflow]'")


def _get_dataset(dataset, path):
    from bjmd.fits import storage
    from bjmd.paper.datasets import unpack

    try:
        from bjmd.paper.datasets.fetch import fetch
    except ImportError as error:
        raise InputError(f"downloads need {error.name}; install it with: pip install 'bjmd[workflow]'") from None
    with tempfile.TemporaryDirectory() as folder:
        unpack.extract(fetch(dataset.name), dataset, Path(folder) / "files")
        sources = dataset.sources(Path(folder) / "files")
    storage.save_sources(path, sources)
    print(f"{path} holds {', '.join(sources.names)}; fit it with: bjmd fit {path} -k {len(sources.class_names)} -o out")
    print(f"Terms: {dataset.terms}\nPlease cite: {dataset.citation}")


@contextmanager
def _notes_on_stderr():
    """Log lines and warnings of the package become single lines on stderr, while a command runs."""
    handler, logger = logging.StreamHandler(sys.stderr), logging.getLogger("bjmd")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _note(f"warning: {message}")
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _note(text):
    """For the person at the terminal, not for the next program in the pipe."""
    print(text, file=sys.stderr)


@contextmanager
def _ctrl_c_ends_at_once():
    """Restarts are threads in compiled code, which no exception reaches; without this, Ctrl-C would wait for them."""

    def leave(*_):
        print("\nbjmd: interrupted; nothing was written", file=sys.stderr, flush=True)
        os._exit(130)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _n_cores():
    """The cores that this process may use, which on a cluster are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _width():
    return min(shutil.get_terminal_size((100, 24)).columns, 120)


if __name__ == "__main__":
    sys.exit(main())
