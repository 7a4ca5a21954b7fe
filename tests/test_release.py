"""A release: a source archive, the wheel built from it, and the command in a fresh environment."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pandas as pd
import pytest
import yaml

import bjmd

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command, **options):
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, env=ENVIRONMENT, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """The archive and the wheel, built from a copy of the files of the repository."""
    tree = tmp_path_factory.mktemp("tree")
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "MANIFEST.in",
    ):
        shutil.copy(ROOT / name, tree)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=ignored)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", tree)
    (archive,) = (tree / "dist").glob("*.tar.gz")
    (wheel,) = (tree / "dist").glob("*.whl")
    return archive, wheel


def test_archive_and_wheel_hold_the_package_and_nothing_else(released):
    archive, wheel = released
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for package in ("bjmd", "bjmd_paper")
        for path in (ROOT / "src" / package).rglob("*")
        if path.suffix in (".py", ".toml", ".html", ".typed", ".js", ".css")
    }
    with zipfile.ZipFile(wheel) as file:
        assert {name for name in file.namelist() if ".dist-info/" not in name} == ours
        (metadata,) = (name for name in file.namelist() if name.endswith("METADATA"))
        assert f"Version: {bjmd.__version__}" in file.read(metadata).decode().splitlines()
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {f"src/{name}" for name in ours} | {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
    } <= names
    assert not [name for name in names if name.startswith("tests")]


def test_the_wheel_fits_the_example_in_a_fresh_environment(released, tmp_path):
    """With the libraries of the tests, but without the editable bjmd among them."""
    venv.create(tmp_path / "fresh", with_pip=False)
    python = tmp_path / "fresh" / "bin" / "python"
    home = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (home / "libraries.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-index",
        released[1],
    )
    assert Path(run(python, "-c", "import bjmd; print(bjmd.__file__)").strip()).is_relative_to(home)
    labs = sorted((ROOT / "config" / "example").glob("lab-*.tsv"))
    quick = [
        "--method",
        "map-bjmd",
        "--restarts",
        1,
        "--no-figures",
    ]  # the method with the least to compile
    run(python.with_name("bjmd"), "fit", *labs, "-k", 5, *quick, "-o", "out", cwd=tmp_path)
    noise = pd.read_csv(tmp_path / "out" / "noise.tsv", sep="\t", index_col=0)["noise"]
    assert (noise - [1, 2.5, 1.5]).abs().max() < 0.1
    assert (tmp_path / "out" / "report.html").is_file()
    assert "3sources" in run(python.with_name("bjmd"), "datasets")


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == bjmd.__version__
    newest = re.search(
        r"^## (\S+), (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert newest.groups() == (bjmd.__version__, str(citation["date-released"]))
    assert citation["preferred-citation"]["doi"] in (ROOT / "README.md").read_text(encoding="utf-8")
