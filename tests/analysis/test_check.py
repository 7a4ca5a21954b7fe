"""The check of a fit: its mathematics, silence on data of the model, and the right alarm on data
broken in one way.
"""

import dataclasses

import numpy as np
import pytest
import scipy.sparse

from bjmd.analysis import residuals
from bjmd.analysis.check import ANSWERS, check
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.results import predictive
from bjmd_paper.datasets import synthetic


def draw(seed=0):
    return synthetic.generate("small", 4.0, seed)


def fit(sources, n_components=5, method="cavi-bjmd", **options):
    fits = [registry.fit(method, sources, n_components, seed=seed, **options) for seed in range(2)]
    return min(fits, key=lambda one: one.objective)


def survey(sources, result, c=0):
    covariance = residuals.row_covariance(sources, result)
    squares = covariance + result.components[:, :, None] * result.components[:, None, :]
    return residuals.Survey(sources, result, c, covariance, squares)


def alarms(sources, result):
    return {finding.name for finding in check(sources, result) if finding.alarm}


def found(name, sources, result):
    return next(finding for finding in check(sources, result) if finding.name == name)


def with_noise(data, change):
    """The data with the noise of every source replaced by change(noise, signal)."""
    signals = [data.components @ h for h in data.memberships]
    return Sources(
        [s + change(x - s, s) for x, s in zip(data.sources.matrices, signals, strict=True)]
    )


@pytest.fixture(scope="module")
def clean():
    data = draw()
    return data, fit(data.sources)


def test_residuals_and_what_the_fit_took_add_up_to_the_noise(clean):
    """sum r^2 + Var[w_i'h_j] = E||X - WH||^2 = 2 (B - b0), from which the fit has its noise."""
    data, result = clean
    for c in range(3):
        s = survey(data.sources, result, c)
        taken = s.s2.sum() - s.left.sum()
        expected = 2 * (result.posterior.noise.rate[c] - result.model.noise_prior[1])
        assert s.r_squared.sum() + taken == pytest.approx(expected, rel=1e-9)


def test_covariance_of_map_memberships_is_the_inverse_curvature_on_the_simplex(clean):
    data, _ = clean
    result = fit(data.sources, method="map-bjmd")
    found_there = residuals._column_covariance(result, 2, slice(7, 8))[:, :, 0]
    h = result.memberships[2][:, 7]
    w = result.components
    curvature = w.T @ w / result.noise[2] ** 2 + np.diag(0.1 / h**2)
    along = np.linalg.svd(np.ones((1, 5)))[2][1:].T  # a basis of the directions that keep the sum
    np.testing.assert_allclose(
        found_there, along @ np.linalg.inv(along.T @ curvature @ along) @ along.T, atol=1e-9
    )


def test_covariance_of_map_components_is_the_inverse_of_its_ridge_problem(clean):
    data, _ = clean
    result = fit(data.sources, method="map-bjmd", priors="paper", lambda_=2.0)
    precision = sum(h @ h.T / sd**2 for h, sd in zip(result.memberships, result.noise, strict=True))
    i = int(np.abs(result.components).min(axis=1).argmax())  # a row without an entry near 0
    expected = np.linalg.inv(precision + np.diag(1 / (2.0 * np.abs(result.components[i]))))
    np.testing.assert_allclose(
        residuals.row_covariance(data.sources, result)[i], expected, rtol=1e-6, atol=1e-12
    )


def test_log_scale_finds_the_factor_on_normal_noise(rng):
    z = rng.standard_normal(400_000)
    for factor in (0.05, 1.0, 30.0):
        assert residuals.log_scale(
            np.mean(np.log((factor * z) ** 2 + residuals.SOFT))
        ) == pytest.approx(np.log(factor), abs=0.02)


@pytest.mark.parametrize("method", ["cavi-bjmd", "map-bjmd"])
def test_silence_on_data_of_the_model(method):
    for seed, n_components in ((0, 5), (1, 5), (2, 6)):
        data = draw(seed)
        assert alarms(data.sources, fit(data.sources, n_components, method)) == set()


def test_p_values_are_uniform_on_data_of_the_model():
    """Each p is the smallest of three sources', times three: half of them should be near 1, few of
    them small.
    """
    names = ("feature noise", "sample noise", "shifts")
    p_values = []
    for seed in range(20, 40):
        data = draw(seed)
        findings = {finding.name: finding for finding in check(data.sources, fit(data.sources))}
        p_values.append([findings[name].p_value for name in names])
    # 20 draws each: P(more than 6 of 20 below 0.15) < 0.001
    assert (np.array(p_values) < 0.15).sum(axis=0).max() <= 6


def noisy_features(data, rng):
    factor = np.where(np.arange(105) % 10 == 0, 10.0, 1.0)[:, None]
    return with_noise(data, lambda noise, signal: factor * noise)


def noisy_samples(data, rng):
    return with_noise(
        data, lambda noise, signal: np.exp(0.5 * rng.standard_normal(noise.shape[1])) * noise
    )


def wild(data, rng):
    return Sources(
        [np.where(rng.random(x.shape) < 0.001, 100 * x, x) for x in data.sources.matrices]
    )


def heavy_tails(data, rng):
    return with_noise(data, lambda noise, signal: noise.std() * rng.standard_t(2, noise.shape))


def shifted(data, rng):
    first, second, third = data.sources.matrices
    return Sources([first, second + rng.standard_normal((105, 1)), third])


def growing(data, rng):
    return with_noise(data, lambda noise, signal: np.sqrt(0.25 + signal) * noise)


def private(data, rng):
    """Half of the samples of source 1 are half made of a pattern that no other source has."""
    pattern = 4.0 * (rng.random((105, 1)) < 0.3)
    has = rng.random(120) < 0.5
    signal = data.components @ data.memberships[0]
    first, *others = data.sources.matrices
    return Sources([first + 0.5 * has * (pattern - signal), *others])


def times(factor):
    return lambda data, rng: Sources([factor * x for x in data.sources.matrices])


def moved(data, rng):
    return Sources([x + 20 for x in data.sources.matrices])


BROKEN = {
    "feature noise": [(noisy_features, 5)],
    "sample noise": [(noisy_samples, 5)],
    "outliers": [(wild, 5), (heavy_tails, 5)],
    "shifts": [(shifted, 5), (shifted, 6)],
    "signal-dependent noise": [(growing, 5)],
    "source-specific component": [(private, 6)],
    "unit": [(times(100.0), 5), (times(1e-4), 5)],
    "origin": [(moved, 5)],
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_right_alarm_on_broken_data(name):
    for change, n_components in BROKEN[name]:
        for seed in (3, 4):
            sources = change(draw(seed), np.random.default_rng(seed))
            priors = "paper" if name in ("unit", "origin") else "data"
            finding = found(name, sources, fit(sources, n_components, priors=priors))
            assert finding.alarm, finding
            assert ANSWERS[name] in finding.sentence


ANSWERED = {
    "feature noise": (noisy_features, {"noise": "feature"}),
    "sample noise": (noisy_samples, {"noise": "sample"}),
    "outliers": (heavy_tails, {"noise": "robust"}),
    "shifts": (shifted, {"offsets": True}),
    "source-specific component": (private, {"alpha0": "learned"}),
    "unit": (times(1e5), {}),
    "origin": (moved, {}),
}


@pytest.mark.parametrize("name", ANSWERED)
def test_the_recommended_option_ends_the_alarm(name):
    change, options = ANSWERED[name]
    for seed in (3, 4):
        sources = change(draw(seed), np.random.default_rng(seed))
        assert (
            alarms(sources, fit(sources, 6 if name == "source-specific component" else 5, **options))
            == set()
        )


def test_what_a_fit_has_is_not_recommended():
    """Noise by feature is shared by the sources; where only one of them has it, some is left."""
    _, *others = draw(3).sources.matrices
    broken = noisy_features(draw(3), None).matrices[0]
    sources = Sources([broken, *others])
    finding = found("feature noise", sources, fit(sources, noise="feature"))
    assert (
        finding.alarm
        and "allows for it" in finding.sentence
        and "would help" not in finding.sentence
    )


def test_a_shift_or_a_private_pattern_is_not_taken_for_the_other():
    for change, n_components, name in ((shifted, 6, "shifts"), (private, 6, "source-specific component")):
        sources = change(draw(3), np.random.default_rng(3))
        assert alarms(sources, fit(sources, n_components)) == {name}


def test_effects_of_a_graver_alarm_are_put_in_doubt():
    sources = times(1e-4)(draw(3), None)
    first, *others = [
        finding for finding in check(sources, fit(sources, priors="paper")) if finding.alarm
    ]
    assert first.name == "unit"
    assert "deal with that first" not in first.sentence
    assert others
    assert all("only be an effect of unit; deal with that first" in one.sentence for one in others)


def test_another_mix_of_samples_is_no_shift():
    data = draw(1)
    kept = data.memberships[1][2:4].sum(axis=0) == 0
    first, second, third = data.sources.matrices
    sources = Sources([first, second[:, kept], third])
    assert alarms(sources, fit(sources)) == set()


def test_offenders_are_named():
    data = draw(5)
    sources = noisy_features(data, None)
    named = found("feature noise", sources, fit(sources)).where
    assert {name.split(" in ")[0] for name in named} <= {f"feature {i}" for i in range(1, 106, 10)}

    matrices = [np.array(x) for x in data.sources.matrices]
    matrices[2][17, 40] += 100.0
    sources = Sources(matrices)
    finding = found("outliers", sources, fit(sources))
    assert finding.alarm
    assert finding.where == ["feature 18 of source 3-sample 41 in source 3"]


def test_the_expected_noise_is_that_of_the_result(clean):
    """What a fit says of the noise of features is no contradiction."""
    data, result = clean
    factor = 1 + 3 * np.random.default_rng(0).random((105, 1))
    sources = with_noise(data, lambda noise, signal: factor * noise)
    assert "feature noise" in alarms(sources, result)
    model = dataclasses.replace(result.model, feature_precision=1 / factor[:, 0] ** 2)
    assert not {"feature noise", "outliers"} & alarms(
        sources, dataclasses.replace(result, model=model)
    )


def same(first, second, rtol=1e-7):
    for one, other in zip(first, second, strict=True):
        assert one.name == other.name
        assert one.sentence == other.sentence
        assert one.where == other.where
        np.testing.assert_allclose(one.statistic, other.statistic, rtol=rtol, atol=1e-12)


def test_sparse_streamed_and_small_blocks_give_the_same(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    dense = [
        np.where(rng.random((60, n)) < 0.8, 0, rng.poisson(3.0, (60, n))).astype(float)
        for n in (50, 70)
    ]
    sources = Sources(dense)
    result = fit(sources, 3)
    expected = check(sources, result)
    monkeypatch.setattr(residuals, "BLOCK", 60 * 7)
    same(expected, check(sources, result))
    same(expected, check(Sources([scipy.sparse.csr_array(x) for x in dense]), result))
    for c, x in enumerate(dense):
        np.save(tmp_path / f"{c}.npy", x.astype(np.float32))
    mapped = [np.load(tmp_path / f"{c}.npy", mmap_mode="r") for c in range(2)]
    same(expected, check(Sources(mapped), result))


def test_chunked_sources_give_the_same(clean):
    dask_array = pytest.importorskip("dask.array")
    data, result = clean
    chunked = Sources([dask_array.from_array(x, chunks=(40, 50)) for x in data.sources.matrices])
    same(check(data.sources, result), check(chunked, result))


def test_missing_entries_are_left_out(clean):
    """A wild entry is one; made missing, it is none.  A feature that a source lacks counts nowhere
    in it.
    """
    data, result = clean
    matrices = [np.array(x) for x in data.sources.matrices]
    matrices[0][3, 5] = 1e6
    assert "outliers" in alarms(Sources(matrices), result)
    matrices[0][3, 5] = np.nan
    matrices[1][60] = np.nan
    matrices[2][np.random.default_rng(0).random(matrices[2].shape) < 0.2] = np.nan
    sources = Sources(matrices)
    assert alarms(sources, result) == set()
    assert alarms(sources, fit(sources)) == set()
    assert survey(sources, result, 1).n == 104 * 120


def test_units_do_not_matter_to_what_is_not_about_them(clean):
    data, result = clean
    result = dataclasses.replace(result, options={"priors": "paper"})
    unit = 1e3
    scaled = dataclasses.replace(
        result,
        components=unit * result.components,
        noise=unit * result.noise,
        options={"priors": "paper", "lambda_": unit, "b0": 0.01 * unit**2},
        posterior=dataclasses.replace(
            result.posterior,
            components=dataclasses.replace(
                result.posterior.components,
                mean=unit * result.components,
                precision=result.posterior.components.precision / unit**2,
                ridge=result.posterior.components.ridge / unit**2,
            ),
        ),
    )
    before = check(data.sources, result)
    after = check(Sources([unit * x for x in data.sources.matrices]), scaled)
    for one, other in zip(before, after, strict=True):
        assert other.statistic == pytest.approx(one.statistic, rel=1e-6, abs=1e-9)


def test_one_source_and_one_component(clean):
    data, _ = clean
    alone = Sources(data.sources.matrices[:1])
    assert not {"shifts", "source-specific component"} & alarms(alone, fit(alone))
    rng = np.random.default_rng(0)
    flat = Sources([1 + rng.standard_normal((40, n)) for n in (30, 50)])
    assert alarms(flat, fit(flat, 1)) == set()


def test_methods_without_its_noise_model_are_refused(clean):
    data, _ = clean
    with pytest.raises(
        InputError, match="'kmeans' has no noise model to check; fit with one of "
    ):
        check(data.sources, registry.fit("kmeans", data.sources, 3))


@pytest.mark.parametrize("kind", ["dense", "sparse", "mapped"])
def test_of_large_sources_a_part_is_asked_and_it_is_that_part_of_the_fit(
    kind, clean, monkeypatch, tmp_path
):
    monkeypatch.setattr(residuals, "MOST_ENTRIES", 105 * 80)
    data, _ = clean
    result = fit(data.sources, noise="sample", max_sweeps=20)
    matrices = data.sources.matrices
    if kind == "sparse":
        matrices = [scipy.sparse.csc_array(x) for x in matrices]
    if kind == "mapped":
        for c, x in enumerate(matrices):
            np.save(tmp_path / f"{c}.npy", x)
        matrices = [np.load(tmp_path / f"{c}.npy", mmap_mode="r") for c in range(3)]
    some, part = residuals.thinned(Sources(matrices), result)
    for c, whole in enumerate(data.sources.matrices):
        chosen = [int(name.rsplit(" ", 1)[1]) - 1 for name in some.sample_names[c]]
        assert len(chosen) == 80 and chosen[0] == 0 and chosen[-1] == 119  # spread over all
        x = some.matrices[c].toarray() if kind == "sparse" else some.matrices[c]
        np.testing.assert_array_equal(x, whole[:, chosen])
        np.testing.assert_array_equal(part.memberships[c], result.memberships[c][:, chosen])
        parameters = result.posterior.memberships[c].parameters
        np.testing.assert_array_equal(
            part.posterior.memberships[c].parameters, parameters[:, chosen]
        )
        ours, theirs = (predictive.sample_precision(one, c) for one in (part, result))
        np.testing.assert_array_equal(ours, theirs[chosen])


def test_a_part_of_the_samples_raises_the_same_alarms(clean, monkeypatch):
    monkeypatch.setattr(residuals, "MOST_ENTRIES", 105 * 80)
    data, result = clean
    assert alarms(data.sources, result) == set()
    shift = np.random.default_rng(1).standard_normal((105, 1))
    shifted = Sources([x + (c == 1) * shift for c, x in enumerate(data.sources.matrices)])
    assert "shifts" in alarms(shifted, fit(shifted))
