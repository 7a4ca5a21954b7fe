"""Compare the noise model of a fit with others, and say if one is worth trying.

The data are read from the files that were fitted, or from those that you
give, in the same order. The comparison is added to the report of the fit.
"""

import argparse

from bjmd.commands import common


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd check FOLDER [FILE ...] [options]"
    common.add_fit(parser)
    common.add_seed_and_jobs(parser, "seed of the random choice of hidden entries")


def run(arguments: argparse.Namespace) -> None:
    from bjmd.analysis.check import check, require_checkable
    from bjmd.files import outputs
    from bjmd.report import pages

    folder = arguments.folder
    fit = outputs.load(folder)
    best = fit.results[0]
    require_checkable(best.method)
    _, sources = common.read_again(folder, fit, arguments.files, "check")
    with common.ctrl_c_ends_at_once():
        checked = check(sources, best, seed=arguments.seed, jobs=arguments.jobs)
    outputs.add_check(folder, checked.table)
    print(pages.plain([pages.about_answer("check", checked.table)], common.width()))
    print(f"This was added to {folder / 'report.html'}")
    for name, value in checked.recommended.items():
        print(f"To try it, repeat `bjmd fit` with --{name} {value} and another folder")
