"""Compare the noise model of a fit with others, and say if one is worth trying.

Give the folder of a fit, and its data files if you have moved them; the
comparison is added to its report. Or give data files to fit first; then
nothing is written.
"""

import argparse

from bjmd.commands import common
from bjmd.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd check FOLDER [FILE ...] | FILE [FILE ...] -k K [options]"
    parser.epilog = common.FORMATS
    text = "number of components (required without a folder)"
    parser.add_argument("-k", "--components", type=int, metavar="K", help=text)
    common.add_sources(parser, "the folder of a fit, or a data source")
    common.add_method(parser, n_restarts=5)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.analysis.check import check, require_checkable
    from bjmd.files import outputs
    from bjmd.report import text

    first, *files = arguments.files
    if not first.exists():
        raise InputError(f"{first} does not exist; give the folder of a fit, or data files")
    is_folder = (first / "names.json").exists()
    if is_folder:
        if arguments.components is not None or common.method_options(arguments):
            raise InputError(f"{first} is the folder of a fit; leave out -k and other options")
        fit = outputs.load(first)
        best = fit.results[0]
        require_checkable(best.method)
        if not fit.settings.files:
            raise InputError(
                f"the fit in {first} was written from Python, so its data are not known here; use "
                "the method check of the model"
            )
        _, sources = common.read_again(first, fit, files, "check")
    else:
        options = common.method_options(arguments)
        require_checkable(arguments.method)
        if arguments.components is None:
            raise InputError(
                "files are fitted before they are checked; give the number of components with -k"
            )
        _, sources, _ = common.read(arguments)
        best = common.fits(arguments, sources, options, search=False).best
    with common.ctrl_c_ends_at_once():
        checked = check(sources, best, seed=arguments.seed, jobs=arguments.jobs)
    if is_folder:
        outputs.add_check(first, checked.table)
    print(text.plain([text.about_answer("check", checked.table)], common.width()))
    if is_folder:
        print(f"This was added to {first / 'report.html'}")
        for name, value in checked.recommended.items():
            print(f"To try it, repeat `bjmd fit` with --{name} {value} and another folder")
