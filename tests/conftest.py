import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd.data.sources import Sources


def pytest_collection_modifyitems(items):
    """The longest files first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: "workflow" not in item.path.parts)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def make_sources():
    """Random data of the model's form; every call with the same arguments gives the same data."""

    def make(seed=0, n_features=12, n_samples=(9, 7), n_components=3, noise=(0.3, 1.0)):
        rng = np.random.default_rng(seed)
        components = rng.laplace(size=(n_features, n_components))
        return Sources(
            [
                components @ rng.dirichlet(np.ones(n_components), n).T
                + sd * rng.standard_normal((n_features, n))
                for n, sd in zip(n_samples, noise, strict=True)
            ]
        )

    return make


@pytest.fixture
def write_tables(tmp_path, monkeypatch):
    """Enters an empty folder; writes matrices, features x samples, into files with names like a.csv
    or b.tsv, whose samples are a0, a1, ... and b0, b1, ...
    """
    monkeypatch.chdir(tmp_path)

    def write(matrices, *paths):
        for x, path in zip(matrices, paths, strict=True):
            samples = [f"{path[0]}{j}" for j in range(x.shape[1])]
            frame = pd.DataFrame(x, [f"g{i}" for i in range(len(x))], samples)
            frame.to_csv(path, sep="," if path.endswith("csv") else "\t")

    return write


@pytest.fixture
def h5mu(tmp_path):
    """An .h5mu file with two modalities of the same features, the first sparse, and their features
    x samples.
    """
    anndata = pytest.importorskip("anndata")
    mudata = pytest.importorskip("mudata")
    rng = np.random.default_rng(5)
    matrices = {
        "early": rng.poisson(1.0, (8, 6)).astype(float),
        "late": rng.standard_normal((8, 5)),
    }
    modalities = {
        name: anndata.AnnData(
            scipy.sparse.csr_matrix(x.T) if name == "early" else x.T,
            obs=pd.DataFrame(index=[f"{name}{j}" for j in range(x.shape[1])]),
            var=pd.DataFrame(index=[f"g{i}" for i in range(8)]),
        )
        for name, x in matrices.items()
    }
    with mudata.set_options(pull_on_update=False), warnings.catch_warnings(action="ignore"):
        mudata.MuData(modalities).write_h5mu(tmp_path / "study.h5mu")
    return tmp_path / "study.h5mu", matrices
