from dataclasses import replace

import numpy as np
import pytest

import bjmd
from bjmd.analysis.consensus import consensus


@pytest.fixture
def sources(make_sources):
    return make_sources(n_samples=(40, 30))


@pytest.fixture
def best(sources):
    return bjmd.fit("cavi-bjmd", sources, 3)


def permuted(result, order, **changes):
    w = result.components[:, order]
    memberships = [h[order] for h in result.memberships]
    return replace(result, **({"components": w, "memberships": memberships} | changes))


def test_the_same_components_in_any_order_are_their_own_consensus(sources, best):
    runs = [
        permuted(best, order, objective=best.objective + 1)
        for order in ([2, 0, 1], [1, 0, 2], [0, 2, 1])
    ]
    found = consensus(sources, [*runs, best])
    assert (found.share == 1).all()
    np.testing.assert_allclose(found.spread, 0, atol=1e-12)
    np.testing.assert_allclose(found.result.components, best.components, rtol=1e-12)
    every = (np.hstack(result.memberships) for result in (found.result, best))
    np.testing.assert_allclose(*every, atol=1e-4)


def test_what_most_restarts_have_wins_even_over_the_best(sources, best):
    """Two runs, the best among them, have a third component of their own; three runs agree."""
    rng = np.random.default_rng(0)

    def odd(order, objective):
        memberships = [rng.dirichlet(np.ones(3), h.shape[1]).T for h in best.memberships]
        memberships = [
            np.vstack([h[:2], other[2]])
            for h, other in zip(best.memberships, memberships, strict=True)
        ]
        w = np.column_stack([best.components[:, :2], rng.standard_normal(12)])
        return permuted(
            replace(best, components=w, memberships=memberships), order, objective=objective
        )

    shifts = [-0.1, 0.0, 0.1]
    alike = [
        permuted(best, [2, 1, 0], components=best.components[:, [2, 1, 0]] + shift)
        for shift in shifts
    ]
    runs = [odd([0, 1, 2], best.objective - 1), *alike, odd([1, 2, 0], best.objective)]
    found = consensus(sources, runs)
    np.testing.assert_allclose(found.share, [1, 1, 0.6])
    np.testing.assert_allclose(
        found.result.components, best.components, rtol=1e-12
    )  # a median is not moved by shifts
    apart = np.sqrt(np.mean((best.components[:, 2] - best.components.mean(axis=1)) ** 2))
    assert found.spread[2] == pytest.approx(np.sqrt(0.02 / 3) / apart)
    np.testing.assert_allclose(found.result.memberships[1], best.memberships[1], atol=1e-4)


def test_the_estimator_keeps_the_consensus_of_its_starts(sources):
    data = [x.T for x in sources.matrices]
    model = bjmd.BJMD(3, n_init=4, consensus=True).fit(data)
    assert model.consensus_.components.shape == (3, 12) and (model.consensus_.share > 0).all()
    assert bjmd.BJMD(3, n_init=2).fit(data).consensus_ is None
    with pytest.raises(ValueError, match="n_init"):
        bjmd.BJMD(3, n_init=1, consensus=True).fit(data)
