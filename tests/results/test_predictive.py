"""What a fit expects of an entry, against draws from what it says of the model."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

from bjmd.analysis.held_out_entries import log_densities
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.results import predictive

EVERYTHING = slice(None)


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    components = rng.laplace(size=(15, 3))
    sources = Sources(
        [
            components @ rng.dirichlet(np.ones(3), n).T + 0.3 * rng.standard_t(4, (15, n))
            for n in (20, 14)
        ]
    )
    options = {"noise": "feature+sample", "offsets": True, "max_sweeps": 60}
    result = registry.fit("cavi-bjmd", sources, 3, **options)
    # offsets to speak of, as uncertain as the noise is large, so that their variance counts
    known = {"offsets": rng.standard_normal((2, 15)), "offsets_sd": np.full((2, 15), 0.3)}
    result.model = replace(result.model, **known)
    robust = registry.fit("cavi-bjmd", sources, 3, **{**options, "noise": "robust"})
    return sources, result, robust


def test_moments_are_those_of_draws(fits):
    _, result, _ = fits
    rng = np.random.default_rng(1)
    n = 20_000
    model = result.model
    w = result.posterior.components.sample(n, rng)
    h = result.posterior.memberships[1].sample(n, rng)
    offsets = rng.normal(model.offsets[1], model.offsets_sd[1], (n, 15))[:, :, None]
    noise = result.noise[1] / np.sqrt(model.feature_precision[:, None] * model.sample_precision[1])
    x = w @ h + offsets + noise * rng.standard_normal((n, 15, 14))
    np.testing.assert_allclose(predictive.mean(result, 1, EVERYTHING), x.mean(axis=0), atol=0.02)
    # the density gives its own mean and variance away
    at = np.zeros((15, 14))
    value = [
        predictive.log_density(result, 1, EVERYTHING, at + shift) for shift in (-1.0, 0.0, 1.0)
    ]
    variance = -1 / (value[0] - 2 * value[1] + value[2])
    np.testing.assert_allclose(variance, x.var(axis=0), rtol=0.06)
    mean = predictive.mean(result, 1, EVERYTHING)
    np.testing.assert_allclose((value[2] - value[0]) / 2 * variance, mean, atol=1e-8)
    np.testing.assert_allclose(value[1], stats.norm.logpdf(at, mean, np.sqrt(variance)), rtol=1e-8)


def test_the_noise_of_an_entry_is_that_of_its_source_feature_and_sample(fits):
    _, result, _ = fits
    phi = result.model.feature_precision
    u = result.model.sample_precision[1]
    expected = [[result.noise[1] ** 2 / (phi[i] * u[j]) for j in range(3, 9)] for i in range(15)]
    np.testing.assert_allclose(predictive.noise_variance(result, 1, slice(3, 9)), expected)


def test_a_robust_fit_predicts_by_students_t(fits):
    _, _, robust = fits
    nu = robust.model.degrees_of_freedom[0]
    at = np.linspace(-30, 30, 15)[:, None] * np.ones(20)
    density = predictive.log_density(robust, 0, EVERYTHING, at)
    mean = predictive.mean(robust, 0, EVERYTHING)
    scale = [  # the one with which the density at the mean is right
        np.exp(stats.t.logpdf(0, nu) - predictive.log_density(robust, 0, EVERYTHING, mean)[i, j])
        for i, j in ((0, 0), (7, 3))
    ]
    for (i, j), s in zip(((0, 0), (7, 3)), scale, strict=True):
        assert density[i, j] == pytest.approx(stats.t.logpdf(at[i, j], nu, mean[i, j], s))
        assert s > robust.noise[0]


def test_only_held_out_entries_count(fits):
    sources, result, _ = fits
    hidden = [np.zeros(x.shape, dtype=bool) for x in sources.matrices]
    hidden[1][4, 2] = hidden[1][9, 2] = True
    sums = log_densities(result, sources, [scipy.sparse.csc_array(where) for where in hidden])
    expected = predictive.log_density(result, 1, slice(2, 3), sources.matrices[1][:, 2:3])[
        [4, 9]
    ].sum()
    assert sums[22] == pytest.approx(expected)
    assert np.count_nonzero(sums) == 1
