import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bjmd.analysis.associations import associations


def values(table, component, column):
    return table[(table["component"] == component) & (table["column"] == column)].iloc[0]


@pytest.fixture
def one():
    """The memberships of one source with ties, and metadata of which some follow the first
    component.
    """
    rng = np.random.default_rng(0)
    h = rng.dirichlet(np.ones(3), 60).T.round(2)
    age = 10 * h[0] + rng.standard_normal(60)
    kind = np.where(
        h[0] + 0.2 * rng.random(60) > 0.5,
        "tumour",
        np.where(rng.random(60) < 0.5, "normal", "cyst"),
    )
    return h, pd.DataFrame({"age": age, "kind": kind, "chance": rng.standard_normal(60)})


def test_in_one_source_it_is_the_test_of_kruskal_and_wallis_and_spearmans_correlation(one):
    h, metadata = one
    table = associations([h], [metadata])
    for k in range(3):
        groups = [h[k, metadata["kind"] == kind] for kind in ("tumour", "normal", "cyst")]
        found = values(table, f"C{k + 1}", "kind")
        assert found["p_value"] == pytest.approx(stats.kruskal(*groups).pvalue, rel=1e-9)
        rho = stats.spearmanr(h[k], metadata["age"]).statistic
        found = values(table, f"C{k + 1}", "age")
        assert found["strength"] == pytest.approx(abs(rho), rel=1e-9)
        assert found["highest_at"] == ("high" if rho > 0 else "low")
    assert values(table, "C1", "kind")["highest_at"] == "tumour"
    np.testing.assert_allclose(table["q_value"], stats.false_discovery_control(table["p_value"]))
    assert table["p_value"].is_monotonic_increasing
    assert (
        values(table, "C1", "age")["q_value"]
        < 1e-3
        < 0.05
        < values(table, "C1", "chance")["q_value"]
    )


def test_a_difference_between_sources_is_no_association():
    """Both memberships and age differ between the sources, and within them have nothing to do with
    each other.
    """
    rng = np.random.default_rng(1)
    h = [rng.dirichlet([20, 1], 40).T, rng.dirichlet([1, 20], 30).T]
    metadata = [
        pd.DataFrame({"age": rng.normal(mean, 1, n), "batch": mean})
        for mean, n in ((20, 40), (60, 30))
    ]
    table = associations(h, metadata)
    assert (table["p_value"] > 0.05).all()
    assert set(table["column"]) == {"age"}, "batch does not vary within a source"


def test_two_sources_tell_more_than_one_and_p_values_are_uniform_by_chance(one):
    h, metadata = one
    both = associations([h, h], [metadata, metadata])
    assert (
        values(both, "C1", "age")["p_value"]
        < values(associations([h], [metadata]), "C1", "age")["p_value"]
    )
    rng = np.random.default_rng(2)
    sizes = (25, 15)
    found = []
    for _ in range(60):
        random = [
            pd.DataFrame({"x": rng.random(n), "y": rng.choice(list("abc"), n)}) for n in sizes
        ]
        found.append(associations([rng.dirichlet(np.ones(2), n).T for n in sizes], random))
    p = pd.concat(found).query("component == 'C1'")
    for name, own in p.groupby("column"):
        assert stats.kstest(own["p_value"], "uniform").pvalue > 0.01, name


def test_names_of_samples_and_what_is_missing_are_left_out(one):
    h, metadata = one
    metadata["id"] = [f"sample{j}" for j in range(60)]
    metadata.loc[10:, "chance"] = np.nan
    table = associations([h, h], [metadata, None])
    assert set(table["column"]) == {"age", "kind", "chance"}
    assert values(table, "C1", "chance")["n"] == 10 and values(table, "C1", "age")["n"] == 60
    assert associations([h], [metadata[["id"]]]).empty
