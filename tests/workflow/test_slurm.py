"""The workflow on a real SLURM, and what goes wrong on a cluster.

A run on SLURM spends most of its time waiting, so one run has all the troubles of single jobs at
once, and another one loses first its Snakemake and then the controller.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from conftest import ROOT, TINY, Workflow

from bjmd.results import storage
from bjmd_paper import failures

SCRIPTS = Path(os.environ.get("BJMD_SLURM", ROOT.parent / "shared/slurm"))
HOPELESS = "results/fits/large-4.0/hopeless/0-1.npz"
PATIENCE = 240
"""Seconds after which something that should happen has not."""

FITS = {
    "map-bjmd": {"method": "map-bjmd", "label": "MAP-BJMD", "options": {"tol": 1e-4}},
    "map-catbjmd": {"method": "map-catbjmd", "label": "MAP-catBJMD", "options": {"tol": 1e-4}},
    "cavi-bjmd": {"method": "cavi-bjmd", "label": "VI-BJMD"},
    "jnmf": {"method": "jnmf", "label": "Joint NMF"},
    "hopeless": {
        "method": "map-bjmd",
        "label": "-",
        "options": {"alpha0": [2, 2]},
        "data": ["large"],
    },
}
SYNTHETIC = {**TINY["synthetic"], "scales": ["small", "large"]}
CONFIG = {**TINY, "synthetic": SYNTHETIC, "restarts": 2, "best": 1, "fits": FITS}
"""One chunk for each fit; the fit that cannot succeed is not on the small data, so not in their
scores.
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A running SLURM; yields whether it was started here, and then stops it again.

    One that is started here has a folder of its own, so that it knows no jobs of an earlier run.
    """
    start = SCRIPTS / "start_slurm.sh"
    stop = SCRIPTS / "stop_slurm.sh"
    if not start.exists():
        pytest.skip(f"SLURM: there is no {start}; BJMD_SLURM may name the folder that has it")
    ours = (
        shutil.which("sinfo") is None
        or subprocess.run(["sinfo"], capture_output=True).returncode != 0
    )
    if ours:
        os.environ["SLURM_TOY_DIR"] = str(tmp_path_factory.mktemp("slurm"))
    started = subprocess.run(["bash", start], capture_output=True, text=True)
    if "READY" not in started.stdout:
        pytest.skip(
            f"SLURM: {start} failed: {(started.stderr or started.stdout).strip().splitlines()[-1]}"
        )
    yield ours
    for run in Submission.all:
        run.kill()
    if ours:
        subprocess.run(["bash", stop], check=True, capture_output=True)
        del os.environ["SLURM_TOY_DIR"]


class Submission:
    """A run of the workflow on SLURM that goes on beside the test."""

    all: ClassVar = []

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.output = folder / "output.txt"
        command = [sys.executable, "-m", "snakemake", "-s", ROOT / "workflow/Snakefile"]
        command += [
            "--profile",
            ROOT / "workflow/profiles/slurm",
            "--slurm-init-seconds-before-status-checks",
            "2",
        ]
        command += ["--latency-wait", "10", *arguments]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=output, stderr=subprocess.STDOUT
            )
        self.all.append(self)

    def wait_for(self, pattern, times=1):
        """Everything that matches in the output, once that is often enough."""
        until = time.monotonic() + PATIENCE
        while True:
            ended = self.process.poll() is not None
            found = re.findall(pattern, self.text)
            if len(found) >= times:
                return found
            assert not ended and time.monotonic() < until, (
                f"waited in vain for {pattern!r} in:\n{self.text}"
            )
            time.sleep(0.2)

    def job_of(self, fit):
        """The SLURM job that runs a fit, as soon as it is submitted."""
        return self.wait_for(rf"SLURM jobid (\d+) \(log: \S+/rule_fit/[^/]+_{fit}_\d")[0]

    @property
    def text(self):
        return self.output.read_text()

    def wait(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {PATIENCE} s:\n{self.text}") from None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def ask(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_running(job):
    return "RUNNING" in ask("squeue", "-h", "-j", job, "-o", "%T")


def wait_until_running(job):
    until = time.monotonic() + PATIENCE
    while not is_running(job):
        assert time.monotonic() < until, f"job {job} never ran"
        time.sleep(0.2)


def controller():
    """The process of slurmctld."""
    config = ask("scontrol", "show", "config")
    return int(Path(re.search(r"^SlurmctldPidFile\s*= (.*)$", config, re.MULTILINE)[1]).read_text())


def fits(folder):
    """Path -> restarts, of all fits in a folder."""
    return {
        path.relative_to(folder): storage.load_decompositions(path)
        for path in failures.succeeded(folder.glob("results/fits/*/*/*.npz"))
    }


def modified(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("results/**/*.npz")}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    workflow = Workflow(tmp_path_factory.mktemp("local"))
    workflow.configure(CONFIG)
    workflow.run("results/scores/small-4.0.csv")
    return workflow.folder


@pytest.fixture(scope="module")
def troubled(slurm, tmp_path_factory):
    """A run in which one fit is cancelled, one hangs, one has too little memory at first, and one
    cannot succeed.
    """
    workflow = Workflow(tmp_path_factory.mktemp("troubled"))
    workflow.configure(CONFIG)
    run = Submission(
        workflow.folder,
        "results/scores/small-4.0.csv",
        HOPELESS,
        # at first the shortest time limit that SLURM has, and less memory than Python takes
        "--set-resources",
        "fit:runtime=1 if wildcards.fit == 'jnmf' and attempt == 1 else 10 * attempt",
        "fit:mem_mb=150 if wildcards.fit == 'map-catbjmd' and attempt == 1 else 1000 * attempt",
    )
    # each as soon as it runs: a fit takes seconds, and waiting for one might let the other finish
    trouble = {
        run.job_of("jnmf"): ["scancel", "--full", "--signal=STOP"],
        run.job_of("map-bjmd"): ["scancel"],
    }
    until = time.monotonic() + PATIENCE
    while trouble:
        assert time.monotonic() < until, f"jobs {', '.join(trouble)} never ran"
        for job in list(trouble):
            if is_running(job):
                subprocess.run([*trouble.pop(job), job], check=True)
        time.sleep(0.2)
    run.returncode = run.wait()
    return run


def test_fits_on_slurm_have_the_bits_of_a_local_run(troubled, local):
    here = fits(local)
    there = fits(troubled.folder)
    assert len(here) == 4 and here.keys() == there.keys()
    for path, restarts in here.items():
        for a, b in zip(restarts, there[path], strict=True):
            assert (a.seed, a.objective, a.reason) == (b.seed, b.objective, b.reason)
            arrays_a, arrays_b = ([d.components, *d.memberships, d.trace] for d in (a, b))
            if a.posterior is not None:
                arrays_a = [*arrays_a, a.posterior.noise.rate]
                arrays_b = [*arrays_b, b.posterior.noise.rate]
            for x, y in zip(arrays_a, arrays_b, strict=True):
                np.testing.assert_array_equal(x, y, err_msg=str(path))


@pytest.mark.parametrize(
    ("fit", "status", "words"),
    [
        ("map-bjmd", "CANCELLED", "CANCELLED"),
        ("jnmf", "TIMEOUT", "DUE TO TIME LIMIT"),
        ("map-catbjmd", "FAILED", "memory limit"),
    ],
)
def test_a_job_that_was_ended_is_run_again_and_finishes(troubled, fit, status, words):
    first = troubled.job_of(fit)
    assert f"SLURM-job '{first}' failed, SLURM status is: '{status}'" in troubled.text
    (log,) = troubled.folder.glob(f".snakemake/slurm_logs/rule_fit/*_{fit}_*/{first}.log")
    assert words in log.read_text()
    assert (troubled.folder / f"results/fits/small-4.0/{fit}/0-1.npz").exists()


def test_a_fit_that_cannot_succeed_is_not_submitted_again(troubled):
    assert troubled.returncode == 0
    jobs = re.findall(r"SLURM jobid (\d+) \(log: \S+/rule_fit/[^/]+_hopeless_\d", troubled.text)
    assert len(jobs) == 1
    (log,) = troubled.folder.glob("results/logs/fit/large-4.0/hopeless/0-1.log")
    reason = "the length of alpha0 is 2 but there are to be "
    assert reason in log.read_text()
    assert reason in failures.reason(troubled.folder / HOPELESS)


def test_the_same_command_goes_on_after_a_crash_and_loses_nothing(slurm, tmp_path, local):
    if not slurm:
        pytest.skip(
            "SLURM: it was running before the tests, and its controller is not theirs to kill"
        )
    Workflow(tmp_path).configure(CONFIG)
    command = ("results/scores/small-4.0.csv", "--jobs", "2")

    run = Submission(tmp_path, *command)
    run.wait_for(r"Finished jobid: \d+ \(Rule: fit\)")
    run.wait_for(r"has been submitted with SLURM", times=3)
    run.kill()
    # as docs/cluster.md advises; else jobs of the old run might leave nothing to do for the new one
    subprocess.run(["scancel", *re.findall(r"submitted with SLURM jobid (\d+)", run.text)])
    finished = modified(tmp_path)
    assert len([path for path in finished if "fits" in path.parts]) in (1, 2)

    # after an outage of the controller Snakemake may wait for ever; docs/cluster.md says what helps
    bereft = Submission(tmp_path, *command)
    wait_until_running(bereft.wait_for(r"submitted with SLURM jobid (\d+)")[0])
    # one that is killed may forget its youngest jobs, and give their numbers to others
    os.kill(controller(), signal.SIGTERM)
    time.sleep(3)
    subprocess.run(["bash", SCRIPTS / "start_slurm.sh"], check=True, capture_output=True)
    bereft.process.send_signal(signal.SIGINT)
    bereft.wait()

    again = Submission(tmp_path, *command)
    assert again.wait() == 0, again.text
    now = modified(tmp_path)
    assert {path: now[path] for path in finished} == finished
    assert fits(tmp_path).keys() == fits(local).keys()
