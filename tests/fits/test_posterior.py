"""Means, standard deviations and intervals against draws from the factors that a fit stored."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import invgamma

from bjmd.errors import InputError
from bjmd.fits import posterior, registry
from bjmd.fits.decomposition import Decomposition

N_DRAWS = 200_000


@pytest.fixture
def result(make_sources):
    return registry.fit("cavi-bjmd", make_sources(), 3)


def check(marginals, draws):
    """The first axis of `draws` runs over draws; tolerances are about five standard errors."""
    se = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - marginals.mean) < 5 * se).all()
    np.testing.assert_allclose(marginals.sd, draws.std(axis=0), rtol=0.02)
    for level in (0.5, 0.9):
        lower, upper = marginals.interval(level)
        assert (lower < upper).all()
        for end, tail in ((lower, (1 - level) / 2), (upper, (1 + level) / 2)):
            assert np.abs((draws <= end).mean(axis=0) - tail).max() < 5 * 0.5 / np.sqrt(len(draws))


def test_components(result):
    rng = np.random.default_rng(0)
    marginals, covariance = posterior.components(result), posterior.components_covariance(result)
    assert marginals.mean.shape == marginals.sd.shape == (12, 3)
    stored = result.posterior
    for i in (0, 5, 11):
        precision = stored["components_precision"] + np.diag(stored["components_ridge"][i])
        np.testing.assert_allclose(covariance[i] @ precision, np.eye(3), atol=1e-9)
        draws = rng.multivariate_normal(result.components[i], covariance[i], N_DRAWS)
        row = posterior.Marginals(marginals.mean[i], marginals.sd[i], lambda q, i=i: marginals.quantile(q)[i])
        check(row, draws)


def test_memberships(result):
    rng = np.random.default_rng(0)
    for c, marginals in enumerate(posterior.memberships(result)):
        np.testing.assert_array_equal(marginals.mean, result.memberships[c])
        for j in (0, 4):
            draws = rng.dirichlet(result.posterior[f"dirichlet_{c}"][:, j], N_DRAWS)
            column = posterior.Marginals(
                marginals.mean[:, j],
                marginals.sd[:, j],
                lambda q, marginals=marginals, j=j: marginals.quantile(q)[:, j],
            )
            check(column, draws)
        lower, upper = marginals.interval(0.99)
        assert (lower >= 0).all()
        assert (upper <= 1).all()


def test_noise(result):
    shape, rate = result.posterior["noise_shape"], result.posterior["noise_rate"]
    draws = np.sqrt(invgamma.rvs(shape, scale=rate, size=(N_DRAWS, 2), random_state=0))
    check(posterior.noise(result), draws)


@pytest.mark.parametrize("shape", [20.0, 1e3, 1e5, 1e8])
def test_noise_of_any_number_of_entries(shape):
    """The sd of an inverse gamma's root is about mean / sqrt(4 shape), which the difference of moments would lose."""
    fitted = stub(noise_shape=np.array([shape]), noise_rate=np.array([4 * shape]))
    marginals = posterior.noise(fitted)
    np.testing.assert_allclose(marginals.mean, 2, rtol=1 / shape)
    np.testing.assert_allclose(marginals.sd, 2 / np.sqrt(4 * shape), rtol=1.5 / shape)


def test_an_advi_posterior():
    """Normal in W and in ln s2."""
    rng = np.random.default_rng(0)
    fitted = stub(
        components_sd=np.array([[0.5, 0.1]]),
        log_variance_mean=np.array([0.3, 2.0]),
        log_variance_sd=np.array([0.2, 0.05]),
    )
    check(
        posterior.components(fitted), fitted.components + np.array([[0.5, 0.1]]) * rng.standard_normal((N_DRAWS, 1, 2))
    )
    logs = np.array([0.3, 2.0]) + np.array([0.2, 0.05]) * rng.standard_normal((N_DRAWS, 2))
    check(posterior.noise(fitted), np.exp(0.5 * logs))


def test_more_data_give_narrower_intervals(make_sources):
    few, many = (registry.fit("cavi-bjmd", make_sources(n_samples=(n, n)), 3) for n in (10, 200))
    assert posterior.noise(many).sd.max() < 0.5 * posterior.noise(few).sd.max()
    assert np.median(posterior.components(many).sd) < 0.5 * np.median(posterior.components(few).sd)


def test_a_cat_variant_has_marginals_of_every_source(make_sources):
    fitted = registry.fit("cavi-catbjmd", make_sources(), 3)
    assert [m.sd.shape for m in posterior.memberships(fitted)] == [(3, 9), (3, 7)]
    assert posterior.noise(fitted).sd.shape == (2,)


@pytest.mark.parametrize("part", [posterior.components, posterior.memberships, posterior.noise])
def test_a_point_estimate_has_no_posterior(make_sources, part):
    fitted = registry.fit("map-bjmd", make_sources(), 3)
    with pytest.raises(InputError, match="method 'map-bjmd' keeps no"):
        part(fitted)


@pytest.mark.parametrize("level", [0, 1, -0.5, 90])
def test_a_level_that_is_no_probability(result, level):
    with pytest.raises(InputError, match="must be between 0 and 1"):
        posterior.noise(result).interval(level)


def stub(**arrays):
    """A result of one feature and two components that holds nothing but a posterior."""
    h = expit(np.array([[1.0], [-1.0]]))
    return Decomposition(
        components=np.array([[1.0, -2.0]]),
        memberships=[h],
        noise=np.ones(1),
        objective=0.0,
        trace=np.zeros(1),
        converged=True,
        reason="",
        seconds=0.0,
        posterior=arrays,
    )
