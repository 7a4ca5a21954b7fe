import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd.analysis import intervals, variance
from bjmd.analysis.check import check
from bjmd.data import streamed
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.results import storage

STREAMING = ["cavi-bjmd", "map-bjmd", "jmd"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of a few rows or columns, the last one incomplete, so that small data are cut too."""
    monkeypatch.setattr(streamed, "BLOCK_ENTRIES", 50)


@pytest.fixture
def mapped(tmp_path):
    """A matrix written to a file and mapped from there."""

    def write(x, dtype=np.float64, order="C", mode="r"):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
        np.save(path, np.asarray(x, dtype=dtype, order=order))
        return np.load(path, mmap_mode=mode)

    return write


def with_holes(sources, rng, share=0.2):
    return [np.where(rng.random(x.shape) < share, np.nan, x) for x in sources.matrices]


def assert_same(result, expected):
    """Equal to 1e-10 of each array's largest entry: blocks only change the order of sums.

    Offsets near zero are differences of larger numbers, so they are left out.
    """
    assert result.reason == expected.reason
    ours = storage.arrays_of(result)
    for name, array in storage.arrays_of(expected).items():
        if not name.startswith(("history", "model/offsets")):
            atol = 1e-10 * np.abs(array).max()
            np.testing.assert_allclose(ours[name], array, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("share", [0.0, 0.2], ids=["complete", "holes"])
@pytest.mark.parametrize("method", STREAMING)
def test_fits_are_those_of_the_data_in_memory(make_sources, mapped, rng, method, share):
    if share and not registry.get(method).missing:
        pytest.skip("takes no missing entries")
    sources = make_sources(n_features=15, n_samples=(30, 22))
    x1, x2 = (x.astype(np.float32) for x in with_holes(sources, rng, share))
    expected = registry.fit(method, Sources([x1, x2]), 3, seed=1, max_sweeps=5)
    for matrices in (
        [mapped(x1, np.float32), mapped(x2, np.float32, "F")],
        [x1, mapped(x2, np.float32)],
    ):
        streamed_sources = Sources(matrices)
        assert streamed_sources.n_missing == [int(np.isnan(x).sum()) for x in (x1, x2)]
        assert_same(registry.fit(method, streamed_sources, 3, seed=1, max_sweeps=5), expected)


LIMITED = """
import resource, sys
import numpy as np
from bjmd.inference import registry
from bjmd.data.sources import Sources

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key + ":"))

warm = Sources([np.random.default_rng(0).random((20, 30))])
for name in ("map-bjmd", "cavi-bjmd"):
    registry.fit(name, warm, 3, max_sweeps=2)
x = np.load(sys.argv[1], mmap_mode="r")
allowed = status("VmData") + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))
try:
    np.array(x)
except MemoryError:
    print("the data do not fit")
before = status("RssFile")
for name in ("map-bjmd", "cavi-bjmd"):
    assert np.isfinite(registry.fit(name, Sources([x]), 3, max_sweeps=2).objective)
print(status("RssFile") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits and accounts of memory are Linux's")
def test_a_fit_needs_less_memory_than_its_data(tmp_path):
    size = 160_000_000
    allowed = 110_000_000
    np.lib.format.open_memmap(
        tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(2000, 20_000)
    )[:] = 1
    source = Path(streamed.__file__).parents[1]
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "x.npy", str(allowed)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert run.returncode == 0, run.stderr
    refusal, pages = run.stdout.splitlines()
    assert refusal == "the data do not fit"
    assert int(pages) < size / 2, "pages that were read are kept in the process"


def test_what_a_private_map_changed_is_not_forgotten(mapped, rng):
    x = mapped(rng.random((13, 17)), np.float32, mode="c")
    x[:] = 1
    assert Sources([x]).squared_norms == [13 * 17]
    assert Sources([x]).squared_norms == [13 * 17]


@pytest.mark.parametrize("order", ["C", "F"])
def test_bad_entries_are_counted_and_placed(mapped, order):
    x = np.ones((13, 17))
    x[[7, 2, 11, 5], [3, 8, 0, 1]] = [np.nan, np.inf, np.nan, -np.inf]
    sentence = "'b' holds 2 infinite entries, the first at feature 'feature 3', sample 'b-sample 9'"
    with pytest.raises(InputError, match=sentence):
        Sources([np.ones((13, 2)), mapped(x, np.float32, order)], names=["a", "b"])


def test_what_is_asked_of_a_fit_leaves_missing_entries_out(make_sources, mapped, rng, monkeypatch):
    """And needs no dense copy for the variance explained."""
    x1, x2 = with_holes(make_sources(n_features=15, n_samples=(30, 22)), rng)
    x1[3] += 20  # so that there is something to find
    in_memory = Sources([x1, x2])
    result = registry.fit("cavi-bjmd", in_memory, 3, seed=1)
    wider = intervals.widened(in_memory, result)
    shares = variance.explained(in_memory, result)
    sizes = variance.residuals(in_memory, result)
    sources = Sources([scipy.sparse.csc_array(x1), mapped(x2)])
    assert_same(intervals.widened(sources, result), wider)
    with monkeypatch.context() as patch:
        patch.setattr(scipy.sparse.csc_array, "toarray", None)
        np.testing.assert_allclose(variance.explained(sources, result), shares, rtol=1e-10)
    pd.testing.assert_frame_equal(variance.residuals(sources, result), sizes, rtol=1e-9)


@pytest.mark.parametrize("mode", ["r+", "c"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_missing_entries_of_a_map_that_may_be_written_stay_missing(
    make_sources, mapped, rng, mode, order
):
    x = mapped(with_holes(make_sources(), rng)[0], order=order, mode=mode)
    before = np.array(x)
    sources = Sources([x])
    variance.residuals(sources, registry.fit("cavi-bjmd", sources, 3, max_sweeps=3, offsets=True))
    np.testing.assert_array_equal(np.array(x), before)


REFUSED = {
    **{
        f"'{name}'": lambda s, _, name=name: registry.fit(name, s, 2)
        for name in registry.method_names()
        if not registry.get(name).streams
    },
    "pooling sources": lambda s, _: registry.fit("cavi-catbjmd", Sources([*s.data, *s.data]), 2),
    "noise='robust'": lambda s, _: registry.fit("cavi-bjmd", s, 2, noise="robust"),
    "noise='sample'": lambda s, _: registry.fit("cavi-bjmd", s, 2, noise="sample"),
    "hiding entries": lambda s, _: check(s, registry.fit("cavi-bjmd", s, 2, max_sweeps=2)),
    "writing a data set": lambda s, path: storage.save_sources(path, s),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_the_matrix_says_so(make_sources, mapped, tmp_path, what):
    x = make_sources().matrices[0]
    sentence = f"{what} needs the data in memory, but source 'source 1' is on disk; load it first"
    with pytest.raises(InputError, match=sentence):
        REFUSED[what](Sources([mapped(x)]), tmp_path / "sources.npz")
    assert not (tmp_path / "sources.npz").exists()


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "large.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names = {}
    for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(example, names)
    assert [h.shape for h in names["result"].memberships] == [(3, 200)]


def test_an_open_array_in_chunks_is_neither_loaded_nor_read(tmp_path):
    file = pytest.importorskip("h5py").File(tmp_path / "x.h5", "w")
    stored = file.create_dataset("x", data=np.ones((6, 8)))
    sentence = "'source 1' is a h5py Dataset, which is not read piece by piece; load it with"
    with pytest.raises(InputError, match=sentence):
        Sources([stored])
