"""Which changes of the code a fingerprint notices; tests/workflow shows what then runs again."""

import sys

import pytest

from bjmd_paper import source

FILES = {
    "__init__.py": "",
    "method.py": '"""Prose."""\n\nfrom .parts import (\n    update,  # here\n)\nimport numpy\n',
    "parts.py": "from theirs import deep\n\n\ndef update():\n    return 1\n",
    "deep.py": "",
    "other.py": "",
}


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """The folder of somebody else's package with a method, and its fingerprint when asked for."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (tmp_path / "script.py").write_text("from bjmd_paper.frame import script\n")
    monkeypatch.syspath_prepend(tmp_path)

    def fingerprint():
        source._facts.cache_clear()
        source._path.cache_clear()
        return source.fingerprint(tmp_path / "script.py", "theirs.method")

    yield folder, fingerprint
    sys.modules.pop("theirs", None)


@pytest.mark.parametrize(
    ("file", "text", "notices"),
    [
        ("method.py", FILES["method.py"] + "CHANGED = 1\n", True),
        ("parts.py", FILES["parts.py"].replace("1", "2"), True),
        ("deep.py", "CHANGED = 1\n", True),
        ("other.py", "CHANGED = 1\n", False),
        ("method.py", FILES["method.py"].replace("Prose", "Verse") + "# and a comment\n", False),
        ("../script.py", "from bjmd_paper import tables\n", True),
    ],
)
def test_code_counts_if_it_is_imported(theirs, file, text, notices):
    folder, fingerprint = theirs
    before = fingerprint()
    (folder / file).write_text(text)
    assert (fingerprint() != before) == notices
    assert "theirs" not in sys.modules, "nothing is imported"
