"""BNMF: draws against scipy's distributions, the sampler against a posterior by quadrature."""

import numpy as np
import pytest
from scipy import stats

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd.model import Priors
from bjmd.numerics import nonnegative as conditionals
from bjmd_paper.baselines import bnmf


@pytest.mark.parametrize(
    ("p", "q"),
    [
        *((1.0, 3.0), (2.0, 0.0), (4.0, -0.4), (4.0, -0.6), (0.5, -4.0), (1e-4, -2.0)),
        *((9.0, 300.0), (conditionals.NEARLY_FLAT, -0.5)),
    ],
)
def test_draws_from_a_rectified_gaussian(p, q):
    """Either side of the switch at low = 1/4 (p = 4, q = -1/2), far in both tails, and without
    data.
    """
    rng = np.random.default_rng(7)
    draws = np.array([conditionals.rectified_gaussian(p, q, rng) for _ in range(20_000)])
    sd = 1 / np.sqrt(p)
    truth = stats.truncnorm(-q * sd, np.inf, loc=q / p, scale=sd)
    if p == conditionals.NEARLY_FLAT:  # no data, so the prior
        truth = stats.expon(scale=-1 / q)
    assert draws.min() >= 0
    assert stats.kstest(draws, truth.cdf).pvalue > 1e-3
    assert abs(draws.mean() - truth.mean()) < 4 * truth.std() / np.sqrt(len(draws))
    np.testing.assert_allclose(draws.std(), truth.std(), rtol=0.04)


def test_modes_against_the_literal_loop(rng):
    """Entries in turn, each at the maximum of its conditional given the newest of the others; 70
    fill two blocks.
    """
    half = rng.random((3, 10))
    precision = half @ half.T
    linear = 3 * rng.standard_normal((3, 70))
    a = rng.random((3, 70))
    expected = a.copy()
    for j in range(70):
        for k in range(3):
            others = sum(precision[k, m] * expected[m, j] for m in range(3) if m != k)
            expected[k, j] = max((linear[k, j] - others - 0.7) / precision[k, k], 0)
    conditionals.improve_factor(precision, linear, 0.7, a, 1)
    np.testing.assert_allclose(a, expected, rtol=1e-12)
    assert (a == 0).any()
    assert (a > 0).any()


def posterior_by_quadrature(x, n_components, a0, b0, n_nodes):
    """Moments of W, H, WH and s2 for one entry x and unit rates, by Gauss-Laguerre over all of W
    and H.

    s2 integrates out: the weight of (W, H) is their prior times (b0 + RSS/2)^-(a0 + 1/2).
    """
    nodes, weights = np.polynomial.laguerre.laggauss(n_nodes)
    axes = np.meshgrid(*[nodes] * 2 * n_components, indexing="ij", sparse=True)
    product = sum(axes[k] * axes[n_components + k] for k in range(n_components))
    shape = a0 + 0.5
    rate = b0 + 0.5 * (x - product) ** 2
    density = rate**-shape
    for axis, w in enumerate(axes):
        density = density * weights.reshape([-1 if a == axis else 1 for a in range(len(axes))])
        assert w.size == n_nodes
    density /= density.sum()

    def mean_and_sd(value, square):
        mean = (density * value).sum()
        return mean, np.sqrt((density * square).sum() - mean**2)

    return {
        "w": mean_and_sd(axes[0], axes[0] ** 2),
        "h": mean_and_sd(axes[n_components], axes[n_components] ** 2),
        "product": mean_and_sd(product, product**2),
        "s2": mean_and_sd(rate / (shape - 1), rate**2 / ((shape - 1) * (shape - 2))),
    }


@pytest.mark.parametrize(("n_components", "n_nodes"), [(1, 120), (2, 32)])
def test_the_gibbs_sampler_recovers_a_known_posterior(n_components, n_nodes):
    """Means and spreads within four standard errors (batch means), which themselves are a few
    percent of the spread.
    """
    x = 3.0
    priors = Priors(a0=4.0, b0=3.0)
    state = bnmf.Chain(Sources([[[x]]]), n_components, np.random.default_rng(3), priors)
    draws = {"w": [], "h": [], "product": [], "s2": []}
    for _ in range(40_000):
        state.sweep()
        draws["w"].append(state.wt[0, 0])
        draws["h"].append(state.h[0, 0])
        draws["product"].append(float(state.wt[:, 0] @ state.h[:, 0]))
        draws["s2"].append(state.s2)
    for name, (mean, sd) in posterior_by_quadrature(x, n_components, 4.0, 3.0, n_nodes).items():
        values = np.array(draws[name])[500:]
        for estimate, truth in ((values, mean), ((values - mean) ** 2, sd**2)):
            batches = estimate[: len(estimate) // 50 * 50].reshape(50, -1).mean(axis=1)
            error = batches.std(ddof=1) / np.sqrt(50)
            assert error < 0.1 * truth, name
            assert abs(batches.mean() - truth) < 4 * error, name


@pytest.mark.parametrize(
    ("power", "a", "b"), [(2, 2.0, 1.0), (-6, 0.5, 4.0), (0, 0.1, 0.2), (1, 3.0, 0.05)]
)
def test_the_draw_of_the_scales_leaves_their_conditional_as_it_is(power, a, b):
    """s has the density s^(M-N-1) exp(-a s - b/s), a generalised inverse Gaussian.  Steps from s =
    1 lead there, and a step from there stays there: the step is a chain in s, of which w_k and h_k
    carry the state.
    """
    rng = np.random.default_rng(5)
    n = 20_000
    truth = stats.geninvgauss(power, 2 * np.sqrt(a * b), scale=np.sqrt(b / a))
    for start, n_steps in ((np.ones(n), 60), (truth.rvs(n, random_state=1), 1)):
        s = start
        for _ in range(n_steps):
            s = s * bnmf.draw_scales(a * s, b / s, power, rng)
        assert (s != start).mean() > 0.3
        assert stats.kstest(s, truth.cdf).pvalue > 1e-3


def test_gibbs_returns_posterior_means():
    """The whole fit on one entry, whose posterior means are known."""
    truth = posterior_by_quadrature(3.0, 1, 4.0, 3.0, 120)
    result = registry.fit(
        "bnmf", Sources([[[3.0]]]), 1, seed=1, a0=4.0, b0=3.0, burn_in=100, n_draws=20_000
    )
    np.testing.assert_allclose(result.components[0, 0], truth["w"][0], rtol=0.05)
    np.testing.assert_allclose(result.memberships[0][0, 0], truth["h"][0], rtol=0.05)
    np.testing.assert_allclose(result.noise[0] ** 2, truth["s2"][0], rtol=0.05)
    assert result.converged
    w = result.components[0, 0]
    h = result.memberships[0][0, 0]
    s2 = result.noise[0] ** 2
    by_hand = (3.0 - w * h) ** 2 / (2 * s2) + (1 / 2 + 4 + 1) * np.log(s2) + 3 / s2 + w + h
    np.testing.assert_allclose(result.objective, by_hand, rtol=1e-9)
    assert len(result.trace) == 20_101
    assert result.trace[-1] == result.objective


def test_split_r_hat_by_hand():
    """Halves 0, 2 and 4, 6: within 2, means 1 and 5 with variance 8, so sqrt(1/2 + 8/2)."""
    np.testing.assert_allclose(bnmf.split_r_hat(np.array([0.0, 2.0, 4.0, 6.0])), np.sqrt(4.5))
    assert bnmf.split_r_hat(np.ones(4)) == 1


def test_a_chain_whose_noise_still_drifts_is_not_converged(nonnegative):
    sources = nonnegative.concatenated()
    chain = bnmf.Chain(sources, 3, np.random.default_rng(0), Priors())  # far from any solution
    drifting = bnmf.gibbs(chain, 0, 10)
    assert not drifting.converged
    assert drifting.reason.startswith("took 0 + 10 sweeps; split R-hat of the noise")
    settled = bnmf.gibbs(chain, 200, 300)
    assert settled.converged
    assert "of the log joint" in settled.reason


@pytest.mark.parametrize("options", [{"a0": 0.0}, {"burn_in": -1}, {"n_draws": 2.5}])
def test_refusals(nonnegative, options):
    ((name, value),) = options.items()
    with pytest.raises(InputError, match=f"{name} is {value}; it must be a"):
        registry.fit("bnmf", nonnegative, 3, **options)
