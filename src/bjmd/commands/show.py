"""Summarise a fit: its sources and their noise, its components and its restarts."""

import argparse

from bjmd.commands import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_folder(parser)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import outputs
    from bjmd.report import pages

    print(pages.plain(outputs.load(arguments.folder).sections(), common.width()))
    print(f"All tables are in {arguments.folder}")
