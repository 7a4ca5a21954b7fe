"""Runs of the real Snakefile in a folder of their own, so that they never touch the repository's
results.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent

TINY = yaml.safe_load((ROOT / ".test/config/config.yaml").read_text())
"""Every step on tiny data; `snakemake --directory .test` runs the same."""


class Workflow:
    """The Snakefile with a config of its own in a folder of its own."""

    def __init__(self, folder, snakefile=ROOT / "workflow/Snakefile"):
        self.folder = folder
        self.snakefile = snakefile
        (folder / "config").mkdir(parents=True)
        self.configure(TINY)

    def configure(self, config):
        self.config = config
        (self.folder / "config/config.yaml").write_text(yaml.safe_dump(config))

    def run(self, *arguments, cores=2, check=True, **environment):
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "-s",
            self.snakefile,
            "--cores",
            str(cores),
            *arguments,
        ]
        without_data = {name: value for name, value in os.environ.items() if name != "BJMD_DATA"}
        done = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**without_data, **environment},
        )
        if check and done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done

    def jobs(self, *arguments, **environment):
        """How often each rule would run now."""
        done = self.run("--dry-run", "--quiet", "rules", *arguments, **environment)
        lines = done.stdout.splitlines()
        counts = [line.split() for line in lines]
        return {
            words[0]: int(words[1]) for words in counts if len(words) == 2 and words[1].isdigit()
        }


@pytest.fixture(scope="module")
def new_workflow(tmp_path_factory):
    """A function that makes a workflow, which the tests of a file may share, in a new folder."""
    return lambda name: Workflow(tmp_path_factory.mktemp("workflow") / name)


@pytest.fixture(scope="module")
def finished(new_workflow):
    """A complete run that tests may look at but not change."""
    workflow = new_workflow("finished")
    workflow.run()
    return workflow


@pytest.fixture
def fresh(tmp_path):
    return Workflow(tmp_path)
