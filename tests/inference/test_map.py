"""MAP-BJMD as mathematics: descent, the objective, optimality, start and stop."""

import dataclasses

import numpy as np
import pytest
from oracle import negative_log_joint
from scipy.optimize import minimize_scalar

from bjmd.data.sources import Sources
from bjmd.data.view import centre
from bjmd.errors import InputError
from bjmd.inference import map as map_bjmd
from bjmd.inference import registry
from bjmd.model import Priors
from bjmd.numerics import threads

FORMS = ("laplace", "hierarchical")


def fit(sources, n_components=3, **options):
    return registry.fit("map-bjmd", sources, n_components, **{"priors": "paper", **options})


def mode(matrices, priors, form=None, seed=0, **options):
    """The algorithm on data as they are, with unit 1 and no origin."""
    form = form or map_bjmd._Laplace(priors.lambda_)
    rng = np.random.default_rng(seed)
    return map_bjmd.PosteriorMode(Sources(matrices), 3, priors, form, rng, **options)


def shifted(make_sources, seed=0, share_missing=0.0):
    """Data of which the second source is shifted."""
    rng = np.random.default_rng(seed + 50)
    first, second = make_sources(seed).matrices
    matrices = [first, second + rng.standard_normal((len(first), 1))]
    return [np.where(rng.random(x.shape) < share_missing, np.nan, x) for x in matrices]


# Descent.


@pytest.mark.parametrize("prior", FORMS)
def test_the_objective_never_rises_on_random_problems(make_sources, prior):
    rng = np.random.default_rng(1)
    for trial in range(80):
        n_components = int(rng.integers(1, 7))
        sources = make_sources(
            trial,
            n_features=int(rng.integers(8, 30)),
            n_samples=rng.integers(5, 40, size=2),
            n_components=int(rng.integers(1, 6)),
            noise=10 ** rng.uniform(-2, 1, size=2),
        )
        result = fit(
            sources,
            n_components,
            seed=trial,
            prior=prior,
            alpha0=float(rng.choice([1.0, 1.1, 3.0])),
            lambda_=float(10 ** rng.uniform(-1, 1)),
            tol=1e-12,
            max_sweeps=60,
        )
        rises = np.diff(result.trace) / np.abs(result.trace[:-1])
        assert rises.max(initial=-1) <= 1e-11, f"trial {trial}"
        for h in result.memberships:
            assert (h > 0).all()
            assert np.abs(h.sum(axis=0) - 1).max() <= 1e-12


@pytest.mark.parametrize("prior", FORMS)
@pytest.mark.parametrize("seed", range(12))
def test_the_objective_never_rises_on_data_without_noise(prior, seed):
    """The residual is then a difference of nearly equal numbers; duplicated samples and a tiny b0
    make it worse.
    """
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(15, 3)) @ rng.dirichlet(np.ones(3), 8).T
    x = np.repeat(x if seed % 2 else x[:, :1], 3, axis=1)
    options = {"priors": "data", "prior": prior, "b0": 1e-6, "tol": 1e-9, "max_sweeps": 300}
    result = fit(Sources([x]), 2 + seed % 2, **options)
    assert np.diff(result.trace).max(initial=0) <= 1e-7


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_with_learned_scales_and_offsets_no_plain_sweep_raises_the_objective(make_sources, missing):
    """Also not where the scales begin to be learned."""
    for seed in range(5):
        matrices = shifted(make_sources, seed, missing)
        form = map_bjmd._LearnedLaplace(np.ones((3, 1)))
        algorithm = mode(matrices, Priors(1.0), form, seed, offsets=True)
        state = algorithm.start()
        values = []
        for _ in range(40):
            state, objective = algorithm.sweep(state)
            values.append(objective)
        assert np.diff(values).max() <= 1e-9 * np.abs(values).max()
        scales = np.maximum(np.abs(state.wt).mean(axis=1), 0.2)
        np.testing.assert_allclose(state.form.lambda_[:, 0], scales)


# The objective, and its minimum.


@pytest.mark.parametrize("prior", FORMS)
def test_the_trace_is_the_objective_of_the_model(make_sources, prior, monkeypatch):
    """The paper's form has z/lambda + ln(z)/2 + w^2/(2z) at the best z for |w|/lambda.  The work is
    cut into many parts.
    """
    monkeypatch.setattr(threads, "PART_OF_WORK", 100)
    sources = make_sources()
    result = fit(sources, prior=prior, alpha0=[1.1, 1.5, 2.0], lambda_=0.5)
    priors = Priors([1.1, 1.5, 2.0], 0.5)
    total = negative_log_joint(
        sources.matrices, result.components, result.memberships, result.noise**2, priors
    )
    if prior == "hierarchical":
        total -= np.abs(result.components).sum() / 0.5
        for w in result.components.ravel():
            best = minimize_scalar(
                lambda log_z, w=w: np.exp(log_z) / 0.5 + 0.5 * log_z + 0.5 * w**2 / np.exp(log_z),
                bounds=(np.log(1e-8 * 0.5), 10),
                method="bounded",
                options={"xatol": 1e-10},
            )
            total += best.fun
    np.testing.assert_allclose(result.objective, total, rtol=1e-7)
    assert result.objective == result.trace[-1]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_objective_with_learned_scales_and_offsets_by_entry(make_sources, missing):
    """Minus the log joint with E over q(o), whose mean and variance are the best for the rest."""
    matrices = shifted(make_sources, share_missing=missing)
    form = map_bjmd._LearnedLaplace(np.ones((3, 1)))
    algorithm = mode(matrices, Priors(1.5), form, offsets=True)
    state = algorithm.start()
    for _ in range(3000 if missing else 12):  # with holes, the bound is tight only at the end
        state, objective = algorithm.sweep(state)
    lambda_ = state.form.lambda_
    total = (np.abs(state.wt) / lambda_ + np.log(2 * lambda_)).sum()
    parts = zip(matrices, state.memberships, state.offsets, state.noise_variances, strict=True)
    for x, h, o, s2 in parts:
        residual = x - state.wt.T @ h - o.mean[:, None]
        error = np.nansum(residual**2 + o.variance[:, None] * ~np.isnan(x))
        total += (0.5 * error + 0.01) / s2 + (0.5 * (~np.isnan(x)).sum() + 1.01) * np.log(s2)
        total -= 0.5 * np.log(h).sum()
        total -= 0.5 * (1 + np.log(o.variance / o.tau) - (o.mean**2 + o.variance) / o.tau).sum()
    np.testing.assert_allclose(objective, total, rtol=1e-6 if missing else 1e-10)


def test_the_solution_is_stationary_in_every_block(make_sources):
    """At a tight tolerance: gradient in W inside the subdifferential, in s2 zero, H optimal for its
    columns.
    """
    sources = make_sources(n_samples=(40, 30), n_features=20)
    result = fit(sources, tol=1e-14, max_sweeps=20_000, alpha0=1.5)
    w = result.components
    s2 = result.noise**2
    gradient = sum(
        (w @ h - x) @ h.T / v
        for x, h, v in zip(sources.matrices, result.memberships, s2, strict=True)
    )
    large = np.abs(w) > 1e-3
    np.testing.assert_allclose(gradient[large], -np.sign(w[large]), atol=2e-4)
    assert np.abs(gradient[~large]).max(initial=0) <= 1 + 1e-3
    for x, h, v in zip(sources.matrices, result.memberships, s2, strict=True):
        np.testing.assert_allclose(
            v, (0.02 + ((x - w @ h) ** 2).sum()) / (0.02 + x.size + 2), rtol=1e-6
        )
        slope = w.T @ (w @ h - x) / v - 0.5 / h
        spread = (slope - (h * slope).sum(axis=0)) * h
        assert np.abs(spread).max() <= 1e-4 * np.abs(w.T @ x / v).max()


def test_the_printed_update_of_w_is_the_papers(make_sources):
    """w_i = (sum_c x_i H' / s2_c) (sum_c H H' / s2_c + diag(sqrt z_i)^-1)^-1."""
    sources = make_sources()
    lambda_ = 0.5
    form = map_bjmd.PRIORS_OF_W["printed"](lambda_)
    algorithm = map_bjmd.PosteriorMode(
        sources, 3, Priors(lambda_=lambda_), form, np.random.default_rng(0)
    )
    state = algorithm.start()
    z = np.full((sources.n_features, 3), lambda_**2)
    for _ in range(3):
        parts = zip(sources.matrices, state.memberships, state.noise_variances, strict=True)
        products, grams = zip(*((x @ h.T / s2, h @ h.T / s2) for x, h, s2 in parts), strict=True)
        w = np.array(
            [
                row @ np.linalg.inv(sum(grams) + np.linalg.inv(np.diag(np.sqrt(z_i))))
                for row, z_i in zip(sum(products), z, strict=True)
            ]
        )
        state, _ = algorithm.sweep(state)
        np.testing.assert_allclose(state.wt.T, w, rtol=1e-8)
        z = (np.sqrt(lambda_**2 + 8 * w**2 * lambda_) - lambda_) / 4


# Start, momentum, stop.


def test_the_start_is_the_documented_one(make_sources):
    """docs/derivation.md, 3.6 and 5: memberships near corners, the noise that is best for W = 0,
    1/rho = lambda^2, and feature means in the place of missing entries.
    """
    complete = make_sources().matrices
    state = mode(complete, Priors(1.1, 0.7, 2.0, 0.5), seed=4).start()
    rng = np.random.default_rng(4)
    for x, h, variance in zip(complete, state.memberships, state.noise_variances, strict=True):
        np.testing.assert_allclose(h, rng.dirichlet(np.full(3, 0.1), x.shape[1]).T)
        np.testing.assert_allclose(variance, (2 * 0.5 + (x**2).sum()) / (2 * 2.0 + x.size + 2))
    np.testing.assert_allclose(state.inverse_ridge, np.full((3, 12), 0.49))

    holed = [np.where(rng.random(x.shape) < 0.3, np.nan, x) for x in complete]
    means = np.nanmean(np.hstack(holed), axis=1)[:, None]
    algorithm = mode(holed, Priors())
    for c, x in enumerate(holed):
        filled = np.where(np.isnan(x), means, x)
        np.testing.assert_allclose(algorithm.views[c].matrix.array, filled, rtol=1e-12)
        np.testing.assert_allclose(algorithm.norm(c), (filled**2).sum(), rtol=1e-12)


def test_z_moves_from_the_first_sweep_unless_it_is_held(make_sources):
    """The ridge of the second sweep is Z at its best for the first W, or still lambda^2."""
    form = map_bjmd.PRIORS_OF_W["hierarchical"](0.5)
    for hold, moved in ((0, [1, 2, 3]), (2, [3])):
        algorithm = mode(make_sources().matrices, Priors(lambda_=0.5), form, hold=hold)
        state = algorithm.start()
        for sweep in (1, 2, 3):
            state, _ = algorithm.sweep(state)
            z = form.inverse_ridge(state.wt) if sweep in moved else np.full_like(state.wt, 0.25)
            np.testing.assert_array_equal(state.inverse_ridge, z)


def test_the_stopping_rule_is_the_papers_and_with_momentum_asks_for_three_small_changes(
    make_sources,
):
    for prior, in_a_row in (("hierarchical", 1), ("laplace", 3)):
        result = fit(make_sources(), prior=prior, tol=1e-3)
        change = np.abs(np.diff(result.trace)) / np.abs(result.trace[:-1])
        assert result.converged
        assert (change[-in_a_row:] <= 1e-3).all()
        small = change[:-1] <= 1e-3
        assert not any(small[i : i + in_a_row].all() for i in range(len(small) - in_a_row + 1))
    # any change is small at this tolerance, so the first one that counts ends the fit
    for hold, n_sweeps in ((0, 2), (5, 7)):
        assert len(fit(make_sources(), prior="hierarchical", hold=hold, tol=1e9).trace) == n_sweeps


def test_a_fit_that_calls_itself_converged_hardly_moves_any_more():
    """Whole numbers on which momentum in ln H would stop a fit 0.11 from its end."""
    sources = Sources([np.random.default_rng(0).integers(0, 9, (5, 21)).astype(float)])
    fixed = {"priors": "data", "alpha0": 1.1, "lambda_": 1.5 * centre(sources)[0]}
    early, default, late = (fit(sources, 4, tol=tol, **fixed) for tol in (1e-5, 1e-6, 1e-8))
    for result in (early, default, late):
        assert result.converged
        assert np.abs(result.memberships[0] - late.memberships[0]).max() < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "gauss"}, "prior is 'gauss'; it must be one of laplace, hierarchical, printed"),
        (
            {"prior": "hierarchical", "hold": -1},
            "hold is -1; it must be a whole number of at least 0",
        ),
        ({"hold": 5}, "hold is 5, but prior='laplace' has no Z to hold; leave hold out"),
        *(
            ({"alpha0": alpha0}, "MAP needs numbers of at least 1")
            for alpha0 in ("learned", "by-source", 0.5, [1.0, 1.0, 0.9])
        ),
    ],
)
def test_bad_options(make_sources, options, message):
    with pytest.raises(InputError, match=message):
        fit(make_sources(), **options)


def test_momentum_moves_memberships_in_a_straight_line_and_leaves_some_of_each(make_sources):
    first = mode(make_sources().matrices, Priors(), seed=4).start()
    second = dataclasses.replace(first, memberships=[0.9 * h + 0.1 / 3 for h in first.memberships])
    ends = second.vector()
    there = second.at(ends + 0.5 * (ends - first.vector()))
    for old, end, h in zip(first.memberships, second.memberships, there.memberships, strict=True):
        np.testing.assert_allclose(h, end + 0.5 * (end - old), rtol=1e-12)
    corner = np.zeros_like(second.memberships[0])
    corner[0] = 1.0
    ends[: corner.size] = corner.ravel()
    kept = np.maximum(corner, 0.36 * second.memberships[0])
    np.testing.assert_allclose(second.at(ends).memberships[0], kept / kept.sum(axis=0), rtol=1e-12)
