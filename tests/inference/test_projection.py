"""Placing new samples: against the fit itself, against general-purpose optimisers, and against
integrals.
"""

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import betaln, gammaln, psi

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import projection, registry
from bjmd.inference.projection import impute, log_evidence, project
from bjmd.numerics import dirichlet, simplex
from bjmd.results import predictive
from bjmd.results.posterior import Normal

METHODS = ["cavi-bjmd", "map-bjmd"]
ALPHA0 = 1.1
ROUNDING_OF_F = 1e-6
"""A column of the closed form stops where f equals its maximum but for rounding; m is off by about
the root of that.
"""


@pytest.fixture
def sources(make_sources):
    return make_sources(n_features=20, n_samples=(30, 25), noise=(0.3, 0.8))


@pytest.fixture
def with_holes(sources):
    """The same sources with a quarter of all entries missing, and one feature wholly missing in the
    second.
    """
    rng = np.random.default_rng(1)
    matrices = [np.where(rng.random(x.shape) < 0.25, np.nan, x) for x in sources.matrices]
    matrices[1][3] = np.nan
    return Sources(matrices)


def fit(method, sources, n_components=3, **options):
    """The paper's model, whose noise has no unit; test_projection_composed.py goes beyond it."""
    return registry.fit(
        method, sources, n_components, **{"tol": 1e-9, "priors": "paper", **options}
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", ["sources", "with_holes"])
def test_training_samples_get_back_their_memberships_and_noise(method, data, request):
    sources = request.getfixturevalue(data)
    result = fit(method, sources)
    for c, x in enumerate(sources.matrices):
        for noise in (result.noise[c], None):
            found = project(result, x, noise=noise)
            np.testing.assert_allclose(found.noise, result.noise[c], rtol=1e-4)
            np.testing.assert_allclose(found.memberships, result.memberships[c], atol=1e-4)


def variational_objective(result, x, noise, g):
    """The part of the ELBO that one column enters, entry by entry; missing entries are left out."""
    s = g.sum()
    t = 1 / noise**2
    m = g / s
    second_moment = (s * np.outer(m, m) + np.diag(m)) / (s + 1)
    value = ((ALPHA0 - g) * (psi(g) - psi(s))).sum() + gammaln(g).sum() - gammaln(s)
    for mu, covariance, entry in zip(
        result.components, result.posterior.components.covariance(), x, strict=True
    ):
        if not np.isnan(entry):
            square = ((np.outer(mu, mu) + covariance) * second_moment).sum()
            value -= 0.5 * t * (entry**2 - 2 * entry * (mu @ m) + square)
    return value


def test_columns_maximise_the_elbo(with_holes):
    result = fit("cavi-bjmd", with_holes)
    x = with_holes.matrices[1][:, :3]
    found = project(result, x, noise=0.7)
    for j in range(3):
        best = minimize(
            lambda log_g, j=j: -variational_objective(result, x[:, j], 0.7, np.exp(log_g)),
            np.zeros(3),
            method="BFGS",
            options={"gtol": 1e-8},
        )
        g = np.exp(best.x)
        np.testing.assert_allclose(found.memberships[:, j], g / g.sum(), atol=1e-5)
        assert (
            variational_objective(result, x[:, j], 0.7, found.dirichlet[:, j]) >= -best.fun - 1e-9
        )


def test_map_columns_are_the_optimum_over_the_observed_entries(with_holes):
    result = fit("map-bjmd", with_holes)
    x = with_holes.matrices[1]
    found = project(result, x, noise=0.7)
    assert found.dirichlet is None
    for j in range(x.shape[1]):
        seen = ~np.isnan(x[:, j])
        w = result.components[seen]
        direct = simplex.minimise(w.T @ w, (w.T @ x[seen, j])[:, None], 0.7**2 * (ALPHA0 - 1))
        np.testing.assert_allclose(found.memberships[:, j], direct.h[:, 0], atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_estimated_noise_is_the_models_update(method, with_holes):
    result = fit(method, with_holes)
    x = with_holes.matrices[0][:, :20]
    found = project(result, x)
    observed = ~np.isnan(x)
    residual = np.where(observed, x - result.components @ found.memberships, 0)
    a0, b0 = result.model.noise_prior
    if method == "map-bjmd":
        variance = (2 * b0 + (residual**2).sum()) / (2 * a0 + observed.sum() + 2)
    else:
        spread = predictive.product_moments(result, found.dirichlet)[1][observed].sum()
        variance = (b0 + 0.5 * ((residual**2).sum() + spread)) / (a0 + 0.5 * observed.sum())
    np.testing.assert_allclose(found.noise**2, variance, rtol=1e-6)
    again = project(result, x, noise=found.noise)
    np.testing.assert_allclose(again.memberships, found.memberships, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_sample_does_not_depend_on_its_batch(method, with_holes):
    result = fit(method, with_holes)
    x = with_holes.matrices[0]
    together = project(result, x, noise=0.5).memberships
    backwards = project(result, x[:, ::-1], noise=0.5).memberships[:, ::-1]
    alone = np.hstack(
        [project(result, x[:, [j]], noise=0.5).memberships for j in range(x.shape[1])]
    )
    np.testing.assert_allclose(backwards, together, atol=ROUNDING_OF_F)
    np.testing.assert_allclose(alone, together, atol=ROUNDING_OF_F)


@pytest.mark.parametrize("method", METHODS)
def test_sparse_is_dense(method, sources):
    result = fit(method, sources)
    x = np.where(np.random.default_rng(0).random((20, 12)) < 0.6, 0, sources.matrices[0][:, :12])
    for container in (scipy.sparse.csc_array, scipy.sparse.csr_matrix):
        for noise in (0.4, None):
            dense = project(result, x, noise=noise)
            sparse = project(result, container(x), noise=noise)
            np.testing.assert_allclose(sparse.memberships, dense.memberships, atol=ROUNDING_OF_F)
            np.testing.assert_allclose(sparse.noise, dense.noise, rtol=1e-7)
        np.testing.assert_allclose(
            log_evidence(result, container(x), noise=0.4),
            log_evidence(result, x, noise=0.4),
            rtol=1e-7,
        )


@pytest.mark.parametrize("method", METHODS)
def test_one_component_and_one_sample(method, sources):
    result = fit(method, sources, n_components=1)
    np.testing.assert_allclose(project(result, sources.matrices[0][:, :1]).memberships, 1)


def test_blocks_change_nothing(with_holes, monkeypatch):
    result = fit("cavi-bjmd", with_holes)
    x = with_holes.matrices[1]
    whole = project(result, x), log_evidence(result, x, noise=0.5), impute(result, x, noise=0.5)
    monkeypatch.setattr(predictive, "BLOCK", 40)
    parts = project(result, x), log_evidence(result, x, noise=0.5), impute(result, x, noise=0.5)
    np.testing.assert_allclose(parts[0].memberships, whole[0].memberships, atol=ROUNDING_OF_F)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-9)
    np.testing.assert_allclose(parts[2], whole[2], atol=ROUNDING_OF_F)


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_evidence_is_a_close_lower_bound(sources, noise):
    """With two components and W known, ln p(x) is an integral over one number."""
    result = fit("map-bjmd", sources, n_components=2)
    x = sources.matrices[1][:, :4].copy()
    x[5:12, 2:] = np.nan
    bound = log_evidence(result, x, noise=noise)
    for j in range(x.shape[1]):
        seen = ~np.isnan(x[:, j])
        w = result.components[seen]
        y = x[seen, j]

        def density(p, w=w, y=y):
            squares = ((y - w @ np.array([p, 1 - p])) ** 2).sum()
            prior = (ALPHA0 - 1) * np.log(p * (1 - p)) - betaln(ALPHA0, ALPHA0)
            return prior - 0.5 * squares / noise**2 - 0.5 * len(y) * np.log(2 * np.pi * noise**2)

        top = max(density(p) for p in np.linspace(0.01, 0.99, 99))
        exact = top + np.log(quad(lambda p, top=top: np.exp(density(p) - top), 0, 1, limit=500)[0])
        assert exact - 0.1 < bound[j] <= exact + 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_evidence_leaves_out_what_is_missing(method, sources):
    result = fit(method, sources)
    x = sources.matrices[0][:, :6].copy()
    x[::3, 1:4] = np.nan
    seen = np.arange(20) % 3 > 0
    fewer = dataclasses.replace(result, components=result.components[seen])
    if result.posterior:
        rows = result.posterior.components
        rows = dataclasses.replace(rows, mean=rows.mean[seen], ridge=rows.ridge[seen])
        fewer.posterior = dataclasses.replace(result.posterior, components=rows)
    found = log_evidence(result, x, noise=0.5)
    np.testing.assert_allclose(found[1:4], log_evidence(fewer, x[seen, 1:4], noise=0.5), rtol=1e-9)
    np.testing.assert_allclose(
        found[[0, 4, 5]], log_evidence(result, x[:, [0, 4, 5]], noise=0.5), rtol=1e-9
    )


def test_evidence_is_the_elbo_of_the_column(sources):
    result = fit("cavi-bjmd", sources)
    x = sources.matrices[0][:, :6]
    g = project(result, x, noise=0.5).dirichlet
    constants = dirichlet.log_normaliser(np.full(3, ALPHA0)) - 0.5 * len(x) * np.log(
        2 * np.pi * 0.5**2
    )
    expected = [variational_objective(result, x[:, j], 0.5, g[:, j]) + constants for j in range(6)]
    np.testing.assert_allclose(log_evidence(result, x, noise=0.5), expected, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_imputation(method, with_holes):
    x = with_holes.matrices[1]
    missing = np.isnan(x)
    result = fit(method, with_holes)
    filled, sd = impute(result, x, noise=0.5)
    np.testing.assert_array_equal(filled[~missing], x[~missing])
    expected = result.components @ project(result, x, noise=0.5).memberships
    np.testing.assert_allclose(filled[missing], expected[missing], rtol=1e-9)
    if method == "map-bjmd":
        assert sd is None
    else:
        assert (sd[~missing] == 0).all()
        assert (sd[missing] > 0.5).all()


def test_advi_fits_place_new_samples_by_the_closed_form(sources):
    """ADVI keeps independent normals for W, so the covariance of a row is diagonal."""
    result = fit("cavi-bjmd", sources)
    sd = result.posterior.components.sd
    rows = Normal(result.components, sd)
    like_advi = dataclasses.replace(
        result, method="advi-bjmd", posterior=dataclasses.replace(result.posterior, components=rows)
    )
    x = sources.matrices[0]
    gram = result.components.T @ result.components + np.diag((sd**2).sum(axis=0))
    direct = dirichlet.maximise(
        gram,
        result.components.T @ x,
        1 / 0.5**2,
        np.full(3, ALPHA0),
        np.ones((3, 30)),
        tol=1e-16,
        max_steps=100,
    )
    np.testing.assert_allclose(
        project(like_advi, x, noise=0.5).memberships, dirichlet.mean(direct.g), atol=ROUNDING_OF_F
    )


@pytest.mark.parametrize(
    ("change", "noise", "message"),
    [
        (lambda x: x.T, None, "30 features but the fit has 20"),
        (lambda x: x, 0, "noise is 0"),
        (lambda x: x, 1e-200, r"noise is 1e-200; it must be between 1e-150 and 1e\+150"),
        (lambda x: x, 1e200, r"noise is 1e\+200; it must be between"),
        (lambda x: np.where(x == x[3, 3], np.inf, x), None, "infinite"),
        (
            lambda x: np.where(np.arange(30) == 4, np.nan, x),
            None,
            r"new sample 4 .* no observed entry",
        ),
    ],
)
def test_mistakes(sources, change, noise, message):
    result = fit("cavi-bjmd", sources, max_sweeps=3)
    with pytest.raises(InputError, match=message):
        project(result, change(sources.matrices[0]), noise=noise)


def test_methods_that_cannot_place_new_samples(sources):
    with pytest.raises(InputError, match="'kmeans' has no way to place new samples"):
        project(registry.fit("kmeans", sources, 3), sources.matrices[0])


@pytest.mark.parametrize("method", ["cavi-bjmd", "map-bjmd"])
@pytest.mark.parametrize("size", [1e12, 1e20, 1e60, 1e140])
def test_far_samples_are_placed_or_refused(make_sources, method, size):
    """Nothing that is not a number leaves a projection, however large the entries are."""
    sources = make_sources()
    result = registry.fit(method, sources, 3)
    for give in (
        lambda x: project(result, x, source=0).memberships,
        lambda x: log_evidence(result, x, source=0),
    ):
        try:
            assert np.isfinite(give(size * sources.matrices[0])).all()
        except InputError as error:
            assert "cannot be placed in floating point" in str(error)


def test_the_sample_that_cannot_be_placed_is_named():
    with pytest.raises(InputError, match="new sample 1 "):
        projection._finite(np.array([[0.5, 0.5, 0.5], [0.5, np.nan, 0.5]]))
