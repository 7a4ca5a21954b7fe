"""List the real data sets that bjmd knows, or get the one that is named.

A data set is downloaded if it is not at hand, verified, prepared, and written
as a file that `bjmd fit` reads.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from bjmd.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the data set to get (default: list all)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file to write (default: NAME.npz)"
    )


def run(arguments: argparse.Namespace) -> None:
    from bjmd_paper.datasets import catalogue

    if arguments.name is not None:
        _get(catalogue.get(arguments.name), arguments.output or Path(f"{arguments.name}.npz"))
        return
    try:
        from bjmd_paper.datasets.fetch import at_hand
    except ImportError:
        at_hand = None  # type: ignore[assignment]
    for name in catalogue.names():
        dataset = catalogue.get(name)
        size = (dataset.most_bytes or sum(member.most_bytes for member in dataset.members)) / 1e6
        where = "unknown" if at_hand is None else "yes" if at_hand(name) else "no"
        if not dataset.addresses:
            where += f"; must be fetched by hand from {dataset.page}"
        print(
            f"{name}\n  what     {dataset.title}, {dataset.version}\n  size     at most {size:,.0f} MB"
        )
        print(f"  terms    {dataset.terms}\n  at hand  {where}\n")
    print("Get one with: bjmd datasets NAME")
    if at_hand is None:
        print("To see which are at hand, and to download them: pip install 'bjmd[workflow]'")


def _get(dataset: Any, path: Path) -> None:
    from bjmd.results import storage

    try:
        from bjmd_paper.datasets.fetch import fetch_and_read
    except ImportError as error:
        raise InputError(
            f"downloads need {error.name}; install it with: pip install 'bjmd[workflow]'"
        ) from None
    sources = fetch_and_read(dataset.name, tempfile.gettempdir())
    storage.save_sources(path, sources)
    print(
        f"{path} holds {', '.join(sources.names)}; fit it with: bjmd fit {path} -k {len(sources.class_names)} -o out"
    )
    print(f"Terms: {dataset.terms}\nPlease cite: {dataset.citation}")
