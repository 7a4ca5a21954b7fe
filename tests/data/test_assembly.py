"""Sources are matched by their features and brought to one scale."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd.data.assembly import (
    RawSource,
    assemble,
    classes,
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
NAN = np.nan


def assembled(*matrices_and_features, **options):
    raw_sources = [
        RawSource(x, list(features), name=name)
        for (x, features), name in zip(matrices_and_features, "abc", strict=False)
    ]
    return assemble(raw_sources, **options)


@pytest.mark.parametrize(
    ("second", "join", "features", "expected", "sentence"),
    [
        (
            (B, "zq"),
            "outer",
            "xyzq",
            [np.vstack([A, [NAN] * 2]), np.vstack([[NAN] * 3, [NAN] * 3, B])],
            "1 of 4 features are in every source; the others are missing where a source lacks them "
            "(a lacks 1, b lacks 2).",
        ),
        (
            (B, "zy"),
            "inner",
            "yz",
            [A[[1, 2]], B[[1, 0]]],
            "2 of 3 features are in every source; the others are left out (b lacks 1).",
        ),
        ((A, "zxy"), "outer", "xyz", [A, A[[1, 2, 0]]], "All 3 features are in every source."),
    ],
)
def test_features_are_matched_by_name(second, join, features, expected, sentence):
    sources, alignment = assembled((A, "xyz"), second, join=join)
    assert sources.feature_names == list(features)
    for x, matrix in zip(sources.matrices, expected, strict=True):
        np.testing.assert_array_equal(x, matrix)
    assert alignment == sentence


def test_no_row_is_copied_without_need_and_what_is_sparse_or_float32_stays_so():
    single = A.astype(np.float32)
    sources, _ = assembled((A, "xyz"), (scipy.sparse.csc_array(A), "zxy"), (single[:2], "xy"))
    assert sources.matrices[0] is A
    np.testing.assert_array_equal(sources.matrices[1].toarray(), A[[1, 2, 0]])
    assert sources.matrices[2].dtype == np.float32
    scaled = divided(sources, [2.0, 2.0, 2.0]).matrices
    assert scipy.sparse.issparse(scaled[1]) and scaled[2].dtype == np.float32


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            "xyz",
            (B, ["s1", "s2"]),
            "'a' has no feature in common .* 'x', 'y', they have 's1', 's2'",
        ),
        ("xyx", (B, "xy"), "source 'a' has the feature name 'x' 2 times; make its names unique"),
        (["x", "", "z"], (B, "xz"), "source 'a' lacks the names of 1 of its 3 features"),
        ("xyz", (scipy.sparse.csc_array(B), "xy"), "'b' is sparse and lacks 1 of the features"),
    ],
)
def test_what_cannot_be_aligned_is_refused_in_one_sentence(first, second, message):
    with pytest.raises(InputError, match=message):
        assembled((A, first), second)


def test_sources_may_overlap_pairwise_only():
    given = [(A[:2], "xy"), (A[:2], "yz"), (A[:2], "zx")]
    assert assembled(*given)[0].feature_names == ["x", "y", "z"]
    with pytest.raises(InputError, match="no feature is in every source, so join='inner' leaves"):
        assembled(*given, join="inner")


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
        (np.log1p(COUNTS * [100, 1, 0.01]), None),
    ],
)
def test_counts_are_recognised(matrix, sentence):
    hint = looks_like_counts([RawSource(matrix, None, name="a")])
    assert hint is None if sentence is None else hint.startswith(sentence)


def test_classes_are_in_the_order_of_a_categorical_column():
    column = pd.Categorical(["10", "2", None, "2"], categories=["1", "2", "10"])
    names, labels = classes(pd.Series(column))
    assert names == ["2", "10"]
    np.testing.assert_array_equal(labels, [[0, 1, 0, 1], [1, 0, 0, 0]])
    assert classes(pd.Series([10, 2, 2]))[0] == ["2", "10"]


def test_a_column_of_numbers_is_no_column_of_classes():
    with pytest.raises(InputError, match=r"101 different labels, such as '0\.0', '0\.5'; labels"):
        classes(pd.Series(np.arange(101) / 2))
    many = RawSource(A, list("abc"), name="a", labels=np.ones((101, 2)))
    many.class_names = [*map(str, range(101))]
    with pytest.raises(InputError, match="101 different labels"):
        assemble([many])
