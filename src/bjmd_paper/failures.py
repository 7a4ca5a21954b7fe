"""A fit that fails leaves a note in place of its results, and the run goes on without it.

A FitError or an InputError would come again in another attempt.  Anything else that goes wrong is
an error, which stops the run.
"""

import json
import logging
import sys
from contextlib import contextmanager
from pathlib import Path

from bjmd.errors import FitError, InputError

START = b'{"failed": '


@contextmanager
def noted(what, outputs):
    """Write the reason why a fit fails to all its outputs."""
    try:
        yield
    except (FitError, InputError) as error:
        sentence = " ".join(f"{what}: {error}".split())
        logging.error("%s", sentence)
        print(f"failed, and left out: {sentence}", file=sys.stderr)
        for path in outputs:
            Path(path).write_text(json.dumps({"failed": sentence}), encoding="utf-8")


def reason(path):
    """Why a fit failed whose results should be in a file, or None."""
    content = Path(path).read_bytes() if _begins_as_a_note(path) else None
    return content and json.loads(content)["failed"]


def _begins_as_a_note(path):
    with Path(path).open("rb") as file:
        return file.read(len(START)) == START


def succeeded(paths):
    """Those files that have results."""
    return [path for path in paths if reason(path) is None]


def sentences(paths):
    """The reasons that some files tell, which are such notes, or have a list of them."""
    told = []
    for path in map(Path, paths):
        if path.name.endswith(".failures.txt"):
            told += path.read_text(encoding="utf-8").splitlines()
        else:
            told.append(reason(path))
    return list(dict.fromkeys(filter(None, told)))
