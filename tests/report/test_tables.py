"""Numbers as people write them, and the tables of a report."""

import numpy as np
import pytest
from scipy.stats import kruskal

from bjmd.analysis import ranking
from bjmd.analysis.associations import by_source
from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.report import tables


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4000.0, "4,000"),
        (1234567.0, "1,230,000"),
        (0.00214, "0.00214"),
        (-11.04, "-11.0"),
        (9.999, "10.0"),
        (0.7998, "0.800"),
        (0.8, "0.8"),
        (1.2e-9, "1.20e-09"),
        (3e12, "3.00e+12"),
        (0.0, "0"),
        (np.nan, "nan"),
    ],
)
def test_numbers_as_people_write_them(value, text):
    assert tables.number(value) == text


def test_p_values_are_never_zero():
    assert tables.p_value(0.0) == tables.p_value(1e-300) == "< 1e-16"
    assert tables.p_value(0.0312) == "0.031"


@pytest.fixture(scope="module")
def fitted():
    """A fit of two sources; the first has far more of its second component."""
    rng = np.random.default_rng(0)
    components = 2 * rng.laplace(size=(20, 3))
    shares = ([1, 4, 1], [1, 1, 1])
    matrices = [
        components @ rng.dirichlet(alpha, 40).T + 0.3 * rng.standard_normal((20, 40))
        for alpha in shares
    ]
    sources = Sources(matrices, names=["a", "b"])
    return sources, registry.fit("cavi-bjmd", sources, 3, offsets=False)


def test_scores_are_differences_over_the_sd_of_draws(fitted):
    _, result = fitted
    w = result.components
    others = ranking.mean_of_others(w)
    np.testing.assert_allclose(others[:, 1], w[:, [0, 2]].mean(axis=1))
    draws = result.posterior.components.sample(20_000, np.random.default_rng(1))
    contrast = draws[:, :, 1] - draws[:, :, [0, 2]].mean(axis=2)
    expected = (w - others)[:, 1] / contrast.std(axis=0)
    np.testing.assert_allclose(ranking.scores(result)[:, 1], expected, rtol=0.04)


def test_all_features_are_ranked_up_and_down_apart(fitted):
    sources, result = fitted
    table = tables.ranking(sources, result)
    assert len(table) == 60 and not table.duplicated(["component", "feature"]).any()
    for (_, direction), part in table.groupby(["component", "direction"], sort=False):
        sign = 1 if direction == "up" else -1
        assert (sign * part["z"] >= 0).all() and (sign * part["z"]).is_monotonic_decreasing
        assert list(part["rank"]) == list(range(1, len(part) + 1))
    np.testing.assert_allclose(table["value"] - table["mean_of_others"], table["difference"])
    top = tables.top_features(table, 5)
    strongest = table[table["component"] == "C2"].sort_values("z", key=abs, ascending=False)
    assert list(top["feature"][top["component"] == "C2"]) == list(strongest["feature"][:5])


def test_a_single_component_is_ranked_by_its_values(fitted):
    sources, _ = fitted
    result = registry.fit("map-bjmd", sources, 1)
    first = tables.ranking(sources, result).iloc[0]
    assert first["feature"] == sources.feature_names[result.components[:, 0].argmax()]
    assert first["mean_of_others"] == 0 and np.isnan(first["z"])


def test_shares_by_source_are_compared(fitted):
    sources, result = fitted
    table = by_source(result, sources.names)
    rows = table.set_index(["component", "source"])
    for k in range(3):
        a, b = (h[k] for h in result.memberships)
        row = rows.loc[(f"C{k + 1}", "a")]
        assert row["share"] == pytest.approx(a.mean())
        sampling = 1.685 * a.std(ddof=1) / np.sqrt(40)
        assert sampling < row["high"] - row["share"] < 1.5 * sampling
        assert row["p_value"] == pytest.approx(kruskal(a, b).pvalue)
    q = tables.answer_as_text("components_by_source", table)["q"]
    assert len(q) == 3 and (table["q_value"] >= table["p_value"]).all()
