"""AnnData and MuData files are checked before anything in them is followed or believed."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd import tl
from bjmd.errors import InputError
from bjmd.files.readers import read_sources

anndata = pytest.importorskip("anndata")
h5py = pytest.importorskip("h5py")
pytest.importorskip("zarr")

N_SAMPLES = 6
N_FEATURES = 7
WAYS = {
    "in memory": {},
    "split": {"split_by": "batch"},
    "on disk": {"on_disk": True},
    "split on disk": {"split_by": "batch", "on_disk": True},
}


def example(sparse=True):
    rng = np.random.default_rng(0)
    x = 1 + rng.poisson(1.0, (N_SAMPLES, N_FEATURES)).astype(float)
    return anndata.AnnData(
        scipy.sparse.csr_matrix(x) if sparse else x,
        obs=pd.DataFrame({"batch": list("xyxyxy")}, [f"s{j}" for j in range(N_SAMPLES)]),
        var=pd.DataFrame(index=[f"g{i}" for i in range(N_FEATURES)]),
    )


def number(name, place, value):
    """Puts a number into an array."""

    def damage(file):
        file[name][place] = value

    return damage


def replaced(name, content):
    """Puts another array in the place of one; a function changes the old one."""

    def damage(file):
        old = file[name]
        new = content(old[:]) if callable(content) else content
        attributes = dict(old.attrs)
        del file[name]
        file[name] = new
        file[name].attrs.update(attributes)

    return damage


def attribute(name, key, value):
    def damage(file):
        file[name].attrs[key] = value

    return damage


def elsewhere(file):
    """X is in another file, which is there."""
    with h5py.File(f"{file.filename}.other", "w") as other:
        other["X"] = np.ones((N_SAMPLES, N_FEATURES))
    del file["X"]
    file["X"] = h5py.ExternalLink(f"{file.filename}.other", "X")


def external(file):
    del file["X"]
    size = 8 * N_SAMPLES * N_FEATURES
    shape = (N_SAMPLES, N_FEATURES)
    file.create_dataset("X", shape, "f8", external=[("/dev/zero", 0, size)])


def virtual(file):
    """X is put together from another file, which is lost."""
    del file["X"]
    layout = h5py.VirtualLayout((N_SAMPLES, N_FEATURES), "f8")
    layout[:] = h5py.VirtualSource("lost.h5", "X", (N_SAMPLES, N_FEATURES))
    file.create_virtual_dataset("X", layout, fillvalue=0)


def link_to_itself(file):
    del file["X"]
    file["X"] = h5py.SoftLink("/X")


def group(file):
    del file["X"]
    file.create_group("X")


def promised(name):
    """An array of names that is far larger than its file."""

    def damage(file):
        attributes = dict(file[name].attrs)
        del file[name]
        options = {"chunks": (10**6,), "compression": "gzip"}
        file.create_dataset(name, (3 * 10**8,), h5py.string_dtype(), **options)
        file[name].attrs.update(attributes)

    return damage


DAMAGES = {
    "an index": (number("X/indices", 5, N_FEATURES), "an index|indices"),
    "a negative index": (number("X/indices", 5, -1), "an index|indices must be >= 0"),
    "a pointer far back": (number("X/indptr", 2, -(2**30)), "pointer|indptr"),
    "a pointer far out": (number("X/indptr", 2, 2**30), "pointer|indptr"),
    "a pointer not from 0": (number("X/indptr", 0, 1), "pointer|indptr"),
    "pointers cut off": (replaced("X/indptr", lambda old: old[:-2]), "pointer|indptr"),
    "pointers in two dimensions": (replaced("X/indptr", lambda old: old[None]), "pointer|1|rank"),
    "fewer indices than entries": (replaced("X/indices", lambda old: old[:-1]), "pointer|indi"),
    "an encoding that is an array": (attribute("X", "encoding-type", [1, 2]), "is not a file"),
    "an encoding that is unknown": (attribute("X", "encoding-type", "csr"), "is not a file"),
    "a shape that is text": (attribute("X", "shape", "large"), "is not a file"),
    "a link elsewhere": (elsewhere, "X lies in another file"),
    "numbers elsewhere": (external, "the numbers of /X lie in another file"),
    "numbers that are lost": (virtual, "the numbers of /X lie in another file"),
    "a link to itself": (link_to_itself, "is not a file"),
    "a group": (group, "is not a file"),
    "names that are promised": (promised("var/_index"), "_index should have 2400000000 bytes"),
    "names of too few features": (
        replaced("var/_index", lambda old: old[:-1]),
        "names of 6 samples and 6 features|must have as many rows",
    ),
    "names of too many features": (
        replaced("var/_index", lambda old: [*old, b"more"]),
        "names of 6 samples and 8 features|must have as many rows",
    ),
    "obs without names": (lambda file: file["obs"].pop("_index"), "is not a file"),
    "no obs": (lambda file: file.pop("obs"), "is not a file|no column"),
    "infinity": (number("X/data", 5, np.inf), "holds 1 infinite entry, at feature 'g5', sample"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, damage, way):
    path = tmp_path / "cells.h5ad"
    example().write_h5ad(path)
    change, message = DAMAGES[damage]
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(InputError, match=message) as refusal:
        read_sources(path, **WAYS[way])
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 500


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("content", [b"", b"rubbish", None], ids=["empty", "rubbish", "cut off"])
def test_what_is_no_hdf5_file_is_refused(tmp_path, content, way):
    path = tmp_path / "cells.h5ad"
    example().write_h5ad(path)
    path.write_bytes(path.read_bytes()[:-2000] if content is None else content)
    with pytest.raises(InputError, match=r"cells.h5ad is not a file"):
        read_sources(path, **WAYS[way])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_store_that_lost_or_garbled_a_chunk_is_refused(tmp_path, sparse, way):
    path = tmp_path / "cells.zarr"
    with warnings.catch_warnings(action="ignore"):  # of zarr's next format
        example(sparse).write_zarr(path)
    chunk = path / ("X/data/0" if sparse else "X/0.0")
    assert read_sources(path, **WAYS[way])[0].squared_norms
    whole = bytearray(chunk.read_bytes())
    chunk.unlink()
    with pytest.raises(InputError, match="lacks 1 of its 1 chunks: they are lost, or have only"):
        read_sources(path, **WAYS[way])
    chunk.write_bytes(bytes(len(whole)))
    with pytest.raises(InputError, match=r"cells.zarr is not a (store|file)"):
        read_sources(path, **WAYS[way])


def test_a_file_that_is_stored_by_features_cannot_stay_on_disk(tmp_path):
    data = example()
    data.X = data.X.tocsc()
    data.write_h5ad(tmp_path / "cells.h5ad")
    assert read_sources(tmp_path / "cells.h5ad")[0].n_samples == [N_SAMPLES]
    with pytest.raises(InputError, match=r"stored by features \(csc_matrix\), so .*tocsr"):
        read_sources(tmp_path / "cells.h5ad", on_disk=True)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_file_without_modalities_is_refused(h5mu, on_disk):
    path, _ = h5mu
    with h5py.File(path, "r+") as file:
        del file["mod"]
    with pytest.raises(InputError, match=r"study.h5mu is not a file of mudata"):
        read_sources(path, on_disk=on_disk)


@pytest.mark.parametrize("value", [2**30, -(2**30)])
def test_an_object_with_a_damaged_matrix_is_refused(value):
    data = example()
    data.X.indptr[2] = value
    with pytest.raises(InputError, match="adata is a damaged sparse matrix"):
        tl.bjmd(data, 2, source_key="batch")
