"""Sources are matched by their features and brought to one scale."""

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.assembly import (
    RawSource,
    align,
    divided,
    looks_like_counts,
    normalized,
    prepare,
    scales,
)
from bjmd.data.sources import Sources
from bjmd.errors import InputError

A = np.arange(6.0).reshape(3, 2)
B = 10 + np.arange(6.0).reshape(2, 3)


def test_the_union_has_missing_rows_where_a_source_lacks_a_feature():
    (a, b), alignment = align([A, B], [["x", "y", "z"], ["z", "q"]], ["a", "b"])
    assert alignment.feature_names == ["x", "y", "z", "q"]
    np.testing.assert_array_equal(a, np.vstack([A, [np.nan] * 2]))
    np.testing.assert_array_equal(b, np.vstack([[np.nan] * 3, [np.nan] * 3, B]))
    assert str(alignment) == (
        "1 of 4 features are in every source; the others are missing entries (a lacks 1, b lacks 2)"
    )


def test_the_intersection_has_what_every_source_has():
    (a, b), alignment = align([A, B], [["x", "y", "z"], ["z", "y"]], ["a", "b"], join="inner")
    assert alignment.feature_names == ["y", "z"]
    np.testing.assert_array_equal(a, A[[1, 2]])
    np.testing.assert_array_equal(b, B[[1, 0]])
    assert (
        str(alignment) == "2 of 3 features are in every source; the others are left out (b lacks 1)"
    )


def test_equal_features_in_another_order_are_sorted_and_equal_ones_are_not_copied():
    (a, b), alignment = align([A, A], [["x", "y", "z"], ["z", "x", "y"]], ["a", "b"])
    assert a is A
    np.testing.assert_array_equal(b, A[[1, 2, 0]])
    assert str(alignment) == "all 3 features are in every source"


def test_sparse_rows_are_sorted_and_stay_sparse():
    (_, b), _ = align(
        [A, scipy.sparse.csc_array(A)], [["x", "y", "z"], ["z", "x", "y"]], ["a", "b"]
    )
    assert scipy.sparse.issparse(b)
    np.testing.assert_array_equal(b.toarray(), A[[1, 2, 0]])


@pytest.mark.parametrize(
    ("matrices", "features", "message"),
    [
        (
            [A, B],
            [["x", "y", "z"], ["s1", "s2"]],
            "'a' has no feature in common with .* for example 'x', 'y', they have 's1', 's2'",
        ),
        ([A, B], [["x", "y", "x"], ["x", "y"]], "source 'a' has feature 'x' more than once"),
        ([A, B], [["x", "y"], ["x", "y"]], "source 'a' has 3 features but 2 feature names"),
        (
            [A, scipy.sparse.csc_array(B)],
            [["x", "y", "z"], ["x", "y"]],
            "source 'b' is sparse and lacks 1 of the features",
        ),
    ],
)
def test_what_cannot_be_aligned_is_refused_in_one_sentence(matrices, features, message):
    with pytest.raises(InputError, match=message):
        align(matrices, features, ["a", "b"])


def test_sources_may_overlap_pairwise_only():
    matrices = [A[:2], A[:2], A[:2]]
    features = [["x", "y"], ["y", "z"], ["z", "x"]]
    assert align(matrices, features, ["a", "b", "c"])[1].feature_names == ["x", "y", "z"]
    with pytest.raises(
        InputError, match="no feature is in every source, so join='inner' leaves none"
    ):
        align(matrices, features, ["a", "b", "c"], join="inner")


def test_scales_are_those_of_the_observed_entries():
    x = np.array([[1.0, np.nan], [3.0, 5.0]])
    sources = Sources([x, scipy.sparse.csc_array([[0.0, 4.0], [0.0, 2.0]])])
    np.testing.assert_allclose(scales(sources, "mean"), [3, 1.5], rtol=1e-15)
    np.testing.assert_allclose(scales(sources, "rms"), np.sqrt([35 / 3, 5]), rtol=1e-15)
    np.testing.assert_array_equal(scales(sources, "none"), [1, 1])
    halves = divided(sources, [2, 4])
    np.testing.assert_array_equal(halves.matrices[0], x / 2)
    np.testing.assert_array_equal(halves.matrices[1].toarray(), [[0, 1], [0, 0.5]])


def test_a_scale_that_is_not_positive_is_refused():
    with pytest.raises(
        InputError, match=r"source 'source 2' has mean -2.5, by which it cannot be divided"
    ):
        scales(Sources([B, np.array([[0.0], [-5.0]])]), "mean")


COUNTS = np.array([[1.0, 0, 30], [3, 0, 10]])


def test_counts_are_normalised_as_scanpy_does():
    expected = np.log1p(1e4 * np.array([[0.25, 0, 0.75], [0.75, 0, 0.25]]))
    np.testing.assert_allclose(normalized(RawSource(COUNTS, None)).matrix, expected, rtol=1e-15)
    sparse = normalized(RawSource(scipy.sparse.csr_array(COUNTS), None)).matrix
    assert scipy.sparse.issparse(sparse) and sparse.nnz == 4
    np.testing.assert_allclose(sparse.toarray(), expected, rtol=1e-15)
    single = normalized(RawSource(COUNTS.astype(np.float32), None)).matrix
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-6)
    missing = np.vstack([COUNTS, [np.nan] * 3])
    np.testing.assert_allclose(normalized(RawSource(missing, None)).matrix[:2], expected)
    with pytest.raises(InputError, match="source 'a' has negative entries"):
        normalized(RawSource(-COUNTS, None, name="a"))
    with pytest.raises(InputError, match="infinite"):
        prepare([RawSource(np.where(COUNTS == 30, np.inf, COUNTS), None, name="a")], normalize=True)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (COUNTS, "the entries of source 'a' are whole numbers"),
        (scipy.sparse.csc_array(COUNTS), "the entries of source 'a' are whole numbers"),
        (0.5 + 40 * COUNTS, "the totals of samples in source 'a' differ 1,601-fold"),
        (np.array([[0.5, 4.0], [0.5, np.nan]]), None),
        (-COUNTS, None),
        (np.log1p(1e4 * COUNTS), None),
    ],
)
def test_counts_are_recognised(matrix, sentence):
    hint = looks_like_counts([RawSource(matrix, None, name="a")])
    assert hint is None if sentence is None else hint.startswith(sentence)
