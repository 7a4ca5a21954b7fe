import numpy as np
import pandas as pd
import pytest

from bjmd_paper.datasets.real import mixology


@pytest.fixture
def folder(tmp_path):
    """Five samples of four genes; the columns of H2228 and HCC827 are swapped, as published."""
    counts = pd.DataFrame(
        [[9, 0, 5, 1, 3], [1, 10, 5, 1, 3], [0, 0, 0, 8, 4], [10, 10, 10, 10, 10]],
        index=["g1", "g2", "g3", "flat"],
        columns=["a", "b", "c", "d", "e"],
    )
    samples = pd.DataFrame(
        {
            "H2228_prop": [0.0, 0.16, 0.33, 1.0, 0.68],
            "H1975_prop": [1.0, 0.16, 0.33, 0.0, 0.16],
            "HCC827_prop": [0.0, 0.68, 0.33, 0.0, 0.16],
            "mRNA_amount": [30, 15, 7.5, 3.75, 30],
        },
        index=list("abcde"),
    )
    counts.to_csv(tmp_path / "RNAmix_celseq2.count.csv.gz")
    samples.iloc[::-1].to_csv(tmp_path / "RNAmix_celseq2.metadata.csv.gz")
    return tmp_path


def test_sources_by_amount_and_genes_that_vary(folder, monkeypatch):
    monkeypatch.setattr(mixology, "N_GENES", 3)
    sources = mixology.read(folder)
    assert sources.names == ["30 pg", "15 pg", "7.5 pg", "3.75 pg"]
    assert sources.sample_names == [["a", "e"], ["b"], ["c"], ["d"]]
    assert sources.feature_names == ["g1", "g2", "g3"]
    expected = np.log1p([[4500, 1500], [500, 1500], [0, 2000]])
    np.testing.assert_allclose(sources.matrices[0], expected)


def test_the_swap_is_undone_and_shares_sum_to_one(folder):
    true = mixology.shares(folder)
    assert list(true.columns) == ["H1975", "H2228", "HCC827"]
    assert list(true.index) == ["a", "e", "b", "c", "d"]
    np.testing.assert_allclose(true.loc["d"], [0, 0, 1])
    np.testing.assert_allclose(true.loc["b"], [0.16, 0.68, 0.16])
    np.testing.assert_allclose(true.loc["c"], 1 / 3)


def test_the_class_is_the_largest_share_and_equal_mixtures_have_none(folder):
    labels = np.hstack(mixology.read(folder).labels)
    np.testing.assert_array_equal(labels, [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 1]])
