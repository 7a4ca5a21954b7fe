"""A posterior as ArviZ takes it, and a folder of results as xarray does."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bjmd
from bjmd.analysis.summary import summarise
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import outputs
from bjmd.inference import restarts

with warnings.catch_warnings(action="ignore"):  # about ArviZ's own future
    arviz = pytest.importorskip("arviz")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    components = rng.laplace(size=(3, 8))
    tables = {
        name: pd.DataFrame(
            rng.dirichlet(np.ones(3), n) @ components + sd * rng.standard_normal((n, 8)),
            columns=[f"gene{i}" for i in range(8)],
        )
        for name, n, sd in (("Oslo", 30, 0.2), ("Rome", 20, 0.5))
    }
    return bjmd.BJMD(3, n_init=2).fit(tables)


def test_draws_have_names_and_the_moments_of_the_posterior(model):
    draws = model.to_arviz(400).posterior
    posterior = model.decomposition_.posterior
    assert dict(draws.sizes) == {
        "chain": 1,
        "draw": 400,
        "component": 3,
        "feature": 8,
        "sample": 50,
        "source": 2,
    }
    assert list(draws["component"].values) == ["bjmd0", "bjmd1", "bjmd2"] and list(
        draws["source"]
    ) == ["Oslo", "Rome"]
    one = draws["components"].sel(component="bjmd1", feature="gene3")
    mean = posterior.components.mean[3, 1]
    sd = posterior.components.sd[3, 1]
    assert abs(one.mean() - mean) < 4 * sd / 20 and float(one.std()) == pytest.approx(sd, rel=0.2)
    of_rome = draws["memberships"][..., draws["source_of_sample"] == "Rome", :].mean(
        ("chain", "draw")
    )
    np.testing.assert_allclose(of_rome, model.memberships_[1], atol=0.03)
    np.testing.assert_allclose(draws["noise"].sel(source="Rome").mean(), model.noise_[1], rtol=0.02)
    np.testing.assert_allclose(draws["offsets"].mean(("chain", "draw")), model.offsets_, atol=0.1)


def test_the_seed_decides(model):
    first, again, other = (
        model.to_arviz(3, random_state=seed).posterior["noise"].values for seed in (1, 1, 2)
    )
    assert (first == again).all() and (first != other).all()


def test_arviz_summarises_and_plots(model, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    data = model.to_arviz(100)
    with warnings.catch_warnings(action="ignore"):
        summary = arviz.summary(data, var_names=["noise", "components"], kind="stats")
        axes = arviz.plot_forest(data, var_names=["noise"], combined=True)
    assert (
        "noise[Oslo]" in summary.index
        and "components[bjmd0, gene7]" in summary.index
        and len(summary) == 26
    )
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["[Rome]", "noise[Oslo]"]
    plt.close("all")


def test_a_point_estimate_has_nothing_to_draw():
    with pytest.raises(InputError, match="only a fit with inference='cavi' has a posterior"):
        bjmd.BJMD(2, inference="map", n_init=1).fit(
            np.random.default_rng(0).random((9, 5))
        ).to_arviz()


def test_results_in_a_folder_are_an_xarray(tmp_path, make_sources):
    plain = make_sources()
    sources = Sources(plain.matrices, names=["Oslo", "Rome"])
    outputs.write(
        tmp_path / "out",
        sources,
        summarise(sources, restarts.run("cavi-bjmd", sources, 2, n_restarts=1)),
        figures=False,
    )
    loaded = outputs.load(tmp_path / "out")
    data = loaded.to_xarray()
    best = loaded.results[0]
    assert dict(data.sizes) == {"feature": 12, "component": 2, "sample": 16, "source": 2}
    rome = data["memberships"].sel(component="C2")[data["source_of_sample"] == "Rome"]
    np.testing.assert_array_equal(rome, best.memberships[1][1])
    assert list(rome["sample"].values) == sources.sample_names[1]
    assert data["noise"].sel(source="Oslo") == best.noise[0]
    np.testing.assert_array_equal(data["components_sd"], best.posterior.components.sd)
    assert (data["memberships_sd"].values > 0).all()
    data.to_netcdf(tmp_path / "fit.nc", engine="scipy")
