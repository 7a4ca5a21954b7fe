"""What a script of the workflow says when it cannot go on."""

import errno
import fcntl
import logging
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bjmd.errors import FitError, InputError
from bjmd_paper import frame

PROBLEMS = {
    "a full disk": (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x.npz"),
        "x.npz cannot be used (No space left on ",
    ),
    "a full pipe": (
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        "a file cannot be used (No space left on device",
    ),
    "too little memory": (
        MemoryError(),
        "the data and what is computed from them do not fit into memory",
    ),
    "a mistake": (InputError("no such file"), "no such file"),
    "a breakdown": (FitError("not finite"), "not finite"),
}


@pytest.mark.parametrize(("problem", "sentence"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_problem_ends_a_script_with_one_sentence(problem, sentence, tmp_path, monkeypatch):
    monkeypatch.setattr(logging, "FileHandler", lambda *_, **__: logging.NullHandler())
    job = SimpleNamespace(log=[tmp_path / "log"], rule="fit")
    with pytest.raises(SystemExit) as end, frame.script(job):
        raise problem
    assert str(end.value.code).startswith(f"fit: {sentence}")


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ('{"url": "file:///me/bjmd", "dir_info": {}}', "--editable /me/bjmd[advi,workflow]"),
        ('{"url": "file:///me/bjmd.whl", "archive_info": {}}', "bjmd[advi]==1"),
        (None, "bjmd[advi]==1"),
    ],
    ids=["from a folder", "from a file", "from PyPI"],
)
def test_conda_installs_what_runs_snakemake(origin, source, tmp_path, monkeypatch):
    installed = SimpleNamespace(read_text=lambda name: origin)
    monkeypatch.setattr(frame, "distribution", lambda name: installed)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bjmd.yaml").write_text("- pip:\n    - bjmd[advi]==1\n")
    path = frame.conda_environment(tmp_path / "bjmd.yaml", "bjmd[advi]==1")
    assert Path(path).is_absolute() and Path(path).read_text() == f"- pip:\n    - {source}\n"


def test_where_there_are_no_locks_that_is_said(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    frame.hold_lock(tmp_path / "folder/lock")
    frame._HELD.pop().close()
    assert "cannot be locked" in caplog.text
