"""New samples of fits beyond the paper's model: they get what the fit would have given them."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from scipy.integrate import quad
from scipy.special import betaln
from scipy.stats import norm

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.fits import registry, storage
from bjmd.fits.projection import impute, log_evidence, product_moments, project
from bjmd.inference import noise

NOISES = ["+".join(names) or "source" for n in range(4) for names in combinations(noise.FACTORS, n)]


@pytest.fixture(scope="module")
def data():
    """Two sources with noise of every kind: rough features, heavy tails, and a shift of the second."""
    rng = np.random.default_rng(0)
    components, rough = rng.laplace(size=(20, 3)), np.exp(0.5 * rng.standard_normal((20, 1)))
    matrices = [
        components @ rng.dirichlet(np.ones(3), n).T + sd * rough * rng.standard_t(4, size=(20, n))
        for n, sd in ((30, 0.2), (25, 0.5))
    ]
    return [matrices[0], matrices[1] + rng.standard_normal((20, 1))]


def holed(matrices, share=0.2):
    rng = np.random.default_rng(1)
    return [np.where(rng.random(x.shape) < share, np.nan, x) for x in matrices]


def fit(matrices, method="cavi-bjmd", n_components=3, **options):
    return registry.fit(method, Sources(matrices), n_components, **{"tol": 1e-7, "max_sweeps": 300, **options})


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("name", NOISES)
def test_training_samples_get_back_their_memberships(data, name, offsets, missing):
    matrices = holed(data) if missing else data
    for learned in ({}, {"alpha0": "learned", "lambda_": "learned"}):
        result = fit(matrices, noise=name, offsets=offsets, **learned)
        for c, x in enumerate(matrices):
            found = project(result, x, source=c)
            np.testing.assert_allclose(found.memberships, result.memberships[c], atol=1e-5)
            np.testing.assert_allclose(found.noise, result.noise[c], rtol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("method", ["map-bjmd", "map-catbjmd", "cavi-catbjmd"])
def test_training_samples_of_the_other_fits(data, method, missing):
    matrices = holed(data) if missing else data
    result = fit(matrices, method, tol=1e-12, max_sweeps=3000)
    for c, x in enumerate(matrices):
        np.testing.assert_allclose(project(result, x, source=c).memberships, result.memberships[c], atol=1e-4)


@pytest.mark.parametrize("name", ["source", "feature", "robust"])
def test_the_noise_of_a_source_is_found_again(data, name):
    result = fit(data[:1], noise=name, tol=1e-10)
    found = project(result, data[0])
    np.testing.assert_allclose(found.noise, result.noise[0], rtol=1e-3)
    np.testing.assert_allclose(found.memberships, result.memberships[0], atol=1e-3)


@pytest.mark.parametrize("method", ["cavi-bjmd", "map-bjmd"])
def test_new_samples_have_no_unit_and_no_origin(data, method):
    shift = 1e4 * np.random.default_rng(2).standard_normal((20, 1))
    plain = fit(data, method)
    for factor in (1e-60, 1e60):
        other = fit([factor * (x + shift) for x in data], method)
        for source in (1, None):
            expected = project(plain, data[1], source=source)
            found = project(other, factor * (data[1] + shift), source=source)
            np.testing.assert_allclose(found.memberships, expected.memberships, atol=1e-5)
            np.testing.assert_allclose(found.noise / factor, expected.noise, rtol=1e-5)


def test_memory_mapped_new_samples_are_new_samples(data, tmp_path):
    result = fit(data, noise="feature")
    np.save(tmp_path / "new.npy", data[0])
    expected, found = project(result, data[0]), project(result, np.load(tmp_path / "new.npy", mmap_mode="r"))
    np.testing.assert_array_equal(found.memberships, expected.memberships)
    assert found.noise == expected.noise


@pytest.mark.parametrize("options", [{"noise": "feature", "offsets": True}, {"noise": "sample"}])
def test_sparse_is_dense(data, options):
    cut = [np.where(np.abs(x) > 0.5, x, 0.0) for x in data]
    result = fit(cut, **options)
    for source in (1, None):
        dense, sparse = (project(result, x, source=source) for x in (cut[1], scipy.sparse.csc_array(cut[1])))
        np.testing.assert_allclose(sparse.memberships, dense.memberships, atol=1e-6)
        np.testing.assert_allclose(sparse.noise, dense.noise, rtol=1e-6)


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
    """Mean w_i h_j + o_ci; variance that of w_i h_j plus s2 / phi_i."""
    matrices = holed(data)
    result = fit(matrices, noise="feature", offsets=True)
    x = matrices[1]
    missing = np.isnan(x)
    filled, sd = impute(result, x, source=1)
    g = project(result, x, source=1).dirichlet
    mean, variance = product_moments(result, g)
    expected = mean + result.model.offsets[1][:, None]
    total = variance + (result.noise[1] ** 2 / result.model.feature_precision)[:, None]
    np.testing.assert_array_equal(filled[~missing], x[~missing])
    np.testing.assert_allclose(filled[missing], expected[missing], rtol=1e-9)
    np.testing.assert_allclose(sd[missing] ** 2, total[missing], rtol=1e-9)
    error = np.abs(filled - data[1])[missing]
    without = np.abs(impute(result, x, noise=result.noise[1])[0] - data[1])[missing]
    assert np.median(error) < 0.9 * np.median(without)


def test_imputed_intervals_hold():
    """Of normal data with a quarter missing, about 90 % of what is missing is within 1.645 sd."""
    rng = np.random.default_rng(5)
    components, rough = rng.laplace(size=(60, 3)), np.exp(0.5 * rng.standard_normal((60, 1)))
    truth = [
        components @ rng.dirichlet(np.ones(3), 80).T + 0.4 * rough * rng.standard_normal((60, 80)) for _ in range(2)
    ]
    matrices = holed(truth, 0.25)
    result = fit(matrices, noise="feature", offsets=True)
    for c, x in enumerate(matrices):
        filled, sd = impute(result, x, source=c)
        missing = np.isnan(x)
        inside = np.abs(filled - truth[c])[missing] <= 1.645 * sd[missing]
        assert 0.85 < inside.mean() < 0.95


def test_the_score_is_a_close_bound_on_the_density(data):
    """K = 2 and W known, noise by feature and offsets: ln p(x) is an integral over one number."""
    result = fit(data, n_components=2, noise="feature", offsets=True)
    rows = result.posterior.components
    certain = dataclasses.replace(rows, ridge=np.full_like(rows.ridge, 1e12))
    result.posterior = dataclasses.replace(result.posterior, components=certain)
    x = data[1][:, :4].copy()
    x[5:9, 2:] = np.nan
    sd = result.noise[1] / np.sqrt(result.model.feature_precision)
    bound = log_evidence(result, x, source=1)
    for j in range(4):
        seen = ~np.isnan(x[:, j])

        def density(p, j=j, seen=seen):
            mean = result.components @ [p, 1 - p] + result.model.offsets[1]
            prior = 0.1 * np.log(p * (1 - p)) - betaln(1.1, 1.1)
            return prior + norm.logpdf(x[:, j], mean, sd)[seen].sum()

        top = max(density(p) for p in np.linspace(0.01, 0.99, 99))
        exact = top + np.log(quad(lambda p, top=top, d=density: np.exp(d(p) - top), 0, 1, limit=500)[0])
        assert exact - 0.2 < bound[j] <= exact + 1e-6


@pytest.mark.parametrize(
    "options",
    [{}, {"noise": "feature+sample", "offsets": True}, {"noise": "robust", "alpha0": "learned", "lambda_": "learned"}],
)
def test_what_a_fit_knows_survives_a_file(data, options, tmp_path):
    result = fit(holed(data), **options)
    storage.save_decompositions(tmp_path / "fit.npz", [result])
    (back,) = storage.load_decompositions(tmp_path / "fit.npz")
    for field in dataclasses.fields(result.model):
        ours, read = getattr(result.model, field.name), getattr(back.model, field.name)
        assert (ours is None) == (read is None), field.name
        if ours is not None:
            np.testing.assert_array_equal(ours, read)
    given = {name for name, value in vars(result.model).items() if value is not None}
    assert given >= {"alpha0", "noise_prior"}
    assert ("offsets" in given) == ("offsets" in options)
    x = holed(data)[1]
    np.testing.assert_array_equal(project(back, x, source=1).memberships, project(result, x, source=1).memberships)


def test_a_cat_fit_hands_what_it_knows_to_every_source(data):
    result = fit(data, "cavi-catbjmd", noise="sample", offsets=True)
    assert result.model.alpha0.shape == (2, 3)
    assert result.model.offsets.shape == (2, 20)
    assert result.model.sample_precision.shape == (55,)
    np.testing.assert_array_equal(result.model.offsets[0], result.model.offsets[1])
