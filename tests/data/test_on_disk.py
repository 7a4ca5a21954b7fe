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
from bjmd.data import streamed
from bjmd.errors import InputError
from bjmd.files import outputs
from bjmd.files.readers import read_files, read_sources
from bjmd.results import storage

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


@pytest.mark.parametrize("order", ["interleaved", "by batch"])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_sources_on_disk_are_those_in_memory(write, counts, monkeypatch, kind, order):
    path = write(kind, order=np.argsort(counts[1]) if order == "by batch" else None)
    for by in (None, "batch"):
        expected = read_sources(path, split_by=by)[0]
        monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 200)
        ours = read_sources(path, split_by=by, on_disk=True)[0]
        assert all(isinstance(x, streamed.OnDisk) for x in ours.matrices)
        assert (ours.names, ours.sample_names) == (expected.names, expected.sample_names)
        np.testing.assert_allclose(ours.squared_norms, expected.squared_norms, rtol=1e-14)
        for x, theirs in zip(ours.data, expected.data, strict=True):
            np.testing.assert_array_equal(x.columns(slice(None)), theirs.columns(slice(None)))


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
    monkeypatch.setattr(streamed.OnDisk, "__array__", None)  # nothing may load it
    how = f"{path} --split-by batch -k 3 --restarts 1 --scale mean --no-figures"
    assert cli.main(f"fit {how} -o disk --on-disk".split()) == 0
    assert cli.main(f"fit {how} -o memory".split()) == 0
    ours, theirs = (outputs.load(Path(folder)) for folder in ("disk", "memory"))
    found, expected = (storage.arrays_of(fit.results[0]) for fit in (ours, theirs))
    for name in ("components", "noise", "memberships/0", "memberships/1", "memberships/2"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-6)
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "select cells.h5ad --on-disk -o out",
            "holding out entries needs the data in memory, .*without --on-disk",
        ),
        ("fit cells.tsv --on-disk -k 2 -o out", "cells.tsv cannot be read with on_disk=True; only"),
    ],
)
def test_what_needs_the_data_says_so(write, capsys, monkeypatch, tmp_path, line, message):
    monkeypatch.chdir(write().parent)
    pd.DataFrame(np.ones((3, 4))).to_csv("cells.tsv", sep="\t")
    assert cli.main(line.split()) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
