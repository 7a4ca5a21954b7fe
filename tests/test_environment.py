"""The two descriptions of the environment name the same versions, and the lock names no index."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def locked():
    """Package -> version on Python 3.11, from the hashed lock."""
    pins = {}
    for line in (ROOT / "envs/requirements.txt").read_text().splitlines():
        if re.match(r"^[a-z0-9]", line):
            requirement = Requirement(line.rstrip(" \\"))
            if requirement.marker is None or requirement.marker.evaluate({"python_full_version": "3.11.7"}):
                pins[requirement.name] = str(requirement.specifier).removeprefix("==")
    return pins


def test_conda_names_the_versions_of_the_lock():
    conda = yaml.safe_load((ROOT / "envs/environment.yaml").read_text())["dependencies"]
    pins = dict(entry.split("=") for entry in conda if "=" in entry and not entry.startswith("python="))
    pins["matplotlib"] = pins.pop("matplotlib-base")
    assert pins == {name: locked()[name] for name in pins}


def test_conda_has_all_that_the_package_and_the_workflow_ask_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {Requirement(line).name for line in [*project["dependencies"], *extras["advi"], *extras["workflow"]]}
    conda = (ROOT / "envs/environment.yaml").read_text()
    assert not [name for name in wanted if f"- {name}" not in conda]


def test_the_lock_satisfies_pyproject_and_has_hashes_but_no_index():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = locked()
    for line in [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]:
        requirement = Requirement(line)
        assert requirement.specifier.contains(pins[requirement.name]), line
    text = (ROOT / "envs/requirements.txt").read_text()
    assert "://" not in text
    assert text.count("--hash=sha256:") > len(pins)
