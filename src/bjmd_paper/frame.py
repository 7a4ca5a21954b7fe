"""The frame of every run and of every script of the Snakemake workflow."""

import atexit
import fcntl
import gc
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import IO

from bjmd.errors import FitError, InputError


def run_script(main, snakemake):
    """Run the body of a workflow script: log to its log file, and turn a known problem into one
    sentence and exit 1.
    """
    _end_with_snakemake()
    atexit.register(gc.freeze)  # else Python looks for garbage among all it imported on its way out
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        handlers=[logging.FileHandler(snakemake.log[0], mode="w")],
    )
    logging.captureWarnings(True)
    try:
        main(snakemake)
    except (InputError, FitError) as error:
        logging.error("%s", error)
        print(f"{snakemake.rule}: {error}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # a full disk, a folder of someone else's
        logging.error("%s", error)
        print(
            f"{snakemake.rule}: {error.filename or 'a file'} cannot be used ({error.strerror})",
            file=sys.stderr,
        )
        sys.exit(1)
    except MemoryError:
        logging.error("out of memory")
        print(
            f"{snakemake.rule}: the data and what is computed from them do not fit into memory",
            file=sys.stderr,
        )
        sys.exit(1)


def _end_with_snakemake():
    """End this job when the Snakemake that started it is killed, or it would go on beside the jobs
    of the next run.
    """
    import psutil  # which Snakemake needs

    above = [
        process
        for process in psutil.Process().parents()
        if "snakemake" in " ".join(_command(process))
    ]

    if not above and os.getppid() == 1:  # it is gone already
        os._exit(1)

    def watch():
        while all(
            process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in above
        ):
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _command(process):
    try:
        return process.cmdline()
    except OSError:  # someone else's
        return []


_HELD: list[IO] = []
"""Locks stay open until the process ends."""


def hold_lock(path):
    """Let one Snakemake at a time work in a folder.

    Snakemake's own lock stays behind when it is killed, and has to be removed by hand; this one
    dies with the process.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise InputError(
            f"another Snakemake holds {path.absolute()}; wait until it has ended, or end it"
        ) from None
    except OSError as error:  # some network storage has no locks
        logging.warning(
            "%s cannot be locked (%s); see to it that one Snakemake at a time works here",
            path,
            error,
        )
    _HELD.append(lock)
