"""The unit and the origin of the data change nothing but the unit and the origin of the result."""

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.data.view import View, centre
from bjmd.inference import map as map_bjmd
from bjmd.inference import noise, registry
from bjmd.model import Priors

METHODS = ["cavi-bjmd", "map-bjmd"]
OPTIONS = {
    "cavi-bjmd": [
        {},
        {"noise": "feature+sample"},
        {"noise": "robust"},
        {"noise": "feature", "alpha0": "by-source", "offsets": False},
    ],
    "map-bjmd": [{}, {"alpha0": 1.5, "lambda_": "learned", "offsets": False}],
}
SAME = {"feature_precision", "sample_precision", "degrees_of_freedom", "alpha0"}
IN_UNIT = {"offsets", "component_scales"}
CASES = [(method, options) for method in METHODS for options in OPTIONS[method]]


def fit(method, matrices, options, n_components=3):
    """Enough sweeps to be far from the start, and few enough that rounding has not grown."""
    return registry.fit(
        method, Sources(matrices), n_components, tol=1e-12, max_sweeps=25, **options
    )


@pytest.fixture
def matrices(make_sources):
    return make_sources(n_features=20, n_samples=(30, 25), noise=(0.3, 0.8)).matrices


def numbers(result, factor=1.0, shift=0.0):
    """Those of a fit, by name, in another unit and from another origin."""
    known = {
        "memberships": np.hstack(result.memberships),
        "components": (result.components - shift) / factor,
        "noise": result.noise / factor,
    }
    if result.posterior is not None:
        known["sd of components"] = result.posterior.components.sd / factor
        known["sd of noise"] = result.posterior.noise.sd / factor
    for name, value in vars(result.model).items():
        if value is not None and name in SAME | IN_UNIT:
            known[name] = np.hstack(value) / (factor if name in IN_UNIT else 1.0)
    return known


def assert_equal_but_for(changed, plain, factor=1.0, shift=0.0):
    assert len(changed.trace) == len(plain.trace)
    ours = numbers(changed, factor, shift)
    for name, expected in numbers(plain).items():
        rtol = 1e-6 if name in ("memberships", "components", "noise") else 1e-4
        atol = 1e-6 * np.abs(expected).max()
        np.testing.assert_allclose(ours[name], expected, rtol, atol, err_msg=name)


@pytest.mark.parametrize(("method", "options"), CASES)
@pytest.mark.parametrize("factor", [1e-100, 1e-7, 3.0, 1e9, 1e100])
def test_another_unit(matrices, method, options, factor):
    plain = fit(method, matrices, options)
    scaled = fit(method, [factor * x for x in matrices], options)
    assert_equal_but_for(scaled, plain, factor)
    n = sum(x.size for x in matrices)
    np.testing.assert_allclose(
        scaled.trace - n * np.log(factor), plain.trace, rtol=1e-9, atol=1e-9 * n * 230
    )


@pytest.mark.parametrize("share_missing", [0.0, 0.3])
@pytest.mark.parametrize(("method", "options"), CASES)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_another_origin(matrices, method, options, size, share_missing):
    rng = np.random.default_rng(2)
    matrices = [np.where(rng.random(x.shape) < share_missing, np.nan, x) for x in matrices]
    shift = size * rng.standard_normal((20, 1))
    plain = fit(method, matrices, options)
    moved = fit(method, [x + shift for x in matrices], options)
    assert_equal_but_for(moved, plain, shift=shift)


@pytest.mark.parametrize("method", METHODS)
def test_given_numbers_are_in_the_unit_of_the_data(matrices, method):
    """lambda_ and b0 in ten times the unit are ten and a hundred times as large."""
    plain = fit(method, matrices, {"lambda_": 0.7, "b0": 0.2})
    scaled = fit(method, [10 * x for x in matrices], {"lambda_": 7.0, "b0": 20.0})
    assert_equal_but_for(scaled, plain, 10.0)
    np.testing.assert_allclose(scaled.model.noise_prior, [Priors.a0, 20.0])
    other = fit(method, matrices, {"lambda_": 0.05, "b0": 0.2})
    assert np.abs(other.components - plain.components).max() > 1e-3


def test_the_unit_and_the_origin_by_hand(matrices):
    """A source counts by the inverse of its variance, the pooled variance standing in for the
    degrees of freedom of its own means; the unit is the root mean square around the origin.
    """
    rng = np.random.default_rng(3)
    holed = [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in matrices]
    few = [matrices[0][:1, :2], matrices[1][:1, :1]]
    for given in (matrices, holed, few):
        n_features = len(given[0])
        squares = [np.nansum((x - np.nanmean(x, axis=1, keepdims=True)) ** 2) for x in given]
        sizes = [np.isfinite(x).sum() for x in given]
        pooled = sum(squares) / (sum(sizes) - 2 * n_features)
        weights = [n / (s + n_features * pooled) for s, n in zip(squares, sizes, strict=True)]
        top = sum(w * np.nansum(x, axis=1) for w, x in zip(weights, given, strict=True))
        origin = top / sum(
            w * (~np.isnan(x)).sum(axis=1) for w, x in zip(weights, given, strict=True)
        )
        unit = np.sqrt(np.nanmean((np.hstack(given) - origin[:, None]) ** 2))
        found = centre(Sources(given))
        np.testing.assert_allclose(found[0], unit, rtol=1e-12)
        np.testing.assert_allclose(found[1], origin, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("method", ["map-bjmd", "cavi-bjmd"])
def test_samples_that_are_all_the_same_have_no_unit_of_rounding(method):
    """The mean of three equal numbers is off by a rounding error, which is not what the data vary
    by.
    """
    column = np.random.default_rng(3).standard_normal((11, 1))
    x = np.repeat(column, 3, axis=1)
    x[[0, 2, 5], [0, 1, 0]] = np.nan
    size = np.sqrt(np.nanmean(x**2))
    np.testing.assert_allclose(centre(Sources([x]))[0], 1e-6 * size)
    result = registry.fit(method, Sources([x]), 3, a0=78.0)
    assert (np.diff(result.trace) <= 1e-9 * np.abs(result.trace).max()).all()
    np.testing.assert_allclose(
        result.components @ result.memberships[0], np.repeat(column, 3, axis=1), atol=0.05
    )


def test_a_source_that_is_its_own_origin_has_a_residual(rng):
    """A source without any spread is the origin of all.  It has no norm, and a fit to it is all
    cancellation.
    """
    h = np.array([[0.7], [0.3]])
    left = 1e-10 * np.arange(6)
    view = View(np.full((6, 1), 7.0), 2.0, np.full(6, 7.0))
    for _ in range(20):  # in half of them rounding is below zero
        # times h it is zero but for rounding
        w = rng.standard_normal((6, 1)) * np.array([1.0, -7 / 3])
        w[:, 0] += left / 0.7
        rss = view.residual_sum_of_squares(w.T.copy(), h, 0.0, w.T @ w, view.times_components(w.T))
        np.testing.assert_allclose(rss, left @ left, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_small_residual_keeps_its_digits(rng, unit):
    """Of a fit to 1e-7 of the data, which the difference of its parts does not see."""
    w = unit * rng.standard_normal((30, 3))
    h = rng.dirichlet(np.ones(3), 20).T
    x = w @ h + 1e-7 * unit * rng.standard_normal((30, 20))
    view = View(x)
    rss = view.residual_sum_of_squares(
        w.T.copy(), h, (x**2).sum(), w.T @ w, view.times_components(w.T.copy())
    )
    np.testing.assert_allclose(rss, ((x - w @ h) ** 2).sum(), rtol=1e-6)


def test_outliers_do_not_move_the_robust_unit_and_origin(matrices):
    unit, origin = centre(Sources(matrices), robust=True)
    wild = [x.copy() for x in matrices]
    wild[0][3, 4] = wild[1][7, 7] = 1e9
    unit_wild, origin_wild = centre(Sources(wild), robust=True)
    np.testing.assert_allclose(unit_wild, unit, rtol=0.02)
    np.testing.assert_allclose(origin_wild, origin, atol=0.2 * unit)


@pytest.mark.parametrize(("unit", "far"), [(2.5, 1.0), (2.0, 0.0), (1.0, 0.0)])
@pytest.mark.parametrize(
    "kind",
    [f"{kind}{gaps}" for kind in ("dense", "sparse", "mapped") for gaps in ("", " with gaps")],
)
def test_a_view_is_the_matrix_that_it_stands_for(tmp_path, kind, unit, far):
    """Every sum and product of z = (x - origin) / unit - shift, by NumPy on the matrix itself."""
    rng = np.random.default_rng(4)
    x = np.where(rng.random((9, 7)) < 0.5, 0.0, rng.standard_normal((9, 7)))
    origin = far * rng.standard_normal(9)
    shift = rng.standard_normal(9)
    if kind.endswith("gaps"):
        x[rng.random(x.shape) < 0.3] = np.nan
    if kind.startswith("mapped"):
        np.save(tmp_path / "x.npy", x)
    made = {"sparse": scipy.sparse.csc_array, "mapped": lambda _: np.load(tmp_path / "x.npy", "r")}
    view = View(made.get(kind.split()[0], np.asarray)(x), unit, origin)
    phi = rng.random(9)
    u = rng.random(7)
    h = rng.random((3, 7))
    wt = rng.standard_normal((3, 9))
    for moved in (0.0, shift, 2 * shift, 0.0):
        view.move(moved)
        z = (x - origin[:, None]) / unit - np.reshape(moved, (-1, 1))
        seen = ~np.isnan(z)
        z = np.nan_to_num(z)
        for found, expected in (
            (view.times_memberships(h), (z @ h.T).T),
            (view.times_components(wt), wt @ z),
            (view.sums_of_rows(), z.sum(axis=1)),
            (view.sums_of_rows(u), z @ u),
            (view.squares_of_rows(), (z**2).sum(axis=1)),
            (view.squares_of_rows(u), z**2 @ u),
            (view.squares_of_columns(), (z**2).sum(axis=0)),
            (view.squares_of_columns(phi), phi @ z**2),
            (view.counts_of_rows(), seen.sum(axis=1)),
            (view.counts_of_rows(u), seen @ u),
            (view.counts_of_columns(), seen.sum(axis=0)),
            (view.counts_of_columns(phi), phi @ seen),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("origin", [0.0, 1.5])
@pytest.mark.parametrize("unit", [1.0, 2.0])
def test_the_norms_of_a_start_are_those_of_the_data_in_their_unit(matrices, unit, origin, missing):
    """Also around 0, where the norms of the data are known; missing entries do not count."""
    rng = np.random.default_rng(5)
    matrices = [np.where(rng.random(x.shape) < 0.2 * missing, np.nan, x) for x in matrices]
    sources = Sources(matrices)
    expected = [np.nansum(((x - origin) / unit) ** 2) for x in matrices]
    around = unit, np.full(20, origin)
    for factors in ((), ("robust",)):
        _, entries = noise.views_and_entries(sources, factors, *around)
        np.testing.assert_allclose([e.squared_norm for e in entries], expected, rtol=1e-10)
    form = map_bjmd.PRIORS_OF_W["laplace"](1.0)
    mode = map_bjmd.PosteriorMode(sources, 3, Priors(), form, rng, False, *around)
    np.testing.assert_allclose(mode.observed_norms, expected, rtol=1e-10)


def test_data_without_any_spread_have_no_noise_to_speak_of():
    """Their unit is 1, as if they had none, but not their origin: far from 0 they are not noise."""
    result = registry.fit("map-bjmd", Sources([np.full((6, 5), 1e4)]), 1, max_sweeps=20)
    assert result.noise[0] < 1
