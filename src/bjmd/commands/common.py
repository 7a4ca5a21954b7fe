"""What the subcommands share: options, how sources are read, and talking to the person at the
terminal.
"""

import argparse
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bjmd.checks import count
from bjmd.data import preparation
from bjmd.data.alignment import JOINS
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import readers, tables
from bjmd.inference import registry
from bjmd.model import LEARNED, Priors
from bjmd.numerics import threads

log = logging.getLogger(__name__)
"""The command shows what is logged on stderr, away from what the next program in a pipe reads."""

DIFFERENT_SCALES = 10  # sources whose entries differ by this factor get a hint

HELP: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("help.toml").read_text(encoding="utf-8")
)
FORMATS = HELP["formats"]


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """The output folder."""
    add = parser.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to write the results to",
    )
    add("--force", action="store_true", help=f"replace the {what} that is already in FOLDER")


def add_sources(
    parser: argparse.ArgumentParser, what: str = "a data source"
) -> argparse._ArgumentGroup:
    """The files and the options for reading; returns the group of the last."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=f"{what} (formats below)"
    )
    data = parser.add_argument_group("data")
    add = data.add_argument
    add_samples_in_rows(data)
    add("--names", metavar="A,B,...", help="names of the sources (default: the names of the files)")
    which = "all, counting those that a source lacks as missing (outer), or only those that every source has (inner)"
    add(
        "--join",
        choices=JOINS,
        default=JOINS[0],
        help=f"features to use: {which}; default: %(default)s",
    )
    add(
        "--split-by",
        metavar="COLUMN",
        help="split an .h5ad file into sources by this column of obs",
    )
    add(
        "--on-disk",
        action="store_true",
        help="leave the matrices of .h5ad, .h5mu and .zarr on disk (docs/large.md)",
    )
    divisor = "its mean or its root mean square (rms)"
    scales = preparation.SCALES
    add(
        "--scale",
        choices=scales,
        default=scales[0],
        help=f"divide each source by {divisor}; default: %(default)s",
    )
    return data


def add_samples_in_rows(parser: argparse._ActionsContainer) -> None:
    """The option that says which way round the files are."""
    turned = "rows are samples, columns are features (default: the reverse)"
    parser.add_argument("--samples-in-rows", action="store_true", help=turned)


def add_method(parser: argparse.ArgumentParser, n_restarts: int) -> None:
    """The options about the fits."""
    add = parser.add_argument_group("method").add_argument
    names = ", ".join(registry.method_names())
    kept = f"of which the best is kept (default: {n_restarts})"
    favour = "1 is flat, larger values favour mixtures; or learned, one for each source"
    own = "scaled and centred to the data, or the paper's fixed ones"
    varies = "by source, by feature, by sample, or robust (to outliers), joined by + as in feature+robust"
    add(
        "--method",
        default="cavi-bjmd",
        metavar="NAME",
        help=f"one of {names} (default: %(default)s)",
    )
    add(
        "--restarts",
        type=int,
        default=n_restarts,
        metavar="N",
        help=f"number of random starts, {kept}",
    )
    add("--seed", type=int, default=0, metavar="S", help="seed of the first start (default: 0)")
    each = "threads, for starts and within them (default: one per core)"
    add("--jobs", type=int, default=threads.available(), metavar="N", help=each)
    add("--noise", metavar="MODEL", help=f"how the noise varies: {varies} (default: source)")
    shifts = "give each source an offset for each feature, for shifted batches"
    add("--offsets", nargs="?", choices=("yes", "no"), const="yes", help=f"{shifts} (default: no)")
    add("--priors", choices=("data", "paper"), help=f"priors {own} (default: data)")
    add(
        "--alpha0",
        type=_number,
        metavar="A",
        help=f"prior of the memberships: {favour} (default: {Priors.alpha0})",
    )
    scale = "a number, or learned, one for each component"
    add(
        "--lambda",
        dest="lambda_",
        type=_number,
        metavar="L",
        help=f"prior scale of the components: {scale}",
    )
    stop = "stop when the objective changes by less than T nats per entry (relative change with --priors paper)"
    add("--tol", type=float, metavar="T", help=stop)
    add(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another option of the method; repeatable",
    )


def _number(text: str) -> float | str:
    return text if text == LEARNED else float(text)


def method_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the method that the user gave; the rest is left to its defaults."""
    named = {
        name: getattr(arguments, name)
        for name in ("noise", "offsets", "priors", "alpha0", "lambda_", "tol")
    }
    options = {name: value for name, value in named.items() if value is not None}
    if options.get("offsets") in ("yes", "no"):
        options["offsets"] = options["offsets"] == "yes"
    for option in arguments.option:
        name, equals, text = option.partition("=")
        if not equals:
            raise InputError(
                f"--option {option!r} has no value; write it as KEY=VALUE, for example max_sweeps=500"
            )
        try:
            options[name] = json.loads(text)
        except (ValueError, RecursionError):
            options[name] = text
    registry.check_options(arguments.method, options)
    return options


def read(
    given: argparse.Namespace, labels: Path | None = None
) -> tuple[list[tables.Table], Sources, tables.Settings]:
    """The tables in the files, the sources made of them, and how they were made."""
    reading = {
        "samples_in_rows": given.samples_in_rows,
        "split_by": given.split_by,
        "on_disk": given.on_disk,
    }
    read = readers.read_tables(given.files, **reading)
    how = {
        "names": given.names and given.names.split(","),
        "join": given.join,
        "scale": given.scale,
    }
    sources, settings = tables.prepare(read, labels=labels, reading=reading, **how)
    sizes = (
        f"{count(n, 'sample')} from {name}"
        for n, name in zip(sources.n_samples, sources.names, strict=True)
    )
    log.info("%s; %s", count(sources.n_features, "feature"), ", ".join(sizes))
    if given.scale == "none" and all(sources.squared_norms):
        _hint_at_scales(sources)
    for note in settings.notes:
        log.info(note)
    return read, sources, settings


def _hint_at_scales(sources: Sources) -> None:
    """Sources of different scale share no components; say so where it is plain to see."""
    sizes = dict(zip(sources.names, preparation.scales(sources, "rms"), strict=True))
    small = min(sizes, key=sizes.__getitem__)
    large = max(sizes, key=sizes.__getitem__)
    if sizes[large] > DIFFERENT_SCALES * sizes[small]:
        log.info(
            "hint: the entries of source %r are %.0f times as large as those of %r (root mean square), but both share "
            "the same components; consider --scale rms",
            large,
            sizes[large] / sizes[small],
            small,
        )


def fits(arguments: argparse.Namespace, sources: Sources, options: dict[str, Any]) -> Any:
    """All restarts, and their consensus if it was asked for (analysis.fitting.Fits)."""
    from bjmd.analysis import fitting

    with ctrl_c_ends_at_once():
        return fitting.fit(
            arguments.method,
            sources,
            arguments.components,
            n_restarts=arguments.restarts,
            seed=arguments.seed,
            jobs=arguments.jobs,
            search=not arguments.plain_restarts,
            agree=arguments.consensus,
            **options,
        )


def require_writable(folder: Path) -> None:
    """Fail now, not after a long fit."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"nothing can be written to {folder} ({error.strerror}); give another output"
        ) from None


@contextmanager
def ctrl_c_ends_at_once() -> Iterator[None]:
    """Restarts are threads in compiled code, which no exception reaches; without this, Ctrl-C would
    wait for them.
    """

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
