"""The Python of the README runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names = {}
    exec(example, names)
    assert names["best"].converged
    assert (names["low"] < names["best"].noise).all() and (names["best"].noise < names["high"]).all()


def test_every_link_leads_to_a_file():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
