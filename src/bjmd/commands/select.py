"""Find out how many components the data support.

Each number is fitted to the data with some entries held out, and judged by
how well it predicts them. docs/how-to/components.md explains the columns.
"""

import argparse

from bjmd.commands import common
from bjmd.errors import InputError

FILES = ("selection.tsv", "selection.svg", "selection.png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd select FILE [FILE ...] -o FOLDER [options]"
    parser.epilog = common.FORMATS
    add = parser.add_argument
    add(
        "-k",
        "--components",
        default="2..10",
        metavar="K..K",
        help="numbers to try: a range, or a list like 2,4,8 (default: 2..10)",
    )
    common.add_output(parser, "selection")
    common.add_sources(parser)
    add(
        "--held-out",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="share of entries to hold out (default: 0.1)",
    )
    add(
        "--repeats",
        type=int,
        default=3,
        metavar="N",
        help="number of random hold-outs (default: 3)",
    )
    common.add_method(parser, n_restarts=5)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.analysis import number_of_components
    from bjmd.files import outputs
    from bjmd.report import figures, pages
    from bjmd.results import storage

    options = common.method_options(arguments)
    numbers = _numbers(arguments.components)
    folder = arguments.output
    outputs.require_free(folder, arguments.force, FILES)
    _, sources, _ = common.read(arguments)
    common.require_writable(folder.parent)
    with common.ctrl_c_ends_at_once():
        selection = number_of_components.select(
            sources,
            numbers,
            method=arguments.method,
            n_restarts=arguments.restarts,
            held_out=arguments.held_out,
            n_repeats=arguments.repeats,
            seed=arguments.seed,
            jobs=arguments.jobs,
            **options,
        )
    with storage.atomic_path(folder) as new:
        new.mkdir()
        table, svg, png = (new / name for name in FILES)
        selection.table.to_csv(table, sep="\t", index=False, float_format="%.8g")
        figures.save(figures.selection(selection), svg, png)
    section = pages.Section("Components", [str(selection)], selection.text_table())
    print(pages.plain([section], common.width()))
    print(f"The table and its figure are in {folder}")


def _numbers(text: str) -> list[int]:
    """[2, 3, 4] from "2..4" or "2,3,4"."""
    first, dots, last = text.partition("..")
    try:
        numbers = [*range(int(first), int(last) + 1)] if dots else [*map(int, text.split(","))]
    except ValueError:
        numbers = []
    if len(set(numbers)) < 2 or min(numbers) < 1:
        raise InputError(
            f"-k is {text!r}; write a range like 2..10, or two or more numbers like 2,4,8"
        )
    return numbers
