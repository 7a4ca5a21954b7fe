"""What every run of the Snakemake workflow, and every script of it, has in common."""

import fcntl
import json
import logging
import sys
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import IO

from bjmd.errors import FitError, InputError


@contextmanager
def script(snakemake):
    """Keep a log file; a known problem becomes one sentence and exit 1."""
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        handlers=[logging.FileHandler(snakemake.log[0], mode="w")],
    )
    logging.captureWarnings(True)
    try:
        yield
    except (InputError, FitError, OSError, MemoryError) as error:
        sentence = _sentence(error)
        logging.error("%s", sentence)
        sys.exit(f"{snakemake.rule}: {sentence}")


def _sentence(error):
    if isinstance(error, MemoryError):
        return "the data and what is computed from them do not fit into memory"
    if isinstance(error, OSError):  # a full disk, or a folder without write permission
        return f"{error.filename or 'a file'} cannot be used ({error.strerror})"
    return str(error)


def numbers_of(wildcards):
    """The restarts or draws of a job."""
    return range(int(wildcards.first), int(wildcards.last) + 1)


def conda_environment(path, requirement):
    """The file of the conda environment, with the bjmd that runs Snakemake.

    If that was installed from a folder, a clone for example, then jobs must run the code in this
    folder, and not that of the release that the file names in a `requirement` of pip.
    """
    origin = json.loads(distribution("bjmd").read_text("direct_url.json") or "{}")
    if "dir_info" not in origin:
        return str(path)
    folder = origin["url"].removeprefix("file://")
    ours = Path(".snakemake/bjmd-environment.yaml").absolute()
    text = Path(path).read_text().replace(requirement, f"--editable {folder}[advi,workflow]")
    if not ours.exists() or ours.read_text() != text:
        ours.parent.mkdir(exist_ok=True)
        ours.write_text(text)
    return str(ours)


_HELD: list[IO] = []
"""Locks stay open until the process ends."""


def hold_lock(path):
    """Let only one Snakemake at a time work in a folder.

    A killed Snakemake leaves its own lock behind, which must be removed by hand; this one is
    released when the process ends.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise InputError(
            f"another Snakemake is using {path.absolute()}; wait until it has ended, or stop it"
        ) from None
    except OSError as error:
        logging.warning(
            "%s cannot be locked (%s); run only one Snakemake at a time in this folder", path, error
        )
    _HELD.append(lock)
