"""The number of threads changes no bit of a fit, and parts depend on the size of the work alone."""

import threading
import time

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry, restarts
from bjmd.numerics import threads


@pytest.mark.parametrize("length", [1, 5, 64, 65, 1000])
@pytest.mark.parametrize("step", [1, 64])
def test_parts_cover_everything_once_and_end_at_multiples(length, step):
    for work in (0, 1, 3, 40):
        ranges = threads.parts(length, work * threads.PART_OF_WORK, step)
        assert 1 <= len(ranges) <= max(1, min(work, threads.MOST_PARTS))
        assert [first for first, _ in ranges] == [0] + [last for _, last in ranges[:-1]]
        assert ranges[-1][1] == length
        assert all(first < last and first % step == 0 for first, last in ranges)


def test_results_come_in_order_from_several_threads():
    seen = set()

    def part(first, last):
        time.sleep(0.02 if first == 0 else 0.0)
        seen.add(threading.get_ident())
        return first, last

    ranges = [(i, i + 1) for i in range(8)]
    with threads.limited(3):
        assert threads.each(part, ranges) == ranges
    assert 2 <= len(seen) <= 3
    with threads.limited(1):
        seen.clear()
        threads.each(part, ranges)
    assert seen == {threading.get_ident()}


def test_an_error_in_another_thread_reaches_the_caller():
    def part(first, last):
        time.sleep(0.01)
        if threading.current_thread() is not threading.main_thread():
            raise InputError("no")

    with threads.limited(2), pytest.raises(InputError, match="no"):
        threads.each(part, [(i, i + 1) for i in range(4)])


def test_the_time_of_other_threads_counts():
    def part(first, last):
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass

    with threads.limited(2):
        for _ in range(2):
            started = threads.seconds()
            threads.each(part, [(i, i + 1) for i in range(4)])
            assert 0.07 <= threads.seconds() - started < 0.12


def test_the_variable_sets_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("BJMD_THREADS", "7")
    assert threads.available() == 7
    monkeypatch.setenv("BJMD_THREADS", "")
    assert threads.available() >= 1


def test_restarts_come_first_and_fits_share_what_is_left():
    def given():
        return threads._mine.n_threads

    assert restarts.in_threads([given] * 2, 5, lambda *_: None) == [2, 2]
    assert restarts.in_threads([given] * 9, 5, lambda *_: None) == [1] * 9


def wide_and_tall(kind, tmp_path):
    rng = np.random.default_rng(3)
    w = rng.laplace(size=(150, 3))
    sources = []
    for n in (400, 130):
        x = w @ rng.dirichlet(np.full(3, 0.3), n).T + rng.standard_normal((150, n))
        if kind == "sparse":
            x = scipy.sparse.csc_array(np.where(x > 1, x, 0))
        elif kind == "missing":
            x[rng.random(x.shape) < 0.1] = np.nan
        elif kind.startswith("mapped"):
            np.save(
                tmp_path / f"{n}.npy",
                np.asarray(x, dtype=np.float32, order="F" if kind == "mapped" else "C"),
            )
            x = np.load(tmp_path / f"{n}.npy", mmap_mode="r")
        sources.append(x.astype(np.float32) if kind == "float32" else x)
    return Sources(sources)


ALL_NOISE = {"noise": "feature+sample+robust", "offsets": True, "alpha0": "learned"}
KINDS = ("dense", "sparse", "missing", "mapped", "mapped by rows", "float32")
RUNS = [(kind, method, {}) for kind in KINDS for method in ("map-bjmd", "cavi-bjmd")]
RUNS += [("dense", "cavi-bjmd", ALL_NOISE), ("missing", "cavi-bjmd", ALL_NOISE)]


@pytest.mark.parametrize(("kind", "method", "options"), RUNS)
def test_the_number_of_threads_changes_no_bit(kind, method, options, tmp_path, monkeypatch):
    monkeypatch.setattr(threads, "PART_OF_WORK", 500)  # so that small data has many parts
    sources = wide_and_tall(kind, tmp_path)
    fits = []
    for n_threads in (1, 2, 3):
        with threads.limited(n_threads):
            fits.append(registry.fit(method, sources, 3, seed=1, max_sweeps=12, **options))
    for other in fits[1:]:
        for a, b in zip(
            *((r.trace, r.components, *r.memberships) for r in (fits[0], other)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
