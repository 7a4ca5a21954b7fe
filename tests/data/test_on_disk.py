"""Matrices of AnnData files that stay on disk give what they give in memory, and damaged ones are
refused.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd import cli
from bjmd.analysis.variance import explained
from bjmd.data import on_disk, streamed
from bjmd.errors import InputError
from bjmd.files import outputs
from bjmd.files.readers import read_files, read_sources
from bjmd.inference import registry
from bjmd.numerics import threads

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")

N_FEATURES = 20
N_SAMPLES = 60


@pytest.fixture
def counts():
    """Samples x features, float32, half of it zero, with a sample that is all zero; and the batch
    of every sample.
    """
    rng = np.random.default_rng(3)
    rate = rng.dirichlet(np.ones(3), N_SAMPLES) @ rng.gamma(0.5, 2, (3, N_FEATURES))
    x = rng.poisson(rate).astype(np.float32)
    x[7] = 0
    return x, rng.choice(["north", "south", "west"], N_SAMPLES)


@pytest.fixture
def write(counts, tmp_path):
    """Writes an AnnData file of one of the formats, with the samples in the order given."""

    def write(kind="sparse", ending=".h5ad", order=None):
        x, batches = counts
        order = np.arange(N_SAMPLES) if order is None else order
        obs = pd.DataFrame({"batch": batches[order]}, [f"s{j}" for j in order])
        x = scipy.sparse.csr_matrix(x[order]) if kind == "sparse" else x[order]
        data = anndata.AnnData(
            x, obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(N_FEATURES)])
        )
        path = tmp_path / f"cells{ending}"
        with warnings.catch_warnings(action="ignore"):  # of zarr's next format
            (data.write_zarr if ending == ".zarr" else data.write_h5ad)(path)
        return path

    return write


def assert_same(ours, theirs, rtol=1e-10):
    for name in ("components", "noise", "trace"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=rtol)
    np.testing.assert_allclose(
        np.hstack(ours.memberships), np.hstack(theirs.memberships), rtol=rtol
    )


@pytest.mark.parametrize("order", ["interleaved", "by batch"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_sources_on_disk_are_those_in_memory(write, counts, monkeypatch, kind, order):
    path = write(kind, order=np.argsort(counts[1]) if order == "by batch" else None)
    for by in (None, "batch"):
        expected = read_sources(path, split_by=by)[0]
        monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 200)
        ours = read_sources(path, split_by=by, on_disk=True)[0]
        assert all(isinstance(x, on_disk.OnDisk) for x in ours.matrices)
        assert (ours.names, ours.sample_names) == (expected.names, expected.sample_names)
        np.testing.assert_allclose(ours.squared_norms, expected.squared_norms, rtol=1e-14)
        for x, theirs in zip(ours.data, expected.data, strict=True):
            np.testing.assert_array_equal(x.columns(slice(None)), theirs.columns(slice(None)))


@pytest.mark.parametrize("method", ["cavi-bjmd", "map-bjmd", "cavi-catbjmd"])
def test_fits_from_disk_are_those_in_memory(write, monkeypatch, method):
    path = write()
    # a flat prior would let memberships of MAP go to zeros whose digits mean nothing
    options = {"alpha0": 1.1, "max_sweeps": 12}
    expected = registry.fit(method, read_sources(path, split_by="batch")[0], 3, **options)
    monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 100)
    sources = read_sources(path, split_by="batch", on_disk=True)[0]
    result = registry.fit(method, sources, 3, **options)
    assert_same(result, expected)
    np.testing.assert_allclose(
        explained(sources, result),
        explained(read_sources(path, split_by="batch")[0], expected),
        rtol=1e-9,
    )


@pytest.mark.parametrize("method", ["cavi-bjmd", "map-bjmd", "cavi-catbjmd"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_missing_entries_on_disk_are_those_in_memory(write, counts, monkeypatch, kind, method):
    x, _ = counts
    x[(x > 0) & (np.random.default_rng(0).random(x.shape) < 0.2)] = np.nan
    path = write(kind)
    in_memory, _ = read_sources(path, split_by="batch")
    in_memory = in_memory.replace(matrices=[x.astype(float) for x in in_memory.matrices])
    monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 100)
    sources, _ = read_sources(path, split_by="batch", on_disk=True)
    assert sources.n_missing == in_memory.n_missing and sum(sources.n_missing) == np.isnan(x).sum()
    options = {"alpha0": 1.1, "max_sweeps": 12}
    expected = registry.fit(method, in_memory, 3, **options)
    assert_same(registry.fit(method, sources, 3, **options), expected, rtol=1e-9)


def test_entries_that_a_file_stores_in_parts_are_their_sums(write, counts):
    counts[0][counts[0] > 3] = np.nan
    path = write("sparse")
    expected, _ = read_sources(path, on_disk=True)
    expected = registry.fit("cavi-bjmd", expected, 3, max_sweeps=5)
    with h5py.File(path, "r+") as file:
        x = file["X"]
        parts = x["data"][:].repeat(2) / 2, x["indices"][:].repeat(2), 2 * x["indptr"][:]
        for name, part in zip(("data", "indices", "indptr"), parts, strict=True):
            del x[name]
            x[name] = part
    assert_same(
        registry.fit("cavi-bjmd", read_sources(path, on_disk=True)[0], 3, max_sweeps=5), expected
    )


def test_the_number_of_threads_does_not_change_a_bit(write, monkeypatch):
    monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 300)
    monkeypatch.setattr(threads, "PART_OF_WORK", 100)
    results = []
    for n_threads in (1, 3):
        with threads.limited(n_threads):
            results.append(
                registry.fit("cavi-bjmd", read_sources(write(), on_disk=True)[0], 3, max_sweeps=12)
            )
    np.testing.assert_array_equal(results[0].components, results[1].components)
    np.testing.assert_array_equal(results[0].trace, results[1].trace)


def test_a_zarr_store_is_like_a_file(write):
    pytest.importorskip("zarr")
    expected = read_sources(write())[0].matrices[0].toarray()
    for how in ({}, {"on_disk": True}):
        (x,) = read_sources(write(ending=".zarr"), **how)[0].matrices
        np.testing.assert_array_equal(x.columns(slice(None)) if how else x.toarray(), expected)


def test_features_in_another_order_are_matched(write, tmp_path):
    path = write()
    turned = anndata.read_h5ad(path)[:, ::-1].copy()
    turned.obs_names = "t" + turned.obs_names
    turned[:, 3:].copy().write_h5ad(tmp_path / "turned.h5ad")
    both = [path, tmp_path / "turned.h5ad"]
    ours, expected = (read_sources(both, join="inner", on_disk=stay)[0] for stay in (True, False))
    for x, theirs in zip(ours.matrices, expected.matrices, strict=True):
        np.testing.assert_array_equal(x.columns(slice(None)), theirs.toarray())
    with pytest.raises(
        InputError, match="'turned' is on disk and lacks 3 of the features, which it cannot mark"
    ):
        read_sources(both, on_disk=True)


def test_a_number_that_changed_changes_the_hash(write):
    def hashed(path):
        return [
            outputs.hash_of_source(table)
            for table in read_files(path, split_by="batch", on_disk=True)
        ]

    for kind, name, place in (("sparse", "X/data", 5), ("dense", "X", (5, 5))):
        before = hashed(write(kind))
        assert hashed(write(kind)) == before
        path = write(kind)
        change(path, name, place, 77)
        assert sum(ours != theirs for ours, theirs in zip(hashed(path), before, strict=True)) == 1


@pytest.mark.parametrize(
    ("kind", "ending"), [("sparse", ".h5ad"), ("dense", ".h5ad"), ("sparse", ".zarr")]
)
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
def test_the_command_leaves_a_file_on_disk(
    write, counts, capsys, monkeypatch, tmp_path, kind, ending, missing
):
    if missing:
        counts[0][np.nonzero(counts[0] > 2)] = np.nan
    path = write(kind, ending)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(on_disk.OnDisk, "__array__", None)  # nothing may load it
    how = f"{path} --split-by batch -k 3 --restarts 1 --scale mean --no-figures"
    assert cli.main(f"fit {how} -o disk --on-disk".split()) == 0
    assert cli.main(f"fit {how} -o memory".split()) == 0
    ours, theirs = (outputs.load(Path(folder)) for folder in ("disk", "memory"))
    # float32 in memory is float32 again once it is divided, so it is rounded by 6e-8, and from disk
    # it is not
    assert_same(ours.results[0], theirs.results[0], rtol=1e-4)
    assert ours.settings.reading["on_disk"]
    pd.testing.assert_frame_equal(ours.answers["residuals"], theirs.answers["residuals"], rtol=1e-3)
    back = anndata.read_h5ad("disk/cells.h5ad")  # with the fit, and without the matrix
    assert back.obsm["X_bjmd"].shape == (N_SAMPLES, 3) and back.X is None
    assert anndata.read_h5ad("memory/cells.h5ad").shape == back.shape == (N_SAMPLES, N_FEATURES)
    assert cli.main(["verify", "disk"]) == 0
    assert "identical" in capsys.readouterr().out


def change(path, name, place, value):
    with h5py.File(path, "r+") as file:
        file[name][place] = value


def without_an_end(path):
    with h5py.File(path, "r+") as file:
        starts = file["X/indptr"][:-2]
        del file["X/indptr"]
        file["X/indptr"] = starts


def by_features(path):
    data = anndata.read_h5ad(path)
    data.X = data.X.tocsc()
    data.write_h5ad(path)


DAMAGES = {
    "index": (lambda p: change(p, "X/indices", 5, N_FEATURES), "an index lies outside it"),
    "negative index": (lambda p: change(p, "X/indices", 5, -1), "an index lies outside it"),
    "short pointers": (without_an_end, "its row pointers do not fit its .* entries"),
    "falling pointers": (
        lambda p: change(p, "X/indptr", 5, 9999),
        "its row pointers do not fit its .* entries",
    ),
    "infinity": (
        lambda p: change(p, "X/data", 5, np.inf),
        "holds 1 infinite entry, at feature 'g.*', sample 's0'",
    ),
    "stored by features": (by_features, r"stored by features \(csc_matrix\), so .*tocsr"),
    "rubbish": (lambda p: p.write_text("rubbish"), "cells.h5ad is not a file of anndata"),
    "cut off": (
        lambda p: p.write_bytes(p.read_bytes()[:-2000]),
        "cells.h5ad is not a file of anndata|cannot be read",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damaged_files_are_refused_in_one_sentence(write, damage, message):
    path = write()
    damage(path)
    with pytest.raises(InputError, match=message) as refusal:
        read_sources(path, on_disk=True)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "select cells.h5ad --on-disk -o out",
            "holding out entries needs its data in memory .*without --on-disk",
        ),
        (
            "fit cells.h5ad --on-disk -k 2 -o out --noise sample",
            "noise='sample' needs its data in memory",
        ),
        ("fit cells.tsv --on-disk -k 2 -o out", "cells.tsv cannot stay on disk; only .h5ad"),
    ],
)
def test_what_needs_the_data_says_so(write, capsys, monkeypatch, tmp_path, line, message):
    monkeypatch.chdir(write().parent)
    pd.DataFrame(np.ones((3, 4))).to_csv("cells.tsv", sep="\t")
    assert cli.main(line.split()) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
