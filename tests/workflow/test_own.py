"""The workflow on one's own data, with the small config that `snakemake --directory .test` runs."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from bjmd import cli
from bjmd.files import outputs

ROOT = Path(__file__).parent.parent.parent
OWN = ("--configfile", ROOT / ".test/config/own.yaml")


@pytest.fixture(scope="module")
def own(new_workflow):
    """A finished run; the config below it asks for the paper's data, which must not run."""
    workflow = new_workflow("own/run")
    shutil.copytree(ROOT / "config/example", workflow.folder.parent / "config/example")
    workflow.run(*OWN)
    return workflow


def test_the_folder_is_that_of_bjmd_fit_to_the_bit(own, monkeypatch):
    monkeypatch.chdir(own.folder)
    files = [f"../config/example/lab-{lab}.tsv" for lab in "abc"]
    command = [
        "fit",
        *files,
        "--labels",
        "../config/example/labels.tsv",
        "-k",
        "5",
        "--restarts",
        "3",
        "-o",
        "out",
    ]
    assert cli.main([*command, "--no-search", "--no-figures"]) == 0
    ours = own.folder / "results/own/example"
    theirs = own.folder / "out"
    for path in theirs.glob("*.tsv"):
        if path.name != "restarts.tsv":  # it has times in it
            assert (ours / path.name).read_bytes() == path.read_bytes(), path.name
    assert (ours / "settings.json").read_bytes() == (theirs / "settings.json").read_bytes()
    for run, other in zip(outputs.load(ours).results, outputs.load(theirs).results, strict=True):
        assert run.seed == other.seed
        np.testing.assert_array_equal(run.components, other.components)
        np.testing.assert_array_equal(run.trace, other.trace)
    assert "<img" in (ours / "report.html").read_text()


def test_only_what_is_needed_runs(own):
    made = {
        path.relative_to(own.folder / "results").parts[0] for path in own.folder.glob("results/*/*")
    }
    assert made == {"data", "fits", "own", "logs", "benchmarks"}
    assert [path.name for path in sorted(own.folder.glob("results/fits/*/*/*"))] == [
        "0-1.npz",
        "2-2.npz",
    ]
    assert "Nothing to be done" in own.run("--dry-run", *OWN).stdout


def test_a_changed_file_is_noticed(own):
    path = own.folder.parent / "config/example/labels.tsv"
    path.write_text(path.read_text() + "lab-a-1\tblock 4\n")
    assert own.jobs(*OWN) == {"all": 1, "own_data": 1, "fit": 2, "own_outputs": 1, "total": 5}
