"""New samples of fits beyond the paper's model: they get what the fit would have given them."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from scipy.special import betaln, logsumexp
from scipy.stats import gamma, norm
from scipy.stats import t as student

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import cavi, noise, projection, registry
from bjmd.inference.projection import impute, log_evidence, project
from bjmd.model import Priors
from bjmd.results import predictive, storage
from bjmd.results.decomposition import Decomposition

NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]


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


def holed(matrices, share=0.2):
    rng = np.random.default_rng(1)
    return [np.where(rng.random(x.shape) < share, np.nan, x) for x in matrices]


def fit(matrices, method="cavi-bjmd", n_components=3, **options):
    fixed = {"tol": 1e-7, "max_sweeps": 300, "offsets": False, "alpha0": 1.1, "lambda_": 1.0}
    return registry.fit(method, Sources(matrices), n_components, **{**fixed, **options})


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_training_samples_get_back_their_memberships(data, name, offsets, missing):
    matrices = holed(data) if missing else data
    for alpha0 in ("learned", "by-source"):
        options = {"noise": name, "offsets": offsets, "alpha0": alpha0, "lambda_": None}
        result = fit(matrices, **options)
        for c, x in enumerate(matrices):
            found = project(result, x, source=c)
            # columns of a fit are within 1e-10 nats of their best, so means within sqrt(2e-10)
            np.testing.assert_allclose(found.memberships, result.memberships[c], atol=1.5e-5)
            np.testing.assert_allclose(found.noise, result.noise[c], rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("method", ["map-bjmd", "map-catbjmd", "cavi-catbjmd"])
def test_training_samples_of_the_other_fits(data, method, missing):
    matrices = holed(data) if missing else data
    result = fit(matrices, method, tol=1e-12, max_sweeps=3000, offsets=None, lambda_=None)
    for c, x in enumerate(matrices):
        np.testing.assert_allclose(
            project(result, x, source=c).memberships, result.memberships[c], atol=1e-4
        )


@pytest.mark.parametrize("name", ["source", "feature", "robust"])
def test_the_noise_of_a_source_is_found_again(data, name):
    result = fit(data[:1], noise=name, tol=1e-10)
    found = project(result, data[0])
    np.testing.assert_allclose(found.noise, result.noise[0], rtol=1e-3)
    np.testing.assert_allclose(found.memberships, result.memberships[0], atol=1e-3)


@pytest.mark.parametrize("method", ["cavi-bjmd", "map-bjmd"])
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


@pytest.mark.parametrize("options", [{"noise": "feature", "offsets": True}, {"noise": "sample"}])
def test_sparse_and_memory_mapped_samples_are_samples(data, options, tmp_path):
    cut = [np.where(np.abs(x) > 0.5, x, 0.0) for x in data]
    result = fit(cut, **options)
    np.save(tmp_path / "new.npy", cut[1])
    mapped = np.load(tmp_path / "new.npy", mmap_mode="r")
    for source in (1, None):
        dense = project(result, cut[1], source=source)
        for x in (scipy.sparse.csc_array(cut[1]), mapped):
            other = project(result, x, source=source)
            np.testing.assert_allclose(other.memberships, dense.memberships, atol=1e-6)
            np.testing.assert_allclose(other.noise, dense.noise, rtol=1e-6)


def test_robust_fits_refuse_sparse_samples(data):
    with pytest.raises(InputError, match="dense matrix"):
        project(fit(data, noise="robust"), scipy.sparse.csc_array(data[0]))


def test_a_wild_entry_of_a_new_sample_hardly_matters(data):
    results = {name: fit(data, noise=name, offsets=True) for name in ("source", "robust")}
    wild = data[0][:, :5].copy()
    wild[3] += 100.0
    moved = {
        name: np.abs(project(r, wild, source=0).memberships - r.memberships[0][:, :5]).max()
        for name, r in results.items()
    }
    assert moved["robust"] < 0.2 * moved["source"]


def test_imputation_with_offsets_and_noise_by_feature(data):
    """Mean w_i h_j + o_ci; variance that of w_i h_j and of o_ci plus s2 / phi_i."""
    matrices = holed(data)
    result = fit(matrices, noise="feature", offsets=True)
    x = matrices[1]
    missing = np.isnan(x)
    filled, sd = impute(result, x, source=1)
    g = project(result, x, source=1).dirichlet
    mean, variance = predictive.product_moments(result, g)
    expected = mean + result.model.offsets[1][:, None]
    total = (
        variance
        + (result.noise[1] ** 2 / result.model.feature_precision + result.model.offsets_sd[1] ** 2)[
            :, None
        ]
    )
    np.testing.assert_array_equal(filled[~missing], x[~missing])
    np.testing.assert_allclose(filled[missing], expected[missing], rtol=1e-9)
    np.testing.assert_allclose(sd[missing] ** 2, total[missing], rtol=1e-9)


@pytest.mark.parametrize("name", ["sample", "robust", "feature+sample+robust"])
def test_the_sd_of_what_is_imputed_is_that_of_draws(data, name):
    """Draws of W, h, o, of the sample's precision, and of noise that is normal or Student's t."""
    matrices = holed(data)
    result = fit(matrices, noise=name, offsets=True)
    rng = np.random.default_rng(3)
    n = 40_000
    model = result.model
    if "robust" in name:  # whose variance draws can tell
        model = result.model = dataclasses.replace(model, degrees_of_freedom=np.array([6.0, 9.0]))
    x = matrices[1][:, :4]
    missing = np.isnan(x)
    sd = impute(result, x, source=1)[1]
    problem = projection._Dirichlets(result, x, 1)
    columns, noise_sd = problem.solve(result.noise[1])
    w = result.posterior.components.sample(n, rng)
    h = np.stack([rng.dirichlet(g, n) for g in columns.T], axis=2)
    drawn = w @ h + rng.normal(model.offsets[1], model.offsets_sd[1], (n, 20))[:, :, None]
    variance = noise_sd**2 * np.ones((n, 20, 4))
    if "feature" in name:
        variance /= model.feature_precision[:, None]
    if "sample" in name:
        variance /= rng.gamma(problem.sample.shape, 1 / problem.sample.rate, (n, 4))[:, None]
    t = (
        rng.standard_t(9.0, variance.shape)
        if "robust" in name
        else rng.standard_normal(variance.shape)
    )
    drawn += np.sqrt(variance) * t
    np.testing.assert_allclose(sd[missing], drawn.std(axis=0)[missing], rtol=0.04)
    assert (sd[missing] > 1.02 * noise_sd * variance.mean(axis=0)[missing] ** 0.5 / noise_sd).all()


def test_what_has_no_variance_has_no_sd(data):
    result = fit(holed(data), noise="robust")
    result.model = dataclasses.replace(result.model, degrees_of_freedom=np.array([2.0, 2.5]))
    x = holed(data)[0]
    assert np.isinf(impute(result, x, source=0)[1][np.isnan(x)]).all()
    assert np.isfinite(impute(result, x, source=1)[1]).all()


def test_imputed_intervals_hold():
    """Of normal data with a quarter missing, about 90 % of what is missing is within 1.645 sd."""
    rng = np.random.default_rng(5)
    components = rng.laplace(size=(60, 3))
    rough = np.exp(0.5 * rng.standard_normal((60, 1)))
    truth = [
        components @ rng.dirichlet(np.ones(3), 80).T + 0.4 * rough * rng.standard_normal((60, 80))
        for _ in range(2)
    ]
    truth[1] += rng.standard_normal((60, 1))
    matrices = holed(truth, 0.25)
    result = fit(matrices, noise="feature", offsets=True)
    for c, x in enumerate(matrices):
        filled, sd = impute(result, x, source=c)
        missing = np.isnan(x)
        inside = np.abs(filled - truth[c])[missing] <= 1.645 * sd[missing]
        assert 0.85 < inside.mean() < 0.95
    # without the offsets every squared error grows by o^2, on average, and by what the memberships
    # lose
    error = (filled - truth[1])[missing]
    without = (impute(result, x, noise=result.noise[1])[0] - truth[1])[missing]
    offsets = np.broadcast_to(result.model.offsets[1][:, None], x.shape)[missing]
    by_chance = 3 * np.sqrt(np.mean((2 * offsets * error) ** 2) / len(error))
    assert by_chance < 0.5 * np.mean(offsets**2)
    assert np.mean(without**2) - np.mean(error**2) > np.mean(offsets**2) - by_chance


@pytest.mark.parametrize("name", NOISES)
def test_the_score_is_a_close_bound_on_the_density(data, name):
    """K = 2, W and the offsets known: ln p(x) is an integral over one membership, and over the
    sample's precision.
    """
    result = fit(data, n_components=2, noise=name, offsets=True)
    rows = result.posterior.components
    model = result.model
    certain = dataclasses.replace(rows, ridge=np.full_like(rows.ridge, 1e12))
    result.posterior = dataclasses.replace(result.posterior, components=certain)
    model = result.model = dataclasses.replace(
        model, offsets_sd=np.full_like(model.offsets_sd, 1e-9)
    )
    x = data[1][:, :4].copy()
    x[5:9, 2:] = np.nan
    sd = result.noise[1] / np.sqrt(
        1.0 if model.feature_precision is None else model.feature_precision
    )
    p = (np.arange(4000) + 0.5) / 4000
    prior = 0.1 * np.log(p * (1 - p)) - betaln(1.1, 1.1) - np.log(len(p))
    u = np.ones(1)
    log_u = np.zeros(1)
    if "sample" in name:  # the middles of many parts of the prior, all of one weight
        u = gamma.ppf(
            (np.arange(400) + 0.5) / 400, model.sample_shape[1], scale=1 / model.sample_shape[1]
        )
        log_u = np.full(400, -np.log(400))
    noise_law = norm if model.degrees_of_freedom is None else student(model.degrees_of_freedom[1])
    bound = log_evidence(result, x, source=1)
    for j in range(4):
        seen = ~np.isnan(x[:, j])
        mean = result.components @ [p, 1 - p] + model.offsets[1][:, None]
        scaled = (x[:, [j]] - mean)[seen] / (sd * np.ones(20))[seen][:, None]
        density = [
            noise_law.logpdf(scaled * np.sqrt(q)).sum(axis=0) + 0.5 * seen.sum() * np.log(q)
            for q in u
        ]
        exact = (
            logsumexp(np.array(density) + log_u[:, None] + prior)
            - np.log((sd * np.ones(20))[seen]).sum()
        )
        assert exact - 0.4 < bound[j] <= exact + 1e-3


@pytest.mark.parametrize("name", NOISES)
def test_scores_of_training_samples_are_their_share_of_the_elbo(data, name):
    """Given the noise, the terms of the ELBO that a column enters are those of its score."""
    sources = Sources(holed(data))
    priors = Priors(b0=0.1)
    closed_form = cavi.ClosedForm(
        sources, 3, priors, np.random.default_rng(0), noise.parsed(name), True
    )
    state = closed_form.start()
    for _ in range(200):
        state, _ = closed_form.sweep(state)
    found = closed_form.finish(state)
    result = Decomposition(
        components=found.components,
        memberships=found.memberships,
        noise=found.noise,
        posterior=found.posterior,
        model=found.model,
        objective=found.objective,
        trace=np.array([found.objective]),
        converged=True,
        reason="",
        history={},
    )
    state, _ = closed_form.settle(state)
    rows = state.rows
    elbo = -found.objective - rows.entropy() + np.sqrt(rows.second_moment).sum() / priors.lambda_
    elbo += rows.mean.size * np.log(2 * priors.lambda_)
    for c, x in enumerate(sources.matrices):
        shape = closed_form.shapes[c]
        rate = state.rates[c]
        n = sources.n_observed[c]
        elbo -= cavi.noise_elbo(shape, rate, n, priors) + state.offsets[c].elbo()
        elbo += -0.5 * n * np.log(2 * np.pi * rate / shape) - shape / rate * (rate - priors.b0)
        elbo += 0.5 * ((~np.isnan(x)).sum(axis=1) * np.log(state.feature.mean)).sum()
        elbo -= log_evidence(result, x, source=c).sum()
    elbo -= state.feature.elbo()
    assert abs(elbo) < 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": "feature+sample", "offsets": True},
        {"noise": "robust", "alpha0": "by-source", "lambda_": "learned"},
    ],
)
def test_what_a_fit_knows_survives_a_file(data, options, tmp_path):
    result = fit(holed(data), **options)
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    (back,) = storage.load_decompositions(tmp_path / "fit.npz")
    for field in dataclasses.fields(result.model):
        ours = getattr(result.model, field.name)
        read = getattr(back.model, field.name)
        assert (ours is None) == (read is None), field.name
        if ours is not None:
            np.testing.assert_array_equal(np.hstack(ours), np.hstack(read))
    given = {name for name, value in vars(result.model).items() if value is not None}
    assert given >= {"alpha0", "noise_prior"}
    assert ("offsets" in given) == ("offsets" in options)
    x = holed(data)[1]
    np.testing.assert_array_equal(
        project(back, x, source=1).memberships, project(result, x, source=1).memberships
    )
