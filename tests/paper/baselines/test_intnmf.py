import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry


def squared_errors(sources, result):
    return [
        ((x - result.components @ h) ** 2).sum()
        for x, h in zip(sources.matrices, result.memberships, strict=True)
    ]


def test_equal_weights_are_joint_nmf(nonnegative):
    plain = registry.fit("jnmf", nonnegative, 3, seed=1)
    weighted = registry.fit("intnmf", nonnegative, 3, seed=1, weights=[1, 1])
    np.testing.assert_array_equal(plain.components, weighted.components)
    np.testing.assert_array_equal(np.hstack(plain.memberships), np.hstack(weighted.memberships))
    assert plain.objective == weighted.objective


def test_the_objective_is_the_weighted_error(nonnegative):
    result = registry.fit("intnmf", nonnegative, 3, weights=[0.5, 3.0])
    np.testing.assert_allclose(
        result.objective, np.dot([0.5, 3.0], squared_errors(nonnegative, result)), rtol=1e-8
    )


def test_every_factor_is_stationary_in_the_weighted_error(nonnegative):
    theta = [0.2, 5.0]
    result = registry.fit("intnmf", nonnegative, 3, weights=theta, tol=1e-14, max_sweeps=100_000)
    w = result.components
    blocks = list(zip(theta, nonnegative.matrices, result.memberships, strict=True))
    slopes = [(w, sum(t * (w @ h - x) @ h.T for t, x, h in blocks))] + [
        (h, w.T @ (w @ h - x)) for _, x, h in blocks
    ]
    for factor, slope in slopes:
        assert np.abs(slope[factor > 0]).max() <= 1e-4
        assert slope[factor == 0].min(initial=0) >= -1e-4


def test_the_default_weights_are_one_over_the_variance(nonnegative):
    by_hand = [1 / np.var(x) for x in nonnegative.matrices]
    one, other = (
        registry.fit("intnmf", nonnegative, 3, weights=weights) for weights in ("variance", by_hand)
    )
    np.testing.assert_allclose(one.components, other.components, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("weights", ["noise", [1.0], [1.0, 0.0], [1.0, np.inf], ["a", "b"]])
def test_refusals(nonnegative, weights):
    with pytest.raises(InputError, match=r"it must be .* for each of the 2 sources"):
        registry.fit("intnmf", nonnegative, 3, weights=weights)


def test_a_constant_source_has_no_weight_of_its_own(nonnegative):
    sources = Sources([nonnegative.matrices[0], np.full((12, 4), 0.1)])
    with pytest.raises(InputError, match="all entries of source 'source 2' are equal"):
        registry.fit("intnmf", sources, 3)
