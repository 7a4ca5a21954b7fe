"""What the subcommands share: options, reading sources, and messages in the terminal."""

import argparse
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bjmd.data import assembly
from bjmd.data.sources import Sources
from bjmd.errors import InputError, count, problems_as_sentences
from bjmd.files import readers
from bjmd.inference import registry
from bjmd.model import BY_SOURCE, LEARNED
from bjmd.numerics import threads
from bjmd.results import storage

log = logging.getLogger(__name__)
"""The command shows its lines on stderr, so that stdout can be piped."""

DIFFERENT_SCALES = 10  # sources whose entries differ by this factor get a hint
OPTIONS = ("noise", "offsets", "priors", "alpha0", "lambda_", "tol")
"""Options of methods that have an argument of their own."""
FORMATS = """
files:
  .csv .tsv .txt   sample names in the first row, feature names in the first
                   column; an empty cell or NA is a missing value (also .gz)
  .mtx             Matrix Market (also .gz), with names from features.tsv and
                   barcodes.tsv next to matrix.mtx, as in 10x Genomics folders,
                   or from NAME.rows and NAME.cols next to NAME.mtx
  .npz             arrays `matrix`, `features` and `samples`; or a file from
                   scipy.sparse.save_npz, with names as for .mtx; or a file
                   from bjmd, which may hold several sources
  .h5ad .h5mu      AnnData (also a .zarr store), or MuData with one source per
                   modality; these need pip install anndata mudata
"""


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """The output folder."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to write the results to",
    )
    parser.add_argument(
        "--force", action="store_true", help=f"replace the {what} that is already in FOLDER"
    )


def add_fit(parser: argparse.ArgumentParser) -> None:
    """The folder of a fit, and its data."""
    add_folder(parser)
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="the data files of the fit, if you have moved them",
    )


def add_folder(parser: argparse.ArgumentParser) -> None:
    """The folder of a fit."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="a folder that `bjmd fit` wrote"
    )


def add_sources(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The files and the options for reading them; returns the group of these options."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="a data source (formats below)"
    )
    group = parser.add_argument_group("data")
    add = group.add_argument
    add_samples_in_rows(group)
    add("--names", metavar="A,B,...", help="names of the sources (default: the names of the files)")
    add(
        "--join",
        choices=assembly.JOINS,
        default=assembly.JOINS[0],
        help="features to use: all of them, missing in sources that lack them (outer), or only "
        "those that every source has (inner); default: %(default)s",
    )
    add(
        "--split-by",
        metavar="COLUMN",
        help="split an .h5ad file into sources by this column of obs",
    )
    add(
        "--on-disk",
        action="store_true",
        help="leave the matrices of .h5ad, .h5mu and .zarr files on disk (docs/large.md)",
    )
    add(
        "--normalize",
        action="store_true",
        help="for counts: scale each sample to a total of 10,000 and take log(1 + x), as scanpy "
        "does",
    )
    add(
        "--scale",
        choices=assembly.SCALES,
        default=assembly.SCALES[0],
        help="divide each source by its mean or its root mean square (rms); default: %(default)s",
    )
    add(
        "--layer",
        metavar="NAME",
        help="fit this layer of .h5ad, .h5mu and .zarr files instead of X",
    )
    add(
        "--use-highly-variable",
        action=argparse.BooleanOptionalAction,
        help="use only the features that var['highly_variable'] marks, or all of them (default: "
        "those marked, if a single .h5ad file marks any)",
    )
    return group


def add_samples_in_rows(parser: argparse._ActionsContainer) -> None:
    """The option for files with samples in rows."""
    parser.add_argument(
        "--samples-in-rows",
        action="store_true",
        help="rows are samples and columns are features (default: features in rows)",
    )


def add_seed_and_jobs(
    parser: argparse._ActionsContainer, what: str = "seed of the first start"
) -> None:
    parser.add_argument("--seed", type=int, default=0, metavar="S", help=f"{what} (default: 0)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=threads.available(),
        metavar="N",
        help="number of threads, across and within fits (default: one per core)",
    )


def add_method(parser: argparse.ArgumentParser, n_restarts: int) -> None:
    """The options for the fits."""
    group = parser.add_argument_group("method")
    add = group.add_argument
    add(
        "--method",
        default="cavi-bjmd",
        metavar="NAME",
        help=f"one of {', '.join(registry.method_names())} (default: %(default)s)",
    )
    add(
        "--restarts",
        type=int,
        default=n_restarts,
        metavar="N",
        help=f"number of random starts; the best fit is kept (default: {n_restarts})",
    )
    add_seed_and_jobs(group)
    add(
        "--noise",
        metavar="MODEL",
        help="how the noise varies: by source, feature or sample, or robust (to outliers); combine "
        "with +, as in feature+robust (default: source)",
    )
    add(
        "--offsets",
        nargs="?",
        const="yes",
        metavar="yes|no",
        help="whether each source has an offset for each feature, for shifted batches (default: "
        "yes with two or more sources)",
    )
    add(
        "--priors",
        choices=("data", "paper"),
        help="priors scaled and centred to the data, or the paper's fixed priors (default: data)",
    )
    add(
        "--alpha0",
        type=_number,
        metavar="A",
        help="prior of the memberships: a number (1 is flat, larger values favour mixtures), "
        "learned, or by-source, which learns one for each source (default: learned)",
    )
    add(
        "--lambda",
        dest="lambda_",
        type=_number,
        metavar="L",
        help="prior scale of the components: a number, or learned for each of them (default)",
    )
    add(
        "--tol",
        type=float,
        metavar="T",
        help="stop when the objective changes by less than T nats per entry (with --priors paper, "
        "when its relative change is less than T)",
    )
    add(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another option of the method; may be repeated",
    )


def _number(text: str) -> float | str:
    return text if text in (LEARNED, BY_SOURCE) else float(text)


def method_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the method that were given; the others keep their defaults."""
    given = {name: getattr(arguments, name) for name in OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    registry.check_options(arguments.method, options)
    if "offsets" in options:
        if options["offsets"] not in ("yes", "no"):
            raise InputError(f"--offsets is {options['offsets']!r}; it must be yes or no")
        options["offsets"] = options["offsets"] == "yes"
    for option in arguments.option:
        name, equals, text = option.partition("=")
        if not equals:
            raise InputError(
                f"--option {option!r} has no value; write KEY=VALUE, for example max_sweeps=500"
            )
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    registry.check_options(arguments.method, options)
    return options


def read(
    arguments: argparse.Namespace, labels: Path | None = None
) -> tuple[list[assembly.RawSource], Sources, assembly.Settings]:
    """The sources in the files as they are, those for the fit, and how these were prepared."""
    how = ("samples_in_rows", "split_by", "on_disk", "layer", "use_highly_variable")
    reading = {name: getattr(arguments, name) for name in how}
    names = arguments.names.split(",") if arguments.names else None
    raw_sources = readers.read_files(arguments.files, **reading)
    if labels is not None:
        from bjmd.files import about_samples

        about_samples.attach_labels(raw_sources, labels, names)
    sources, settings = assembly.prepare(
        raw_sources,
        names=names,
        join=arguments.join,
        normalize=arguments.normalize,
        scale=arguments.scale,
        reading=reading,
    )
    each = zip(sources.n_samples, sources.names, strict=True)
    sizes = "; ".join(f"{n:,} from {name}" for n, name in each)
    n_samples = count(sum(sources.n_samples), "sample")
    log.info("%s, %s: %s", count(sources.n_features, "feature"), n_samples, sizes)
    hint = None if arguments.normalize else assembly.looks_like_counts(raw_sources)
    if hint is not None:
        log.info(
            "hint: %s; if these are counts, add --normalize, which makes the totals of the samples "
            "equal and takes log(1 + x)",
            hint,
        )
    if arguments.scale == "none" and all(sources.squared_norms):
        _hint_at_scales(sources)
    for note in settings.notes:
        log.info(note)
    return raw_sources, sources, settings


def read_again(
    folder: Path, fit: Any, files: list[Path], command: str
) -> tuple[list[assembly.RawSource], Sources]:
    """The data of a fit in a folder, from the files that were fitted or from those given."""
    with problems_as_sentences(folder / "settings.json", storage.OURS):
        paths = files or [Path(file) for file in fit.settings.files]
        if not paths:
            raise InputError(
                f"the fit in {folder} was made in Python from data in memory; if they are in a "
                f"file as well, name it: bjmd {command} {folder} FILE"
            )
        missing = next((path for path in paths if not path.exists()), None)
        if missing is not None:
            raise InputError(
                f"{missing} was not found; give the data files: bjmd {command} {folder} FILE ..."
            )
        reading = {"use_highly_variable": False, **fit.settings.reading}
        preparation = {name: reading.pop(name) for name in ("join", "normalize") if name in reading}
        raw_sources = readers.read_files(paths, **reading)
        if len(raw_sources) != len(fit.names):
            raise InputError(
                f"the files hold {len(raw_sources)} sources, but the fit has {len(fit.names)} "
                f"({', '.join(fit.names)}); give the files of the fit, in their order"
            )
        sources, _ = assembly.prepare(
            raw_sources, names=fit.names, scale=fit.settings.scale, **preparation
        )
    return raw_sources, sources


def _hint_at_scales(sources: Sources) -> None:
    """Sources on very different scales cannot share components well; say so."""
    sizes = dict(zip(sources.names, assembly.scales(sources, "rms"), strict=True))
    small = min(sizes, key=sizes.__getitem__)
    large = max(sizes, key=sizes.__getitem__)
    if sizes[large] > DIFFERENT_SCALES * sizes[small]:
        log.info(
            "hint: the entries of source %r are %.0f times as large as those of %r (root mean "
            "square), but they share the same components; consider --scale rms",
            large,
            sizes[large] / sizes[small],
            small,
        )


def require_writable(folder: Path) -> None:
    """Fail now, not after a long fit."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"cannot write to {folder} ({error.strerror}); give another output"
        ) from None


@contextmanager
def ctrl_c_ends_at_once() -> Iterator[None]:
    """End the process on Ctrl-C; fits are threads in compiled code, which no exception reaches."""

    def leave(*_: object) -> None:
        print("\nbjmd: interrupted; nothing was written", file=sys.stderr, flush=True)
        os._exit(130)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def width() -> int:
    """How many columns the text may have."""
    return min(shutil.get_terminal_size((100, 24)).columns, 120)
