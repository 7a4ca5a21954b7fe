import dataclasses
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.results import storage


@pytest.fixture
def saved(make_sources, tmp_path):
    methods = ("map-bjmd", "cavi-bjmd", "jmd")
    results = [
        registry.fit(m, make_sources(), 3, seed=s, alpha0=[1.1, 1.2, 1.3])
        for s, m in enumerate(methods)
    ]
    path = tmp_path / "deep" / "fits.npz"
    storage.save_decompositions(path, results)
    return path, results


def test_round_trip_of_results(saved):
    path, results = saved
    for ours, back in zip(results, storage.load_decompositions(path), strict=True):
        np.testing.assert_array_equal(ours.components, back.components)
        np.testing.assert_array_equal(ours.trace, back.trace)
        np.testing.assert_array_equal(ours.noise, back.noise)
        for h, h_back in zip(ours.memberships, back.memberships, strict=True):
            np.testing.assert_array_equal(h, h_back)
        for name in ("objective", "converged", "reason", "seconds", "method", "seed", "options"):
            assert getattr(ours, name) == getattr(back, name)
        assert (ours.posterior is None) == (back.posterior is None)
        if ours.posterior is not None:
            pairs = [
                (ours.posterior.components, back.posterior.components),
                (ours.posterior.noise, back.posterior.noise),
            ]
            pairs += zip(ours.posterior.memberships, back.posterior.memberships, strict=True)
            for factor, factor_back in pairs:
                assert type(factor) is type(factor_back)
                for name, array in factor.arrays().items() if factor is not None else ():
                    np.testing.assert_array_equal(array, getattr(factor_back, name))


def test_metadata_can_be_read_with_unzip_and_arrays_with_numpy(saved):
    path, results = saved
    with zipfile.ZipFile(path) as archive:
        metadata = json.loads(archive.read("metadata.json"))
    assert metadata["format_version"] == storage.FORMAT_VERSION
    assert metadata["runs"][1]["seed"] == 1
    assert set(metadata["versions"]) >= {"bjmd", "numpy", "python"}
    np.testing.assert_array_equal(np.load(path)["0/components"], results[0].components)


def test_equal_results_are_equal_files(saved, tmp_path):
    path, results = saved
    storage.save_decompositions(tmp_path / "again.npz", results)
    assert path.read_bytes() == (tmp_path / "again.npz").read_bytes()


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


def test_a_failed_write_leaves_nothing(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), storage.atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_objects_are_never_pickled(tmp_path, make_sources):
    result = registry.fit("map-bjmd", make_sources(), 2)
    result.history["bad"] = np.array([object()])
    with pytest.raises(ValueError, match="allow_pickle"):
        storage.save_decompositions(tmp_path / "x.npz", [result])
    assert not list(tmp_path.iterdir())


def damaged_files(path, tmp_path):
    whole = path.read_bytes()
    yield "truncated", whole[: len(whole) // 2]
    yield "flipped", whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:]
    yield "text", b"not a zip at all"
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, components=np.ones(3))
    yield "foreign", foreign.read_bytes()


def test_damaged_and_foreign_files_are_refused(saved, tmp_path):
    path, _ = saved
    for name, content in damaged_files(path, tmp_path):
        bad = tmp_path / f"{name}.npz"
        bad.write_bytes(content)
        with pytest.raises(
            InputError,
            match=f"{name}.npz is not complete, or was not written by bjmd; write it again",
        ):
            storage.load_decompositions(bad)


def test_other_versions_and_kinds_are_refused(saved, tmp_path, monkeypatch):
    path, _ = saved
    with pytest.raises(InputError, match="holds decompositions, not sources"):
        storage.load_sources(path)
    with pytest.raises(InputError, match="does not exist"):
        storage.load_sources(tmp_path / "nowhere.npz")
    monkeypatch.setattr(storage, "FORMAT_VERSION", 99)
    with pytest.raises(InputError, match="has format version 2 but 99 is needed"):
        storage.load_decompositions(path)


def test_damaged_files_are_refused_in_one_sentence(tmp_path, make_sources):
    """Cut off, flipped, or with bytes put in: whatever is not read as it was written is refused,
    and never crashes.
    """
    result = registry.fit("cavi-bjmd", make_sources(), 3)
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    storage.save_sources(tmp_path / "data.npz", make_sources())
    rng = np.random.default_rng(0)
    outcomes = set()
    for name, load in (
        ("fit.npz", storage.load_decompositions),
        ("data.npz", storage.load_sources),
    ):
        whole = (tmp_path / name).read_bytes()
        for _ in range(150):
            damaged = bytearray(whole)
            place = rng.integers(len(whole))
            kind = rng.integers(3)
            if kind == 0:
                damaged = damaged[:place]
            elif kind == 1:
                damaged[place] ^= 1 << rng.integers(8)
            else:
                damaged[place:place] = rng.bytes(3)
            (tmp_path / name).write_bytes(damaged)
            try:
                load(tmp_path / name)
                outcomes.add("read")
            except InputError as error:
                assert "\n" not in str(error) and name in str(error)
                outcomes.add("refused")
    assert outcomes == {"read", "refused"}  # flips in the zip's own dates change nothing


def test_indices_outside_a_stored_sparse_source_are_refused(tmp_path):
    sources = Sources(
        [scipy.sparse.random_array((5, 4), density=0.6, rng=np.random.default_rng(0), format="csc")]
    )
    sources.matrices[0].indices[0] = 1_000_000
    storage.save_sources(tmp_path / "data.npz", sources)
    with pytest.raises(InputError, match="damaged sparse matrix"):
        storage.load_sources(tmp_path / "data.npz")


def test_results_that_are_not_numbers_are_refused(tmp_path, make_sources):
    result = registry.fit("map-bjmd", make_sources(), 3)
    result.memberships[0][0, 0] = np.nan
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    with pytest.raises(InputError, match="is not complete, or was not written by bjmd"):
        storage.load_decompositions(tmp_path / "fit.npz")


def test_a_posterior_of_the_noise_of_other_sources_is_refused(tmp_path, make_sources):
    result = registry.fit("cavi-bjmd", make_sources(), 3, max_sweeps=2)
    noise = dataclasses.replace(result.posterior.noise, rate=np.ones(4))
    result.posterior = dataclasses.replace(result.posterior, noise=noise)
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    with pytest.raises(InputError, match="is not complete, or was not written by bjmd"):
        storage.load_decompositions(tmp_path / "fit.npz")


def test_precisions_of_samples_that_were_stored_side_by_side_can_be_read(make_sources):
    """As version 0.2.0 stored them."""
    result = registry.fit("cavi-bjmd", make_sources(), 3, noise="sample", max_sweeps=2)
    arrays, (run,) = storage.packed([result])
    name = "0/model/sample_precision"
    old = {key: array for key, array in arrays.items() if not key.startswith(name)}
    old[name] = np.concatenate(result.model.sample_precision)
    for read in (arrays, old):
        again = storage.unpacked(read, 0, run).model.sample_precision
        for ours, theirs in zip(again, result.model.sample_precision, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "name", ["alpha0", "noise_prior", "offsets", "sample_precision", "degrees_of_freedom"]
)
def test_arrays_that_do_not_fit_the_model_are_refused(tmp_path, make_sources, name):
    result = registry.fit(
        "cavi-bjmd", make_sources(), 3, noise="sample+robust", offsets=True, max_sweeps=2
    )
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    assert storage.load_decompositions(tmp_path / "fit.npz")
    value = getattr(result.model, name)
    doubled = value[::-1] + value if isinstance(value, list) else np.hstack([value, value])
    result.model = dataclasses.replace(result.model, **{name: doubled})
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    with pytest.raises(InputError, match="is not complete, or was not written by bjmd"):
        storage.load_decompositions(tmp_path / "fit.npz")
