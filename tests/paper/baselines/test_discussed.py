"""Bayesian methods that the paper discusses but does not run."""

import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd_paper.baselines import bpmf


def test_bayesian_k_means_finds_clusters_that_lie_apart(rng):
    centres = 5 * rng.standard_normal((20, 3))
    groups = [np.arange(60) % 3, np.arange(45) % 3]
    sources = Sources([centres[:, y] + rng.standard_normal((20, len(y))) for y in groups])
    result = registry.fit("bayesian-kmeans", sources, 3)
    order = [np.argmin(((result.components.T - c) ** 2).sum(axis=1)) for c in centres.T]
    np.testing.assert_allclose(result.components[:, order], centres, atol=1)
    for h, y in zip(result.memberships, groups, strict=True):
        np.testing.assert_allclose(h[order], np.eye(3)[:, y], atol=1e-3)


def test_bayesian_pca_finds_the_noise_the_space_and_how_many_components_there_are(rng):
    """Two of five components are needed; its ELBO, like any sum of the right terms, never falls."""
    w = 2 * rng.standard_normal((30, 2))
    level = 10 * rng.standard_normal((30, 1))
    x = level + w @ rng.standard_normal((2, 400)) + 0.5 * rng.standard_normal((30, 400))
    result = registry.fit("bpca", Sources([x[:, :150], x[:, 150:]]), 5, tol=1e-9)
    assert result.converged and result.reason.startswith("converged"), "no sweep raised it"
    np.testing.assert_allclose(result.noise, 0.5, rtol=0.01)
    sizes = np.linalg.norm(result.components, axis=0)
    assert (sizes > 1).sum() == 2 and (sizes < 0.1).sum() == 3
    found = np.linalg.qr(result.components[:, sizes > 1])[0]
    angles = np.linalg.svd(found.T @ np.linalg.qr(w)[0])[1]
    assert angles.min() > 0.999


def test_the_draws_of_bpmf_have_the_moments_of_their_conditionals(rng):
    """A factor is normal given the other; its mean and precision are normal-Wishart given it."""
    half = rng.standard_normal((2, 5))
    prior = np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    linear = np.repeat([[3.0], [1.0]], 40_000, axis=1)
    draws = bpmf.draw_factor(half @ half.T, linear, prior, rng)
    covariance = np.linalg.inv(half @ half.T + prior[1])
    mean = covariance @ (linear[:, 0] + prior[1] @ prior[0])
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.01)

    factor = rng.standard_normal((2, 8)) + 1
    means, precisions = zip(*(bpmf.draw_prior(factor, rng) for _ in range(8000)), strict=True)
    n = factor.shape[1]
    middle = factor.mean(axis=1)
    scatter = n * np.cov(factor, bias=True) + 2 * n / (2 + n) * np.outer(middle, middle)
    expected = (2 + n) * np.linalg.inv(np.eye(2) + scatter)
    np.testing.assert_allclose(np.mean(means, axis=0), n * middle / (2 + n), atol=0.02)
    np.testing.assert_allclose(np.mean(precisions, axis=0), expected, rtol=0.05, atol=0.02)


def test_bpmf_recovers_the_product_and_the_noise_in_any_unit(rng):
    w = rng.standard_normal((40, 3))
    h = rng.standard_normal((3, 60))
    x = 100 * (w @ h + 0.3 * rng.standard_normal((40, 60)))
    result = registry.fit("bpmf", Sources([x]), 3)
    np.testing.assert_allclose(result.noise, 30, rtol=0.05)
    found = result.components @ result.memberships[0]
    assert np.sqrt(((found - 100 * w @ h) ** 2).mean()) < 12
    assert result.converged
