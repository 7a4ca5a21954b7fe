"""The closed form beyond the paper as mathematics: noise models, offsets, learned priors and
missing entries together.

The ELBO is computed here a second time, entry by entry, from the densities alone (`by_entry`).
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, psi
from scipy.stats import gamma, invgamma, multivariate_normal, norm, t

from bjmd.data.sources import Sources
from bjmd.inference import cavi, noise, registry
from bjmd.inference.offsets import LEAST_TAU, _best_tau
from bjmd.inference.priors import (
    LEAST_ALPHA,
    LEAST_CONCENTRATION,
    DirichletBySource,
    LearnedLaplace,
    SharedDirichlet,
    learned_dirichlet,
)
from bjmd.model import BY_SOURCE, LEARNED, Priors
from bjmd.numerics import dirichlet, moments

NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]
ALPHA0 = [1.0, 1.1, 2.5]


def problem(make_sources, share_missing=0.0, seed=0, shift=0.0, **data):
    """Data with holes, and with a shift of the second source."""
    rng = np.random.default_rng(seed + 100)
    matrices = [x.copy() for x in make_sources(seed, **data).matrices]
    matrices[-1] += shift * rng.standard_normal((len(matrices[-1]), 1))
    for x in matrices:
        holes = rng.random(x.shape) < share_missing
        holes[0] = False
        holes[:, 0] = False
        x[holes] = np.nan
    return Sources(matrices)


def algorithm(
    sources,
    name="source",
    offsets=False,
    learned=(),
    n_components=3,
    seed=0,
    alpha0=None,
    **constants,
):
    """The closed form on data as they are, with unit 1 and no origin."""
    constants = {"lambda_": 0.7, "a0": 2.0, "b0": 0.5} | constants
    alpha0 = (ALPHA0 if n_components == 3 else 1.1) if alpha0 is None else alpha0
    by_name = (name for name in (LEARNED, BY_SOURCE) if name in learned)
    priors = Priors(
        1.1 if LEARNED in learned else alpha0,
        **constants,
        learns_alpha=next(by_name, ""),
        learns_lambda="lambda" in learned,
    )
    return cavi.ClosedForm(
        sources, n_components, priors, np.random.default_rng(seed), noise.parsed(name), offsets
    )


def after(closed_form, n_sweeps):
    """The state after some sweeps, the one before it, and the ELBO."""
    state = closed_form.start()
    for _ in range(n_sweeps):
        before = state
        state, objective = closed_form.sweep(state)
    return state, before, -objective


def covariances(rows):
    """S_i of every row, M x K x K, by numpy."""
    return np.linalg.inv(
        rows.row_precision() + rows.ridge.T[:, :, None] * np.eye(len(rows.precision))
    )


def of_gammas(shape, rate):
    return shape / rate, psi(shape) - np.log(rate)


def weights(q, n):
    """E[phi_i], E[ln phi_i] and the term of the ELBO of n precisions, which may be neutral."""
    if not q.is_learned:
        return np.ones(n), np.zeros(n), 0.0
    return *of_gammas(q.shape, q.rate), gamma_term(q.shape, q.rate, q.a, q.a)


def gamma_term(shape, rate, prior_shape, prior_rate):
    """E[ln Gamma(.; prior)] + entropy of Gamma(shape, rate), summed."""
    mean, log = of_gammas(shape, rate)
    prior = (
        prior_shape * np.log(prior_rate)
        - gammaln(prior_shape)
        + (prior_shape - 1) * log
        - prior_rate * mean
    )
    return np.sum(prior + gamma(shape, scale=1 / rate).entropy())


def entry_factors(sources, closed_form, before):
    """Of a robust fit, q(v) of every entry and the fit at which it was found; else v = 1."""
    found = []
    for c, x in enumerate(sources.matrices):
        if not before.entries[c].is_learned:
            found.append(None)
            continue
        m = before.columns[c] / before.columns[c].sum(axis=0)
        fit = before.rows.mean.T @ m + np.reshape(before.offsets[c].mean, (-1, 1))
        phi, _, _ = weights(before.feature, len(x))
        u, _, _ = weights(before.sample[c], x.shape[1])
        weight = closed_form.shapes[c] / before.rates[c] * np.outer(phi, u)
        shape = 0.5 * (before.entries[c].nu + 1)
        found.append((np.full(x.shape, shape), shape + 0.5 * weight * (x - fit) ** 2, fit))
    return found


def by_entry(sources, closed_form, state, entries):
    """The ELBO of a state: E[ln p(data, unknowns)] - E[ln q], every entry and every factor by
    itself.

    The Laplace prior is replaced by its bound -sqrt(E[w^2]) / lambda.  A robust entry counts its 1
    - v at the fit where q(v) was found, which bounds v E[(x - wh - o)^2] from above.
    """
    priors = closed_form.priors
    rows = state.rows
    mu = rows.mean.T
    covariance = covariances(rows)
    n_features = len(mu)
    lambda_ = np.broadcast_to(np.transpose(state.laplace.lambda_), mu.shape)
    second = mu**2 + np.diagonal(covariance, axis1=1, axis2=2)
    total = (-np.sqrt(second) / lambda_ - np.log(2 * lambda_)).sum()
    total += sum(multivariate_normal(cov=s).entropy() for s in covariance)
    phi, log_phi, term = weights(state.feature, n_features)
    total += term
    for c, x in enumerate(sources.matrices):
        g = state.columns[c]
        shape = closed_form.shapes[c]
        rate = state.rates[c]
        t, log_t = of_gammas(shape, rate)
        u, log_u, term = weights(state.sample[c], x.shape[1])
        total += term
        o = np.zeros(n_features) + state.offsets[c].mean
        o_variance = np.zeros(n_features) + state.offsets[c].variance
        if state.offsets[c].is_learned:
            tau = state.offsets[c].tau
            total += np.sum(-0.5 * np.log(2 * np.pi * tau) - 0.5 * (o**2 + o_variance) / tau)
            total += norm(scale=np.sqrt(o_variance)).entropy().sum()
        for j in range(x.shape[1]):
            s = g[:, j].sum()
            m = g[:, j] / s
            second_h = (s * np.outer(m, m) + np.diag(m)) / (s + 1)
            for i in np.flatnonzero(~np.isnan(x[:, j])):
                mean = mu[i] @ m + o[i]
                variance = (
                    ((np.outer(mu[i], mu[i]) + covariance[i]) * second_h).sum()
                    - (mu[i] @ m) ** 2
                    + o_variance[i]
                )
                error = (x[i, j] - mean) ** 2 + variance
                logs = log_t + log_phi[i] + log_u[j]
                if entries[c] is not None:
                    v, log_v = of_gammas(entries[c][0][i, j], entries[c][1][i, j])
                    error = v * error + (1 - v) * ((entries[c][2][i, j] - mean) ** 2 + variance)
                    logs += log_v
                    nu = state.entries[c].nu
                    total += gamma_term(
                        entries[c][0][i, j], entries[c][1][i, j], 0.5 * nu, 0.5 * (nu + 1)
                    )
                total += 0.5 * (logs - np.log(2 * np.pi)) - 0.5 * t * phi[i] * u[j] * error
        alpha = state.dirichlet.alpha(c)
        log_h = psi(g) - psi(g.sum(axis=0))
        total += (
            x.shape[1] * (gammaln(alpha.sum()) - gammaln(alpha).sum())
            + ((alpha[:, None] - 1) * log_h).sum()
        )
        total += gammaln(g).sum() - gammaln(g.sum(axis=0)).sum() - ((g - 1) * log_h).sum()
        total -= alpha.sum() if priors.learns_alpha == BY_SOURCE else 0.0  # its exponential prior
        total += (
            priors.a0 * np.log(priors.b0)
            - gammaln(priors.a0)
            - (priors.a0 + 1) * -log_t
            - priors.b0 * t
        )
        total += invgamma(shape, scale=rate).entropy()
    return total


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_the_elbo_is_that_of_the_factors(make_sources, name, offsets, missing):
    sources = problem(make_sources, missing, shift=1.0)
    for n_sweeps, learned in ((2, ()), (11, (BY_SOURCE, "lambda")), (11, (LEARNED, "lambda"))):
        closed_form = algorithm(sources, name, offsets, learned)
        state, before, elbo = after(closed_form, n_sweeps)
        expected = by_entry(
            sources, closed_form, state, entry_factors(sources, closed_form, before)
        )
        np.testing.assert_allclose(elbo, expected, rtol=1e-10)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_no_plain_sweep_lowers_the_elbo(make_sources, name, offsets, missing):
    """Without the loop, whose safeguard would hide it."""
    rng = np.random.default_rng(3)
    for trial, learned in enumerate([(), (LEARNED,), ("lambda",), (BY_SOURCE, "lambda")]):
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
        state = closed_form.start()
        last = -np.inf
        for sweep in range(40):
            state, objective = closed_form.sweep(state)
            assert -objective >= last - 1e-9 * abs(last), f"trial {trial}, sweep {sweep}"
            last = -objective


def small(make_sources, name, *, learned=(), n_sweeps=10, missing=0.2):
    """A small problem with every kind of noise in the data, swept for a while."""
    rng = np.random.default_rng(8)
    sources = problem(make_sources, missing, shift=1.0, n_features=7, n_samples=(6, 5))
    rough = np.exp(rng.standard_normal((7, 1)))
    wild = np.where(rng.random((7, 6)) < 0.1, 8.0, 0.0)
    sources = Sources(
        [
            sources.matrices[0] + 0.5 * rough * rng.standard_normal((7, 6)) + wild,
            sources.matrices[1],
        ]
    )
    closed_form = algorithm(sources, name, "offsets" in learned, learned)
    return sources, closed_form, *after(closed_form, n_sweeps)[:2]


def from_the_top(objective, at, step=1e-3):
    """How far every coordinate is from the top of its parabola, which must bend down."""
    at = np.asarray(at, dtype=float)
    found = []
    middle = objective(at)
    for unit in step * np.eye(len(at)):
        up = objective(at + unit)
        down = objective(at - unit)
        assert up + down < 2 * middle
        found.append(step * (up - down) / (2 * (2 * middle - up - down)))
    return np.abs(found).max()


@pytest.mark.parametrize("name", ["feature", "feature+sample", "feature+sample+robust"])
def test_phi_is_the_best_gamma(make_sources, name):
    sources, closed_form, state, before = small(make_sources, name, learned=("offsets",))
    entries = entry_factors(sources, closed_form, before)

    def elbo(logs, i):
        shape = state.feature.shape.copy()
        rate = state.feature.rate.copy()
        shape[i], rate[i] = np.exp(logs)
        feature = replace(state.feature, shape=shape, rate=rate)
        return by_entry(sources, closed_form, replace(before, feature=feature), entries)

    for i in (0, 3):
        at = np.log([state.feature.shape[i], state.feature.rate[i]])
        assert from_the_top(lambda logs, i=i: elbo(logs, i), at) < 1e-5


@pytest.mark.parametrize("name", ["sample", "feature+sample", "sample+robust"])
def test_u_is_the_best_gamma(make_sources, name):
    sources, closed_form, state, before = small(make_sources, name, learned=("offsets",))
    entries = entry_factors(sources, closed_form, before)

    def elbo(logs, c, j):
        shape = state.sample[c].shape.copy()
        rate = state.sample[c].rate.copy()
        shape[j], rate[j] = np.exp(logs)
        sample = [
            replace(q, shape=shape, rate=rate) if c == at else q
            for at, q in enumerate(state.sample)
        ]
        given = replace(state, rates=before.rates, offsets=before.offsets, sample=sample)
        return by_entry(sources, closed_form, given, entries)

    for c, j in ((0, 1), (1, 4)):
        at = np.log([state.sample[c].shape[j], state.sample[c].rate[j]])
        assert from_the_top(lambda logs, c=c, j=j: elbo(logs, c, j), at) < 1e-5


@pytest.mark.parametrize("name", ["source", "feature+sample", "robust"])
def test_offsets_and_their_scale_are_the_best(make_sources, name):
    sources, closed_form, state, before = small(make_sources, name, learned=("offsets",))
    entries = entry_factors(sources, closed_form, before)

    def elbo(values, c, i):
        mean = state.offsets[c].mean.copy()
        variance = state.offsets[c].variance.copy()
        mean[i] = values[0]
        variance[i] = np.exp(values[1])
        offsets = list(state.offsets)
        offsets[c] = replace(offsets[c], mean=mean, variance=variance)
        return by_entry(
            sources, closed_form, replace(state, rates=before.rates, offsets=offsets), entries
        )

    for c, i in ((0, 2), (1, 5)):
        at = [state.offsets[c].mean[i], np.log(state.offsets[c].variance[i])]
        assert from_the_top(lambda values, c=c, i=i: elbo(values, c, i), at) < 1e-5

    def of_scale(logs):
        offsets = [replace(q, tau=tau) for q, tau in zip(state.offsets, np.exp(logs), strict=True)]
        return by_entry(sources, closed_form, replace(state, offsets=offsets), entries)

    assert from_the_top(of_scale, np.log([q.tau for q in state.offsets])) < 1e-5


@pytest.mark.parametrize("name", NOISES)
def test_rates_hyperparameters_and_learned_priors_are_the_best(make_sources, name):
    """What a sweep ends with is at the top of the whole ELBO: B_c, a, a_c, nu_c, alpha and
    lambda_k.
    """
    sources, closed_form, state, before = small(
        make_sources, name, learned=("offsets", BY_SOURCE, "lambda"), n_sweeps=12
    )
    entries = entry_factors(sources, closed_form, before)

    def of(**changes):
        return by_entry(sources, closed_form, replace(state, **changes), entries)

    assert from_the_top(lambda logs: of(rates=np.exp(logs)), np.log(state.rates)) < 1e-5
    at = np.log(state.laplace.lambda_[:, 0])
    of_lambda = lambda logs: of(laplace=LearnedLaplace(np.exp(logs)[:, None]))  # noqa: E731
    assert from_the_top(of_lambda, at) < 1e-5
    first, second = state.dirichlet.alphas
    inside = first > LEAST_ALPHA
    assert inside.any()

    def of_alpha(logs):
        alpha = first.copy()
        alpha[inside] = np.exp(logs)
        return of(dirichlet=DirichletBySource([alpha, second]))

    assert from_the_top(of_alpha, np.log(first[inside])) < 1e-5
    if state.feature.is_learned:
        _at_the_top_or_bound(
            lambda a: of(feature=replace(state.feature, a=a)),
            state.feature.a,
            noise._least_shape(state.feature.counts),
            noise.LARGEST_SHAPE,
        )
    sample, other = state.sample
    if sample.is_learned:
        _at_the_top_or_bound(
            lambda a: of(sample=[replace(sample, a=a), other]),
            sample.a,
            noise._least_shape(sample.counts),
            noise.LARGEST_SHAPE,
        )
    robust, other = state.entries
    if robust.is_learned:
        _at_the_top_or_bound(
            lambda nu: of(entries=[replace(robust, nu=nu), other]),
            robust.nu,
            noise.LEAST_NU,
            noise.MOST_NU,
        )


def _at_the_top_or_bound(objective, value, least, most):
    if value in (least, most):
        inwards = value * (1.01 if value == least else 1 / 1.01)
        assert objective(inwards) < objective(value)
    else:
        assert from_the_top(lambda log: objective(np.exp(log[0])), [np.log(value)]) < 1e-4


@pytest.mark.parametrize("name", NOISES)
def test_rows_by_a_loop_over_the_observed_entries(make_sources, name):
    """S_i^-1 = diag rho + sum t phi u E[hh'] and mu_i = S_i sum t phi u z E[h] over what is
    observed, by brute force.
    """
    sources, closed_form, state, before = small(
        make_sources, name, learned=("offsets",), missing=0.4
    )
    entries = entry_factors(sources, closed_form, before)
    phi, _, _ = weights(state.feature, 7)
    for i in range(7):
        precision = np.diag(before.ridge[:, i])
        linear = np.zeros(3)
        for c, x in enumerate(sources.matrices):
            t = closed_form.shapes[c] / before.rates[c]
            u, _, _ = weights(before.sample[c], x.shape[1])
            for j in np.flatnonzero(~np.isnan(x[i])):
                g = before.columns[c][:, j]
                m = g / g.sum()
                z = x[i, j]
                if entries[c] is not None:
                    v = entries[c][0][i, j] / entries[c][1][i, j]
                    z = v * z + (1 - v) * entries[c][2][i, j]
                weight = t * phi[i] * u[j]
                precision = precision + weight * (g.sum() * np.outer(m, m) + np.diag(m)) / (
                    g.sum() + 1
                )
                linear = linear + weight * (z - before.offsets[c].mean[i]) * m
        np.testing.assert_allclose(
            state.rows.mean[:, i], np.linalg.solve(precision, linear), rtol=1e-8, atol=1e-10
        )
        np.testing.assert_allclose(
            covariances(state.rows)[i], np.linalg.inv(precision), rtol=1e-8, atol=1e-12
        )


@pytest.mark.parametrize("name", ["source", "feature+sample", "robust"])
def test_columns_by_a_general_purpose_optimiser(make_sources, name, monkeypatch):
    """With Newton steps to the end, every column is at the top of the ELBO for the noise it was
    found at.
    """
    monkeypatch.setattr(cavi, "COLUMN_STEPS", 200)
    monkeypatch.setattr(cavi, "COLUMN_TOLERANCE", 1e-13)
    sources, closed_form, state, before = small(make_sources, name, learned=("offsets",))
    entries = entry_factors(sources, closed_form, before)
    given = replace(state, rates=before.rates, sample=before.sample, offsets=before.offsets)
    for c, j in ((0, 2), (1, 0)):

        def elbo(logs, c=c, j=j):
            g = state.columns[c].copy()
            g[:, j] = np.exp(logs)
            columns = [g if c == at else other for at, other in enumerate(state.columns)]
            return by_entry(sources, closed_form, replace(given, columns=columns), entries)

        assert from_the_top(elbo, np.log(state.columns[c][:, j])) < 1e-4


def test_the_elbo_is_the_mean_of_draws_from_the_factors(make_sources):
    """ln p - ln q over draws of W, H, s2, phi, u and o, with holes; all densities are SciPy's or
    written out here.
    """
    sources, closed_form, state, _ = small(
        make_sources, "feature+sample", learned=("offsets",), n_sweeps=3
    )
    elbo = by_entry(sources, closed_form, state, [None, None])
    rng = np.random.default_rng(0)
    n = 40_000
    priors = closed_form.priors
    values = np.zeros(n)

    def draw(q, p):
        nonlocal values
        draws = q.rvs(n, random_state=rng)
        values += p.logpdf(draws) - q.logpdf(draws)
        return draws

    rows = [
        multivariate_normal(m, s)
        for m, s in zip(state.rows.mean.T, covariances(state.rows), strict=True)
    ]
    w = np.stack([q.rvs(n, random_state=rng) for q in rows], axis=1)
    values -= sum(q.logpdf(w[:, i]) for i, q in enumerate(rows))
    values -= np.sqrt(
        state.rows.second_moment
    ).sum() / priors.lambda_ + state.rows.mean.size * np.log(2 * priors.lambda_)

    def gammas(q):
        prior = gamma(q.a, scale=1 / q.a)
        return [draw(gamma(a, scale=1 / b), prior) for a, b in zip(q.shape, q.rate, strict=True)]

    phi = gammas(state.feature)
    alpha0 = priors.dirichlet(3)
    for c, x in enumerate(sources.matrices):
        s2 = draw(
            invgamma(closed_form.shapes[c], scale=state.rates[c]),
            invgamma(priors.a0, scale=priors.b0),
        )
        u = gammas(state.sample[c])
        offset = state.offsets[c]
        prior = norm(scale=np.sqrt(offset.tau))
        o = [
            draw(norm(m, np.sqrt(v)), prior)
            for m, v in zip(offset.mean, offset.variance, strict=True)
        ]
        for j in range(x.shape[1]):
            g = state.columns[c][:, j]
            log_h = np.stack(
                [np.log(rng.gamma(a + 1, size=n)) + np.log(rng.random(n)) / a for a in g], axis=1
            )
            log_h -= np.logaddexp.reduce(log_h, axis=1, keepdims=True)
            values += dirichlet.log_normaliser(alpha0) + log_h @ (alpha0 - 1)
            values -= dirichlet.log_normaliser(g) + log_h @ (g - 1)
            for i in np.flatnonzero(~np.isnan(x[:, j])):
                mean = (w[:, i] * np.exp(log_h)).sum(axis=1) + o[i]
                values += norm.logpdf(x[i, j], mean, np.sqrt(s2 / (phi[i] * u[j])))
    standard_error = values.std() / np.sqrt(n)
    assert standard_error < 0.1
    assert abs(values.mean() - elbo) < 4 * standard_error


def test_a_robust_elbo_bounds_that_of_its_factors(make_sources):
    """Counting 1 - v at the old fit costs something: the bound is below the ELBO without it, and
    near it.
    """
    sources, closed_form, state, before = small(make_sources, "robust", n_sweeps=60)
    entries = entry_factors(sources, closed_form, before)
    bound = by_entry(sources, closed_form, state, entries)
    cost = 0.0
    for c, x in enumerate(sources.matrices):
        g = state.columns[c]
        m = g / g.sum(axis=0)
        seen = ~np.isnan(x)
        second = moments.unpack(moments.column_moments(g), 3)
        rows = np.einsum("ki,li->ikl", state.rows.mean, state.rows.mean) + covariances(state.rows)
        mean = state.rows.mean.T @ m
        variance = np.einsum("ikl,jkl->ij", rows, second) - mean**2
        v = entries[c][0] / entries[c][1]
        assert (v[seen] <= 1).all()
        extra = (1 - v) * ((entries[c][2] - mean) ** 2 + variance)
        cost += 0.5 * closed_form.shapes[c] / state.rates[c] * extra[seen].sum()
    assert 0 < cost < 0.1 * abs(bound)


@pytest.mark.parametrize("residual", [0.1, 1e3, 1e15, 1e25])
def test_logarithms_of_many_factors_at_once_do_not_overflow(residual):
    """sum_i ln(1 + w r_i^2 / nu) of every column, however wild its entries are."""
    n_rows = 400
    columns = np.zeros((3, 2))
    x = np.outer(np.linspace(0.5, 1.5, n_rows), [residual, -2 * residual])
    fit = np.zeros((n_rows, 2))
    shift = np.zeros(n_rows)
    rows = np.linspace(1, 2, n_rows)
    ones = np.ones(2)
    moments.downweighted(
        x, shift, fit, 3.0, rows, ones, 5.0, np.empty_like(x), np.zeros(0), columns
    )
    np.testing.assert_allclose(
        columns[2], np.log1p(3.0 * rows[:, None] * x**2 / 5.0).sum(axis=0), rtol=1e-10
    )


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-3, 1.0, 1e6])
def test_nothing_gets_more_precise_than_the_bound(scale):
    """Whatever the errors are, none included, and however often a is learned from them."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 40, 30).astype(float)
    q = noise.Gammas.start(counts)
    for _ in range(200):
        errors = scale * counts * rng.exponential(size=30)
        q = q.updated(lambda errors=errors: errors)
        assert (q.mean <= noise.MOST_PRECISE * (1 + 1e-12)).all()
        assert (q.mean > 0).all()
        assert np.isfinite(q.elbo())


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0])
def test_gammas_and_their_shape_are_the_best_together(spread):
    """No other a, each with its own best q, has a higher ELBO; and where all errors are as
    expected, a is large.
    """
    rng = np.random.default_rng(1)
    counts = rng.integers(20, 60, 200).astype(float)
    errors = counts * (np.exp(spread * rng.standard_normal(200)) if spread else 1.0)
    q = noise.Gammas.start(counts).updated(lambda: errors)

    def elbo(a):
        best = noise.Gammas.at(a, counts, errors)
        return best.elbo() - 0.5 * errors @ best.mean

    least = noise._least_shape(counts)
    others = np.geomspace(least, noise.LARGEST_SHAPE, 300)
    assert elbo(q.a) >= max(elbo(a) for a in others) - 1e-6
    assert (q.a == noise.LARGEST_SHAPE) == (spread == 0)
    if spread:
        _at_the_top_or_bound(elbo, q.a, least, noise.LARGEST_SHAPE)
    np.testing.assert_allclose(q.mean, (q.a + 0.5 * counts) / (q.a + 0.5 * errors))


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_offsets_and_their_scale_are_the_best_together(make_sources, shift):
    """No other tau_c, each with its own best offsets, has a higher ELBO."""
    sources = problem(make_sources, 0.2, shift=shift)
    closed_form = algorithm(sources, offsets=True)
    state, before, _ = after(closed_form, 10)
    for c in range(2):

        def elbo(tau, c=c):
            t = closed_form.shapes[c] / before.rates[c]
            x = sources.matrices[c]
            m = dirichlet.mean(state.columns[c])
            rest = x - state.rows.mean.T @ m
            known = t * (~np.isnan(x)).sum(axis=1)
            total = t * np.nansum(rest, axis=1)
            variance = 1 / (known + 1 / tau)
            mean = variance * total
            fitted = total * mean - 0.5 * known * (mean**2 + variance)
            return (
                fitted
                + norm.logpdf(mean, scale=np.sqrt(tau))
                - 0.5 * variance / tau
                + 0.5 * np.log(variance)
            ).sum()

        found = state.offsets[c].tau
        assert elbo(found) >= max(elbo(tau) for tau in np.geomspace(1e-12, 1e3, 300)) - 1e-9
        _at_the_top_or_bound(elbo, found, LEAST_TAU, np.inf)


@pytest.mark.parametrize("at", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("tails", [1.0, 4.0, 15.0])
def test_degrees_of_freedom_are_the_best(at, tails):
    """Given q(v) at the old ones, for residuals with tails of all kinds."""
    squares = np.random.default_rng(0).standard_t(tails, 500) ** 2 / (at + 1)
    q = noise.StudentT(at, np.mean(1 / (1 + squares)), np.log1p(squares).mean(), 500)
    assert from_the_top(lambda log: q.elbo(np.exp(log[0])), [np.log(q.learned())]) < 1e-5


def test_the_robust_prior_is_students_t():
    """With v integrated out an entry is Student's t of nu degrees of freedom and the scale that is
    reported.
    """
    for nu in (0.7, 3.0, 40.0):
        robust = noise.StudentT(nu)
        prior = gamma(0.5 * nu, scale=2 / (nu + 1))
        for x in (0.0, 1.0, 5.0):
            density = quad(
                lambda v, x=x, p=prior: norm.pdf(x, scale=v**-0.5) * p.pdf(v), 0, np.inf, limit=300
            )[0]
            np.testing.assert_allclose(density, t.pdf(x, nu, scale=robust.scale), rtol=1e-5)


@pytest.mark.parametrize("n_components", [2, 3, 6])
def test_the_learned_dirichlet_by_a_general_purpose_optimiser(n_components):
    rng = np.random.default_rng(n_components)
    for n in (3, 40, 1000):
        truth = 10 ** rng.uniform(-0.5, 1, n_components)
        mean_log = np.log(rng.dirichlet(truth, n)).mean(axis=0)
        ours = learned_dirichlet(mean_log, np.full(n_components, 1.1), n)

        def loss(log, mean_log=mean_log, n=n):
            alpha = np.exp(log)
            return alpha.sum() - n * (
                gammaln(alpha.sum()) - gammaln(alpha).sum() + alpha @ mean_log
            )

        best = minimize(loss, np.zeros(n_components), method="BFGS", options={"gtol": 1e-7})
        np.testing.assert_allclose(ours, np.maximum(np.exp(best.x), LEAST_ALPHA), rtol=1e-3)


def test_an_unused_component_gets_the_least_alpha():
    mean_log = np.array([-0.7, -0.8, -400.0])
    alpha = learned_dirichlet(mean_log, np.full(3, 1.1), 50)
    assert alpha[2] == LEAST_ALPHA
    best = minimize_scalar(
        lambda a: a - 50 * (gammaln(a + alpha[1] + LEAST_ALPHA) - gammaln(a) + a * -0.7),
        bounds=(1e-3, 100),
        method="bounded",
    )
    np.testing.assert_allclose(alpha[0], best.x, rtol=1e-3)


def parameters_of_columns(rng, concentration, n_components, n_samples):
    """q(H) of columns that are known well."""
    return [60 * rng.dirichlet(np.full(n_components, concentration), n).T + 0.3 for n in n_samples]


@pytest.mark.parametrize("start", [0.5, 1.1, 300.0])
@pytest.mark.parametrize("concentration", [0.1, 0.8, 4.0, 60.0])
@pytest.mark.parametrize("n_components", [2, 5])
def test_the_shared_concentration_is_the_best_for_all_columns(n_components, concentration, start):
    """By brute force on the terms of the ELBO that it enters; the gain is their change."""
    columns = parameters_of_columns(np.random.default_rng(1), concentration, n_components, (30, 50))
    found, gain = SharedDirichlet(start, n_components).updated(columns)

    def elbo(a):
        logs = sum((psi(g) - psi(g.sum(axis=0))).sum() for g in columns)
        return 80 * (gammaln(n_components * a) - n_components * gammaln(a)) + (a - 1) * logs

    grid = np.geomspace(LEAST_CONCENTRATION, 1e3, 2000)
    best = minimize_scalar(lambda a: -elbo(a), bounds=(0.4, 200), method="bounded")
    np.testing.assert_allclose(found.concentration, max(best.x, LEAST_CONCENTRATION), rtol=1e-4)
    assert elbo(found.concentration) >= elbo(grid).max() - 1e-9
    np.testing.assert_allclose(gain, elbo(found.concentration) - elbo(start), atol=1e-8)
    assert (found.concentration == LEAST_CONCENTRATION) == (concentration == 0.1)
    np.testing.assert_array_equal(found.alpha(1), np.full(n_components, found.concentration))


def test_one_component_has_no_concentration_to_learn(rng):
    prior = SharedDirichlet(1.1, 1)
    assert prior.updated(parameters_of_columns(rng, 1.0, 1, (5,))) == (prior, 0.0)


def test_in_a_sweep_the_shared_concentration_is_the_best(make_sources):
    sources, closed_form, state, _ = small(
        make_sources, "source", learned=("offsets", LEARNED, "lambda"), n_sweeps=12
    )

    def elbo(a):
        moved = replace(state, dirichlet=SharedDirichlet(a, 3))
        return by_entry(sources, closed_form, moved, [None, None])

    _at_the_top_or_bound(elbo, state.dirichlet.concentration, LEAST_CONCENTRATION, np.inf)


@pytest.mark.parametrize("start", [LEAST_TAU, 1e-6, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("width", [0.0, 0.02, 0.3, 10.0])
def test_the_variance_of_offsets_is_a_maximum_that_no_start_misses(width, start):
    """ln p(sums | tau) is that of offsets of some width, seen with different precision."""
    rng = np.random.default_rng(2)
    known = rng.uniform(20, 200, 300)
    sums = known * (width * rng.standard_normal(300) + rng.standard_normal(300) / np.sqrt(known))

    def value(tau):
        return norm.logpdf(sums / known, scale=np.sqrt(tau + 1 / known)).sum()

    found = _best_tau(sums, known, start)
    best = max(value(tau) for tau in np.geomspace(LEAST_TAU, 1e4, 3000))
    assert value(found) >= best - 1e-6


def test_a_dirichlet_that_favours_corners_is_at_the_top_too(make_sources):
    """alpha0 = 0.5: sweeps rise, and the ELBO is that of the factors."""
    sources = problem(make_sources, 0.2, shift=1.0)
    closed_form = algorithm(sources, offsets=True, alpha0=0.5)
    state = closed_form.start()
    values = []
    for _ in range(30):
        state, objective = closed_form.sweep(state)
        values.append(-objective)
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()
    np.testing.assert_allclose(
        values[-1], by_entry(sources, closed_form, state, [None, None]), rtol=1e-10
    )


def test_priors_wait_for_the_memberships_before_they_are_learned(make_sources):
    closed_form = algorithm(make_sources(), learned=(BY_SOURCE, "lambda"))
    first = closed_form.start()
    state = after(closed_form, cavi.LEARNING_WAITS)[0]
    np.testing.assert_array_equal(state.laplace.lambda_, first.laplace.lambda_)
    np.testing.assert_array_equal(state.dirichlet.alphas, first.dirichlet.alphas)
    state, _ = closed_form.sweep(state)
    assert (state.laplace.lambda_ != first.laplace.lambda_).all()
    assert (np.array(state.dirichlet.alphas) != first.dirichlet.alphas).any()


@pytest.mark.parametrize("name", NOISES)
def test_the_posterior_of_the_noise_is_about_the_noise_of_the_result(make_sources, name):
    """In the unit of the data, 30 here, and at the scale of the t for robust noise."""
    sources = Sources([30 * x for x in make_sources().matrices])
    result = registry.fit("cavi-bjmd", sources, 3, noise=name, max_sweeps=3)
    np.testing.assert_allclose(
        np.sqrt(result.posterior.noise.rate / result.posterior.noise.shape), result.noise
    )
