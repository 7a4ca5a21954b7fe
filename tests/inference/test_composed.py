"""The closed form beyond the paper as mathematics: noise models, offsets, learned priors and missing entries together.

The ELBO is computed here a second time, entry by entry, from the densities alone (`by_entry`).
"""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import gammaln, psi
from scipy.stats import gamma, invgamma, multivariate_normal, norm

from bjmd.data.sources import Sources
from bjmd.inference import cavi, noise
from bjmd.model import Priors

NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]
ALPHA0 = [1.0, 1.1, 2.5]


def problem(make_sources, share_missing=0.0, seed=0, shift=0.0, **data):
    """Data with holes, and with a shift of the second source."""
    rng = np.random.default_rng(seed + 100)
    matrices = [x.copy() for x in make_sources(seed, **data).matrices]
    matrices[-1] += shift * rng.standard_normal((len(matrices[-1]), 1))
    for x in matrices:
        holes = rng.random(x.shape) < share_missing
        holes[0], holes[:, 0] = False, False
        x[holes] = np.nan
    return Sources(matrices)


def algorithm(sources, name="source", offsets=False, learned=(), n_components=3, seed=0, alpha0=None, **constants):
    """The closed form on data as they are, with unit 1 and no origin."""
    constants = {"lambda_": 0.7, "a0": 2.0, "b0": 0.5} | constants
    alpha0 = (ALPHA0 if n_components == 3 else 1.1) if alpha0 is None else alpha0
    priors = Priors(alpha0, **constants, learns_alpha="alpha" in learned, learns_lambda="lambda" in learned)
    return cavi.ClosedForm(sources, n_components, priors, np.random.default_rng(seed), noise.parsed(name), offsets)


def after(closed_form, n_sweeps):
    """The state after some sweeps, the one before it, and the ELBO."""
    state = closed_form.start()
    for _ in range(n_sweeps):
        before = state
        state, objective = closed_form.sweep(state)
    return state, before, -objective


def covariances(rows):
    """S_i of every row, M x K x K, by numpy."""
    return np.linalg.inv(rows.row_precision() + rows.ridge.T[:, :, None] * np.eye(len(rows.precision)))


def of_gammas(shape, rate):
    return shape / rate, psi(shape) - np.log(rate)


def gamma_term(shape, rate, prior_shape, prior_rate):
    """E[ln Gamma(.; prior)] + entropy of Gamma(shape, rate), summed."""
    mean, log = of_gammas(shape, rate)
    prior = prior_shape * np.log(prior_rate) - gammaln(prior_shape) + (prior_shape - 1) * log - prior_rate * mean
    return np.sum(prior + gamma(shape, scale=1 / rate).entropy())


def entry_factors(sources, closed_form, before):
    """Of a robust fit, q(v) of every entry and the fit at which it was found; else v = 1."""
    found = []
    for c, x in enumerate(sources.matrices):
        if before.nus is None:
            found.append(None)
            continue
        m = before.columns[c] / before.columns[c].sum(axis=0)
        fit = before.rows.mean.T @ m + (0 if before.offsets is None else before.offsets.mean[c][:, None])
        weight = closed_form.shapes[c] / before.rates[c] * np.ones(x.shape)
        weight *= 1 if before.feature is None else (before.feature.shape / before.feature.rate)[:, None]
        weight *= 1 if before.sample is None else before.sample[c].shape / before.sample[c].rate
        shape = 0.5 * (before.nus[c] + 1)
        found.append((np.full(x.shape, shape), shape + 0.5 * weight * (x - fit) ** 2, fit))
    return found


def by_entry(sources, closed_form, state, entries):
    """The ELBO of a state: E[ln p(data, unknowns)] - E[ln q], every entry and every factor by itself.

    The Laplace prior is replaced by its bound -sqrt(E[w^2]) / lambda.  A robust entry counts its 1 - v at the fit where
    q(v) was found, which bounds v E[(x - wh - o)^2] from above.
    """
    priors, rows = closed_form.priors, state.rows
    mu, covariance = rows.mean.T, covariances(rows)
    n_features, size = mu.shape
    lambda_ = np.broadcast_to(priors.lambda_ if state.lambdas is None else state.lambdas.T, mu.shape)
    second = mu**2 + np.diagonal(covariance, axis1=1, axis2=2)
    total = (-np.sqrt(second) / lambda_ - np.log(2 * lambda_)).sum()
    total += sum(multivariate_normal(cov=s).entropy() for s in covariance)
    phi, log_phi = np.ones(n_features), np.zeros(n_features)
    if state.feature is not None:
        phi, log_phi = of_gammas(state.feature.shape, state.feature.rate)
        total += gamma_term(state.feature.shape, state.feature.rate, state.feature.a, state.feature.a)
    for c, x in enumerate(sources.matrices):
        g, shape, rate = state.columns[c], closed_form.shapes[c], state.rates[c]
        t, log_t = of_gammas(shape, rate)
        u, log_u = np.ones(x.shape[1]), np.zeros(x.shape[1])
        if state.sample is not None:
            u, log_u = of_gammas(state.sample[c].shape, state.sample[c].rate)
            total += gamma_term(state.sample[c].shape, state.sample[c].rate, state.sample[c].a, state.sample[c].a)
        o, o_variance = np.zeros(n_features), np.zeros(n_features)
        if state.offsets is not None:
            o, o_variance, tau = state.offsets.mean[c], state.offsets.variance[c], state.offsets.tau[c]
            total += np.sum(-0.5 * np.log(2 * np.pi * tau) - 0.5 * (o**2 + o_variance) / tau)
            total += norm(scale=np.sqrt(o_variance)).entropy().sum()
        for j in range(x.shape[1]):
            s = g[:, j].sum()
            m = g[:, j] / s
            second_h = (s * np.outer(m, m) + np.diag(m)) / (s + 1)
            for i in np.flatnonzero(~np.isnan(x[:, j])):
                mean = mu[i] @ m + o[i]
                variance = (
                    ((np.outer(mu[i], mu[i]) + covariance[i]) * second_h).sum() - (mu[i] @ m) ** 2 + o_variance[i]
                )
                error, logs = (x[i, j] - mean) ** 2 + variance, log_t + log_phi[i] + log_u[j]
                if entries[c] is not None:
                    v, log_v = of_gammas(entries[c][0][i, j], entries[c][1][i, j])
                    error = v * error + (1 - v) * ((entries[c][2][i, j] - mean) ** 2 + variance)
                    logs += log_v
                    nu = state.nus[c]
                    total += gamma_term(entries[c][0][i, j], entries[c][1][i, j], 0.5 * nu, 0.5 * (nu + 1))
                total += 0.5 * (logs - np.log(2 * np.pi)) - 0.5 * t * phi[i] * u[j] * error
        alpha = priors.dirichlet(size) if state.alphas is None else state.alphas[c]
        log_h = psi(g) - psi(g.sum(axis=0))
        total += x.shape[1] * (gammaln(alpha.sum()) - gammaln(alpha).sum()) + ((alpha[:, None] - 1) * log_h).sum()
        total += gammaln(g).sum() - gammaln(g.sum(axis=0)).sum() - ((g - 1) * log_h).sum()
        total -= alpha.sum() if priors.learns_alpha else 0.0  # its exponential prior
        total += priors.a0 * np.log(priors.b0) - gammaln(priors.a0) - (priors.a0 + 1) * -log_t - priors.b0 * t
        total += invgamma(shape, scale=rate).entropy()
    return total


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_the_elbo_is_that_of_the_factors(make_sources, name, offsets, missing):
    sources = problem(make_sources, missing, shift=1.0)
    for n_sweeps, learned in ((2, ()), (11, ("alpha", "lambda"))):
        closed_form = algorithm(sources, name, offsets, learned)
        state, before, elbo = after(closed_form, n_sweeps)
        expected = by_entry(sources, closed_form, state, entry_factors(sources, closed_form, before))
        np.testing.assert_allclose(elbo, expected, rtol=1e-10)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_no_plain_sweep_lowers_the_elbo(make_sources, name, offsets, missing):
    """Without the loop, whose safeguard would hide it."""
    rng = np.random.default_rng(3)
    for trial, learned in enumerate([(), ("alpha",), ("lambda",), ("alpha", "lambda")]):
        sources = problem(
            make_sources,
            missing,
            seed=trial,
            shift=float(rng.choice([0.0, 0.3, 3.0])),
            n_features=int(rng.integers(8, 25)),
            n_samples=rng.integers(5, 30, size=2),
            noise=10 ** rng.uniform(-2, 1, size=2),
        )
        n_components = [3, 1, 5, 2][trial]
        closed_form = algorithm(
            sources,
            name,
            offsets,
            learned,
            n_components,
            trial,
            lambda_=float(10 ** rng.uniform(-1, 1)),
            a0=0.01,
            b0=0.01,
        )
        state, last = closed_form.start(), -np.inf
        for sweep in range(40):
            state, objective = closed_form.sweep(state)
            assert -objective >= last - 1e-9 * abs(last), f"trial {trial}, sweep {sweep}"
            last = -objective
