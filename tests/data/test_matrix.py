"""Every kind of matrix gives the answers that NumPy gives for the whole array."""

import numpy as np
import pytest
import scipy.sparse

from bjmd.data import matrix, streamed
from bjmd.data.matrix import Dense, Sparse, as_matrix, from_arrays, side_by_side
from bjmd.data.streamed import OnDisk
from bjmd.errors import InputError
from bjmd.numerics import threads

SHAPE = (13, 17)


def mapped(x, folder, order="C"):
    path = folder / f"{len(list(folder.iterdir()))}.npy"
    np.save(path, np.asarray(x, order=order))
    return np.load(path, mmap_mode="r")


def on_disk(x, folder, sparse):
    """A matrix in a file of AnnData, between other samples and other features."""
    h5py = pytest.importorskip("h5py")
    all_rows = np.full((2 * x.shape[1], x.shape[0] + 1), 3.0, dtype=x.dtype)
    all_rows[::2, 1:] = x.T
    file = h5py.File(folder / f"{len(list(folder.iterdir()))}.h5", "w")
    stored = file.create_group("X")
    if sparse:
        rows = scipy.sparse.csr_array(all_rows)
        stored.attrs.update({"encoding-type": "csr_matrix", "shape": rows.shape})
        for name in ("data", "indices", "indptr"):
            stored[name] = getattr(rows, name)
    else:
        stored = file.create_dataset("dense", data=all_rows)
    return OnDisk(stored, "file")[1:, ::2]


KINDS = {
    "dense": lambda x, _: x,
    "dense by columns": lambda x, _: Dense(np.asfortranarray(x)),
    "sparse": lambda x, _: scipy.sparse.csr_array(x),
    "mapped": mapped,
    "mapped by columns": lambda x, folder: mapped(x, folder, "F"),
    "part of a mapped array": lambda x, folder: mapped(np.tile(x, (2, 2)), folder)[:13, 17:],
    "on disk": lambda x, folder: on_disk(x, folder, sparse=False),
    "sparse on disk": lambda x, folder: on_disk(x, folder, sparse=True),
    "dense and sparse": lambda x, _: side_by_side([as_matrix(x[:, :4]), sparse_matrix(x[:, 4:])]),
}


def sparse_matrix(x):
    return Sparse(scipy.sparse.csc_array(x))


@pytest.fixture(params=KINDS)
def kind(request, tmp_path, monkeypatch):
    """Makes one kind of matrix; small data are cut into blocks and parts too."""
    monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 50)
    monkeypatch.setattr(matrix, "BLOCK", 40)
    monkeypatch.setattr(threads, "PART_OF_WORK", 100)
    return lambda x: as_matrix(KINDS[request.param](x, tmp_path))


@pytest.fixture(params=["complete", "gaps"])
def array(request, rng):
    x = np.where(rng.random(SHAPE) < 0.4, 0.0, 10 * rng.standard_normal(SHAPE))
    if request.param == "gaps":
        x[rng.random(SHAPE) < 0.2] = np.nan
    return x


def assert_close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12 * np.nanmax(np.abs(expected)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_and_products_are_those_of_the_array(kind, array, rng, dtype):
    x = kind(array.astype(dtype))
    array = array.astype(dtype).astype(float)
    known = np.nan_to_num(array)
    missing = np.isnan(array)
    base = rng.standard_normal(SHAPE[0])
    phi = rng.random(SHAPE[0])
    q = rng.random(SHAPE[1])
    assert x.shape == SHAPE and x.n_missing == missing.sum()
    assert x.extent == (np.nanmin(array), np.nanmax(array), False)
    assert kind(np.round(array)).extent.is_whole
    assert_close(x.squared_norm, (known**2).sum())
    assert_close(x.sums_of_rows(), known.sum(axis=1))
    np.testing.assert_array_equal(x.counts_of_rows, (~missing).sum(axis=1))
    np.testing.assert_array_equal(x.counts_of_columns, (~missing).sum(axis=0))
    squares = np.nan_to_num((array - base[:, None]) ** 2)
    for ours, expected in zip(x.squares(base, phi, q), (squares @ q, phi @ squares), strict=True):
        assert_close(ours, expected)
    h = rng.random((3, SHAPE[1]))
    wt = rng.standard_normal((3, SHAPE[0]))
    fillable = x.fillable()
    for filled in (known, np.where(missing, 1e4 + 1 / 3, known)):
        if missing.any():  # with digits that float32 does not have
            fillable.fill(filled[x.places])
        assert_close(fillable.times_memberships(h), h @ filled.T)
        assert_close(fillable.times_components(wt), wt @ filled)
    np.testing.assert_array_equal(x.columns(slice(None)), array)  # the data stay as they are


def test_parts_are_those_of_the_array(kind, array):
    x = kind(array)
    for part in (slice(None), slice(3, 11), slice(10, 30)):
        np.testing.assert_array_equal(x.columns(part), array[:, part])
    np.testing.assert_array_equal((x / 4.0).columns(slice(None)), array / 4)
    assert_close((x / 4.0).squared_norm, np.nansum(array**2) / 16)
    np.testing.assert_array_equal(x.where(np.isnan).toarray(), np.isnan(array))
    np.testing.assert_array_equal(x.where(lambda v: v > 1).toarray(), array > 1)
    if x.n_missing:
        assert x.missing.sum() == np.isnan(array).sum()


@pytest.mark.parametrize("made", [Dense, sparse_matrix])
def test_what_is_in_memory_can_be_hidden_and_stored(made, array):
    x = made(array)
    hidden = array > 1
    visible = x.without(scipy.sparse.csc_array(hidden))
    np.testing.assert_array_equal(visible.columns(slice(None)), np.where(hidden, np.nan, array))
    back = as_matrix(from_arrays(x.arrays(), x.shape))
    assert type(back) is type(x)
    np.testing.assert_array_equal(back.columns(slice(None)), array)


@pytest.mark.parametrize("dtype", [">f4", np.int16])
def test_files_may_hold_numbers_of_any_real_type(tmp_path, rng, dtype):
    array = (10 * rng.standard_normal(SHAPE)).astype(dtype)
    h = rng.random((3, SHAPE[1]))
    x = as_matrix(mapped(array, tmp_path))
    np.testing.assert_array_equal(x.columns(slice(None)), array.astype(float))
    assert_close(x.times_memberships(h), h @ array.astype(float).T)


def test_no_number_is_copied_without_need(rng):
    x = rng.standard_normal((4, 5)).astype(np.float32)
    sparse = scipy.sparse.csc_array(x)
    assert as_matrix(x).array is x
    assert as_matrix(x).fillable().array is x
    assert np.shares_memory(as_matrix(sparse).array.data, sparse.data)
    for dtype, kept in ((">f4", np.float32), (np.float16, np.float64), (int, np.float64)):
        assert as_matrix(x.astype(dtype)).dtype == kept


def stored_in_halves(folder, halves):
    file = pytest.importorskip("h5py").File(folder / "halves.h5", "w")
    file.attrs.update({"encoding-type": "csr_matrix", "shape": halves.T.shape})
    for name in ("data", "indices", "indptr"):
        file[name] = getattr(halves, name)
    return OnDisk(file, "file")


def in_halves(x):
    """A CSC matrix that stores two halves of every entry."""
    x = scipy.sparse.csc_array(x)
    halves = x.data.repeat(2) / 2, x.indices.repeat(2), 2 * x.indptr
    return scipy.sparse.csc_array(halves, shape=x.shape)


def test_an_entry_that_is_stored_in_parts_is_their_sum(array, tmp_path):
    halves = in_halves(array)
    given = halves.data.copy()
    expected = as_matrix(scipy.sparse.csc_array(array))
    on_disk = stored_in_halves(tmp_path, halves)
    for stored in (halves, halves.tocsr(), halves.tobsr(), halves.tocoo(), on_disk):
        x = as_matrix(stored)
        assert x.n_missing == expected.n_missing
        np.testing.assert_allclose(x.squared_norm, expected.squared_norm, rtol=1e-14)
        product = x.fillable().times_components(np.eye(13))
        np.testing.assert_array_equal(product, np.nan_to_num(array))
    np.testing.assert_array_equal(halves.data, given)


def test_no_stream_is_loaded_by_accident(tmp_path, array):
    for load in (np.asarray, lambda x: np.maximum(x, 0)):
        with pytest.raises(InputError, match="was to be loaded as a whole"):
            load(as_matrix(mapped(array, tmp_path)))
