"""The check: the right recommendation on data that are broken in one way, none on the others."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd.analysis import check as module
from bjmd.analysis.check import Check, check
from bjmd.data.sources import Sources
from bjmd.estimator import BJMD
from bjmd.inference import registry

N_FEATURES = 40
COLUMNS = ["option", "moved", "density_gain", "standard_error", "t", "r2", "verdict"]


def make(noise_of=lambda noise, rng: noise, seed=0):
    """Two sources of overlapping blocks, as in the paper; noise_of changes their noise."""
    rng = np.random.default_rng(seed)
    components = np.zeros((N_FEATURES, 3))
    components[:18, 0] = 4.0
    components[14:32, 1] = 4.0
    matrices = []
    for n, sd in ((50, 0.7), (40, 1.4)):
        signal = components @ rng.dirichlet(np.full(3, 0.4), n).T
        matrices.append(signal + noise_of(sd * rng.standard_normal(signal.shape), rng))
    return Sources(matrices)


def noisy_features(noise, rng):
    return np.where(np.arange(N_FEATURES) % 5 == 0, 8.0, 1.0)[:, None] * noise


def noisy_samples(noise, rng):
    return np.where(rng.random(noise.shape[1]) < 0.25, 6.0, 1.0) * noise


def outliers(noise, rng):
    return np.where(rng.random(noise.shape) < 0.02, 30.0, 1.0) * noise


def shifted(noise, rng):
    return noise + rng.standard_normal((N_FEATURES, 1))


def fit(sources, n_components=3):
    return registry.fit("cavi-bjmd", sources, n_components, tol=1e-5)


@pytest.fixture(scope="module")
def clean():
    sources = make()
    result = fit(sources)
    return sources, result, check(sources, result)


@pytest.mark.parametrize(
    ("noise_of", "noise"),
    [(noisy_features, "feature"), (noisy_samples, "sample"), (outliers, "robust")],
)
def test_broken_data_get_the_right_recommendation_until_it_is_followed(noise_of, noise):
    data = [x.T for x in make(noise_of).matrices]
    parameters = {"n_components": 3, "n_init": 1, "tol": 1e-5}
    checked = BJMD(**parameters).fit(data).check(data)
    assert checked.recommended == {"noise": noise}
    assert repr(checked).startswith(f"noise={noise} is worth trying: ")
    assert checked.table["option"][0] == f"noise={noise}"
    assert (checked.table["verdict"] == module.WORTH_TRYING).sum() == 1

    followed = BJMD(**parameters, **checked.recommended).fit(data).check(data)
    assert len(followed.table) == 2
    assert all(noise in option for option in followed.table["option"])
    assert followed.recommended == {}


def test_clean_data_get_no_recommendation(clean):
    checked = clean[2]
    assert checked.recommended == {}
    assert str(checked) == (
        "No other option is recommended: none clearly predicts hidden entries better."
    )
    assert list(checked.table.columns) == COLUMNS
    assert sorted(checked.table["option"]) == ["noise=feature", "noise=robust", "noise=sample"]
    assert checked.table["density_gain"].is_monotonic_decreasing
    assert (checked.table["r2"] > 0.3).all()


def test_the_same_table_for_any_number_of_jobs(clean):
    sources, result, checked = clean
    pd.testing.assert_frame_equal(
        check(sources, result, jobs=3).table, checked.table, check_exact=True
    )


def levels():
    """Data of the model, with 20 samples in each of two sources and features at many levels."""
    rng = np.random.default_rng(0)
    components = rng.normal(0, 1, (119, 1)) + rng.normal(0, 0.15, (119, 4))
    signals = [components @ rng.dirichlet(np.full(4, 0.5), 20).T for _ in range(2)]
    return Sources([signal + rng.normal(0, 0.05, signal.shape) for signal in signals])


@pytest.mark.parametrize(("sources", "k"), [(make(shifted), 3), (levels(), 4)])
def test_what_no_noise_model_mends_gets_no_recommendation(sources, k):
    assert check(sources, fit(sources, k)).recommended == {}


def test_only_options_that_the_data_allow_are_added_to_those_of_the_fit(clean):
    dense, result, _ = clean
    sparse = Sources([scipy.sparse.csr_array(np.maximum(x, 0)) for x in dense.matrices])
    assert module.alternatives(dense, result) == ["feature", "sample", "robust"]
    assert module.alternatives(sparse, result) == ["feature", "sample"]
    by_sample = replace(result, options={"noise": "sample"})
    assert module.alternatives(dense, by_sample) == ["feature+sample", "sample+robust"]
    everything = replace(result, options={"noise": "feature+sample+robust"})
    assert module.alternatives(dense, everything) == []


@pytest.mark.parametrize(("promising", "n_looks"), [(False, 1), (True, 2)])
def test_only_what_seems_better_is_tried_again(clean, monkeypatch, promising, n_looks):
    """With other entries hidden, from the start of the fit, and for a limited number of sweeps."""
    sources, result, _ = clean
    fits = []

    def recorded(method, visible, n_components, seed, **options):
        assert options["max_sweeps"] == 12
        fits.append((visible.data[0].array.tobytes(), seed, options["noise"]))
        return fit_of_registry(method, visible, n_components, seed, **options)

    fit_of_registry = registry.fit
    monkeypatch.setattr(registry, "fit", recorded)
    monkeypatch.setattr(module, "MOST_SWEEPS", 12)
    monkeypatch.setattr(module, "_is_promising", lambda row: promising)
    check(sources, replace(result, seed=7))
    assert len(fits) == len({*fits}) == 4 * n_looks
    hidden, seeds, noises = ({*part} for part in zip(*fits, strict=True))
    assert (len(hidden), seeds, len(noises)) == (n_looks, {7}, 4)


@pytest.mark.parametrize("worse", [{"density_gain": -0.1}, {"t": 0.9}, {"moved": 0.02}])
def test_what_could_not_be_recommended_is_not_tried_further(worse):
    row = {"density_gain": 0.1, "t": 1.1, "moved": 0.03, "least_move": 0.05}
    assert module._is_promising(row)
    assert not module._is_promising(row | worse)


def test_one_sample_does_not_decide(rng):
    """However far off, it counts for no more than five robust standard deviations."""
    differences = rng.standard_normal(1000)
    differences[7] = 1e9
    clipped = module._clipped(differences)
    assert clipped[7] == clipped.max() < 5.5
    usual = np.abs(differences) < 4
    np.testing.assert_array_equal(clipped[usual], differences[usual])


def test_large_data_are_thinned(clean, monkeypatch):
    sources = clean[0]
    monkeypatch.setattr(module, "MOST_SAMPLES", 45)
    thinned = module._thinned(sources, seed=1)
    assert thinned.n_samples == [25, 20]
    for x, part in zip(sources.matrices, thinned.matrices, strict=True):
        assert all((x == column[:, None]).all(axis=0).any() for column in part.T)


def row(**changes):
    usual = {"option": "noise=robust", "moved": 0.2, "least_move": 0.05, "density_gain": 0.1}
    return {**usual, "standard_error": 0.01, "t": 5.0, "r2": 0.4, **changes}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, module.WORTH_TRYING),
        ({"r2": 0.0}, "cannot be judged: hidden entries are not predicted"),
        ({"standard_error": 0.05}, "no gain"),
        ({"t": 3.0}, "higher density, but no better prediction"),
        ({"moved": 0.05}, "better, but memberships stay the same"),
    ],
)
def test_an_option_has_to_pass_every_rule(changes, verdict):
    assert module._verdict(row(**changes)) == verdict


@pytest.mark.parametrize(("spread", "least"), [(0.3, 0.05), (0.04, 0.02)])
def test_memberships_that_hardly_differ_need_not_move_as_far(rng, spread, least):
    """Sums over two repeats."""
    samples = pd.DataFrame(rng.random((9, 4)), columns=["gain", "fall", "error", "of_means"])
    samples = samples.assign(n=5, moved=0.2, spread=2 * spread, repeats=2)
    numbers = module._row(samples)
    assert numbers["moved"] == pytest.approx(0.1)
    assert numbers["least_move"] == pytest.approx(least)


def test_where_there_is_nothing_to_judge_the_text_says_so():
    unpredicted = Check(pd.DataFrame([row(r2=-0.1, verdict="cannot be judged")]))
    assert str(unpredicted).startswith("No option can be judged: hidden entries are not predicted")
    nothing = Check(pd.DataFrame(columns=COLUMNS))
    assert (str(nothing), nothing.recommended) == ("No other option can be run on these data.", {})
