import numpy as np
import pandas as pd
import pytest

from bjmd import Sources
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import DirichletColumns, Posterior
from bjmd_paper import figures, metric, scores, shares

TRUE = pd.DataFrame(
    [[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]], index=["s1", "s2", "s3"], columns=["A", "B"]
)
SOURCES = Sources(
    [np.ones((3, 2)), np.ones((3, 1))],
    names=["30 pg", "15 pg"],
    sample_names=[["s1", "s2"], ["s3"]],
    labels=[np.eye(2), np.ones((2, 1))],
)
ROWS = {"ours": {"label": "Ours"}, "nmf": {"label": "NMF"}}


def run(memberships, seed=0, objective=0.0, **fields):
    fields = {"components": np.ones((3, 2)), "noise": None} | fields
    return Decomposition(
        memberships=[memberships[:, :2], memberships[:, 2:]],
        objective=objective,
        trace=np.array([objective]),
        converged=True,
        reason="",
        seed=seed,
        **fields,
    )


@pytest.fixture
def results():
    """Ours has its components in the other order, and is 0.1 off in one sample."""
    h = np.array([[0.0, 0.5, 0.7], [1.0, 0.5, 0.3]])
    factors = [DirichletColumns(40 * h[:, :2] + 1), DirichletColumns(1e6 * h[:, 2:])]
    posterior = Posterior(None, factors, None)
    ours = run(h, posterior=posterior, noise=np.array([1.0, 2.0]))
    worse = run(np.full((2, 3), 0.5), seed=1, objective=1.0, noise=np.array([1.0, 2.0]))
    # the truth, with the unit of each component moved from H to W
    unit = np.array([[2.0], [5.0]])
    nmf = run(3 * TRUE.to_numpy().T / unit, components=np.ones((3, 2)) * unit.T)
    return {"ours": [worse, ours], "nmf": [nmf]}


def test_components_are_matched_and_scales_do_not_matter(results):
    assert shares.error(results["ours"][1].memberships, TRUE.to_numpy().T) == pytest.approx(0.1 / 3)
    nmf = results["nmf"][0]
    estimate = metric.scaled(nmf.memberships, nmf.components)
    assert shares.error(estimate, TRUE.to_numpy().T) == pytest.approx(0, abs=1e-12)


def test_table_and_figures(results):
    n_best = {"ours": 1, "nmf": 1}
    tidy = shares.tidy(TRUE, SOURCES, results, n_best)
    assert len(tidy) == 2 * 3 * 2
    one = tidy[(tidy["fit"] == "ours") & (tidy["sample"] == "s3")].set_index("part")
    np.testing.assert_allclose(one["true"], [0.2, 0.8])
    np.testing.assert_allclose(one["estimate"], [0.3, 0.7])
    assert (one["low"] < one["estimate"]).all() and (one["estimate"] < one["high"]).all()
    runs = scores.runs_table(SOURCES, results, n_best)
    table = shares.table(tidy, runs, ROWS)
    data = table.data.set_index("fit")
    assert list(data.index) == ["nmf", "ours"], "the best first"
    assert data.loc["ours", "error"] == pytest.approx(0.1 / 3)
    assert data.loc["ours", "error 15 pg"] == pytest.approx(0.1)
    assert data.loc["ours", "coverage"] == pytest.approx(2 / 3), "all but the third sample"
    assert data.loc["ours", "noise 15 pg"] == 2
    assert table.shown[0].iloc[0].tolist()[-1] == "–"
    fits = {fit: {**row, "method": "jnmf"} for fit, row in ROWS.items()}
    panels = figures.shares(tidy, fits).axes
    assert [panel.get_title("left") for panel in panels] == ["NMF", "Ours"]
    (axis,) = figures.noise_by_amount(runs, fits).axes
    (line,) = axis.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), [[15, 2], [30, 1]])
