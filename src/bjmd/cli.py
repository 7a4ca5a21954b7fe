"""The command `bjmd`: its subcommands, and how they end.

Each subcommand is a module in commands/, imported only when it is called, so that `bjmd --help`
answers at once.  The work is done by the modules that Python users call, so the numbers are the
same.
"""

import argparse
import importlib
import inspect
import logging
import os
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, NoReturn

from bjmd import __version__
from bjmd.errors import FitError, InputError

COMMANDS = {
    "fit": "decompose data sources into shared components",
    "select": "find out how many components the data support",
    "show": "summarise a fit",
    "check": "compare noise models, and say whether another is worth trying",
    "verify": "recompute a fit and compare",
    "transform": "compute the memberships of new samples",
    "datasets": "list the data sets of the workflow, or fetch one",
}
GROUP = "bjmd.commands"
"""Entry points that name the module of a command in another package."""

_DESCRIPTION = """\
Bayesian joint matrix decomposition: find the components that several data
sources share, each sample's memberships in them, and each source's noise.

commands:
""" + "\n".join(f"  {name:<11}{summary}" for name, summary in COMMANDS.items())
_EXAMPLES = """\
examples:
  bjmd select cohort1.tsv cohort2.csv.gz -o number   how many components?
  bjmd fit cohort1.tsv cohort2.csv.gz -k 5 -o out    fit five of them
  bjmd show out                                      what was found?
  bjmd check out                                     a better noise model?
  bjmd verify out                                    is the fit reproducible?
  bjmd transform out new.tsv --source cohort1        place new samples

For a command's options: bjmd COMMAND --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns 0, 1 if it failed, 2 for a user's mistake, or 130 for Ctrl-C."""
    arguments = _parse(sys.argv[1:] if argv is None else argv)
    with _messages_on_stderr():
        try:
            arguments.run(arguments)
            sys.stdout.flush()
        except (InputError, FitError) as error:
            print(f"bjmd: {error}", file=sys.stderr)
            return 1 if isinstance(error, FitError) else 2
        except KeyboardInterrupt:
            print("bjmd: interrupted; nothing was written", file=sys.stderr)
            return 130
        except MemoryError:
            print("bjmd: there is not enough memory for these data", file=sys.stderr)
            return 1
        except BrokenPipeError:  # as in `bjmd show out | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:  # a full disk, or no permission
            name = str(error.filename or "a file")[:200]
            print(f"bjmd: cannot use {name} ({error.strerror}); check it", file=sys.stderr)
            return 1
    return 0


class _Parser(argparse.ArgumentParser):
    """Answers a mistake in the command line with one sentence instead of the whole usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message[:1000]}; see {self.prog} --help\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose lines do not break the names of methods at their hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    style: dict[str, Any] = {"formatter_class": _Help}
    parser = _Parser(
        "bjmd", usage="bjmd COMMAND ...", description=_DESCRIPTION, epilog=_EXAMPLES, **style
    )
    parser.add_argument("--version", action="version", version=f"bjmd {__version__}")
    commands = parser.add_subparsers(
        metavar="COMMAND", required=True, help=argparse.SUPPRESS, prog="bjmd"
    )
    for name in COMMANDS:
        command = commands.add_parser(name, **style)
        if name in argv[:1]:
            places = {entry.name: entry.value for entry in entry_points(group=GROUP)}
            module = importlib.import_module(places.get(name, f"bjmd.commands.{name}"))
            command.description = inspect.getdoc(module)
            command.set_defaults(run=module.run)
            module.add_arguments(command)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:  # argparse would refer to the help of `bjmd` itself
        commands.choices.get(argv[0], parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


@contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Show log lines and warnings of the package as single lines on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("bjmd")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
