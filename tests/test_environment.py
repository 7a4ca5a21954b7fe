"""The lock, conda's file and GitHub's workflow agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import bjmd

ROOT = Path(__file__).parent.parent


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked(file="requirements.txt"):
    """Package -> version on Python 3.11, from a hashed lock."""
    pins = {}
    for line in (ROOT / "envs" / file).read_text().splitlines():
        if re.match(r"^[a-z0-9]", line):
            requirement = Requirement(line.rstrip(" \\"))
            if requirement.marker is None or requirement.marker.evaluate(
                {"python_full_version": "3.11.7"}
            ):
                pins[requirement.name] = str(requirement.specifier).removeprefix("==")
    return pins


def test_conda_has_the_release_and_all_that_it_asks_for_in_the_versions_of_the_lock():
    file = ROOT / "workflow/envs/bjmd.yaml"
    *conda, by_pip = yaml.safe_load(file.read_text())["dependencies"]
    assert by_pip == {"pip": [f"bjmd[advi,workflow]=={bjmd.__version__}"]}
    pins = dict(entry.split("=") for entry in conda if "=" in entry)
    assert f">={pins.pop('python')}" == project()["requires-python"]
    pins["matplotlib"] = pins.pop("matplotlib-base")
    extras = project()["optional-dependencies"]
    wanted = {
        Requirement(line).name
        for line in [*project()["dependencies"], *extras["advi"], *extras["workflow"]]
    }
    assert pins == {name: locked()[name] for name in wanted}


def test_the_locks_satisfy_pyproject():
    """What only the site needs is pinned in a file of its own."""
    base = locked()
    docs = locked("docs.txt")
    assert not base.keys() & docs.keys()
    for extra, lines in {
        "": project()["dependencies"],
        **project()["optional-dependencies"],
    }.items():
        pins = {**base, **docs} if extra == "docs" else base
        for requirement in map(Requirement, lines):
            assert requirement.specifier.contains(pins[requirement.name]), requirement


@pytest.mark.parametrize("file", ["requirements.txt", "docs.txt"])
def test_the_locks_have_hashes_but_no_index(file):
    text = (ROOT / "envs" / file).read_text()
    assert "://" not in text
    assert text.count("--hash=sha256:") > len(locked(file)) > 40


def test_github_tests_every_python_that_is_promised():
    """`make lint` checks the file against GitHub's own schema."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    job = workflow["jobs"]["test"]
    promised = [
        line.rpartition(" ")[2]
        for line in project()["classifiers"]
        if re.search(r"Python :: 3\.\d", line)
    ]
    assert job["strategy"]["matrix"]["python"] == promised
    assert project()["requires-python"] == f">={promised[0]}"
    assert {system.partition("-")[0] for system in job["strategy"]["matrix"]["os"]} == {
        "ubuntu",
        "macos",
    }
    assert {"make test", "make lint"} <= {step.get("run") for step in job["steps"]}
