"""The README: its Python runs, its command prints what it says, and what it names exists."""

import re
from pathlib import Path

import pandas as pd
import pytest

from bjmd import cli

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))


def test_the_example_runs(monkeypatch):
    example, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)  # test_tl.py runs the other
    names = {}
    monkeypatch.chdir(ROOT)
    exec(example, names)
    model = names["model"]
    assert model.converged_
    assert (names["low"] < model.noise_).all() and (model.noise_ < names["high"]).all()
    # known samples keep their memberships
    assert abs(names["new"] - model.memberships_[2]).max() < 1e-4


def test_the_command_prints_and_writes_what_the_readme_says(tmp_path, capsys, monkeypatch):
    command, shown = re.search(r"```console\n\$ (.*?)\n(.*?)```", TEXT, re.DOTALL).groups()
    monkeypatch.chdir(ROOT)
    assert command.endswith(" -o out")
    assert cli.main([*command.split()[1:-1], str(tmp_path / "out"), "--no-figures"]) in (None, 0)
    printed = " ".join(capsys.readouterr().out.split())
    for line in shown.splitlines()[:-1]:  # the last has the path
        assert " ".join(line.split()) in printed
    section = TEXT.partition("## What comes out")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        for name in re.findall(r"`(.*?)`", row):
            assert list((tmp_path / "out").glob(name.replace("<source>", "*"))), name
    memberships = pd.read_csv(tmp_path / "out/memberships_lab-a.tsv", sep="\t", index_col=0)
    assert memberships.shape == (24, 5) and (memberships.sum(axis=1) - 1).abs().max() < 1e-3


def test_every_link_leads_to_a_file_and_every_page_is_linked():
    targets = set(re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT))
    for target in targets:
        assert (ROOT / target).exists(), target
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
