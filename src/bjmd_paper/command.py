"""List the real data sets of the workflow, or get the one that is named.

A data set is downloaded unless it is in the mirror or the cache. It is
verified, prepared, and written as a file that `bjmd fit` reads.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the data set to get (default: list all)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="file to write (default: NAME.npz)"
    )
    parser.add_argument(
        "--unverified", action="store_true", help="accept files of versions that are not known"
    )


def run(arguments: argparse.Namespace) -> None:
    if arguments.name is None:
        _list()
    else:
        path = arguments.output or Path(f"{arguments.name}.npz")
        _get(arguments.name, path, arguments.unverified)


def _list() -> None:
    from bjmd_paper.datasets import catalogue, fetch

    for name in catalogue.names():
        dataset = catalogue.get(name)
        print(name)
        print(f"  what     {dataset.title}, {dataset.version}")
        print(f"  size     at most {dataset.megabytes} MB, unpacked")
        print(f"  terms    {dataset.terms}")
        print(f"  present  {'yes' if fetch.at_hand(name) else 'no'}")
        if not dataset.addresses:
            print(f"  from     {dataset.page}, by hand")
        print()
    print("Get one with: bjmd datasets NAME")


def _get(name: str, path: Path, unverified: bool) -> None:
    from bjmd.results import storage
    from bjmd_paper.datasets import catalogue, fetch

    dataset = catalogue.get(name)
    folder, _ = fetch.files(name, unverified=unverified)
    sources = dataset.read(folder)
    storage.save_sources(path, sources)
    print(f"{path} holds {', '.join(sources.names)}")
    are_counts = all(x.extent.is_whole and x.extent.least >= 0 for x in sources.data)
    normalize = " --normalize" if are_counts else ""
    print(f"Fit it with: bjmd fit {path} -k {dataset.n_components} -o out{normalize}")
    print(f"Terms: {dataset.terms}")
    print(f"Please cite: {dataset.citation}")
