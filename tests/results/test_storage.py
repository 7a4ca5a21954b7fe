import json
import zipfile

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.results import storage

METHODS = {
    "map-bjmd": {},
    "cavi-bjmd": {"noise": "feature+sample+robust", "offsets": True, "max_sweeps": 3},
    "jmd": {"max_sweeps": 3},
}
REFUSED = "is not a complete file of bjmd"


@pytest.fixture(scope="module")
def results():
    rng = np.random.default_rng(0)
    sources = Sources([rng.standard_normal((12, n)) for n in (9, 7)])
    return [
        registry.fit(method, sources, 3, seed=seed, alpha0=[1.1, 1.2, 1.3], **options)
        for seed, (method, options) in enumerate(METHODS.items())
    ]


@pytest.fixture
def saved(results, tmp_path):
    path = tmp_path / "deep" / "fits.npz"
    storage.save_decompositions(path, results)
    return path


def test_round_trip_of_results(results, saved):
    for ours, back in zip(results, storage.load_decompositions(saved), strict=True):
        arrays = storage.arrays_of(back)
        assert arrays.keys() == storage.arrays_of(ours).keys()
        for name, array in storage.arrays_of(ours).items():
            np.testing.assert_array_equal(arrays[name], array)
        for name in ("objective", "converged", "reason", "seconds", "method", "seed", "options"):
            assert getattr(ours, name) == getattr(back, name)
        assert type(ours.posterior) is type(back.posterior)


def test_metadata_can_be_read_with_unzip_and_arrays_with_numpy(results, saved, tmp_path):
    with zipfile.ZipFile(saved) as archive:
        metadata = json.loads(archive.read("metadata.json"))
    assert metadata["format_version"] == storage.FORMAT_VERSION
    assert metadata["runs"][1]["seed"] == 1
    assert set(metadata["versions"]) >= {"bjmd", "numpy", "python"}
    np.testing.assert_array_equal(np.load(saved)["0/components"], results[0].components)
    storage.save_decompositions(tmp_path / "again.npz", results)
    assert saved.read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_round_trip_of_sources_keeps_sparse_sparse(tmp_path, rng):
    sparse = scipy.sparse.random_array((6, 5), density=0.3, rng=rng, format="csr")
    labels = [np.eye(2, 5, dtype=bool), np.eye(2, 4, dtype=bool)]
    sources = Sources(
        [sparse, rng.random((6, 4))], names=["a", "b"], labels=labels, class_names=["x", "y"]
    )
    storage.save_sources(tmp_path / "data.npz", sources)
    back = storage.load_sources(tmp_path / "data.npz")
    assert scipy.sparse.issparse(back.matrices[0])
    np.testing.assert_array_equal(back.matrices[0].toarray(), sparse.toarray())
    np.testing.assert_array_equal(back.matrices[1], sources.matrices[1])
    np.testing.assert_array_equal(back.labels[1], labels[1])
    assert (back.names, back.class_names, back.sample_names) == (
        sources.names,
        ["x", "y"],
        sources.sample_names,
    )


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failed_write_leaves_everything_as_it_was(tmp_path, kind):
    path = tmp_path / "place"
    inside = path / "x.txt" if kind == "folder" else path

    def write(path, text):
        if kind == "folder":
            path.mkdir()
        (path / "x.txt" if kind == "folder" else path).write_text(text)

    for text in ("old", "new"):
        with storage.atomic_path(path) as temporary:
            write(temporary, text)
        assert inside.read_text() == text
    with pytest.raises(RuntimeError), storage.atomic_path(path) as temporary:
        write(temporary, "half")
        raise RuntimeError
    assert inside.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_never_replaces_a_folder(tmp_path):
    (tmp_path / "thesis").mkdir()
    with pytest.raises(OSError), storage.atomic_path(tmp_path / "thesis") as temporary:
        temporary.write_text("fit")
    assert (tmp_path / "thesis").is_dir()


def test_another_kind_of_file(tmp_path):
    (tmp_path / "cells.h5ad").write_bytes(b"HDF")
    with pytest.raises(InputError, match=rf"{REFUSED} \(it is not a .npz archive\)"):
        storage.load_sources(tmp_path / "cells.h5ad")


def test_objects_are_never_pickled(tmp_path, make_sources):
    result = registry.fit("map-bjmd", make_sources(), 2)
    result.history["bad"] = np.array([object()])
    with pytest.raises(ValueError, match="allow_pickle"):
        storage.save_decompositions(tmp_path / "x.npz", [result])
    assert not list(tmp_path.iterdir())


def test_other_versions_and_kinds_are_refused(saved, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="holds decompositions, not sources"):
        storage.load_sources(saved)
    with pytest.raises(InputError, match=r"nowhere.npz does not exist"):
        storage.load_sources(tmp_path / "nowhere.npz")
    np.savez(tmp_path / "foreign.npz", components=np.ones(3))
    with pytest.raises(InputError, match=f"foreign.npz {REFUSED}"):
        storage.load_decompositions(tmp_path / "foreign.npz")
    monkeypatch.setattr(storage, "FORMAT_VERSION", 99)
    with pytest.raises(InputError, match="has format version 2 but 99 is needed"):
        storage.load_decompositions(saved)


def test_a_file_that_was_cut_is_refused_in_one_sentence(saved, tmp_path, make_sources):
    """test_properties.py has other damage."""
    path = tmp_path / "data.npz"
    storage.save_sources(path, make_sources())
    for file, load in ((saved, storage.load_decompositions), (path, storage.load_sources)):
        whole = file.read_bytes()
        for size in np.linspace(0, len(whole) - 1, 50, dtype=int):
            file.write_bytes(whole[:size])
            with pytest.raises(InputError, match=rf"{file.name} {REFUSED} .*write it again$"):
                load(file)
