"""Runs that are killed at any moment: no half-written file counts, and the same command goes on.

The kills of a workflow follow one another in one folder until it has had its share; then it runs to
its end, and its fits must have the bits of a run that was left alone.
"""

import base64
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import yaml

from bjmd.results import storage

ROOT = Path(__file__).parents[2]
PATIENCE = 3600
"""Seconds after which a run that was left alone hangs."""
LOCAL = ("--cores", "2")
SLURM = (
    "--profile",
    ROOT / "workflow/profiles/slurm",
    "--slurm-init-seconds-before-status-checks",
    "2",
)
TARGET = "results/scores/small-4.0.csv"


def run(number):
    """Kills by kind, and (kind, number, sentence) for what went wrong."""
    kinds = {
        "kills of bjmd fit": of_a_fit,
        "kills of a local workflow": lambda *case: of_a_workflow(*case, LOCAL),
    }
    if shutil.which("sinfo") and not subprocess.run(["sinfo"], capture_output=True).returncode:
        kinds["kills of a workflow on SLURM"] = lambda *case: of_a_workflow(*case, SLURM)
    times = max(1, number // len(kinds))
    wrong = []
    for kind, kill in kinds.items():
        with tempfile.TemporaryDirectory(prefix="prove-kills-") as folder:
            try:
                sentences = [*kill(times, Path(folder), random.Random(0))]
            except RuntimeError as problem:
                sentences = [str(problem)]
            wrong += [(kind, 0, sentence) for sentence in sentences]
    return dict.fromkeys(kinds, times), wrong


def of_a_fit(number, folder, draw):
    """`bjmd fit --force` over an earlier fit, killed: one of the two is there, and complete."""
    out = folder / "out"
    tables = sorted((ROOT / "config/example").glob("lab-*.tsv"))
    bjmd = [sys.executable, "-m", "bjmd.cli"]
    fit = [*bjmd, "fit", *tables, "-k", "3", "-o", out, "--force", "--restarts", "2", "--seed"]
    takes = _finish([*fit, "0"], folder)
    for kill in range(1, number + 1):
        _killed([*fit, str(kill)], folder, draw.uniform(0, takes), signal.SIGKILL)
        with contextlib.suppress(Exception):
            _finish([*bjmd, "show", out], folder)
            if len({run.seed for run in storage.load_decompositions(out / "fit.npz")}) == 2:
                continue
        yield f"after kill {kill} of bjmd fit the earlier fit was not there"
        _finish([*fit, "0"], folder)


def of_a_workflow(number, folder, draw, where):
    """Snakemake killed, interrupted or hung up, again and again; then run to its end."""
    config = yaml.safe_load((ROOT / ".test/config/config.yaml").read_text())
    config["fits"] = {name: config["fits"][name] for name in ("map-bjmd", "map-catbjmd")}
    config["fits"]["cavi-bjmd"] = {"method": "cavi-bjmd", "label": "VI-BJMD"}
    alone = folder / "alone"
    troubled = folder / "troubled"
    for place in (alone, troubled):
        (place / "config").mkdir(parents=True)
        (place / "config/config.yaml").write_text(yaml.safe_dump(config))
    snakemake = [sys.executable, "-m", "snakemake", "-s", ROOT / "workflow/Snakefile", TARGET]
    takes = _finish([*snakemake, *LOCAL], alone) * (3 if where is SLURM else 1)
    for kill in range(1, number + 1):
        end = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
        finished = {*troubled.glob("results/fits/**/*.npz")} - _incomplete(troubled)
        _killed([*snakemake, *where], troubled, draw.uniform(0, takes), end)
        for path in sorted(finished):
            try:
                storage.load_decompositions(path)
            except Exception as problem:
                yield f"after kill {kill}: {problem}"
        if (troubled / TARGET).exists() and kill < number:  # it got to its end; begin again
            shutil.rmtree(troubled / "results")
    _finish([*snakemake, *where], troubled)
    files, expected = (
        {path.relative_to(place) for path in place.glob("results/fits/**/*.npz")}
        for place in (troubled, alone)
    )
    if not files or files != expected:
        yield "other files than in a run left alone"
    for path in files & expected:
        for a, b in zip(
            *(storage.load_decompositions(place / path) for place in (alone, troubled)), strict=True
        ):
            arrays = (a.components, *a.memberships), (b.components, *b.memberships)
            if not all(map(np.array_equal, *arrays)):
                yield f"{path} has other bits than in a run left alone"


def _incomplete(folder):
    """What jobs wrote after Snakemake was killed, which it removes and makes again."""
    markers = (folder / ".snakemake/incomplete").glob("*")
    return {folder / base64.urlsafe_b64decode(marker.name).decode() for marker in markers}


def _killed(command, folder, seconds, end):
    """Kill a command after some seconds, or interrupt or hang up all that it began."""
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: [
                signal.signal(one, signal.SIG_DFL) for one in (signal.SIGINT, signal.SIGHUP)
            ],
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            (os.kill if end == signal.SIGKILL else os.killpg)(process.pid, end)
        process.wait(PATIENCE)


def _finish(command, folder):
    """Run a command to its end; the seconds that it took."""
    started = time.monotonic()
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        raise RuntimeError(f"the same command did not go on: {done.stderr[-300:]}")
    return time.monotonic() - started
