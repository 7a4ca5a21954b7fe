"""float32 data give what float64 gives, and stay float32 in memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from bjmd.data import matrix
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.numerics import threads


def draw(kind, mean=0.0):
    rng = np.random.default_rng(2)
    w = rng.laplace(size=(30, 3))
    matrices = []
    for n, sd in ((60, 0.5), (40, 1.0)):
        x = mean + w @ rng.dirichlet(np.full(3, 0.3), n).T + sd * rng.standard_normal((30, n))
        if kind == "missing":
            x[rng.random(x.shape) < 0.3] = np.nan
        matrices.append(scipy.sparse.csc_array(np.where(x > 1, x, 0)) if kind == "sparse" else x)
    return Sources([x.astype(np.float32) for x in matrices])


def doubled(sources):
    return sources.replace(matrices=[x.astype(float) for x in sources.matrices])


@pytest.mark.parametrize("method", ["map-bjmd", "cavi-bjmd"])
@pytest.mark.parametrize(
    ("kind", "mean"), [("dense", 0.0), ("dense", 1e5), ("sparse", 0.0), ("missing", 1e5)]
)
def test_fits_are_those_of_float64(method, kind, mean):
    """Filled-in entries, too, have the digits of float64, which counts far from zero."""
    sources = draw(kind, mean)
    single, double = (
        registry.fit(method, given, 3, seed=1) for given in (sources, doubled(sources))
    )
    assert single.converged and single.reason == double.reason
    np.testing.assert_allclose(single.trace, double.trace, rtol=1e-9)
    assert np.abs(np.hstack(single.memberships) - np.hstack(double.memberships)).max() < 1e-6
    np.testing.assert_allclose(single.noise, double.noise, rtol=1e-6)


@pytest.mark.parametrize("kind", ["wide", "tall", "sparse"])
def test_a_fit_needs_little_memory_above_its_data(kind, monkeypatch):
    """The factors are small here, so what is counted are copies of the data."""
    monkeypatch.setattr(threads, "PART_OF_WORK", 2**16)
    monkeypatch.setattr(matrix, "BLOCK", 2**14)
    rng = np.random.default_rng(0)
    if kind == "sparse":
        x = scipy.sparse.random_array(
            (3000, 6000), density=0.3, format="csc", rng=rng, dtype=np.float32
        )
        size = x.data.nbytes + x.indices.nbytes
    else:
        x = rng.standard_normal((3000, 3500) if kind == "wide" else (3500, 3000), dtype=np.float32)
        size = x.nbytes
    for method in ("map-bjmd", "cavi-bjmd"):
        registry.fit(method, Sources([x[:, :50]]), 2, max_sweeps=2)  # compiles
        tracemalloc.start()
        try:
            with threads.limited(1):
                registry.fit(method, Sources([x]), 2, max_sweeps=3)
            above = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert above < (0.2 if kind == "sparse" else 0.1) * size
