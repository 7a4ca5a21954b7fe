"""Means, standard deviations and intervals against draws from the factors that a fit stored."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import invgamma

from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.results.posterior import (
    DirichletColumns,
    InverseGamma,
    LogNormal,
    Normal,
    NormalRows,
    Posterior,
)

N_DRAWS = 200_000


@pytest.fixture
def result(make_sources):
    return registry.fit("cavi-bjmd", make_sources(), 3, priors="paper")


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
    rows = result.posterior.components
    assert rows.mean.shape == rows.sd.shape == (12, 3)
    np.testing.assert_array_equal(rows.mean, result.components)
    for i in (0, 5, 11):
        covariance = rows.covariance([i])[0]
        np.testing.assert_allclose(
            covariance @ (rows.precision + np.diag(rows.ridge[i])), np.eye(3), atol=1e-9
        )
        row = NormalRows(rows.mean[[i]], rows.precision, rows.ridge[[i]])
        check(row, rng.multivariate_normal(result.components[i], covariance, N_DRAWS)[:, None])


def test_memberships(result):
    rng = np.random.default_rng(0)
    for h, columns in zip(result.memberships, result.posterior.memberships, strict=True):
        np.testing.assert_array_equal(columns.mean, h)
        for j in (0, 4):
            draws = rng.dirichlet(columns.parameters[:, j], N_DRAWS)
            check(DirichletColumns(columns.parameters[:, [j]]), draws[:, :, None])
        lower, upper = columns.interval(0.99)
        assert (lower >= 0).all()
        assert (upper <= 1).all()


@pytest.mark.parametrize("widening", [None, np.array([[1.3, 1.2, 1.1, 1.2, 1.0]])])
def test_intervals_of_nearly_pure_samples_begin_at_0_and_end_at_1(widening):
    """Where the density falls from 0 on, or rises up to 1, no other interval is as short."""
    parameters = np.array([[0.6, 30.0, 4.0, 0.9, 1.0], [9.0, 0.7, 5.0, 0.9, 1.0]])
    columns = DirichletColumns(parameters, widening=widening)
    lower, upper = columns.interval(0.8)
    np.testing.assert_allclose(lower[1], 1 - upper[0])
    assert lower[0, 0] == 0
    assert upper[0, 1] == 1
    central = columns.quantile(0.1), columns.quantile(0.9)
    np.testing.assert_allclose((lower[:, 2:], upper[:, 2:]), [end[:, 2:] for end in central])
    for below in np.linspace(0, 0.2, 21):
        other = columns.quantile(below + 0.8 - 1e-12) - columns.quantile(below)
        assert (other[:, :2] >= (upper - lower)[:, :2] - 1e-9).all()


def test_where_the_density_has_its_top_at_0_but_no_pole_the_interval_begins_there():
    """Of Beta(1, 4), whose quantiles are 1 - (1 - q)^(1/4)."""
    lower, upper = DirichletColumns(np.array([[1.0, 4.0], [4.0, 1.0]])).interval(0.8)
    np.testing.assert_allclose(lower[0], [0, 0.2**0.25], atol=1e-12)
    np.testing.assert_allclose(upper[0], [1 - 0.2**0.25, 1], atol=1e-12)


def test_noise(result):
    noise = result.posterior.noise
    check(
        noise,
        np.sqrt(invgamma.rvs(noise.shape, scale=noise.rate, size=(N_DRAWS, 2), random_state=0)),
    )


def test_the_posterior_of_pooled_sources_is_handed_to_each():
    """Columns go to the sources that they came from, and the noise to all."""
    columns = DirichletColumns(np.arange(1.0, 13).reshape(2, 6), widening=np.arange(6.0)[None])
    noise = InverseGamma(np.array([3.0]), np.array([4.0]), widening=np.array([1.5]))
    rows = Normal(np.zeros((4, 2)), np.ones((4, 2)))
    apart = Posterior(rows, [columns], noise).by_source([3, 1, 2])
    assert apart.components is rows
    for factor, where in zip(apart.memberships, ([0, 1, 2], [3], [4, 5]), strict=True):
        np.testing.assert_array_equal(factor.parameters, columns.parameters[:, where])
        np.testing.assert_array_equal(factor.widening, columns.widening[:, where])
    for name, value in noise.arrays().items():
        np.testing.assert_array_equal(apart.noise.arrays()[name], np.repeat(value, 3))
    assert Posterior(rows, [columns], None).by_source([6]).noise is None


def test_draws_come_from_the_marginals(result):
    rng = np.random.default_rng(1)
    for factor in (
        result.posterior.components,
        result.posterior.noise,
        *result.posterior.memberships,
    ):
        check(factor, factor.sample(20_000, rng))


@pytest.mark.parametrize("shape", [2, 3, 20, 9_000, 20_000])
def test_noise_of_few_entries(shape):
    """E[sd] = sqrt(b) Gamma(a - 1/2) / Gamma(a) and E[s2] = b / (a - 1); of a whole a, exactly in
    whole numbers.
    """
    noise = InverseGamma(np.array([float(shape)]), np.array([7.0]))
    n = shape - 1
    root = Fraction(math.comb(2 * n, n), 4**n)  # Gamma(a - 1/2) / Gamma(a) = sqrt(pi) times this
    pi = Fraction(314159265358979323846264338327950288, 10**35)
    np.testing.assert_allclose(noise.mean, math.sqrt(7 * pi) * float(root), rtol=1e-9)
    np.testing.assert_allclose(noise.sd, math.sqrt(7 * (Fraction(1, n) - pi * root**2)), rtol=1e-6)


@pytest.mark.parametrize("shape", [50.0, 1e3, 1e6])
def test_wider_noise_has_the_same_precision_and_a_wider_logarithm(shape):
    """E[1/s2] = shape / rate; Var[ln s2] = psi'(shape), about 1 / shape."""
    plain, wider = (
        InverseGamma(np.array([shape]), np.array([4 * shape]), widening=w)
        for w in (None, np.array([1.5]))
    )
    np.testing.assert_allclose(wider._marginal()[0] / wider._marginal()[1], 0.25)
    spreads = [np.log(q.quantile(0.95) / q.quantile(0.05)) for q in (plain, wider)]
    np.testing.assert_allclose(spreads[1], 1.5 * spreads[0], rtol=1 / shape)


def test_wider_memberships_have_the_same_means_and_wider_draws(rng):
    parameters = np.array([[3.0, 40.0], [2.0, 10.0], [5.0, 30.0]])
    widening = np.array([[1.5, 2.0]])
    plain, wider = (DirichletColumns(parameters, widening=w) for w in (None, widening))
    draws = wider.sample(100_000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), plain.mean, atol=2e-3)
    np.testing.assert_allclose(draws.std(axis=0), widening * plain.sd, rtol=0.01)
    np.testing.assert_allclose(wider.sd, widening * plain.sd, rtol=1e-12)
    np.testing.assert_allclose(wider.quantile(0.9), np.quantile(draws, 0.9, axis=0), rtol=0.01)


def test_the_noise_of_a_single_entry_has_no_variance():
    assert InverseGamma(np.array([0.51, 1.0]), np.ones(2)).sd.tolist() == [np.inf, np.inf]


def test_an_advi_posterior():
    """Normal in W and in ln s2."""
    rng = np.random.default_rng(0)
    mean = np.array([[1.0, -2.0]])
    sd = np.array([[0.5, 0.1]])
    check(Normal(mean, sd), mean + sd * rng.standard_normal((N_DRAWS, 1, 2)))
    np.testing.assert_allclose(Normal(mean, sd).covariance(), [np.diag([0.25, 0.01])])
    mean = np.array([0.3, 2.0])
    sd = np.array([0.2, 0.05])
    check(LogNormal(mean, sd), np.exp(0.5 * (mean + sd * rng.standard_normal((N_DRAWS, 2)))))


@pytest.mark.parametrize("level", [0, 1, -0.5, 90])
def test_a_level_that_is_no_probability(result, level):
    with pytest.raises(InputError, match="must be between 0 and 1"):
        result.posterior.noise.interval(level)


@pytest.mark.parametrize("widening", [None, np.ones((1, 2))])
def test_the_only_component_has_all_of_every_sample(widening):
    columns = DirichletColumns(np.array([[3.0, 0.5]]), widening=widening)
    np.testing.assert_array_equal(columns.interval(), np.ones((2, 1, 2)))
    np.testing.assert_array_equal(columns.sd, np.zeros((1, 2)))
