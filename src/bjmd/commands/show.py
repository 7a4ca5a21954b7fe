"""Summarise a fit: its sources and their noise, its components and its restarts."""

import argparse
from pathlib import Path

from bjmd.commands import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    text = "a folder that `bjmd fit` wrote"
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=text)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import outputs
    from bjmd.report import text

    print(text.plain(outputs.load(arguments.folder).sections(), common.width()))
    print(f"All tables are in {arguments.folder}")
