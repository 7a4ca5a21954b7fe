"""New samples: they get what the fit gave them, and scores that bound their densities."""

import dataclasses
from itertools import combinations

import elbo
import numpy as np
import pytest
import scipy.sparse
from scipy.special import betaln, gammaln, logsumexp, psi
from scipy.stats import gamma, norm
from scipy.stats import t as student

from bjmd.data.matrix import as_matrix
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import cavi, noise, projection, registry
from bjmd.inference.projection import impute, log_evidence, project
from bjmd.numerics import dirichlet, simplex
from bjmd.results import predictive
from bjmd.results.posterior import Normal

METHODS = ["cavi-bjmd", "map-bjmd"]
NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]
ROUNDING_OF_F = 1e-6
"""A column of the closed form stops where f equals its maximum but for rounding; its mean is off by
about the root of that.
"""


@pytest.fixture(scope="module")
def data():
    """Two sources with noise of every kind: rough features, heavy tails, and a shift."""
    rng = np.random.default_rng(0)
    components = rng.laplace(size=(20, 3))
    rough = np.exp(0.5 * rng.standard_normal((20, 1)))
    matrices = [
        components @ rng.dirichlet(np.ones(3), n).T + sd * rough * rng.standard_t(4, size=(20, n))
        for n, sd in ((30, 0.2), (25, 0.5))
    ]
    return [matrices[0], matrices[1] + rng.standard_normal((20, 1))]


@pytest.fixture(scope="module")
def holed(data):
    rng = np.random.default_rng(1)
    return [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in data]


def fit(matrices, method="cavi-bjmd", n_components=3, **options):
    fixed = {"tol": 1e-7, "max_sweeps": 300, "alpha0": 1.1, "lambda_": 1.0}
    return registry.fit(method, Sources(matrices), n_components, **{**fixed, **options})


# Training samples.


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_training_samples_get_back_their_memberships(data, holed, name, missing, monkeypatch):
    monkeypatch.setattr(cavi, "SETTLING_ROUNDS", 1000)  # robust rounds take small steps
    monkeypatch.setattr(cavi, "SETTLED_WEIGHTS", 1e-9)
    matrices = holed if missing else data
    for alpha0, offsets in (("learned", True), ("by-source", False)):
        result = fit(matrices, noise=name, offsets=offsets, alpha0=alpha0, lambda_=None)
        for c, x in enumerate(matrices):
            found = project(result, x, source=c)
            # columns of a fit are within 1e-10 nats of their best, so means within sqrt(2e-10)
            np.testing.assert_allclose(found.memberships, result.memberships[c], atol=1.5e-5)
            np.testing.assert_allclose(found.noise, result.noise[c], rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("method", ["map-bjmd", "map-catbjmd", "cavi-catbjmd"])
def test_training_samples_of_the_other_fits(data, holed, method, missing):
    matrices = holed if missing else data
    result = fit(matrices, method, tol=1e-12, max_sweeps=3000, lambda_=None)
    for c, x in enumerate(matrices):
        found = project(result, x, source=c)
        np.testing.assert_allclose(found.memberships, result.memberships[c], atol=1e-4)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *(("cavi-bjmd", {"noise": name}) for name in ("source", "feature", "robust")),
        ("map-bjmd", {}),
    ],
)
def test_the_noise_of_a_source_is_found_again(holed, method, options):
    result = fit(holed[:1], method, tol=1e-11, max_sweeps=3000, **options)
    found = project(result, holed[0])
    np.testing.assert_allclose(found.noise, result.noise[0], rtol=1e-3)
    np.testing.assert_allclose(found.memberships, result.memberships[0], atol=1e-3)


def test_the_noise_of_new_samples_is_that_of_the_fit_at_its_best(data):
    """The mode of the inverse gamma for MAP, 1 / E[1/s2] for the closed form."""
    for method, expected in (("map-bjmd", 16 / 13), ("cavi-bjmd", 8 / 5.5)):
        result = fit(data, method, max_sweeps=2)
        kind = projection._Dirichlets if result.posterior else projection._Points
        problem = kind(result, as_matrix(data[0]), None)
        problem.a0 = 2.0
        problem.b0 = 3.0
        np.testing.assert_allclose(problem.noise_variance(10.0, 7), expected)


# New samples.


def test_map_columns_are_the_optimum_over_the_observed_entries(holed):
    result = fit(holed, "map-bjmd", offsets=False)
    x = holed[1]
    found = project(result, x, noise=0.7)
    assert found.dirichlet is None
    for j in range(x.shape[1]):
        seen = ~np.isnan(x[:, j])
        w = result.components[seen]
        direct = simplex.minimise(w.T @ w, (w.T @ x[seen, j])[:, None], 0.7**2 * 0.1)
        np.testing.assert_allclose(found.memberships[:, j], direct.h[:, 0], atol=1e-6)


def test_advi_fits_place_new_samples_by_the_closed_form(data):
    """ADVI keeps independent normals for W, so the covariance of a row is diagonal."""
    result = fit(data, offsets=False)
    sd = result.posterior.components.sd
    posterior = dataclasses.replace(result.posterior, components=Normal(result.components, sd))
    like_advi = dataclasses.replace(result, method="advi-bjmd", posterior=posterior)
    w = result.components
    found = dirichlet.maximise(
        w.T @ w + np.diag((sd**2).sum(axis=0)),
        w.T @ data[0],
        1 / 0.5**2,
        np.full(3, 1.1),
        np.ones((3, 30)),
        tol=1e-16,
        max_steps=100,
    )
    np.testing.assert_allclose(
        project(like_advi, data[0], noise=0.5).memberships,
        dirichlet.mean(found.g),
        atol=ROUNDING_OF_F,
    )


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_blocks_change_nothing(method, holed, monkeypatch):
    result = fit(holed, method)
    x = holed[0]
    together = project(result, x, source=0).memberships
    filled, _ = impute(result, x, source=0)
    alone = [project(result, x[:, [j]], source=0).memberships for j in range(x.shape[1])]
    np.testing.assert_allclose(np.hstack(alone), together, atol=ROUNDING_OF_F)
    monkeypatch.setattr(predictive, "BLOCK", 40)
    np.testing.assert_allclose(project(result, x, source=0).memberships, together, rtol=1e-9)
    np.testing.assert_allclose(impute(result, x, source=0)[0], filled, rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("map-bjmd", {}),
        *(("cavi-bjmd", {"noise": name}) for name in ("source", "feature", "sample")),
    ],
)
def test_sparse_and_memory_mapped_samples_are_samples(data, method, options, tmp_path):
    cut = [np.where(np.abs(x) > 0.5, x, 0.0) for x in data]
    result = fit(cut, method, **options)
    np.save(tmp_path / "new.npy", cut[1])
    mapped = np.load(tmp_path / "new.npy", mmap_mode="r")
    for source in (1, None):
        dense = project(result, cut[1], source=source)
        score = log_evidence(result, cut[1], source=source)
        for x in (scipy.sparse.csc_array(cut[1]), mapped):
            other = project(result, x, source=source)
            np.testing.assert_allclose(other.memberships, dense.memberships, atol=1e-6)
            np.testing.assert_allclose(other.noise, dense.noise, rtol=1e-6)
            np.testing.assert_allclose(log_evidence(result, x, source=source), score, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_new_samples_have_no_unit_and_no_origin(data, method):
    shift = 1e4 * np.random.default_rng(2).standard_normal((20, 1))
    plain = fit(data, method, lambda_=None)
    for factor in (1e-60, 1e60):
        other = fit([factor * (x + shift) for x in data], method, lambda_=None)
        for source in (1, None):
            expected = project(plain, data[1], source=source)
            found = project(other, factor * (data[1] + shift), source=source)
            np.testing.assert_allclose(found.memberships, expected.memberships, atol=1e-5)
            np.testing.assert_allclose(found.noise / factor, expected.noise, rtol=1e-5)


def test_the_noise_of_new_samples_settles_in_any_unit(data):
    """The memberships in one component never move, so the noise alone says when it has settled."""
    found = []
    for factor in (1.0, 1e-6, 1e6):
        matrices = [factor * x for x in data]
        result = fit(matrices, noise="robust", n_components=1, lambda_=None)
        found.append(project(result, matrices[1]).noise / factor)
    np.testing.assert_allclose(found[1:], found[0], rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_one_component_and_one_sample(method, data):
    result = fit(data, method, n_components=1)
    np.testing.assert_allclose(project(result, data[0][:, :1]).memberships, 1)


# Scores and imputation.


class Literal:
    """What is inferred about new samples, entry by entry, with the factors of tests/elbo.py."""

    def __init__(self, result, x, source, noise=None):
        problem = projection._Dirichlets(result, as_matrix(x), source)
        self.g, sd = problem.solve(noise)
        model = result.model
        self.seen = ~np.isnan(x)
        self.alpha = model.alpha0.mean(axis=0) if source is None else model.alpha0[source]
        self.phi = np.ones(len(x)) if model.feature_precision is None else model.feature_precision
        nu = model.degrees_of_freedom
        self.nu = 1.0 if nu is None else nu.mean() if source is None else nu[source]
        self.s2 = sd**2 if nu is None else sd**2 * self.nu / (self.nu + 1)
        self.u = elbo.Known(np.ones(x.shape[1]))
        if model.sample_shape is not None:
            self.a = model.sample_shape.mean() if source is None else model.sample_shape[source]
            self.u = elbo.Gammas(problem.sample.shape, problem.sample.rate)
        offset, offset_variance = predictive.offsets(result, source)
        mean, variance = predictive.product_moments(result, self.g)
        delta = x - offset - mean
        p = np.outer(self.phi, self.u.mean / self.s2)
        self.v = elbo.Known(np.ones(x.shape))
        if nu is not None:
            self.v = elbo.Gammas((self.nu + 1) / 2, (self.nu + 1 + p * delta**2) / 2)
        self.errors = self.v.mean * delta**2 + variance + offset_variance

    def elbo(self):
        logs = np.log(self.phi)[:, None] + self.u.log + self.v.log - np.log(2 * np.pi * self.s2)
        terms = logs - np.outer(self.phi, self.u.mean / self.s2) * self.errors
        total = (0.5 * terms + self.v.elbo(self.nu / 2, (self.nu + 1) / 2)).sum(
            axis=0, where=self.seen
        )
        if isinstance(self.u, elbo.Gammas):
            total += self.u.elbo(self.a, self.a)
        for alpha, g, sign in ((self.alpha[:, None], self.g, 1), (self.g, self.g, -1)):
            log_h = psi(g) - psi(g.sum(axis=0))
            normaliser = gammaln(alpha.sum(axis=0)) - gammaln(alpha).sum(axis=0)
            total += sign * (normaliser + ((alpha - 1) * log_h).sum(axis=0))
        return total


@pytest.mark.parametrize("name", NOISES)
def test_the_score_is_the_elbo_of_the_sample(holed, name):
    result = fit(holed, noise=name)
    for source, noise_sd in ((1, result.noise[1]), (None, 0.4)):
        literal = Literal(result, holed[1], source, noise_sd)
        found = log_evidence(result, holed[1], source=source, noise=noise_sd)
        np.testing.assert_allclose(found, literal.elbo(), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NOISES)
def test_the_noise_of_new_samples_and_their_precisions_are_at_their_best(holed, name):
    result = fit(holed, noise=name)
    a0, b0 = result.model.noise_prior
    literal = Literal(result, holed[1], None)
    errors = np.where(literal.seen, literal.phi[:, None] * literal.errors, 0).sum(axis=0)
    counts = literal.seen.sum(axis=0)
    s2 = (b0 + 0.5 * literal.u.mean @ errors) / (a0 + 0.5 * counts.sum())
    np.testing.assert_allclose(literal.s2, s2, rtol=1e-6)
    if "sample" in name:
        np.testing.assert_allclose(literal.u.shape, literal.a + 0.5 * counts)
        rate = literal.a + 0.5 * errors / literal.s2
        np.testing.assert_allclose(literal.u.rate, rate, rtol=1e-6)


@pytest.mark.parametrize("name", [*NOISES, "map-bjmd"])
def test_the_score_is_a_close_bound_on_the_density(data, name):
    """K = 2, W and the offsets known: ln p(x) is an integral over one membership, and over the
    sample's precision.
    """
    if name == "map-bjmd":
        result = fit(data, name, n_components=2)
    else:
        result = fit(data, n_components=2, noise=name)
        rows = result.posterior.components
        certain = dataclasses.replace(rows, ridge=np.full_like(rows.ridge, 1e12))
        result.posterior = dataclasses.replace(result.posterior, components=certain)
    no_sd = np.full_like(result.model.offsets_sd, 1e-9)
    model = result.model = dataclasses.replace(result.model, offsets_sd=no_sd)
    x = data[1][:, :4].copy()
    x[5:9, 2:] = np.nan
    phi = np.ones(20) if model.feature_precision is None else model.feature_precision
    sd = result.noise[1] / np.sqrt(phi)
    p = (np.arange(1000) + 0.5) / 1000
    prior = 0.1 * np.log(p * (1 - p)) - betaln(1.1, 1.1) - np.log(len(p))
    u = np.ones(1)
    if model.sample_shape is not None:  # the middles of many parts of the prior, all of one weight
        a = model.sample_shape[1]
        u = gamma.ppf((np.arange(200) + 0.5) / 200, a, scale=1 / a)
    law = norm if model.degrees_of_freedom is None else student(model.degrees_of_freedom[1])
    bound = log_evidence(result, x, source=1)
    mean = result.components @ [p, 1 - p] + model.offsets[1][:, None]
    for j in range(4):
        seen = ~np.isnan(x[:, j])
        scaled = ((x[:, [j]] - mean) / sd[:, None])[seen]
        density = [
            law.logpdf(scaled * np.sqrt(q)).sum(axis=0) + 0.5 * seen.sum() * np.log(q) for q in u
        ]
        exact = logsumexp(np.array(density) - np.log(len(u)) + prior) - np.log(sd[seen]).sum()
        assert exact - 0.4 < bound[j] <= exact + 1e-3


@pytest.mark.parametrize("name", ["feature", "sample", "robust", "feature+sample+robust"])
def test_the_sd_of_what_is_imputed_is_that_of_draws(holed, name):
    """Draws of W, h, o, of the sample's precision, and of noise that is normal or Student's t."""
    result = fit(holed, noise=name)
    rng = np.random.default_rng(3)
    n = 20_000
    model = result.model
    if "robust" in name:  # whose variance draws can tell
        model = result.model = dataclasses.replace(model, degrees_of_freedom=np.array([6.0, 9.0]))
    x = holed[1][:, :4]
    missing = np.isnan(x)
    filled, sd = impute(result, x, source=1)
    problem = projection._Dirichlets(result, as_matrix(x), 1)
    columns, noise_sd = problem.solve(result.noise[1])
    w = result.posterior.components.sample(n, rng)
    h = np.stack([rng.dirichlet(g, n) for g in columns.T], axis=2)
    drawn = w @ h + rng.normal(model.offsets[1], model.offsets_sd[1], (n, 20))[:, :, None]
    variance = noise_sd**2 * np.ones((n, 20, 4))
    if "feature" in name:
        variance /= model.feature_precision[:, None]
    if "sample" in name:
        variance /= rng.gamma(problem.sample.shape, 1 / problem.sample.rate, (n, 4))[:, None]
    t = rng.standard_t(9.0, drawn.shape) if "robust" in name else rng.standard_normal(drawn.shape)
    drawn += np.sqrt(variance) * t
    np.testing.assert_allclose(sd[missing], drawn.std(axis=0)[missing], rtol=0.05)
    np.testing.assert_allclose(filled[missing], drawn.mean(axis=0)[missing], atol=0.05)
    np.testing.assert_array_equal(filled[~missing], x[~missing])
    assert (sd[~missing] == 0).all()


def test_after_map_what_is_imputed_is_its_fit_and_has_no_sd(holed):
    result = fit(holed, "map-bjmd")
    filled, sd = impute(result, holed[1], source=1)
    memberships = project(result, holed[1], source=1).memberships
    expected = result.components @ memberships + result.model.offsets[1][:, None]
    expected = np.where(np.isnan(holed[1]), expected, holed[1])
    np.testing.assert_allclose(filled, expected, rtol=1e-9)
    assert sd is None


def test_what_has_no_variance_has_no_sd(holed):
    result = fit(holed, noise="robust")
    result.model = dataclasses.replace(result.model, degrees_of_freedom=np.array([2.0, 2.5]))
    assert np.isinf(impute(result, holed[0], source=0)[1][np.isnan(holed[0])]).all()
    assert np.isfinite(impute(result, holed[0], source=1)[1]).all()


# Files and mistakes.


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda x: x.T, {}, "30 features but the fit has 20"),
        (lambda x: x, {"noise": 0}, "noise is 0"),
        (lambda x: x, {"noise": 1e-200}, r"noise is 1e-200; it must be between 1e-150 and 1e\+150"),
        (lambda x: x, {"noise": 1e200}, r"noise is 1e\+200; it must be between"),
        (lambda x: np.where(x == x[3, 3], np.inf, x), {}, "infinite"),
        (
            lambda x: np.where(np.arange(30) == 4, np.nan, x),
            {},
            r"new sample 4 .* no observed entry",
        ),
        (scipy.sparse.csc_array, {}, "dense matrix"),
    ],
)
def test_mistakes(data, change, options, message):
    result = fit(data, noise="robust", max_sweeps=3)
    with pytest.raises(InputError, match=message):
        project(result, change(data[0]), **options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e12, 1e20, 1e60, 1e140])
def test_far_samples_are_placed_or_refused(make_sources, method, size):
    """Nothing that is not a number leaves a projection, however large the entries are."""
    sources = make_sources()
    result = registry.fit(method, sources, 3)
    for place in (lambda *a, **o: project(*a, **o).memberships, log_evidence):
        try:
            far = size * sources.matrices[0]
            assert np.isfinite(place(result, far, source=0, any_scale=True)).all()
        except InputError as error:
            assert "(counted from 0) cannot be placed" in str(error)


def test_the_sample_that_cannot_be_placed_is_named(make_sources):
    sources = make_sources()
    result = registry.fit("cavi-bjmd", sources, 3)
    x = sources.matrices[0].copy()
    x[:, 2] *= 1e140
    for place in (project, log_evidence):
        with pytest.raises(InputError, match="new sample 2 "):
            place(result, x, source=0, any_scale=True)
