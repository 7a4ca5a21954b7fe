"""MAP-BJMD as mathematics: descent, optimality, limits, and recovery of known truth."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from oracle import negative_log_joint
from scipy.optimize import minimize_scalar

from bjmd.data.sources import Sources
from bjmd.data.view import centre
from bjmd.errors import InputError
from bjmd.inference import map as map_bjmd
from bjmd.inference import offsets, registry
from bjmd.model import Priors
from bjmd.numerics.rows import ridge_rows
from bjmd_paper.datasets import synthetic

FORMS = ("laplace", "hierarchical")


def fit(sources, n_components=3, *, seed=0, **options):
    return registry.fit(
        "map-bjmd", sources, n_components, seed=seed, **({"priors": "paper"} | options)
    )


@pytest.mark.parametrize("prior", FORMS)
def test_the_objective_never_rises_on_hundreds_of_random_problems(make_sources, prior):
    rng = np.random.default_rng(1)
    for trial in range(200):
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


def test_the_trace_is_the_objective_of_the_model(make_sources):
    sources = make_sources()
    result = fit(sources, alpha0=[1.1, 1.5, 2.0], lambda_=0.5)
    priors = Priors([1.1, 1.5, 2.0], 0.5)
    from_scratch = negative_log_joint(
        sources.matrices, result.components, result.memberships, result.noise**2, priors
    )
    np.testing.assert_allclose(result.objective, from_scratch, rtol=1e-10)
    assert result.objective == result.trace[-1]


def test_the_hierarchical_trace_is_the_objective_with_z(make_sources):
    """The paper's objective: the Laplace term replaced by z/lambda + ln(z)/2 + w^2/(2z) at the best
    z for each w.
    """
    sources = make_sources()
    result = fit(sources, prior="hierarchical", lambda_=0.5)
    priors = Priors(lambda_=0.5)
    total = negative_log_joint(
        sources.matrices, result.components, result.memberships, result.noise**2, priors
    )
    total -= np.abs(result.components).sum() / 0.5
    for w in result.components.ravel():
        floor = np.log(map_bjmd.Z_FLOOR * 0.5)
        best = minimize_scalar(
            lambda log_z, w=w: np.exp(log_z) / 0.5 + 0.5 * log_z + 0.5 * w**2 / np.exp(log_z),
            bounds=(floor, 10),
            method="bounded",
            options={"xatol": 1e-10},
        )
        total += best.fun
    np.testing.assert_allclose(result.objective, total, rtol=1e-7)


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


def test_one_row_of_the_components_by_the_normal_equations(rng):
    """The batched ridge against numpy for every row, including rows with a variance of exactly
    zero.
    """
    half = rng.standard_normal((4, 9))
    precision = half @ half.T
    linear = rng.standard_normal((4, 70))
    variance = rng.uniform(0.1, 2, size=(4, 70))
    out = ridge_rows(precision, linear, variance)
    for i in range(70):
        expected = np.linalg.solve(precision + np.diag(1 / variance[:, i]), linear[:, i])
        np.testing.assert_allclose(out[:, i], expected, rtol=1e-10)
    variance[2] = 0.0
    out = ridge_rows(precision, linear, variance)
    assert (out[2] == 0).all()
    kept = [0, 1, 3]
    expected = np.linalg.solve(
        precision[np.ix_(kept, kept)] + np.diag(1 / variance[kept, 0]), linear[kept, 0]
    )
    np.testing.assert_allclose(out[kept, 0], expected, rtol=1e-10)


def test_momentum_needs_fewer_sweeps_and_ends_no_higher(monkeypatch):
    """Many overlapping patterns, as in faces; the printed algorithm has no momentum."""
    rng = np.random.default_rng(0)
    position = np.linspace(0, 1, 100)[:, None]
    waves = 1 + 0.5 * np.cos(2 * np.pi * (position * rng.integers(1, 6, 8) + rng.random(8)))
    sources = Sources(
        [waves @ rng.dirichlet(np.full(8, 0.5), 90).T + 0.05 * rng.standard_normal((100, 90))]
    )
    for seed in range(3):
        quick = fit(sources, 8, seed=seed, tol=1e-9, max_sweeps=150)
        printed = fit(sources, 8, seed=seed, prior="hierarchical", tol=1e-9, max_sweeps=20)
        with monkeypatch.context() as patch:
            patch.setattr(map_bjmd, "PLAIN_SWEEPS", 10**6)
            plain = fit(sources, 8, seed=seed, tol=1e-9, max_sweeps=300)
            same = fit(sources, 8, seed=seed, prior="hierarchical", tol=1e-9, max_sweeps=20)
        assert quick.objective < plain.objective
        assert (np.diff(quick.trace) <= 0).all()
        np.testing.assert_array_equal(quick.trace[:5], plain.trace[:5])
        np.testing.assert_array_equal(printed.trace, same.trace)


@pytest.mark.parametrize("prior", FORMS)
def test_sparse_equals_dense(make_sources, prior):
    dense = make_sources()
    cut = [np.where(np.abs(x) > 0.5, x, 0.0) for x in dense.matrices]
    results = [
        fit(Sources([make(x) for x in cut]), prior=prior)
        for make in (np.asarray, scipy.sparse.csr_array)
    ]
    np.testing.assert_allclose(results[0].components, results[1].components, atol=1e-8)
    np.testing.assert_allclose(results[0].trace, results[1].trace, rtol=1e-10)


def test_memory_order_of_the_data_does_not_matter(make_sources):
    sources = make_sources()
    turned = Sources([np.asfortranarray(x) for x in sources.matrices])
    np.testing.assert_allclose(fit(sources).trace, fit(turned).trace, rtol=1e-10)


def test_one_source_is_its_own_concatenation(make_sources):
    single = Sources(make_sources().matrices[:1])
    alone = fit(single)
    together = registry.fit("map-catbjmd", single, 3, priors="paper")
    np.testing.assert_array_equal(alone.components, together.components)
    np.testing.assert_array_equal(alone.noise, together.noise)


def test_cat_variant_is_the_same_code_on_concatenated_sources(make_sources):
    sources = make_sources()
    cat = registry.fit("map-catbjmd", sources, 3, seed=2, priors="paper")
    direct = fit(sources.concatenated(), seed=2)
    np.testing.assert_array_equal(cat.components, direct.components)
    np.testing.assert_array_equal(np.hstack(cat.memberships), direct.memberships[0])
    assert [h.shape for h in cat.memberships] == [(3, 9), (3, 7)]
    assert cat.noise[0] == cat.noise[1]


def test_splitting_a_source_with_tied_noise_changes_nothing(make_sources, monkeypatch):
    """One source, or the same columns as two sources held at one common noise level, give the same
    W and H.

    Noise is tied by a prior so strong that the data cannot move it.
    """
    whole = Sources(make_sources(n_samples=(16, 7)).matrices[:1])
    parts = Sources(np.split(whole.matrices[0], [6], axis=1))
    columns = np.random.default_rng(0).dirichlet(np.full(3, 0.1), 16).T
    position = {"at": 0}

    def same_columns(n_components, n_samples, rng):
        first = position["at"] % 16
        position["at"] = first + n_samples
        return np.ascontiguousarray(columns[:, first : first + n_samples])

    monkeypatch.setattr(map_bjmd, "random_memberships", same_columns)
    tied = {"a0": 1e12, "b0": 0.5e12, "tol": 1e-9}
    one = fit(whole, **tied)
    two = fit(parts, **tied)
    np.testing.assert_allclose(two.noise, [np.sqrt(0.5)] * 2, rtol=1e-6)
    np.testing.assert_allclose(one.components, two.components, atol=1e-6)
    np.testing.assert_allclose(one.memberships[0], np.hstack(two.memberships), atol=1e-6)


def test_the_noise_of_a_useless_components_is_the_spread_of_the_data():
    """A prior that holds W at zero leaves s2 = (2 b0 + ||X||^2) / (2 a0 + MN + 2)."""
    x = np.random.default_rng(0).standard_normal((6, 8))
    result = fit(Sources([x]), 2, lambda_=1e-9, a0=2.0, b0=3.0)
    assert np.abs(result.components).max() < 1e-6
    np.testing.assert_allclose(result.noise[0] ** 2, (6 + (x**2).sum()) / (4 + 48 + 2), rtol=1e-6)


def test_scaling_the_data_scales_the_solution(make_sources):
    sources = make_sources()
    plain = fit(sources, lambda_=1.0, b0=0.01)
    for factor in (1e-6, 1e6):
        scaled = fit(
            Sources([factor * x for x in sources.matrices]),
            lambda_=factor,
            b0=0.01 * factor**2,
            max_sweeps=len(plain.trace),
            tol=1e-15,
        )
        np.testing.assert_allclose(scaled.components / factor, plain.components, atol=1e-6)
        np.testing.assert_allclose(scaled.noise / factor, plain.noise, rtol=1e-6)


def test_recovers_the_truth_of_the_large_data():
    drawn = synthetic.generate("large", 4.0, 0)
    result = fit(drawn.sources, 10, tol=1e-6)
    assert result.converged
    np.testing.assert_allclose(result.noise, [1.0, 2.5, 4.0], rtol=0.03)
    # every true pattern has a component that looks like it, up to the noise that is left in the
    # mean of its samples
    correlation = np.corrcoef(drawn.components[:, :-1].T, result.components.T)[:9, 9:]
    assert (correlation.max(axis=1) > 0.95).all()


def test_an_unconverged_fit_says_so(make_sources):
    result = fit(make_sources(), max_sweeps=3, tol=1e-15)
    assert not result.converged
    assert result.reason == "stopped at max_sweeps = 3"
    assert len(result.trace) == 3


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


def test_z_moves_from_the_first_sweep_unless_it_is_held(make_sources):
    """The ridge of the second sweep is Z at its best for the first W, or still lambda^2."""
    sources = make_sources()
    lambda_ = 0.5
    form = map_bjmd.PRIORS_OF_W["hierarchical"](lambda_)
    for hold, moved in ((0, [1, 2, 3]), (2, [3])):
        algorithm = map_bjmd.PosteriorMode(
            sources, 3, Priors(lambda_=lambda_), form, np.random.default_rng(0), hold=hold
        )
        state = algorithm.start()
        for sweep in (1, 2, 3):
            state, _ = algorithm.sweep(state)
            z = (
                form.inverse_ridge(state.wt)
                if sweep in moved
                else np.full_like(state.wt, lambda_**2)
            )
            np.testing.assert_array_equal(state.inverse_ridge, z)


def test_the_stopping_rule_sleeps_only_while_z_is_held(make_sources):
    """Any change is small at this tolerance, so the first one that counts ends the fit."""
    for hold, n_sweeps in ((0, 2), (5, 7)):
        assert len(fit(make_sources(), prior="hierarchical", hold=hold, tol=1e9).trace) == n_sweeps


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "gauss"}, "prior is 'gauss'; it must be one of laplace, hierarchical"),
        ({"lambda_": -1}, "lambda_ is -1"),
        ({"tol": 0}, "tol is 0"),
        (
            {"prior": "hierarchical", "hold": -1},
            "hold is -1; it must be a whole number of at least 0",
        ),
        ({"hold": 5}, "hold is 5, but only prior='hierarchical' has a Z to hold; leave hold out"),
        ({"max_sweeps": 0}, "max_sweeps is 0"),
    ],
)
def test_bad_options(make_sources, options, message):
    with pytest.raises(InputError, match=message):
        fit(make_sources(), **options)


@pytest.mark.parametrize("prior", ["laplace", "hierarchical"])
@pytest.mark.parametrize("seed", range(12))
def test_the_objective_never_rises_on_data_without_noise(prior, seed):
    """The residual is then a difference of nearly equal numbers; duplicated samples and a tiny b0
    make it worse.
    """
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=(15, 3)) @ rng.dirichlet(np.ones(3), 8).T
    x = np.repeat(x if seed % 2 else x[:, :1], 3, axis=1)
    result = registry.fit(
        "map-bjmd", Sources([x]), 2 + seed % 2, prior=prior, b0=1e-6, tol=1e-9, max_sweeps=300
    )
    assert np.diff(result.trace).max(initial=0) <= 1e-7


def test_before_the_first_sweep_missing_entries_are_feature_means(make_sources):
    """The first W, which knows no fit yet, is that of data with the mean of all sources in every
    hole.
    """
    holed = [
        np.where(np.random.default_rng(1).random(x.shape) < 0.3, np.nan, x)
        for x in make_sources().matrices
    ]
    means = np.nanmean(np.hstack(holed), axis=1)[:, None]
    filled = [np.where(np.isnan(x), means, x) for x in holed]

    def mode(matrices):
        form = map_bjmd._Laplace(1.0)
        return map_bjmd.PosteriorMode(
            Sources(matrices), 3, Priors(), form, np.random.default_rng(0)
        )

    with_holes = mode(holed)
    without = mode(filled)
    for view, x in zip(with_holes.views, filled, strict=True):
        np.testing.assert_allclose(view.matrix.array, x, rtol=1e-12)
    np.testing.assert_allclose(
        [with_holes.norm(c) for c in (0, 1)], [without.norm(c) for c in (0, 1)], rtol=1e-12
    )
    state = without.start()
    first = [
        m.sweep(dataclasses.replace(state, columns=[None, None]))[0].wt
        for m in (with_holes, without)
    ]
    np.testing.assert_allclose(first[0], first[1], rtol=1e-10)


def test_the_start_is_the_documented_one(make_sources):
    """docs/derivation.md, 3.6: memberships near corners, the noise that is best for W = 0, and v =
    lambda^2.
    """
    sources = make_sources()
    priors = Priors(1.1, 0.7, 2.0, 0.5)
    state = map_bjmd.PosteriorMode(
        sources, 3, priors, map_bjmd._Laplace(0.7), np.random.default_rng(4)
    ).start()
    rng = np.random.default_rng(4)
    for x, h, variance in zip(
        sources.matrices, state.memberships, state.noise_variances, strict=True
    ):
        np.testing.assert_allclose(h, rng.dirichlet(np.full(3, 0.1), x.shape[1]).T)
        np.testing.assert_allclose(variance, (2 * 0.5 + (x**2).sum()) / (2 * 2.0 + x.size + 2))
    np.testing.assert_allclose(state.inverse_ridge, np.full((3, 12), 0.49))


def test_a_fit_that_calls_itself_converged_hardly_moves_any_more():
    """Whole numbers on which a fit whose momentum was in ln H stopped, at 1e-5 nats per entry, 0.11
    from its end.
    """
    sources = Sources([np.random.default_rng(0).integers(0, 9, (5, 21)).astype(float)])
    fixed = {"alpha0": 1.1, "lambda_": 1.5 * centre(sources)[0]}
    results = [
        registry.fit("map-bjmd", sources, 4, **fixed, **tol)
        for tol in ({"tol": 1e-5}, {}, {"tol": 1e-8})
    ]
    assert all(result.converged for result in results)
    early, default, late = (result.memberships[0] for result in results)
    assert np.abs(default - late).max() < 0.02
    assert np.abs(early - late).max() < 0.02


def test_momentum_moves_memberships_in_a_straight_line_and_leaves_some_of_each(make_sources):
    sources = make_sources()
    first = map_bjmd.PosteriorMode(
        sources, 3, Priors(), map_bjmd._Laplace(1.0), np.random.default_rng(4)
    ).start()
    second = dataclasses.replace(first, memberships=[0.9 * h + 0.1 / 3 for h in first.memberships])
    ends = second.vector()
    there = second.at(ends + 0.5 * (ends - first.vector()))
    for old, end, h in zip(first.memberships, second.memberships, there.memberships, strict=True):
        np.testing.assert_allclose(h, end + 0.5 * (end - old), rtol=1e-12)
    corner = np.zeros_like(second.memberships[0])
    corner[0] = 1.0
    ends[: corner.size] = corner.ravel()
    kept = np.maximum(corner, map_bjmd.LEAST_LEFT * second.memberships[0])
    np.testing.assert_allclose(second.at(ends).memberships[0], kept / kept.sum(axis=0), rtol=1e-12)


# The defaults with priors="data": learned scales and offsets.


def shifted(make_sources, seed=0, share_missing=0.0, **data):
    """Sources of which the second is shifted, and the shift."""
    rng = np.random.default_rng(seed + 50)
    first, second = make_sources(seed, **data).matrices
    shift = rng.standard_normal((len(first), 1))
    matrices = [first, second + shift]
    holed = [np.where(rng.random(x.shape) < share_missing, np.nan, x) for x in matrices]
    return holed, shift[:, 0]


@pytest.mark.parametrize("kind", ["dense", "sparse", "missing", "streamed"])
def test_with_learned_scales_and_offsets_no_plain_sweep_raises_the_objective(
    make_sources, kind, tmp_path
):
    """Also not where the scales begin to be learned."""
    for seed in range(5):
        matrices, _ = shifted(make_sources, seed, 0.3 if kind == "missing" else 0.0)
        if kind == "sparse":
            matrices = [scipy.sparse.csc_array(np.where(np.abs(x) > 0.5, x, 0)) for x in matrices]
        if kind == "streamed":
            for c, x in enumerate(matrices):
                np.save(tmp_path / f"{c}.npy", x)
            matrices = [np.load(tmp_path / f"{c}.npy", mmap_mode="r") for c in range(2)]
        form = map_bjmd._LearnedLaplace(np.ones((3, 1)))
        mode = map_bjmd.PosteriorMode(
            Sources(matrices), 3, Priors(1.0), form, np.random.default_rng(seed), offsets=True
        )
        state = mode.start()
        values = []
        for _ in range(40):
            state, objective = mode.sweep(state)
            values.append(objective)
        assert np.diff(values).max() <= 1e-9 * np.abs(values).max()
        scales = np.maximum(np.abs(state.wt).mean(axis=1), map_bjmd.LEAST_SCALE)
        np.testing.assert_allclose(state.form.lambda_[:, 0], scales)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_objective_with_learned_scales_and_offsets_by_entry(make_sources, missing):
    """Minus the log joint with E over q(o), whose mean and variance are the best for the rest."""
    matrices, _ = shifted(make_sources, share_missing=missing)
    form = map_bjmd._LearnedLaplace(np.ones((3, 1)))
    mode = map_bjmd.PosteriorMode(
        Sources(matrices), 3, Priors(1.5), form, np.random.default_rng(0), offsets=True
    )
    state = mode.start()
    for _ in range(3000 if missing else 12):  # with holes, the bound is tight only at the end
        state, objective = mode.sweep(state)
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


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_shift_of_a_source_is_found(make_sources, missing):
    data = {"n_features": 60, "n_samples": (120, 100), "noise": (0.3, 0.6)}
    matrices, shift = shifted(make_sources, 3, missing, **data)
    results = [registry.fit("map-bjmd", Sources(matrices), 3, seed=seed) for seed in range(3)]
    model = min(results, key=lambda r: r.objective).model
    difference = model.offsets[1] - model.offsets[0]
    assert np.corrcoef(difference, shift)[0, 1] > 0.98
    assert np.sqrt(np.mean((difference - shift) ** 2)) < 0.25
    assert (model.offsets_sd > 0).all()


def test_offsets_of_no_width_are_none(make_sources, monkeypatch):
    def narrow(n_features):
        return offsets.Offset(np.zeros(n_features), np.zeros(n_features), offsets.LEAST_TAU)

    options = {"priors": "data", "tol": 1e-13, "max_sweeps": 30}
    plain = fit(make_sources(), offsets=False, **options)
    monkeypatch.setattr(offsets.Offset, "start", staticmethod(narrow))
    monkeypatch.setattr(offsets, "_best_tau", lambda sums, known, tau: tau)
    held = fit(make_sources(), **options)
    assert np.abs(held.model.offsets).max() < 1e-6
    for a, b in zip(plain.memberships, held.memberships, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    np.testing.assert_allclose(plain.model.component_scales, held.model.component_scales, rtol=1e-4)


@pytest.mark.parametrize("alpha0", ["learned", "by-source", 0.5, [1.0, 1.0, 0.9]])
def test_a_dirichlet_without_a_mode_is_refused(make_sources, alpha0):
    with pytest.raises(InputError, match="MAP needs numbers of at least 1"):
        fit(make_sources(), alpha0=alpha0)
