"""The README: its Python runs, its command prints what it says, and what it names exists."""

import os
import re
from pathlib import Path

import pandas as pd
import pytest

from bjmd import cli

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))


def test_the_example_runs(monkeypatch):
    _, example = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)  # test_tl.py runs the other
    names = {}
    monkeypatch.chdir(ROOT)
    exec(example, names)
    model = names["model"]
    assert model.converged_
    assert (names["low"] < model.noise_).all() and (model.noise_ < names["high"]).all()
    # known samples keep their memberships
    assert abs(names["new"] - model.memberships_[2]).max() < 1e-4


def test_the_mixtures_are_found_as_the_readme_says(tmp_path, capsys, monkeypatch):
    if not Path(os.environ.get("BJMD_DATA", ""), "mixology").is_dir():
        pytest.skip("BJMD_DATA names no folder with the mixtures")
    block = re.search(r"```console\n(.*?)```", TEXT, re.DOTALL)[1]
    commands = re.findall(r"^\$ bjmd (.*)$", block, re.MULTILINE)
    monkeypatch.setenv("BJMD_DATA", str(Path(os.environ["BJMD_DATA"]).resolve()))
    monkeypatch.chdir(tmp_path)
    for command in commands:
        assert cli.main(command.split()) == 0
    printed = " ".join(capsys.readouterr().out.split())
    shown = [line for line in block.splitlines() if not line.startswith("$")]
    assert len(shown) == 5
    for line in shown:
        assert " ".join(line.split()) in printed


def test_every_file_that_comes_out_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    files = [f"config/example/lab-{name}.tsv" for name in "abc"]
    assert cli.main(["fit", *files, "-k", "5", "-o", str(tmp_path / "out"), "--no-figures"]) == 0
    section = TEXT.partition("## What comes out")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        for name in re.findall(r"`(.*?)`", row):
            assert list((tmp_path / "out").glob(name.replace("<source>", "*"))), name
    memberships = pd.read_csv(tmp_path / "out/memberships_lab-a.tsv", sep="\t", index_col=0)
    assert memberships.shape == (24, 5) and (memberships.sum(axis=1) - 1).abs().max() < 1e-3


def test_every_page_is_linked():
    """test_docs.py follows the links."""
    targets = set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT))
    assert {page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md")} <= targets


def test_every_make_target_and_subcommand_exists():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"^make ([a-z]+)", SHELL, re.MULTILINE) + re.findall(
        r"`make ([a-z]+)", TEXT
    ):
        assert target in targets
    used = set(re.findall(r"^bjmd ([a-z]+)", SHELL, re.MULTILINE))
    assert len(used) > 2
    for subcommand in used:
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.main([subcommand, "--help"])
