import numpy as np

from bjmd.data.sources import Sources
from bjmd.inference import registry


def test_memberships_are_on_the_simplex_and_ignore_the_data(make_sources):
    sources = make_sources()
    result = registry.fit("random", sources, 3, seed=1)
    other = registry.fit("random", Sources([x**2 for x in sources.matrices]), 3, seed=1)
    for h, again in zip(result.memberships, other.memberships, strict=True):
        np.testing.assert_array_equal(h, again)
        np.testing.assert_allclose(h.sum(axis=0), 1)
        assert h.min() >= 0
    assert (
        registry.fit("random", sources, 3, seed=2).memberships[0] != result.memberships[0]
    ).all()


def test_they_are_uniform_on_the_simplex():
    """Dirichlet(1, 1, 1, 1): mean 1/4, variance 3/80."""
    h = registry.fit("random", Sources([np.ones((4, 20_000))]), 4, seed=0).memberships[0]
    np.testing.assert_allclose(h.mean(axis=1), 1 / 4, atol=0.006)
    np.testing.assert_allclose(h.var(axis=1), 3 / 80, rtol=0.05)


def test_the_components_are_least_squares(make_sources):
    sources = make_sources()
    result = registry.fit("random", sources, 3)
    x = np.hstack(sources.matrices)
    h = np.hstack(result.memberships)
    np.testing.assert_allclose(result.components, np.linalg.lstsq(h.T, x.T)[0].T, atol=1e-10)
    np.testing.assert_allclose(result.objective, ((x - result.components @ h) ** 2).sum())
