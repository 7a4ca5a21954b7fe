import logging

import pytest

from bjmd.errors import FitError, InputError
from bjmd_paper import failures


@pytest.mark.parametrize("problem", [FitError, InputError])
def test_a_fit_that_fails_says_why_in_place_of_its_results(tmp_path, caplog, capsys, problem):
    outputs = [tmp_path / name for name in ("0-1.csv", "0-1.auc.csv")]
    with caplog.at_level(logging.ERROR), failures.noted("bnmf on small", outputs):
        raise problem("entries are negative;\nshift them")
    sentence = "bnmf on small: entries are negative; shift them"
    assert [failures.reason(path) for path in outputs] == [sentence] * 2
    assert sentence in caplog.text and sentence in capsys.readouterr().err
    good = tmp_path / "2-3.csv"
    good.write_text("fit,auc\n")
    scores = tmp_path / "scores/small.traces.csv"
    scores.parent.mkdir()
    scores.with_name("small.failures.txt").write_text("map on small: not finite\n")
    assert failures.succeeded([*outputs, good]) == [good]
    assert failures.sentences([*outputs, good, scores]) == [sentence, "map on small: not finite"]


@pytest.mark.parametrize("crash", [ValueError, MemoryError, OSError, KeyError])
def test_a_crash_is_still_an_error(tmp_path, crash):
    with pytest.raises(crash), failures.noted("bnmf on small", [tmp_path / "0-1.csv"]):
        raise crash
    assert not (tmp_path / "0-1.csv").exists()
