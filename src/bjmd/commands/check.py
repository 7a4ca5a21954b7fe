"""Ask what in the data contradicts the model, and which option answers it.

Give the folder of a fit, which has the answers already, or files, which are
then fitted with the options below; nothing is written.
"""

import argparse

from bjmd.commands import common
from bjmd.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd check FOLDER, or bjmd check FILE [FILE ...] -k K [options]"
    parser.epilog = common.FORMATS
    parser.add_argument("-k", "--components", type=int, metavar="K", help="number of components, for files")
    common.add_sources(parser, "the folder of a fit, or a data source")
    common.add_method(parser, n_restarts=5)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.files import outputs
    from bjmd.fits import restarts
    from bjmd.fits.check import check
    from bjmd.report import text

    first = arguments.files[0]
    if (first / "names.json").exists():
        if len(arguments.files) > 1:
            raise InputError(f"{first} is the folder of a fit, so give it alone")
        findings = outputs.load(first).findings
        if findings is None:
            raise InputError(f"the fit in {first} was not checked, for its method has no noise model to check")
    else:
        options = common.method_options(arguments)
        if arguments.components is None:
            raise InputError("files are fitted before they are checked; give the number of components with -k")
        _, sources, _ = common.read(arguments)
        results, _ = common.fits(arguments, sources, options)
        findings = check(sources, restarts.best(results, 1)[0])
    print(text.plain([text.about_check(findings)], common.width()))
