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
from bjmd.results import storage

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
    with Path(path).open("rb") as file:
        if file.read(len(START)) != START:
            return None
    return json.loads(Path(path).read_bytes())["failed"]


def succeeded(paths):
    """Those files that have results."""
    return [path for path in paths if reason(path) is None]


def results(paths):
    """The restarts of every fit that succeeded, by its name, from files <fit>/<chunk>.npz."""
    restarts: dict[str, list] = {}
    for path in succeeded(paths):
        restarts.setdefault(Path(path).parent.name, []).extend(storage.load_decompositions(path))
    return restarts


def sentences(paths):
    """Why fits failed whose results, or scores, should be in some files."""
    reasons = []
    for path in map(Path, paths):
        if path.parent.name == "scores":  # they tell it in a file of their own
            stem = path.name.removesuffix(".csv").removesuffix(".traces")
            told = path.with_name(f"{stem}.failures.txt")
            reasons += told.read_text(encoding="utf-8").splitlines()
        else:
            reasons.append(reason(path))
    return list(dict.fromkeys(filter(None, reasons)))
