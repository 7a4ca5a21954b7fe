"""float32 data stay float32, and what is made of them is what float64 would give, to the digits
that they have.
"""

import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse

from bjmd.data import dense, preparation, products, view
from bjmd.data.alignment import align
from bjmd.data.sources import Sources
from bjmd.data.view import FAR, View, centre
from bjmd.inference import projection, registry
from bjmd.numerics import threads
from bjmd.results import storage
from bjmd_paper.nonnegative import nonnegative

EPS = np.finfo(np.float32).eps


@pytest.fixture(autouse=True)
def _small_data_are_multiplied_in_float32_too(monkeypatch):
    monkeypatch.setattr(view, "SINGLE_FROM", 0)


def draw(kind="dense", mean=0.0, n_features=90, n_samples=(200, 120), noise=(0.5, 1.0)):
    rng = np.random.default_rng(2)
    w = rng.laplace(size=(n_features, 3))
    out = []
    for n, sd in zip(n_samples, noise, strict=True):
        x = (
            mean
            + w @ rng.dirichlet(np.full(3, 0.3), n).T
            + sd * rng.standard_normal((n_features, n))
        )
        if kind == "missing":
            x[rng.random(x.shape) < 0.1] = np.nan
        out.append(scipy.sparse.csc_array(np.where(x > 1, x, 0)) if kind == "sparse" else x)
    return Sources([x.astype(np.float32) for x in out])


def doubled(sources):
    return sources.replace(matrices=[x.astype(float) for x in sources.matrices])


def test_float32_stays_as_it_is_and_other_numbers_become_float64(tmp_path, rng):
    x = rng.standard_normal((4, 5)).astype(np.float32)
    assert Sources([x]).matrices[0] is x
    sparse = scipy.sparse.csc_array(x)
    assert np.shares_memory(Sources([sparse]).matrices[0].data, sparse.data)
    assert Sources([x.astype(">f4")]).matrices[0].dtype == np.float32
    assert Sources([x.astype(np.float16)]).matrices[0].dtype == np.float64
    assert Sources([x.astype(int)]).matrices[0].dtype == np.float64
    storage.save_sources(tmp_path / "x", Sources([x, sparse]))
    assert [y.dtype for y in storage.load_sources(tmp_path / "x").matrices] == [np.float32] * 2


@pytest.mark.parametrize("kind", ["dense", "sparse", "missing"])
def test_norms_are_sums_of_float64(kind):
    sources = draw(kind)
    np.testing.assert_allclose(sources.squared_norms, doubled(sources).squared_norms, rtol=1e-13)
    assert sources.n_missing == doubled(sources).n_missing


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_preparation_and_alignment_keep_float32(kind):
    sources = draw(kind, mean=3.0)
    scales = preparation.scales(sources, "mean")
    np.testing.assert_allclose(scales, preparation.scales(doubled(sources), "mean"), rtol=1e-13)
    assert {x.dtype for x in preparation.divided(sources, scales).matrices} == {
        np.dtype(np.float32)
    }
    if kind == "dense":
        aligned, _ = align(
            [np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)],
            [["a", "b"], ["b"]],
            ["x", "y"],
        )
        assert {x.dtype for x in aligned} == {np.dtype(np.float32)}


@pytest.mark.parametrize("shape", [(30, 3000), (3000, 30)])
@pytest.mark.parametrize("inner", [16, 1024])
def test_products_have_the_error_of_the_terms_that_are_added_in_float32(
    shape, inner, rng, monkeypatch
):
    monkeypatch.setattr(dense, "INNER", inner)
    monkeypatch.setattr(threads, "PART_OF_WORK", 20_000)
    x = (5 + rng.standard_normal(shape)).astype(np.float32)
    wt = rng.standard_normal((4, shape[0]))
    h = rng.random((4, shape[1]))
    exact = x.astype(float)
    np.testing.assert_allclose(
        products.data_times_memberships(x, h), h @ exact.T, rtol=1e-12, atol=1e-10
    )
    np.testing.assert_allclose(
        products.components_times_data(wt, x), wt @ exact, rtol=1e-12, atol=1e-10
    )
    for near in (np.zeros((1, 1), np.float32), np.full((shape[0], 1), 5, np.float32)):
        moved = exact - near
        # a rounded factor, a rounded difference, and `inner` rounded sums
        share = (inner + 2) * EPS
        error = np.abs(products.data_times_memberships(x, h, near) - h @ moved.T)
        assert (error <= share * (h @ np.abs(moved).T)).all()
        error = np.abs(products.components_times_data(wt, x, near) - wt @ moved)
        assert (error <= share * (np.abs(wt) @ np.abs(moved))).all()


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e4])
@pytest.mark.parametrize("kind", ["dense", "missing"])
def test_a_view_sees_data_far_from_zero_as_well_as_data_near_it(kind, mean, rng):
    sources = draw(kind, mean)
    unit, origin = centre(doubled(sources))
    views = [
        View(x, n, unit, origin)
        for given in (sources, doubled(sources))
        for x, n in zip(given.matrices[:1], given.n_missing, strict=False)
    ]
    wt = rng.standard_normal((4, 90))
    h = rng.random((4, 200))
    far = max(1.0, np.abs(origin).max() / unit)
    if kind == "dense":  # else the origin itself is rounded where it stands for missing entries
        far = min(far, FAR)
    for name, factor in (("times_components", wt), ("times_memberships", h)):
        single, double = (getattr(view, name)(factor) for view in views)
        assert np.abs(single - double).max() <= 50 * far * EPS * np.sqrt(
            (factor**2).sum(axis=1).max()
        )


@pytest.mark.parametrize("method", ["map-bjmd", "cavi-bjmd"])
@pytest.mark.parametrize("priors", ["data", "paper"])
@pytest.mark.parametrize(
    ("kind", "mean"),
    [("dense", 0.0), ("dense", 10.0), ("dense", 1e3), ("sparse", 0.0), ("missing", 10.0)],
)
def test_fits_are_those_of_float64(method, priors, kind, mean):
    """After the same sweeps; left to themselves they may stop a sweep apart, within the tolerance
    of the objective.
    """
    sources = draw(kind, mean)
    run = partial(registry.fit, method, n_components=3, seed=1, priors=priors)
    single, double = (run(sources=given) for given in (sources, doubled(sources)))
    assert single.converged == double.converged
    assert single.objective == pytest.approx(
        double.objective, rel=1e-6, abs=2e-6 * sum(sources.n_observed)
    )
    single, double = (
        run(sources=given, tol=1e-15, max_sweeps=18) for given in (sources, doubled(sources))
    )
    w = double.components - (double.components.mean() if priors == "data" else 0.0)
    assert np.abs(single.components - double.components).max() < 1e-4 * np.sqrt(np.mean(w**2))
    for h, other in zip(single.memberships, double.memberships, strict=True):
        assert h.dtype == np.float64
        assert np.abs(h - other).max() < 1e-4
    np.testing.assert_allclose(single.noise, double.noise, rtol=1e-4)


def test_noise_far_below_the_signal_is_found():
    sources = draw(noise=(0.01, 0.02), n_samples=(300, 300))
    for method in ("map-bjmd", "cavi-bjmd"):
        single, double = (
            registry.fit(method, given, 3, seed=1) for given in (sources, doubled(sources))
        )
        np.testing.assert_allclose(single.noise, double.noise, rtol=1e-3)


def test_every_noise_model_takes_float32():
    sources = draw("missing", 3.0)
    options = {
        "noise": "feature+sample+robust",
        "offsets": True,
        "alpha0": "learned",
        "max_sweeps": 30,
    }
    single, double = (
        registry.fit("cavi-bjmd", given, 3, **options) for given in (sources, doubled(sources))
    )
    assert np.abs(single.components - double.components).max() < 1e-4 * double.components.std()


@pytest.mark.parametrize(
    "name", [name for name in registry.method_names() if not name.startswith("advi")]
)
def test_every_method_takes_float32(name):
    sources = draw(n_samples=(40, 30))
    sources = nonnegative(sources, "clip") if registry.get(name).nonnegative else sources
    single, double = (registry.fit(name, given, 3, seed=1) for given in (sources, doubled(sources)))
    assert single.objective == pytest.approx(
        double.objective, rel=1e-4, abs=1e-5 * sum(sources.n_observed)
    )


@pytest.mark.parametrize("method", ["map-bjmd", "cavi-bjmd"])
@pytest.mark.parametrize("kind", ["dense", "missing", "sparse"])
def test_new_samples_may_be_float32(method, kind):
    sources = draw(kind)
    result = registry.fit(method, doubled(sources), 3, seed=1)
    for x, y in zip(sources.matrices, doubled(sources).matrices, strict=True):
        single, double = (
            projection.project(result, given, source=0).memberships for given in (x, y)
        )
        assert np.abs(single - double).max() < 1e-4
    filled, _ = projection.impute(result, x, source=0)
    np.testing.assert_allclose(filled, projection.impute(result, y, source=0)[0], atol=1e-4)


@pytest.mark.parametrize("method", ["map-bjmd", "cavi-bjmd"])
@pytest.mark.parametrize("kind", ["wide", "tall", "sparse"])
def test_a_fit_needs_little_memory_above_its_data(kind, method, monkeypatch):
    """The factors are small here, so what is counted are copies of the data: one of sparse values
    would take half.
    """
    monkeypatch.setattr(threads, "PART_OF_WORK", 2**16)
    monkeypatch.setattr(dense, "BLOCK", 2**14)
    rng = np.random.default_rng(0)
    if kind == "sparse":
        x = scipy.sparse.random_array(
            (3000, 6000), density=0.3, format="csc", rng=rng, dtype=np.float32
        )
        size = x.data.nbytes + x.indices.nbytes
    else:
        x = rng.standard_normal((3000, 3500) if kind == "wide" else (3500, 3000), dtype=np.float32)
        size = x.nbytes
    registry.fit(method, Sources([x[:, :50]]), 2, max_sweeps=2)  # compiles
    tracemalloc.start()
    try:
        with threads.limited(1):
            registry.fit(method, Sources([x]), 2, max_sweeps=8)
        above = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert above < (0.2 if kind == "sparse" else 0.1) * size
