"""Fits beyond the paper's model: simpler models as special cases, recovery of known truth, and hard
data.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import gammaln, polygamma, psi

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import cavi, noise, offsets, registry
from bjmd.inference.priors import LEAST_ALPHA, learned_dirichlet
from bjmd.model import Priors
from bjmd.numerics.moments import Places

NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]


def fit(matrices, n_components=3, method="cavi-bjmd", **options):
    return registry.fit(method, Sources(matrices), n_components, **options)


def drawn(
    seed=0, n_features=60, n_samples=(120, 100), noise_sd=(0.3, 0.6), alpha=0.5, n_components=3
):
    """Components, memberships by source, and data."""
    rng = np.random.default_rng(seed)
    components = rng.laplace(size=(n_features, n_components))
    memberships = [rng.dirichlet(np.full(n_components, alpha), n).T for n in n_samples]
    data = [components @ h for h in memberships]
    return (
        components,
        memberships,
        [x + sd * rng.standard_normal(x.shape) for x, sd in zip(data, noise_sd, strict=True)],
    )


# Special cases.


@pytest.mark.parametrize("name", ["feature", "sample", "feature+sample"])
def test_gammas_that_are_held_at_one_are_the_papers_noise(make_sources, name, monkeypatch):
    """With a shape a that no data can move, phi and u are 1: |phi - 1| <= |n - error| / 2a, here
    about 1e-11.

    Sweeps without the loop, which would look at an ELBO of terms as large as a ln a, that is, at
    rounding.
    """
    monkeypatch.setattr(noise, "_least_shape", lambda counts: 1e12)
    sources = make_sources()
    states = []
    for model in ("source", name):
        closed_form = cavi.ClosedForm(
            sources, 3, Priors(), np.random.default_rng(0), noise.parsed(model)
        )
        state = closed_form.start()
        for _ in range(12):
            state, _ = closed_form.sweep(state)
        states.append((*state.columns, state.rates, state.rows.mean, state.rows.second_moment))
    for plain, held in zip(*states, strict=True):
        np.testing.assert_allclose(held, plain, rtol=1e-7, atol=1e-9)


def test_many_degrees_of_freedom_are_the_papers_noise(make_sources, monkeypatch):
    for name in ("FIRST_NU", "LEAST_NU", "MOST_NU"):
        monkeypatch.setattr(noise, name, 1e9)
    matrices = make_sources().matrices
    options = {"priors": "paper", "tol": 1e-13, "max_sweeps": 30}
    plain, robust = (fit(matrices, noise=n, **options) for n in ("source", "robust"))
    for a, b in zip(plain.memberships, robust.memberships, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(plain.noise, robust.noise, rtol=1e-5)


def test_offsets_of_no_width_are_none(make_sources, monkeypatch):
    matrices = make_sources().matrices
    plain = fit(matrices, offsets=False, tol=1e-13, max_sweeps=30)

    def narrow(n_features):
        return offsets.Offset(np.zeros(n_features), np.zeros(n_features), offsets.LEAST_TAU)

    monkeypatch.setattr(offsets.Offset, "start", staticmethod(narrow))
    held = fit(matrices, offsets=True, tol=1e-13, max_sweeps=30)
    assert np.abs(held.model.offsets).max() < 1e-6
    for a, b in zip(plain.memberships, held.memberships, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_missing_entries_of_which_there_are_none_change_nothing(make_sources, name, shifted):
    """The code for missing entries with an empty list of them gives what the code for complete data
    gives.
    """
    sources = make_sources()
    states = []
    for listed in (False, True):
        closed_form = cavi.ClosedForm(
            sources, 3, Priors(), np.random.default_rng(0), noise.parsed(name), shifted
        )
        for view in closed_form.views if listed else ():
            view.missing = np.zeros(view.shape, dtype=bool)
            view.by_row = Places.of(view.missing)
            view.by_column = Places.of(view.missing.T)
        state = closed_form.start()
        for _ in range(6):
            state, objective = closed_form.sweep(state)
        states.append(
            (*state.columns, state.rates, state.rows.mean, state.rows.second_moment, objective)
        )
    for complete, by_gaps in zip(*states, strict=True):
        np.testing.assert_allclose(by_gaps, complete, rtol=1e-7)


def test_a_feature_that_a_source_lacks_leaves_its_memberships_to_the_others(make_sources):
    """Given W, a sample depends on its observed entries alone."""
    matrices = make_sources(n_features=30, n_samples=(40, 40), noise=(0.3, 0.3)).matrices
    lacking = matrices[0].copy()
    lacking[20:] = np.nan
    result = fit([lacking, matrices[1]], alpha0=1.1, lambda_=1.0, offsets=False, tol=1e-10)
    w = result.components[:20]
    covariance = result.posterior.components.covariance()[:20]
    gram = w.T @ w + covariance.sum(axis=0)
    precision = 1 / result.noise[0] ** 2
    for j in range(5):
        g = result.posterior.memberships[0].parameters[:, j]

        def bound(log_g, j=j):
            g = np.exp(log_g)
            s = g.sum()
            m = g / s
            explained = (w.T @ lacking[:20, j]) @ m - (s * m @ gram @ m + np.diag(gram) @ m) / (
                2 * (s + 1)
            )
            return (
                precision * explained
                + ((1.1 - g) * (psi(g) - psi(s))).sum()
                + gammaln(g).sum()
                - gammaln(s)
            )

        at = np.log(g)
        step = 1e-4
        slopes = [(bound(at + e) - bound(at - e)) / (2 * step) for e in step * np.eye(3)]
        np.testing.assert_allclose(slopes, 0, atol=2e-3)


# Recovery.


def test_features_of_unequal_noise_are_found():
    rng = np.random.default_rng(1)
    components, memberships, _ = drawn()
    times = np.exp(0.5 * rng.standard_normal((60, 1)))
    matrices = [
        components @ h + sd * times * rng.standard_normal((60, h.shape[1]))
        for h, sd in zip(memberships, (0.3, 0.6), strict=True)
    ]
    result = fit(matrices, noise="feature")
    found = result.model.feature_precision**-0.5
    assert np.corrcoef(np.log(found), np.log(times[:, 0]))[0, 1] > 0.97
    # the noise of every feature in every source, whatever phi is measured against
    np.testing.assert_allclose(np.median(found / times[:, 0]) * result.noise, [0.3, 0.6], rtol=0.05)


def test_samples_of_unequal_noise_are_found():
    rng = np.random.default_rng(1)
    components, memberships, _ = drawn(n_features=150)
    matrices = []
    truth = []
    for h in memberships:
        times = np.exp(0.4 * rng.standard_normal(h.shape[1]))
        matrices.append(components @ h + 0.3 * times * rng.standard_normal((150, h.shape[1])))
        truth.append(times)
    result = fit(matrices, noise="sample")
    found = np.concatenate(result.model.sample_precision) ** -0.5
    assert found.shape == (220,)
    assert np.corrcoef(np.log(found), np.log(np.concatenate(truth)))[0, 1] > 0.97


@pytest.mark.parametrize("nu", [2.0, 5.0])
def test_degrees_of_freedom_and_scale_of_t_noise(nu):
    rng = np.random.default_rng(2)
    components, memberships, _ = drawn(n_features=150, n_samples=(200, 150))
    matrices = [
        components @ h + sd * rng.standard_t(nu, (150, h.shape[1]))
        for h, sd in zip(memberships, (0.3, 0.6), strict=True)
    ]
    result = fit(matrices, noise="robust")
    np.testing.assert_allclose(result.model.degrees_of_freedom, nu, rtol=0.15)
    np.testing.assert_allclose(result.noise, [0.3, 0.6], rtol=0.05)


def test_normal_noise_has_many_degrees_of_freedom():
    result = fit(drawn()[2], noise="robust")
    assert (result.model.degrees_of_freedom > 20).all()
    np.testing.assert_allclose(result.noise, [0.3, 0.6], rtol=0.05)


@pytest.mark.parametrize("name", ["source", "feature", "robust"])
def test_the_shift_of_a_source_is_found(name):
    rng = np.random.default_rng(3)
    matrices = drawn()[2]
    shift = rng.standard_normal((60, 1))
    result = fit([matrices[0], matrices[1] + shift], noise=name, offsets=True)
    difference = result.model.offsets[1] - result.model.offsets[0]
    assert np.corrcoef(difference, shift[:, 0])[0, 1] > 0.98
    assert np.sqrt(np.mean((difference - shift[:, 0]) ** 2)) < 0.25
    assert (result.model.offsets_sd > 0).all()
    np.testing.assert_allclose(result.noise, [0.3, 0.6], rtol=0.06)


def test_sources_without_a_shift_have_hardly_any_offset():
    result = fit(drawn()[2], offsets=True)
    assert np.sqrt(np.mean((result.model.offsets[1] - result.model.offsets[0]) ** 2)) < 0.15


def test_a_private_component_gets_a_small_alpha_elsewhere():
    rng = np.random.default_rng(4)
    components = rng.laplace(size=(60, 4))
    private = [
        rng.dirichlet(np.full(4, 0.5), 150).T,
        np.vstack([rng.dirichlet(np.full(3, 0.5), 150).T, np.zeros(150)]),
    ]
    matrices = [components @ h + 0.4 * rng.standard_normal((60, 150)) for h in private]
    results = [fit(matrices, 4, alpha0="by-source", offsets=False, seed=seed) for seed in range(4)]
    result = min(results, key=lambda r: r.objective)
    correlation = np.corrcoef(result.components.T, components.T)[:4, 4:]
    own = int(correlation[:, 3].argmax())
    assert result.model.alpha0[1, own] < 0.1
    assert (np.delete(result.model.alpha0[1], own) > 0.25).all()
    assert (result.model.alpha0[0] > 0.25).all()
    assert result.memberships[1][own].mean() < 0.03


def test_the_shared_concentration_and_the_scales_of_the_draws_are_found():
    """The default finds what two sources have in common, also where one of them is shifted."""
    for alpha, bounds in ((0.6, (0.5, 0.75)), (3.0, (2.4, 3.9))):
        components, _, matrices = drawn(n_samples=(300, 300), noise_sd=(0.1, 0.1), alpha=alpha)
        matrices[1] = matrices[1] + np.random.default_rng(5).standard_normal((60, 1))
        results = [fit(matrices, seed=seed) for seed in range(3)]
        result = min(results, key=lambda r: r.objective)
        assert bounds[0] <= result.model.alpha0[0, 0] <= bounds[1]
        around = components - components.mean(axis=1, keepdims=True)
        scales = np.sort(result.model.component_scales)
        np.testing.assert_allclose(scales, np.sort(np.abs(around).mean(axis=0)), rtol=0.3)


def test_alpha_of_the_draws_is_found():
    """Between what the true memberships give, and what they give when each is blurred by its
    standard error.

    alpha rests on mean ln h, so on memberships near 0, which nobody can know better than to that
    standard error: the noise over the spread of the components in the direction where it is least.
    """
    components, memberships, matrices = drawn(n_samples=(400, 300), noise_sd=(0.1, 0.1))
    result = fit(matrices, alpha0="by-source", offsets=False, tol=1e-8)
    order = np.corrcoef(result.components.T, components.T)[:3, 3:].argmax(axis=0)
    around = components - components.mean(axis=1, keepdims=True)
    error = 0.1 / np.sqrt(np.linalg.eigvalsh(around.T @ around)[1])
    for found, h in zip(result.model.alpha0[:, order], memberships, strict=True):
        n = h.shape[1]
        sharp, blurred = (
            learned_dirichlet(np.log((h + e) / (1 + 3 * e)).mean(axis=1), np.ones(3), n)
            for e in (0.0, error)
        )
        by_chance = 2 / np.sqrt(n * polygamma(1, sharp))  # two standard errors
        assert (sharp - by_chance < found).all()
        assert (found < blurred).all()
        assert (blurred < 0.8).all()  # or the test would say little


@pytest.mark.parametrize("seed", range(3))
def test_components_that_are_not_needed_vanish(seed):
    """Of five components three are the true ones; no source uses the other two."""
    components, memberships, matrices = drawn(seed)
    result = fit(matrices, 5, alpha0="by-source", offsets=False, tol=1e-8)
    used = np.max([h.mean(axis=1) for h in result.memberships], axis=0)
    order = np.argsort(used)
    assert (used[order[:2]] < 0.02).all()
    assert (used[order[2:]] > 0.25).all()
    assert (result.model.alpha0[:, order[:2]] < 0.05).all()
    correlation = np.corrcoef(result.components[:, order[2:]].T, components.T)[:3, 3:]
    assert (correlation.max(axis=0) > 0.97).all()
    true = np.sort([h.mean(axis=1) for h in memberships])
    np.testing.assert_allclose(
        np.sort([h[order[2:]].mean(axis=1) for h in result.memberships]), true, atol=0.05
    )


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


def test_priors_are_learned_before_a_fit_may_end(make_sources):
    result = fit(make_sources().matrices, tol=10.0)
    assert result.converged
    assert len(result.trace) > cavi.LEARNING_WAITS
    assert len(np.unique(result.model.alpha0)) == 1 and result.model.alpha0[0, 0] != Priors.alpha0
    assert len(np.unique(result.model.component_scales)) == 3


# No data, or hardly any.


def constant_feature(x):
    x[0][2] = 3.0
    x[1][2] = 3.0


def constant_in_one(x):
    x[0][2] = 1.0


def empty_in_one(x):
    x[1][:4] = 0.0


def one_sample(x):
    x[1] = x[1][:, :1]


def equal_samples(x):
    x[0][:] = x[0][:, :1]


def duplicate_features(x):
    for part in x:
        part[1] = part[0]


def hardly_any_entries(x):
    rng = np.random.default_rng(0)
    for part in x:
        holes = rng.random(part.shape) < 0.8
        holes[rng.integers(0, len(part), part.shape[1]), np.arange(part.shape[1])] = False
        part[holes] = np.nan
    x[0][:, 0] = 1.0


def one_wild_entry(x):
    x[0][0, 0] = 1e12


TROUBLE = [
    constant_feature,
    constant_in_one,
    empty_in_one,
    one_sample,
    equal_samples,
    duplicate_features,
    hardly_any_entries,
    one_wild_entry,
]


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_hard_data_give_numbers(make_sources, name, shifted, trouble):
    matrices = [x.copy() for x in make_sources(n_samples=(20, 15)).matrices]
    trouble(matrices)
    for n_components, alpha0 in ((1, "learned"), (3, "by-source"), (3, "learned")):
        options = {"noise": name, "offsets": shifted, "alpha0": alpha0, "max_sweeps": 60}
        result = fit(matrices, n_components, **options)
        finite(result)
        if result.model.feature_precision is not None:
            assert result.model.feature_precision.max() <= noise.MOST_PRECISE * (1 + 1e-9)


@pytest.mark.parametrize("trouble", TROUBLE)
def test_hard_data_give_numbers_with_map(make_sources, trouble):
    matrices = [x.copy() for x in make_sources(n_samples=(20, 15)).matrices]
    trouble(matrices)
    for n_components in (1, 3):
        finite(fit(matrices, n_components, "map-bjmd", max_sweeps=60))


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_data_that_are_all_the_same(name, value):
    result = fit(
        [np.full((6, 5), value), np.full((6, 4), value)], 2, noise=name, offsets=True, max_sweeps=40
    )
    finite(result)
    np.testing.assert_allclose(result.components, value, atol=0.05)


def finite(result):
    assert np.isfinite(result.objective)
    assert np.isfinite(result.components).all()
    assert np.isfinite(result.noise).all()
    assert (np.asarray(result.noise) > 0).all()
    for h in result.memberships:
        np.testing.assert_allclose(h.sum(axis=0), 1, rtol=1e-9)
    assert (np.diff(result.trace) <= 1e-9 * np.abs(result.trace[:-1])).all()
    for name, value in vars(result.model).items():
        value = np.hstack(value) if isinstance(value, list) else value
        assert value is None or np.isfinite(value).all(), name
    assert result.model.alpha0.min() >= LEAST_ALPHA


def test_a_wrong_name_says_what_is_right(make_sources):
    for name in ("", "feature+feature", "feature,sample", "source+robust"):
        with pytest.raises(InputError, match="for example feature"):
            fit(make_sources().matrices, noise=name)
    for word in ("no", "auto", 1):  # all of them true to Python
        with pytest.raises(InputError, match=r"offsets is .*; it must be True or False"):
            registry.fit("cavi-bjmd", make_sources(), 2, offsets=word)
