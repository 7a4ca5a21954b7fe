"""A posterior as ArviZ takes it."""

import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bjmd
from bjmd.errors import InputError

arviz = pytest.importorskip("arviz")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    components = rng.laplace(size=(3, 8))
    tables = {
        name: pd.DataFrame(
            rng.dirichlet(np.ones(3), n) @ components + sd * rng.standard_normal((n, 8)),
            columns=[f"gene{i}" for i in range(8)],
        )
        for name, n, sd in (("Oslo", 30, 0.2), ("Rome", 20, 0.5))
    }
    tables["Oslo"].iloc[::4, 3] = np.nan
    return tables


@pytest.fixture(scope="module")
def model(data):
    return bjmd.BJMD(3, n_init=2).fit(data)


def test_draws_have_names(model):
    draws = model.to_arviz(400).posterior
    sizes = {"component": 3, "feature": 8, "sample": 50, "source": 2}
    assert dict(draws.sizes) == {"chain": 4, "draw": 100, **sizes}
    plain = model.sample_posterior(400)  # whose moments test_estimator.py looks at
    one = draws["components"].sel(component="C2", feature="gene3")
    np.testing.assert_array_equal(one.values.ravel(), plain.components[:, 1, 3])
    of_rome = draws["memberships"][..., draws["source_of_sample"] == "Rome", :]
    np.testing.assert_array_equal(of_rome.values.reshape(400, 20, 3), plain.memberships[1])
    noise = draws["noise"].sel(source="Rome").values.ravel()
    np.testing.assert_array_equal(noise, plain.noise[:, 1])
    assert draws["offsets"].sel(source="Oslo").shape == (4, 100, 8)


@pytest.mark.parametrize("noise", ["source", "feature+sample+robust"])
def test_entries_of_the_data_are_predicted_and_left_out(data, noise, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    model = bjmd.BJMD(3, n_init=2, noise=noise).fit(data)
    inference_data = model.to_arviz(400, X=data, n_entries=150)
    observed = inference_data.observed_data["x"].values
    predicted = inference_data.posterior_predictive["x"].values.reshape(400, -1)
    assert len(observed) == 150 and not np.isnan(observed).any()
    values = np.concatenate([table.to_numpy().ravel() for table in data.values()])
    assert np.isin(observed, values).all()
    low, high = np.quantile(predicted, [0.05, 0.95], axis=0)
    # more than 90 %, because the model was fitted to these entries
    assert 0.88 < np.mean((low < observed) & (observed < high)) < 1
    with warnings.catch_warnings(action="ignore"):  # about influential entries, and matplotlib
        left_out = arviz.loo(inference_data)
        arviz.plot_ppc(inference_data, num_pp_samples=10)
    assert left_out.n_data_points == 150
    assert left_out.elpd_loo < inference_data.log_likelihood["x"].mean(("chain", "draw")).sum()
    plt.close("all")


def test_arviz_summarises_without_a_warning(model):
    with warnings.catch_warnings(action="error"):
        summary = arviz.summary(model.to_arviz(100), var_names=["noise", "components"])
    assert {"noise[Oslo]", "components[C1, gene7]"} <= set(summary.index) and len(summary) == 26


def test_a_message_says_how_to_install_arviz(data, monkeypatch):
    model = bjmd.BJMD(3, n_init=1).fit(data)
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(InputError, match="pip install 'arviz<1'"):
        model.to_arviz()
