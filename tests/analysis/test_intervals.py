"""Linear response: columns against their optimum moved a little, all against the inverse of the
whole Hessian.
"""

import numpy as np
import pytest
import scipy.linalg

from bjmd.analysis import fitting, intervals
from bjmd.data.sources import Sources
from bjmd.data.view import View
from bjmd.inference import registry, restarts
from bjmd.numerics import dirichlet, threads
from bjmd.results import predictive
from bjmd.results.posterior import DirichletColumns

N = (40, 30)


def draw(
    seed=0, n_features=25, n_samples=N, n_components=3, missing=0.0, sd=0.5, rough=0.0, loud=0.0
):
    """`rough` and `loud` are by how much the noise differs between features and samples."""
    other = np.random.default_rng(seed + 1)
    by_feature = np.exp(rough * other.standard_normal((n_features, 1)))
    by_sample = [np.exp(loud * other.standard_normal(n)) for n in n_samples]
    rng = np.random.default_rng(seed)
    w = rng.laplace(size=(n_features, n_components))
    h = [rng.dirichlet(np.ones(n_components), n).T for n in n_samples]
    data = [
        w @ block + sd * by_feature * own * rng.standard_normal((n_features, block.shape[1]))
        for block, own in zip(h, by_sample, strict=True)
    ]
    return Sources([np.where(rng.random(x.shape) < missing, np.nan, x) for x in data])


def fitted(sources, n_components=3, **options):
    options = {"priors": "paper", "tol": 1e-10} | options
    return intervals.widened(
        sources, registry.fit("cavi-bjmd", sources, n_components, seed=0, **options)
    )


def precisions(result):
    """phi of every feature."""
    phi = result.model.feature_precision
    return np.ones(len(result.components)) if phi is None else phi


def columns(sources, result, c):
    phi = precisions(result)[:, None, None]
    covariance = result.posterior.components.covariance()
    second = covariance + result.components[:, :, None] * result.components[:, None]
    return intervals.Columns(sources.data[c], result, c, 1.0, phi * covariance, phi * second)


def covariances(source):
    """Sigma_j of every column, samples x K x K."""
    return source.covariance(slice(None))[0]


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_column_responds_as_its_optimum_moves(missing):
    """f + e.E[h] moves E[h] by Sigma e; the term adds e / t to b."""
    sources = draw(missing=missing)
    result = fitted(sources)
    source = columns(sources, result, 0)
    expected = covariances(source)
    linear = View(sources.matrices[0]).times_components(result.components.T)
    options = {
        "tol": 1e-18,
        "max_steps": 200,
        "gaps": np.ascontiguousarray(source.gaps) if missing else None,
    }
    for k in range(3):
        means = []
        for step in (1e-4, -1e-4):
            moved = linear.copy()
            moved[k] += step / source.t
            best = dirichlet.maximise(
                source.gram, moved, source.t[0], source.alpha, source.g, **options
            )
            means.append(dirichlet.mean(best.g))
        slope = (means[0] - means[1]) / 2e-4
        np.testing.assert_allclose(
            slope.T, expected[:, :, k], rtol=1e-3, atol=1e-3 * np.abs(expected).max()
        )


def test_the_width_of_a_column_is_over_that_of_its_dirichlet():
    """Where nothing else is uncertain: the trace of Sigma_j over that of the Dirichlet."""
    sources = draw(sd=1.5)
    source = columns(sources, fitted(sources), 0)
    found = source.widening(np.zeros((3, 3)), 1.0, np.zeros((6, 6)))[0]
    plain = (DirichletColumns(source.g).sd ** 2).sum(axis=0)
    ratio = np.trace(covariances(source), axis1=1, axis2=2) / plain
    most = (source.g.sum(axis=0) + 1) / (source.alpha.sum() + 1)
    assert ((ratio > 1) & (ratio < most)).any()
    np.testing.assert_allclose(found**2, np.clip(ratio, 1, np.maximum(most, 1)))


def whole(sources, result):
    """Variances of W, and their sums over the columns of H, from the inverse of the joint Hessian
    of docs/derivation.md, 4.11.
    """
    mu = result.components
    n_features, size = mu.shape
    ridge = result.posterior.components.ridge
    covariance = result.posterior.components.covariance()
    second = mu**2 + np.diagonal(covariance, axis1=1, axis2=2)
    rows = np.linalg.inv(covariance) - (ridge * mu**2 / second)[:, :, None] * np.eye(size)
    tangent = np.linalg.svd(np.eye(size) - 1 / size)[0][:, :-1]  # memberships sum to one
    blocks = [*rows]
    couplings = []
    for c, x in enumerate(sources.matrices):
        source = columns(sources, result, c)
        blocks += [np.linalg.inv(tangent.T @ s @ tangent) for s in covariances(source)]
        m = dirichlet.mean(source.g)
        residuals = np.nan_to_num(x - mu @ m)[:, :, None, None] * np.eye(size)
        pull = np.einsum("kj,il->ijkl", m, mu) - residuals
        t = np.where(np.isnan(x), 0.0, precisions(result)[:, None] * source.t)
        coupling = np.einsum("ij,ijkl,lq->ikjq", t, pull, tangent)
        couplings.append(coupling.reshape(n_features * size, -1))
    joint = scipy.linalg.block_diag(*blocks)
    n_rows = n_features * size
    joint[:n_rows, n_rows:] = np.hstack(couplings)
    joint[n_rows:, :n_rows] = joint[:n_rows, n_rows:].T
    assert np.linalg.eigvalsh(joint)[0] > 0  # the ELBO has a maximum there
    variances = np.diag(np.linalg.inv(joint))
    return variances[:n_rows].reshape(mu.shape), variances[n_rows:].reshape(-1, size - 1).sum(
        axis=1
    )


@pytest.mark.parametrize("noise", ["source", "feature", "feature+sample"])
@pytest.mark.parametrize(("missing", "middle", "ends"), [(0.0, 0.03, 0.15), (0.3, 0.04, 0.2)])
def test_the_sds_are_those_of_the_whole_hessian(missing, middle, ends, noise):
    sources = draw(
        missing=missing, rough=0.6 * ("feature" in noise), loud=0.4 * ("sample" in noise)
    )
    result = fitted(sources, noise=noise)
    assert (np.ptp(precisions(result)) > 2) == ("feature" in noise)
    of_rows, of_columns = whole(sources, result)
    ours = np.hstack([(factor.sd**2).sum(axis=0) for factor in result.posterior.memberships])
    widths = result.posterior.components.widening
    assert np.median(widths) > 1.1  # there is something to find
    for ratio in (result.posterior.components.sd / np.sqrt(of_rows), np.sqrt(ours / of_columns)):
        assert abs(np.median(ratio) - 1) < middle
        assert np.quantile(np.abs(ratio - 1), 0.9) < ends


def literal(sources, result):
    """Variances of W, and their sums over the columns of H, by the formulas of docs/derivation.md,
    4.11, one by one.
    """
    mu = result.components
    size = mu.shape[1]
    posterior = result.posterior
    covariance = posterior.components.covariance()
    second = mu**2 + np.diagonal(covariance, axis1=1, axis2=2)
    bend = (posterior.components.ridge * mu**2 / second)[:, :, None] * np.eye(size)
    phi = precisions(result)
    parts = [columns(sources, result, c) for c in range(len(sources))]
    sigma = np.concatenate([covariances(part) for part in parts])
    t = np.concatenate([part.t for part in parts])
    kappa = np.concatenate([np.full(len(part.t), part.kappa) for part in parts])
    m = np.hstack([dirichlet.mean(part.g) for part in parts]).T
    # the shares of entries that are observed
    seen = [~np.isnan(x) for x in sources.matrices]
    of_features = np.hstack([x.mean(axis=1, keepdims=True) * np.ones(x.shape) for x in seen])
    of_samples = np.hstack([x.mean(axis=0) for x in seen])
    phi_seen = phi * np.hstack(seen).mean(axis=1)
    t_seen = t * of_samples / np.hstack(seen).mean()
    p = phi[:, None] * of_features * kappa * t
    rows = np.linalg.inv(np.linalg.inv(covariance) - bend - np.tensordot(p, sigma, 1))
    p = np.outer(kappa * t * of_samples, phi)
    wider = sigma + sigma @ np.tensordot(p, rows, 1) @ sigma
    v_w = np.einsum("i,ikp,il,iq->klpq", phi_seen**2, rows, mu, mu).reshape(size**2, size**2)
    v_h = np.einsum("j,jk,jp,jlq->klpq", t_seen**2, m, m, wider).reshape(size**2, size**2)
    one = np.eye(size**2)  # V_H is singular, as memberships sum to one
    of_rows = (v_h @ np.linalg.inv(one - v_w @ v_h)).reshape((size,) * 4)
    of_columns = (v_w @ np.linalg.inv(one - v_h @ v_w)).reshape((size,) * 4)
    shared = np.einsum("i,il,iq,klpq->ikp", phi_seen**2, mu, mu, of_rows)
    variance = np.diagonal(rows + rows @ shared @ rows, axis1=1, axis2=2)
    shared = np.einsum("j,jk,jp,klpq->jlq", t_seen**2, m, m, of_columns)
    return variance, np.trace(wider + wider @ shared @ wider, axis1=1, axis2=2)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("noise", ["source", "feature+sample"])
def test_the_sds_are_those_of_the_formulas(noise, missing):
    """With noise so large that no direction loses nine tenths of its precision."""
    rough, loud = (0.4, 0.4) if noise == "feature+sample" else (0.0, 0.0)
    sources = draw(sd=1.2, rough=rough, loud=loud, missing=missing)
    result = fitted(sources, noise=noise, tol=1e-6)
    of_rows, of_columns = literal(sources, result)
    least = result.posterior.components.plain().sd
    expected = np.maximum(np.sqrt(of_rows), least)
    np.testing.assert_allclose(result.posterior.components.sd, expected, rtol=1e-7)
    for factor, alpha, variance in zip(
        result.posterior.memberships, result.model.alpha0, np.split(of_columns, [N[0]]), strict=True
    ):
        least = (factor.plain().sd ** 2).sum(axis=0)
        s = factor.parameters.sum(axis=0)
        most = least * np.maximum(1, (s + 1) / (alpha.sum() + 1))
        found = (factor.sd**2).sum(axis=0)
        np.testing.assert_allclose(found, np.clip(variance, least, most), rtol=1e-7)
        assert ((variance > least) & (variance < most)).mean() > 0.5


def test_the_precision_of_a_column_is_that_of_the_fit():
    """E[1/s2] u_j, where the noise of a robust fit is reported at the scale of the t."""
    for noise in ("sample", "robust"):
        sources = draw()
        result = fitted(sources, noise=noise, max_sweeps=5)
        model = result.model
        for c in range(2):
            t = columns(sources, result, c).t * result.noise[c] ** 2
            if noise == "sample":
                np.testing.assert_allclose(t, model.sample_precision[c])
            else:
                np.testing.assert_allclose(t, 1 + 1 / model.degrees_of_freedom[c])


@pytest.mark.parametrize(("missing", "rtol"), [(0.0, 1e-8), (0.3, 0.02)])
@pytest.mark.parametrize("noise", ["source", "feature+sample"])
def test_the_degrees_of_freedom_are_the_variance_of_the_fit_over_that_of_the_noise(
    noise, missing, rtol
):
    """df_c = t_c (E||X - WH||^2 - ||X - E[W]E[H]||^2), by entry; with gaps, W counts by the share
    of a sample that is observed.
    """
    sources = draw(missing=missing)
    result = fitted(sources, noise=noise, max_sweeps=20)
    for c, x in enumerate(sources.matrices):
        source = columns(sources, result, c)
        variance = predictive.product_moments(result, source.g)[1]
        shares = variance / predictive.noise_variance(result, c, slice(None))
        freedom = shares.sum(where=~np.isnan(x))
        np.testing.assert_allclose(source.freedom, freedom, rtol=rtol)
        kappa = 1 - source.freedom / np.isfinite(x).sum()
        np.testing.assert_allclose(source.kappa, kappa)
        each = covariances(source)
        np.testing.assert_allclose(source.pull, kappa * np.tensordot(source.t, each, 1))
        widening = result.posterior.noise.widening[c]
        lost = source.freedom / (2 * result.posterior.noise.shape[c])
        np.testing.assert_allclose(widening**-2, 1 - lost)


def test_the_response_of_one_factor():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 3, 3))
    pull = rng.normal(size=(5, 3, 3))
    covariance = root @ np.swapaxes(root, 1, 2)
    pull = 0.01 * pull @ np.swapaxes(pull, 1, 2)
    wider = intervals.response(root, pull)
    expected = np.linalg.inv(np.linalg.inv(covariance) - pull)
    np.testing.assert_allclose(wider, expected, rtol=1e-8)
    held = intervals.response(root, 1e6 * pull)  # no variance grows more than tenfold
    assert np.linalg.eigvalsh(10 * covariance * (1 + 1e-9) - held).min() > 0
    # where one of many is held back, the others are what they would be without it
    pull[0] *= 1e6
    np.testing.assert_allclose(intervals.response(root, pull)[1:], expected[1:], rtol=1e-8)


OPTIONS = [
    {},
    {"noise": "feature+sample", "offsets": True},
    {"noise": "robust"},
    {"alpha0": "learned", "lambda_": "learned"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_nothing_gets_narrower_or_wider_than_its_prior(options, missing):
    result = fitted(draw(missing=missing, sd=1.5), priors="data", tol=1e-6, **options)
    posterior = result.posterior
    for factor in (posterior.components, posterior.noise, *posterior.memberships):
        assert np.isfinite(factor.widening).all() and (factor.widening >= 1).all()
        assert (factor.sd >= factor.plain().sd).all()
        assert np.isfinite(factor.interval(0.9)).all()
    for alpha, factor in zip(result.model.alpha0, posterior.memberships, strict=True):
        least = np.minimum(alpha.sum(), factor.parameters.sum(axis=0))
        assert (factor.sd**2 <= (1 + 1e-9) * factor.mean * (1 - factor.mean) / (least + 1)).all()


def test_where_the_memberships_are_known_only_the_prior_of_the_components_responds():
    """A strong Dirichlet holds every column where it is."""
    posterior = fitted(draw(), tol=1e-6, alpha0=[1e7, 2e7, 3e7]).posterior
    rows = posterior.components
    bend = (rows.ridge * rows.mean**2 / (rows.mean**2 + rows.plain().sd ** 2))[:, :, None] * np.eye(
        3
    )
    alone = np.linalg.inv(np.linalg.inv(posterior.components.covariance()) - bend)
    np.testing.assert_allclose(
        posterior.components.sd, np.sqrt(np.diagonal(alone, axis1=1, axis2=2)), rtol=1e-4
    )
    np.testing.assert_allclose(posterior.memberships[0].widening, 1, rtol=1e-4)


def test_with_one_component_there_is_nothing_to_make_up_for():
    result = fitted(draw(n_components=1), 1, lambda_=1e4)
    np.testing.assert_allclose(result.posterior.components.widening, 1, rtol=1e-5)
    np.testing.assert_array_equal(result.posterior.memberships[0].widening, 1)


def test_the_noise_loses_the_degrees_of_freedom_of_the_mean():
    """One component: 25 means from 25 x 70 entries, the textbook's n - 1 for every feature."""
    noise = fitted(draw(n_components=1, n_samples=(70,)), 1, lambda_=1e4, a0=2.0).posterior.noise
    np.testing.assert_allclose(noise.shape / noise.widening**2, 2 + 25 * 69 / 2, rtol=1e-4)


def test_flat_columns_are_held_at_the_least_curvature(rng):
    """Sigma_j by eigenvalues equals Sigma_j by Cholesky wherever no direction is too flat."""
    half = rng.standard_normal((3, 5))
    steep = half @ half.T
    m = np.array([[0.2, 0.3, 0.5]] * 2)
    found = dirichlet.covariances(np.array([steep, -steep]), m)  # which have no Cholesky factors
    np.testing.assert_allclose(found[:1], dirichlet.covariances(steep[None], m[:1]), rtol=1e-8)
    jacobian = np.diag(m[0]) - np.outer(m[0], m[0])
    np.testing.assert_allclose(found[1], jacobian @ jacobian / 1e-3, rtol=1e-8)
    m = np.array([[0.4, 0.6]])
    nearly = dirichlet.covariances(np.array([[[1, 0.9999], [0.9999, 1]]]), m)[0]
    jacobian = np.diag(m[0]) - np.outer(m, m)
    vectors = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    expected = jacobian @ vectors @ np.diag([1 / 1.9999, 1 / 1e-3]) @ vectors.T @ jacobian
    np.testing.assert_allclose(nearly, expected, rtol=1e-8)


def test_the_bits_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(intervals, "BLOCK", 63)  # seven columns at a time
    widenings = []
    for n_threads in (1, 3):
        with threads.limited(n_threads):
            posterior = fitted(draw(), tol=1e-6).posterior
        factors = posterior.components, posterior.noise, *posterior.memberships
        widenings.append([factor.widening for factor in factors])
    for one, three in zip(*widenings, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_an_even_share_of_the_columns_stands_for_all(monkeypatch, missing):
    """Of six copies of every sample, one says as much as all."""
    source = draw(missing=missing, n_samples=(20,))
    many = Sources([np.repeat(x, 6, axis=1) for x in source.matrices])
    result = fitted(many, tol=1e-6)
    widenings = []
    for most in (120, 20):
        monkeypatch.setattr(intervals, "MOST_SUMMED", most)
        posterior = intervals.widened(many, result).posterior
        factors = posterior.components, posterior.noise, *posterior.memberships
        widenings.append([factor.widening for factor in factors])
    for everything, share in zip(*widenings, strict=True):
        np.testing.assert_allclose(share, everything, rtol=1e-9)
    assert np.ptp(widenings[0][0]) > 0


def test_too_many_components_leave_the_factors_as_they_are(monkeypatch, caplog):
    monkeypatch.setattr(intervals, "MOST_COMPONENTS", 2)
    posterior = fitted(draw(), tol=1e-6).posterior
    assert posterior.components.widening is None and posterior.memberships[0].widening is None
    assert "more than 2 components" in caplog.text


def test_of_several_starts_the_best_is_widened():
    plain = restarts.run("cavi-bjmd", draw(), 3, n_restarts=3)
    fits = fitting.fit("cavi-bjmd", draw(), 3, n_restarts=3)
    for before, after in zip(plain, fits.results, strict=True):
        np.testing.assert_array_equal(before.components, after.components)
        assert before.posterior.noise.widening is None
        assert (after.posterior.noise.widening is not None) == (after is fits.best)
    assert intervals.widened(draw(), registry.fit("map-bjmd", draw(), 3)).posterior is None


@pytest.mark.parametrize("options", [{}, {"noise": "robust"}])
@pytest.mark.parametrize("unit", [1e-100, 1000, 1e100])
def test_the_widths_do_not_depend_on_unit_and_origin(options, unit):
    data = draw()
    shift = 20 * np.random.default_rng(1).normal(size=(25, 1))
    moved = Sources([unit * (x + shift) for x in data.matrices])
    ours, theirs = (
        fitted(each, priors="data", tol=1e-9, **options).posterior for each in (data, moved)
    )
    np.testing.assert_allclose(ours.components.widening, theirs.components.widening, rtol=1e-3)
    np.testing.assert_allclose(
        ours.memberships[1].widening, theirs.memberships[1].widening, rtol=1e-3
    )
