"""Report where the data contradict the model, and which option would help.

Give the folder of a fit (already checked), or data files to fit first;
nothing is written.
"""

import argparse

from bjmd.commands import common
from bjmd.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "bjmd check FOLDER, or bjmd check FILE [FILE ...] -k K [options]"
    parser.epilog = common.FORMATS
    text = "number of components (required with files)"
    parser.add_argument("-k", "--components", type=int, metavar="K", help=text)
    common.add_sources(parser, "the folder of a fit, or a data source")
    common.add_method(parser, n_restarts=5)


def run(arguments: argparse.Namespace) -> None:
    from bjmd.analysis.check import check, require_checkable
    from bjmd.files import outputs
    from bjmd.report import text

    first = arguments.files[0]
    if not first.exists():
        raise InputError(f"{first} does not exist; give the folder of a fit, or data files")
    if (first / "names.json").exists():
        if len(arguments.files) > 1 or arguments.components is not None:
            raise InputError(f"{first} is the folder of a fit; give it alone, and without -k")
        findings = outputs.load(first).findings
        if findings is None:
            raise InputError(
                f"the fit in {first} was not checked, because its method has no noise model"
            )
    else:
        options = common.method_options(arguments)
        require_checkable(arguments.method)
        if arguments.components is None:
            raise InputError(
                "files are fitted before they are checked; give the number of components with -k"
            )
        _, sources, _ = common.read(arguments)
        findings = check(sources, common.fits(arguments, sources, options, search=False).best)
    print(text.plain([text.about_check(findings)], common.width()))
