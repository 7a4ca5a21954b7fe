"""The command `bjmd`: its subcommands, and how they end.

Each subcommand is a file in commands/, imported only when it is called, so that `bjmd --help`
answers at once.  The work is done by the modules that Python users call, so the numbers are the
same.
"""

import argparse
import atexit
import gc
import importlib
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from bjmd import __version__
from bjmd.errors import FitError, InputError

COMMANDS = {
    "fit": "decompose data sources into shared components",
    "select": "find out how many components the data support",
    "show": "summarise a fit",
    "check": "report where the data contradict the model",
    "verify": "compute a fit again and say what differs",
    "transform": "compute the memberships of new samples",
    "datasets": "list the real data sets, or get one",
}

ELSEWHERE = {"datasets": "bjmd_paper.command"}
"""Commands that are not of the library; theirs is the only name of the paper's package in it."""

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
  bjmd check out                                     what contradicts it?
  bjmd verify out                                    is it still what it was?
  bjmd transform out new.tsv --source cohort1        place new samples

Every command explains its options: bjmd fit --help
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0, 1 for what broke down, 2 for a mistake, 130 for
    Ctrl-C.
    """
    gc.set_threshold(
        100_000
    )  # imports and figures make many objects and little garbage: an eighth of a short command
    atexit.register(
        gc.freeze
    )  # else Python looks for garbage among all it imported on its way out, another eighth
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
            print(
                "bjmd: the data and what is computed from them do not fit into memory",
                file=sys.stderr,
            )
            return 1
        except BrokenPipeError:  # as in `bjmd show out | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:  # a full disk, a folder of someone else's
            print(
                f"bjmd: {error.filename or 'a file'} cannot be used ({error.strerror}); check it",
                file=sys.stderr,
            )
            return 1
    return 0


class _Parser(argparse.ArgumentParser):
    """A mistake in the command line is one sentence as well, without half a page about all options
    before it.
    """

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message[:1000]}; see {self.prog} --help\n")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    style: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter}
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
            module = importlib.import_module(ELSEWHERE.get(name, f"bjmd.commands.{name}"))
            command.description = inspect.getdoc(module)
            command.set_defaults(run=module.run)
            module.add_arguments(command)
    return parser.parse_args(argv)


@contextmanager
def _messages_on_stderr() -> Iterator[None]:
    """Log lines and warnings of the package become single lines on stderr, while a command runs."""
    handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("bjmd")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(
                f"warning: {message}", file=sys.stderr
            )
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


if __name__ == "__main__":
    sys.exit(main())
