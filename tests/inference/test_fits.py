"""Fits of MAP and of the closed form: simpler models as special cases, recovery of known truth,
tolerance and momentum.
"""

import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.data.view import centre
from bjmd.inference import cavi, noise, offsets, registry
from bjmd.inference import map as map_bjmd
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_per_source, auc_watch

METHODS = ("cavi-bjmd", "map-bjmd")


def fit(matrices, n_components=3, method="cavi-bjmd", **options):
    return registry.fit(method, Sources(matrices), n_components, **options)


def best_fit(matrices, n_components=3, n_starts=3, **options):
    fits = [fit(matrices, n_components, seed=seed, **options) for seed in range(n_starts)]
    return min(fits, key=lambda result: result.objective)


def drawn(
    seed=0, n_features=60, n_samples=(120, 100), noise_sd=(0.3, 0.6), alpha=0.5, n_components=3
):
    """Components, memberships by source, and data."""
    rng = np.random.default_rng(seed)
    components = rng.laplace(size=(n_features, n_components))
    memberships = [rng.dirichlet(np.full(n_components, alpha), n).T for n in n_samples]
    matrices = [
        components @ h + sd * rng.standard_normal((n_features, h.shape[1]))
        for h, sd in zip(memberships, noise_sd, strict=True)
    ]
    return components, memberships, matrices


# Special cases.


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *(("cavi-bjmd", {"noise": name}) for name in ("feature", "sample", "robust")),
        ("cavi-bjmd", {"offsets": True}),
        ("map-bjmd", {"offsets": True}),
    ],
)
def test_options_that_are_held_at_nothing_change_nothing(
    make_sources, method, options, monkeypatch
):
    """Precisions that no data can move from 1, normal noise as a t, and offsets of no width."""
    matrices = make_sources().matrices
    few = {"priors": "paper", "tol": 1e-13, "max_sweeps": 9}
    plain = fit(matrices, method=method, **few)
    monkeypatch.setattr(noise, "_least_shape", lambda counts: 1e7)
    for name in ("FIRST_NU", "LEAST_NU", "MOST_NU"):
        monkeypatch.setattr(noise, name, 1e9)
    monkeypatch.setattr(offsets, "_better_tau", lambda sums, known, tau: offsets.LEAST_TAU)
    held = fit(matrices, method=method, **few | options)
    np.testing.assert_allclose(np.hstack(plain.memberships), np.hstack(held.memberships), atol=1e-5)
    np.testing.assert_allclose(plain.components, held.components, atol=1e-5)
    np.testing.assert_allclose(plain.noise, held.noise, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_cat_variants_are_the_same_code_on_concatenated_sources(make_sources, method):
    sources = make_sources()
    cat = registry.fit(method.replace("bjmd", "catbjmd"), sources, 3, seed=2)
    direct = registry.fit(method, sources.concatenated(), 3, seed=2)
    np.testing.assert_array_equal(cat.components, direct.components)
    np.testing.assert_array_equal(np.hstack(cat.memberships), direct.memberships[0])
    assert [h.shape for h in cat.memberships] == [(3, 9), (3, 7)]
    assert cat.noise[0] == cat.noise[1]
    if cat.posterior:
        assert cat.posterior.memberships[1].parameters.shape == (3, 7)
        assert cat.posterior.noise.rate.shape == (2,)


@pytest.mark.parametrize("method", METHODS)
def test_splitting_a_source_with_tied_noise_changes_nothing(make_sources, method):
    """Noise is tied by a prior so strong that the data cannot move it."""
    whole = make_sources(n_samples=(16, 7)).matrices[0]
    tied = {"priors": "paper", "a0": 1e12, "b0": 0.5e12, "tol": 1e-9, "max_sweeps": 9}
    one = fit([whole], method=method, **tied)
    two = fit(np.split(whole, [6], axis=1), method=method, **tied)
    np.testing.assert_allclose(two.noise, [np.sqrt(0.5)] * 2, rtol=1e-6)
    np.testing.assert_allclose(one.components, two.components, atol=1e-6)
    np.testing.assert_allclose(one.memberships[0], np.hstack(two.memberships), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_useless_components_leave_the_spread_of_the_data(method):
    """With W held at zero, s2 has its posterior given X alone, and q(H) is the prior."""
    x = np.random.default_rng(0).standard_normal((6, 8))
    fixed = {"priors": "paper", "lambda_": 1e-9, "a0": 2.0, "b0": 3.0, "alpha0": 1.7, "tol": 1e-14}
    result = fit([x], 2, method, **fixed)
    assert np.abs(result.components).max() < 1e-6
    shape = 2 + 48 / 2
    rate = 3 + (x**2).sum() / 2
    if method == "map-bjmd":
        np.testing.assert_allclose(result.noise[0] ** 2, rate / (shape + 1), rtol=1e-6)
    else:
        np.testing.assert_allclose(result.posterior.noise.shape, shape)
        np.testing.assert_allclose(result.posterior.noise.rate, rate, rtol=1e-6)
        np.testing.assert_allclose(result.posterior.memberships[0].parameters, 1.7, rtol=0.02)


def test_one_component_is_a_bayesian_mean():
    """H is 1, and W is the mean of the samples but for a weak prior."""
    x = 3 + np.random.default_rng(0).standard_normal((6, 4000))
    result = fit([x], 1, priors="paper", lambda_=100.0, tol=1e-12)
    np.testing.assert_allclose(result.memberships[0], 1)
    np.testing.assert_allclose(result.components[:, 0], x.mean(axis=1), rtol=1e-4)
    np.testing.assert_allclose(
        result.posterior.components.sd**2, result.noise[0] ** 2 / 4000, rtol=1e-3
    )


@pytest.mark.parametrize("seed", [0, 1, 2, 8, 10])
def test_one_component_is_not_carried_away(seed):
    """Nothing depends on the parameter of memberships that are 1, and momentum must not take it to
    infinity.
    """
    x = np.repeat(np.random.default_rng(seed).laplace(size=(60, 1)), 2, axis=1)
    result = fit([x], 1, seed=seed, alpha0=1.0001, b0=1e-6)
    np.testing.assert_allclose(result.memberships[0], 1)
    assert result.is_finite() and result.noise[0] < 0.1


# Recovery.


@pytest.mark.parametrize(("method", "rtol"), [("cavi-bjmd", 0.005), ("map-bjmd", 0.03)])
def test_the_truth_of_the_large_data_is_found(method, rtol):
    """The noise, every true pattern, and for the closed form AUCs no lower than those printed."""
    data = synthetic.generate("large", 4.0, 4)
    result = best_fit(data.sources.matrices, 10, method=method, priors="paper")
    assert result.converged
    np.testing.assert_allclose(result.noise, [1.0, 2.5, 4.0], rtol=rtol)
    correlation = np.corrcoef(data.components[:, :-1].T, result.components.T)[:9, 9:]
    assert (correlation.max(axis=1) > 0.95).all()
    if method == "cavi-bjmd":
        auc = auc_per_source(result.memberships, data.sources.labels)
        assert (100 * auc >= [99.9, 97.5, 92.8]).all()


@pytest.mark.parametrize("name", ["feature", "sample"])
def test_features_and_samples_of_unequal_noise_are_found(name):
    rng = np.random.default_rng(1)
    components, memberships, _ = drawn(n_features=150)
    truth = []
    matrices = []
    rough = np.exp(0.5 * rng.standard_normal((150, 1)))
    for h, sd in zip(memberships, (0.3, 0.6), strict=True):
        truth.append(rough if name == "feature" else np.exp(0.4 * rng.standard_normal(h.shape[1])))
        matrices.append(components @ h + sd * truth[-1] * rng.standard_normal((150, h.shape[1])))
    result = fit(matrices, noise=name)
    every = np.concatenate(result.model.sample_precision or [result.model.feature_precision])
    found = every**-0.5
    truth = np.concatenate(truth if name == "sample" else truth[:1]).ravel()
    assert np.corrcoef(np.log(found), np.log(truth))[0, 1] > 0.97
    # the noise of every feature in every source, whatever phi is measured against
    np.testing.assert_allclose(np.median(found / truth) * result.noise, [0.3, 0.6], rtol=0.05)


@pytest.mark.parametrize("nu", [2.0, 5.0, np.inf])
def test_degrees_of_freedom_and_scale_of_t_noise_are_found(nu):
    rng = np.random.default_rng(2)
    components, memberships, matrices = drawn(n_features=150, n_samples=(200, 150))
    if np.isfinite(nu):
        matrices = [
            components @ h + sd * rng.standard_t(nu, (150, h.shape[1]))
            for h, sd in zip(memberships, (0.3, 0.6), strict=True)
        ]
    result = fit(matrices, noise="robust")
    found = result.model.degrees_of_freedom
    assert (found > 20).all() if np.isinf(nu) else (np.abs(found / nu - 1) < 0.15).all()
    np.testing.assert_allclose(result.noise, [0.3, 0.6], rtol=0.05)


@pytest.mark.parametrize(
    ("method", "options", "share_missing", "size"),
    [
        *(("cavi-bjmd", {"noise": name}, 0.0, 1.0) for name in ("source", "feature", "robust")),
        ("cavi-bjmd", {}, 0.0, 0.0),
        ("map-bjmd", {}, 0.0, 1.0),
        ("map-bjmd", {}, 0.2, 1.0),
    ],
)
def test_the_shift_of_a_source_is_found(method, options, share_missing, size):
    """Also if there is none."""
    rng = np.random.default_rng(3)
    matrices = drawn()[2]
    shift = size * rng.standard_normal((60, 1))
    matrices[1] = matrices[1] + shift
    matrices = [np.where(rng.random(x.shape) < share_missing, np.nan, x) for x in matrices]
    result = best_fit(matrices, method=method, **options)
    difference = result.model.offsets[1] - result.model.offsets[0]
    assert np.sqrt(np.mean((difference - shift[:, 0]) ** 2)) < (0.25 if size else 0.15)
    assert (result.model.offsets_sd > 0).all()
    np.testing.assert_allclose(result.noise, [0.3, 0.6], rtol=0.06)


def test_the_concentration_and_the_scales_of_the_draws_are_found():
    """The default finds what two sources have in common, also where one of them is shifted."""
    for alpha, low, high in ((0.6, 0.5, 0.75), (3.0, 2.4, 3.9)):
        components, _, matrices = drawn(n_samples=(300, 300), noise_sd=(0.1, 0.1), alpha=alpha)
        matrices[1] = matrices[1] + np.random.default_rng(5).standard_normal((60, 1))
        result = best_fit(matrices)
        assert low <= result.model.alpha0[0, 0] <= high
        around = components - components.mean(axis=1, keepdims=True)
        scales = np.sort(result.model.component_scales)
        np.testing.assert_allclose(scales, np.sort(np.abs(around).mean(axis=0)), rtol=0.3)


def test_a_component_of_one_source_gets_a_small_alpha_in_the_other():
    rng = np.random.default_rng(4)
    components = rng.laplace(size=(60, 4))
    memberships = [
        rng.dirichlet(np.full(4, 0.5), 150).T,
        np.vstack([rng.dirichlet(np.full(3, 0.5), 150).T, np.zeros(150)]),
    ]
    matrices = [components @ h + 0.4 * rng.standard_normal((60, 150)) for h in memberships]
    result = best_fit(matrices, 4, n_starts=4, alpha0="by-source", offsets=False)
    correlation = np.corrcoef(result.components.T, components.T)[:4, 4:]
    own = int(correlation[:, 3].argmax())
    assert result.model.alpha0[1, own] < 0.1
    assert (np.delete(result.model.alpha0[1], own) > 0.25).all()
    assert (result.model.alpha0[0] > 0.25).all()
    assert result.memberships[1][own].mean() < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_components_that_are_not_needed_vanish(seed):
    """Of five components three are the true ones; no source uses the other two."""
    components, _, matrices = drawn(seed)
    result = fit(matrices, 5, alpha0="by-source", offsets=False, tol=1e-8)
    used = np.max([h.mean(axis=1) for h in result.memberships], axis=0)
    order = np.argsort(used)
    assert (used[order[:2]] < 0.02).all()
    assert (used[order[2:]] > 0.25).all()
    assert (result.model.alpha0[:, order[:2]] < 0.05).all()
    correlation = np.corrcoef(result.components[:, order[2:]].T, components.T)[:3, 3:]
    assert (correlation.max(axis=0) > 0.97).all()


@pytest.mark.parametrize("name", ["source", "feature"])
def test_learned_scales_do_not_end_at_nothing(make_sources, name):
    """From every start: scales that are learned from the first sweep on follow components that are
    still near 0.
    """
    matrices = make_sources(n_features=20, n_samples=(30, 25), noise=(0.3, 0.8)).matrices
    others = {"noise": name, "alpha0": 1.1, "offsets": False}
    fixed = fit(matrices, lambda_=1.0, **others)
    for seed in range(6):
        learned = fit(matrices, seed=seed, **others)
        assert learned.objective < fixed.objective + 5
        np.testing.assert_allclose(learned.noise, fixed.noise, rtol=0.05)


# Tolerance and momentum.


@pytest.mark.parametrize(("method", "plain_sweeps"), [("cavi-bjmd", 2), ("map-bjmd", 8)])
def test_priors_are_learned_after_some_sweeps(make_sources, method, plain_sweeps):
    """docs/model.md, 7 and 9: one concentration in the closed form, and the scales in both."""
    sources = make_sources()
    before, after = (
        registry.fit(method, sources, 3, max_sweeps=plain_sweeps + more) for more in (0, 1)
    )
    np.testing.assert_allclose(before.model.component_scales, 1.5 * centre(sources)[0])
    assert len(np.unique(after.model.component_scales)) == 3
    start = 1.1 if method == "cavi-bjmd" else 1.0  # MAP's are flat and stay so
    assert (before.model.alpha0 == start).all()
    assert len(np.unique(after.model.alpha0)) == 1
    assert (after.model.alpha0[0, 0] == start) == (method == "map-bjmd")


@pytest.mark.parametrize(
    ("method", "options", "n_sweeps"),
    [
        ("cavi-bjmd", {}, 5),
        ("cavi-bjmd", {"alpha0": 1.1}, 5),
        ("cavi-bjmd", {"lambda_": 1.0}, 5),
        ("cavi-bjmd", {"alpha0": "by-source"}, 7),
        ("cavi-bjmd", {"alpha0": 1.1, "lambda_": 1.0}, 2),
        ("cavi-bjmd", {"priors": "paper"}, 2),
        ("map-bjmd", {}, 12),
        ("map-bjmd", {"momentum": False}, 10),
        ("map-bjmd", {"lambda_": 1.0}, 4),
        ("map-bjmd", {"priors": "paper"}, 4),
    ],
)
def test_changes_count_once_priors_are_learned(make_sources, method, options, n_sweeps):
    """Where every change is small, a fit ends with the first that counts, or with the second or
    third if momentum needs so many.
    """
    result = fit(make_sources().matrices, method=method, tol=1e9, **options)
    assert result.converged and len(result.trace) == n_sweeps


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("priors", ["data", "paper"])
def test_the_tolerance_is_per_entry_or_relative(make_sources, method, priors):
    matrices = make_sources(n_samples=(40, 30)).matrices
    result = fit(matrices, method=method, priors=priors, tol=1e-4)
    kept = np.diff(result.trace) != 0  # a sweep that is undone repeats the value before it
    size = sum(x.size for x in matrices) if priors == "data" else np.abs(result.trace[:-1])
    change = (np.abs(np.diff(result.trace)) / size)[kept]
    needed = 3 if method == "map-bjmd" else 2
    small = change[:-1] <= 1e-4  # the closed form lowers the last value once more
    assert small[1 - needed :].all()
    assert not any(small[i : i + needed].all() for i in range(len(small) - needed + 1))


@pytest.mark.parametrize("method", METHODS)
def test_offsets_are_the_default_of_several_sources_and_priors_of_the_data(make_sources, method):
    matrices = make_sources().matrices
    for given, options, expected in (
        (matrices, {}, (2, 12)),
        (matrices, {"offsets": False}, None),
        (matrices, {"priors": "paper"}, None),
        (matrices[:1], {}, None),
        (matrices[:1], {"offsets": True}, (1, 12)),
    ):
        found = fit(given, method=method, max_sweeps=2, **options).model.offsets
        assert (None if found is None else found.shape) == expected


def test_at_a_tight_tolerance_nothing_moves(make_sources, monkeypatch):
    """A fit that goes on from there ends where it was, and one below rounding ends at all."""
    monkeypatch.setattr(cavi, "COLUMN_TOLERANCE", 1e-14)
    for seed in range(4):
        matrices = make_sources(seed, n_samples=(40, 30), n_features=20).matrices
        tight, tighter = (fit(matrices, priors="paper", tol=tol) for tol in (1e-13, 1e-16))
        assert tighter.converged and len(tighter.trace) < 500
        np.testing.assert_allclose(tight.objective, tighter.objective, rtol=1e-12)
        np.testing.assert_allclose(tight.components, tighter.components, atol=1e-4)
        memberships = (np.hstack(result.memberships) for result in (tight, tighter))
        np.testing.assert_allclose(*memberships, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "module", "n_sweeps"), [("cavi-bjmd", cavi, 10), ("map-bjmd", map_bjmd, 5)]
)
def test_momentum_gets_further_in_as_many_sweeps(method, module, n_sweeps, monkeypatch):
    """Many overlapping patterns, as in faces: 150 sweeps lead further than 400 plain ones."""
    rng = np.random.default_rng(0)
    position = np.linspace(0, 1, 100)[:, None]
    waves = 1 + 0.5 * np.cos(2 * np.pi * (position * rng.integers(1, 6, 8) + rng.random(8)))
    x = waves @ rng.dirichlet(np.full(8, 0.5), 90).T + 0.05 * rng.standard_normal((100, 90))
    options = {"method": method, "priors": "paper", "tol": 1e-12}
    quick = fit([x], 8, max_sweeps=150, **options)
    monkeypatch.setattr(module, "PLAIN_SWEEPS", 10**6)
    plain = fit([x], 8, max_sweeps=400, **options)
    np.testing.assert_array_equal(quick.trace[:n_sweeps], plain.trace[:n_sweeps])
    assert quick.trace[n_sweeps] != plain.trace[n_sweeps]
    assert (np.diff(quick.trace) <= 0).all()
    assert quick.objective < plain.objective


def test_what_is_watched_is_kept_after_every_sweep():
    sources = synthetic.generate("small", 4.0, 4).sources
    result, unwatched = (
        registry.fit("cavi-bjmd", sources, 5, watch=watch)
        for watch in (auc_watch(sources.labels), None)
    )
    assert result.history["auc"].shape == (len(result.trace), 3)
    expected = auc_per_source(result.memberships, sources.labels)
    np.testing.assert_allclose(result.history["auc"][-1], expected)
    np.testing.assert_array_equal(result.trace, unwatched.trace)
