import numpy as np
import pytest

from bjmd.model import Sources


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def make_sources():
    """Random data of the model's form; every call with the same arguments gives the same data."""

    def make(seed=0, n_features=12, n_samples=(9, 7), n_components=3, noise=(0.3, 1.0)):
        rng = np.random.default_rng(seed)
        basis = rng.laplace(size=(n_features, n_components))
        return Sources(
            [
                basis @ rng.dirichlet(np.ones(n_components), n).T + sd * rng.standard_normal((n_features, n))
                for n, sd in zip(n_samples, noise, strict=True)
            ]
        )

    return make
