import numpy as np
import pytest
import scipy.sparse

from bjmd import cli
from bjmd_paper.datasets import fetch
from bjmd_paper.datasets.real import three_sources


@pytest.fixture
def folder(tmp_path):
    """Three small views with different terms; story 2 is in all of them, with two topics."""
    views = {
        "bbc": (["bank", "goal"], ["1", "2"], [(1, 1, 3), (2, 2, 1)]),
        "guardian": (["goal", "café"], ["2", "3"], [(1, 1, 5), (2, 2, 2)]),
        "reuters": (["bank"], ["2"], [(1, 1, 4)]),
    }
    for stem, (terms, stories, entries) in views.items():
        size = f"{len(terms)} {len(stories)} {len(entries)}"
        head = f"%%MatrixMarket matrix coordinate real general\n{size}\n"
        body = "".join(f"{i} {j} {value}.0000\n" for i, j, value in entries)
        (tmp_path / f"3sources_{stem}.mtx").write_text(head + body)
        (tmp_path / f"3sources_{stem}.terms").write_text("\n".join(terms) + "\n", encoding="utf-8")
        (tmp_path / f"3sources_{stem}.docs").write_text("\r\n".join(stories) + "\r\n")
    (tmp_path / "3sources.overlap.clist").write_text("business: 1,2\nsport: 2,3\n")
    return tmp_path


def test_union_of_terms_and_overlapping_topics(folder):
    sources = three_sources.read(folder)
    assert sources.names == ["BBC", "Guardian", "Reuters"]
    assert sources.feature_names == ["bank", "café", "goal"]
    assert all(scipy.sparse.issparse(x) for x in sources.matrices)
    for x, expected in zip(
        sources.matrices,
        [[[3, 0], [0, 0], [0, 1]], [[0, 0], [0, 2], [5, 0]], [[4], [0], [0]]],
        strict=True,
    ):
        np.testing.assert_array_equal(x.toarray(), expected)
    assert sources.sample_names == [["1", "2"], ["2", "3"], ["2"]]
    assert sources.class_names == ["business", "sport"]
    for labels, expected in zip(
        sources.labels, [[[1, 1], [0, 1]], [[1, 0], [1, 1]], [[1], [1]]], strict=True
    ):
        np.testing.assert_array_equal(labels, expected)


def test_the_command_suggests_to_normalise_the_counts(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(fetch, "files", lambda name, unverified: (folder, None))
    assert cli.main(["datasets", "3sources"]) == 0
    assert "bjmd fit 3sources.npz -k 6 -o out --normalize\n" in capsys.readouterr().out
