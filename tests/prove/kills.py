"""Runs that are killed at any moment: no half-written file counts, and the same command goes on.

The kills of a workflow follow one another in one folder until it has had its share; then it runs to
its end, and its fits must have the bits of a run that was left alone.
"""

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
SLURM = (
    "--profile",
    ROOT / "workflow/profiles/slurm",
    "--slurm-init-seconds-before-status-checks",
    "2",
)
TARGET = "results/scores/small-4.0.csv"


def of_a_fit(number, folder, draw):
    """`bjmd fit --force` over an earlier fit, killed: one of the two is there, and complete."""
    wrong = []
    out = folder / "out"
    tables = sorted((ROOT / "config/example").glob("lab-*.tsv"))
    fit = [sys.executable, "-m", "bjmd.cli", "fit", *tables, "-k", "3"]
    fit += ["-o", out, "--force", "--restarts", "2", "--jobs", "1", "--seed"]
    started = time.monotonic()
    _finish([*fit, "0"], folder)
    takes = time.monotonic() - started
    for kill in range(1, number + 1):
        _killed([*fit, str(kill)], folder, draw.uniform(0, takes), signal.SIGKILL)
        with contextlib.suppress(Exception):
            seeds = {run.seed for run in storage.load_decompositions(out / "fit.npz")}
            shown = subprocess.run(
                [sys.executable, "-m", "bjmd.cli", "show", out], capture_output=True
            )
            if shown.returncode == 0 and len(seeds) == 2:
                continue
        wrong.append(f"after kill {kill} of bjmd fit the earlier fit was not there")
        _finish([*fit, "0"], folder)
    return wrong


def of_a_workflow(number, folder, draw, slurm=False):
    """Snakemake killed, interrupted or hung up, again and again; then run to its end."""
    config = yaml.safe_load((ROOT / ".test/config/config.yaml").read_text())
    config["fits"] = {name: config["fits"][name] for name in ("map-bjmd", "map-catbjmd")}
    config["fits"]["cavi-bjmd"] = {"method": "cavi-bjmd", "label": "VI-BJMD"}
    alone = folder / "alone"
    troubled = folder / "troubled"
    for place in (alone, troubled):
        (place / "config").mkdir(parents=True)
        (place / "config/config.yaml").write_text(yaml.safe_dump(config))
    plain = [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", TARGET]
    started = time.monotonic()
    _finish([*plain, "--cores", "2"], alone)
    takes = (time.monotonic() - started) * (3 if slurm else 1)
    command = [*plain, *(SLURM if slurm else ("--cores", "2"))]
    wrong = []
    for kill in range(1, number + 1):
        end = draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGHUP])
        finished = {
            path: path.stat().st_mtime_ns for path in troubled.glob("results/fits/**/*.npz")
        }
        _killed(command, troubled, draw.uniform(0, takes), end)
        for path in finished:
            try:
                storage.load_decompositions(path)
            except Exception as problem:
                wrong.append(f"after kill {kill}: {problem}")
        if (troubled / TARGET).exists() and kill < number:  # it got to its end; begin again
            shutil.rmtree(troubled / "results")
    try:
        _finish(command, troubled)
    except RuntimeError as problem:
        return [*wrong, f"the same command did not go on: {problem}"]
    files, expected = (
        {path.relative_to(place) for path in place.glob("results/fits/**/*.npz")}
        for place in (troubled, alone)
    )
    if not files or files != expected:
        return [*wrong, "other files than in a run left alone"]
    for path in files:
        fits = [storage.load_decompositions(place / path) for place in (alone, troubled)]
        for a, b in zip(*fits, strict=True):
            if not all(
                map(np.array_equal, (a.components, *a.memberships), (b.components, *b.memberships))
            ):
                wrong.append(f"{path} has other bits than in a run left alone")
    return wrong


def _killed(command, folder, seconds, end):
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
            if end == signal.SIGKILL:
                process.send_signal(end)
            else:
                os.killpg(process.pid, end)
        process.wait(PATIENCE)


def _finish(command, folder):
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        raise RuntimeError(
            done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message"
        )


def has_slurm():
    return (
        shutil.which("sbatch") is not None
        and subprocess.run(["sinfo"], capture_output=True).returncode == 0
    )


def run(number, seed=0, slurm=False):
    """Kills by kind, and (kind, seed, sentence) for what went wrong."""
    share = max(1, number // 2)
    wrong = []
    kinds = {
        "kills of bjmd fit": (of_a_fit, share, {}),
        "kills of a local workflow": (of_a_workflow, max(1, number - share), {}),
    }
    if slurm:
        kinds = {"kills of a workflow on SLURM": (of_a_workflow, number, {"slurm": True})}
    for kind, (kill, times, more) in kinds.items():
        with tempfile.TemporaryDirectory(prefix="prove-kills-") as folder:
            wrong += [
                (kind, seed, sentence)
                for sentence in kill(times, Path(folder), random.Random(seed), **more)
            ]
    return {kind: times for kind, (_, times, _) in kinds.items()}, wrong
