from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from bjmd.inference import restarts
from bjmd_paper import draws, scores, tables
from bjmd_paper.datasets import synthetic

JOBS = {
    "map-bjmd": {
        "method": "map-bjmd",
        "options": {"priors": "paper", "tol": 1e-4},
        "n_components": 5,
        "nonnegative": "as-is",
    },
    "jnmf": {"method": "jnmf", "options": {}, "n_components": 5, "nonnegative": "clip"},
}
ROWS = {name: {"label": name.upper()} for name in JOBS}


@pytest.fixture(scope="module")
def drawn():
    return draws.table("small", [1], [2.0, 4.0], JOBS, n_restarts=3, n_best=2, seed=7)


def test_a_draw_is_the_mean_of_its_best_runs_by_objective(drawn):
    sources = synthetic.generate("small", 4.0, 7 + 1000 + 1).sources
    runs = restarts.run("map-bjmd", sources, 5, n_restarts=3, seed=7, **JOBS["map-bjmd"]["options"])
    best = restarts.best(runs, 2)
    found = drawn[(drawn["fit"] == "map-bjmd") & (drawn["sigma3"] == 4)]
    auc = np.mean([scores.four_scores(run, sources.labels)["auc"] for run in best], axis=0)
    np.testing.assert_allclose(found["auc"], auc)
    np.testing.assert_allclose(found["noise"], np.mean([run.noise for run in best], axis=0))
    np.testing.assert_allclose(found["objective"], np.mean([run.objective for run in best]))
    assert set(found["most_iterations"]) == {max(run.n_iterations for run in best)}
    assert found["true_noise"].tolist() == [1, 2.5, 4]


def test_a_draw_has_every_fit_sigma3_and_source(drawn):
    assert list(drawn.columns[:5]) == ["scale", "sigma3", "draw", "fit", "source"]
    assert len(drawn.drop_duplicates(["sigma3", "fit", "source"])) == len(drawn) == 2 * 2 * 3
    assert set(drawn["draw"]) == {1} and set(drawn["scale"]) == {"small"}
    simplex, other = (drawn[drawn["fit"] == fit] for fit in JOBS)
    assert (simplex["auc"] == simplex["auc_scaled"]).all() and (
        other["auc"] != other["auc_scaled"]
    ).all()
    assert (drawn["matched"] <= drawn["auc"]).all()


def test_means_errors_and_intervals_over_draws():
    aucs = [90.0, 92.0, 97.0]
    frames = [
        pd.DataFrame([{"fit": "jnmf", "sigma3": 4.0, "source": 1, "draw": i, "auc": a}])
        for i, a in enumerate(aucs)
    ]
    (row,) = tables.over_draws(frames).itertuples()
    assert (row.mean, row.n) == (93, 3)
    assert row.sd == pytest.approx(np.std(aucs, ddof=1))
    assert row.half_width == pytest.approx(t.ppf(0.975, 2) * row.sd / np.sqrt(3))
    table = tables.draws(frames, ROWS)
    assert table.data["auc"].tolist() == aucs, "every draw is kept"
    assert table.shown[-1].to_numpy().tolist() == [["JNMF", "93.00 ± 2.08 (3.61)"]]


def test_the_conjecture_is_beside_the_printed_rows():
    """z is how many standard deviations of a draw the printed number lies above the mean."""
    rows = {"map": {"label": "MAP", "paper_row": "MAP-BJMD"}}
    frames = [
        pd.DataFrame([{"fit": "map", "sigma3": 4.0, "source": 1, "draw": i, "auc": auc}])
        for i, auc in enumerate([97.67, 98.67, 99.67])
    ]
    table = tables.conjecture(frames, rows)
    np.testing.assert_allclose(table.data[["mean", "sd", "paper", "z"]], [[98.67, 1, 99.67, 1]])
    assert table.shown[1].iloc[0].tolist() == ["MAP", "98.7 (1.0)", "99.7", "+1.0"]


def without_noise(scale, sigma3, seed, *, extra_features=0):
    """Data whose true features no test can miss."""
    real = synthetic.generate(scale, sigma3, seed, extra_features=extra_features)
    matrices = [
        x + 50 * real.components @ h
        for x, h in zip(real.sources.matrices, real.memberships, strict=True)
    ]
    return SimpleNamespace(
        components=real.components,
        noise=real.noise,
        sources=real.sources.replace(matrices=matrices),
    )


def features():
    settings = {"sigma3": 4.0, "fit": "map-bjmd", "level": 0.05}
    numbers = {"n_restarts": 1, "n_best": 1, "seed": 7}
    return draws.feature_tables(0, 40, JOBS, noise_from=[], **numbers, **settings)


def test_power_is_one_where_the_signal_is_strong(monkeypatch):
    monkeypatch.setattr(draws, "synthetic", SimpleNamespace(generate=without_noise))
    passed, auc = features()
    truth = passed[passed["noise_from"] == "truth"].set_index("source")
    assert truth.index.tolist() == [1, 2, 3, draws.ALL, draws.ANY]
    assert (truth["power"] == 1).all() and (truth["false_rate"] < 0.03).all()
    assert set(auc["stage"]) == {"before", "after"} and set(auc["fit"]) == set(JOBS)


@pytest.mark.parametrize(("factor", "share"), [(0.1, 1), (10, 0)])
def test_a_wrong_noise_lets_everything_pass_or_nothing(monkeypatch, factor, share):
    mean_noise = scores.mean_noise
    monkeypatch.setattr(draws.scores, "mean_noise", lambda *of: factor * mean_noise(*of))
    passed, auc = features()
    ours = passed[passed["noise_from"] == "map-bjmd"]
    assert (ours[["power", "false_rate", "any_false"]] == share).all(axis=None)
    cells = tables.feature_draws_auc([auc], ROWS).shown[-1]
    assert (cells.iloc[0].tolist()[2:] == ["–", "–"]) == (share == 0)
