"""New samples on another scale than the data of a fit are noticed at every door."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bjmd import BJMD, cli, tl
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import outputs
from bjmd.inference import projection, registry
from bjmd.results import storage

FEATURES = [f"g{i}" for i in range(30)]


@pytest.fixture(scope="module")
def counts():
    """Samples x features."""
    rng = np.random.default_rng(0)
    rates = rng.dirichlet(np.ones(3), 60) @ rng.gamma(0.3, 20, (3, 30))
    return rng.poisson(rates).astype(float)


@pytest.fixture(scope="module")
def logs(counts):
    return np.log1p(1e3 * counts / counts.sum(axis=1, keepdims=True))


@pytest.fixture(scope="module")
def model(logs):
    return BJMD(3, n_init=1).fit(logs)


REFUSED = (
    r"the new samples are whole numbers from 0 to \d+, but the data of the fit were numbers from 0 "
    r"to [\d.]+; prepare them as those were.*--any-scale"
)


@pytest.mark.parametrize("ask", [BJMD.transform, BJMD.score, BJMD.impute])
def test_counts_in_place_of_logarithms_are_refused_unless_any_scale_is_allowed(model, counts, ask):
    with pytest.raises(InputError, match=REFUSED):
        ask(model, counts)
    assert np.isfinite(ask(model, counts, any_scale=True)).all()


def test_what_is_like_the_data_of_the_fit_passes(model, logs):
    empty = np.zeros((1, 30))
    few = np.where(np.arange(30) < 5, 1.0, np.nan)[None]
    outlier = logs.copy()
    outlier[0, 0] = 10 * logs.max()
    for x in (logs, 3 * logs[:1], -logs, outlier, empty, few):
        assert np.isfinite(model.transform(x)).all()
    outlier[0, 0] = 12 * logs.max()
    for x in (outlier, 1000 * logs, logs - 1000):
        with pytest.raises(InputError, match="the new samples are numbers from"):
            model.transform(x)


def test_a_few_numbers_may_be_whole_by_chance(model):
    """Twenty that are not zero; zeros are whole on any scale."""
    x = np.zeros((1, 30))
    x[0, :20] = 3.0
    x[0, 25] = np.nan
    model.transform(x)
    x[0, 20] = 3.0
    with pytest.raises(InputError, match="are whole numbers from 0 to 3"):
        model.transform(x)


def test_the_width_of_data_that_are_all_the_same_is_their_size():
    result = registry.fit("map-bjmd", Sources([np.full((5, 6), -2.5)]), 1, max_sweeps=2)
    for x in (22.4, -27.4):
        assert np.isfinite(projection.project(result, np.full((5, 1), x)).memberships).all()
    for x in (22.6, -27.6):
        with pytest.raises(InputError, match="are numbers from"):
            projection.project(result, np.full((5, 1), x))


def test_logarithms_in_place_of_counts_are_refused(counts, logs):
    with pytest.warns(UserWarning, match="are whole numbers; if these are counts, use normalize"):
        model = BJMD(3, n_init=1).fit(counts)
    model.transform(counts[:5])
    with pytest.raises(InputError, match=r"are numbers from .* the data of the fit were whole"):
        model.transform(logs)


def test_a_fit_of_an_earlier_version_takes_everything(model, counts, tmp_path):
    result = model.decomposition_
    older = replace(result, model=replace(result.model, data_extent=None))
    storage.save_decompositions(tmp_path / "fit.npz", [result, older])
    result, older = storage.load_decompositions(tmp_path / "fit.npz")
    assert np.isfinite(projection.project(older, counts.T).memberships).all()
    with pytest.raises(InputError, match="the new samples are whole"):
        projection.project(result, counts.T)


def test_what_a_pooled_fit_saw_is_what_all_sources_hold(make_sources):
    sources = make_sources()
    everything = np.hstack(sources.matrices)
    for method in ("cavi-catbjmd", "map-bjmd"):
        extent = registry.fit(method, sources, 2, max_sweeps=2).model.data_extent
        np.testing.assert_array_equal(extent, [everything.min(), everything.max(), 0])


def test_the_command_notices(counts, logs, write_tables, capsys):
    write_tables([counts.T, logs.T], "counts.csv", "logs.csv")
    line = "fit logs.csv -k 3 -o out --restarts 1 --no-figures"
    assert cli.main(line.split()) == 0
    assert "hint" not in capsys.readouterr().err
    transform = "transform out counts.csv -o new.tsv"
    assert cli.main(transform.split()) == 2
    assert "bjmd: the new samples are whole numbers from 0 to" in capsys.readouterr().err
    assert not Path("new.tsv").exists()
    assert cli.main([*transform.split(), "--any-scale"]) == 0
    assert len(pd.read_csv("new.tsv", sep="\t")) == len(counts)
    assert outputs.load("out").results[0].model.data_extent[1] == logs.max()


@pytest.mark.parametrize("backed", [False, True])
def test_the_tools_for_anndata_notice(counts, logs, tmp_path, backed):
    anndata = pytest.importorskip("anndata")

    def given(x):
        var = pd.DataFrame(index=FEATURES)
        obs = pd.DataFrame(index=[f"s{j}" for j in range(len(x))])
        data = anndata.AnnData(x, obs=obs, var=var)
        if not backed:
            return data
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.h5ad"
        data.write_h5ad(path)
        return anndata.read_h5ad(path, backed="r")

    fitted = given(logs)
    tl.bjmd(fitted, 3, n_init=1)
    with pytest.raises(InputError, match=REFUSED):
        tl.project(given(counts), fitted)
    new = given(counts)
    tl.project(new, fitted, any_scale=True)
    assert new.obsm["X_bjmd"].shape == (60, 3)
    with pytest.warns(UserWarning, match="are whole numbers; if these are counts, call scanpy"):
        tl.bjmd(given(counts), 3, n_init=1)
