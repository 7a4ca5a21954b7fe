"""The Python of the README runs as it stands."""

import re
from pathlib import Path

from bjmd import cli

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names = {}
    exec(example, names)
    model = names["model"]
    assert model.converged_
    assert (names["low"] < model.noise_).all() and (model.noise_ < names["high"]).all()


def test_the_command_prints_what_it_shows(tmp_path, capsys, monkeypatch):
    command, shown = re.search(r"```console\n\$ (.*?)\n(.*?)```", README.read_text(), re.DOTALL).groups()
    monkeypatch.chdir(README.parent)
    assert command.endswith(" -o out")
    assert cli.main([*command.split()[1:-1], str(tmp_path / "out"), "--no-figures"]) in (None, 0)
    printed = " ".join(capsys.readouterr().out.split())
    for line in shown.splitlines()[:-1]:  # the last has the path
        assert " ".join(line.split()) in printed


def test_every_link_leads_to_a_file():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
