"""Momentum: quicker on slow maps, bounded, still at a fixed point, and more careful after every
harm.
"""

import numpy as np

from bjmd.inference.momentum import (
    FIRST_SHARE,
    GROWTH,
    GROWTH_OF_CEILING,
    HIGHEST_SHARE,
    LONGEST,
    SHRINKAGE,
    Momentum,
)


def linear_map(rates, seed=0):
    """x -> fixed + A (x - fixed) with the given eigenvalues, and its fixed point."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((len(rates), len(rates)))).Q
    fixed = rng.standard_normal(len(rates))
    return lambda x: fixed + axes @ (rates * (axes.T @ (x - fixed))), fixed


def share_of(momentum, step=1e-3):
    """The share that the momentum takes of the next step of one number."""
    end = momentum._last + step
    return ((momentum.beyond(end) - end) / step).item()


def started():
    momentum = Momentum()
    momentum.beyond(np.zeros(1))
    return momentum


def test_the_first_step_is_a_plain_one():
    end = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(Momentum().beyond(end), end)


def test_the_share_grows_while_it_goes_well_and_up_to_its_ceiling():
    momentum = started()
    shares = [share_of(momentum) for _ in range(100)]
    np.testing.assert_allclose(shares[:3], FIRST_SHARE * GROWTH ** np.arange(3))
    assert max(shares) <= HIGHEST_SHARE * (1 + 1e-9)
    np.testing.assert_allclose(shares[-1], HIGHEST_SHARE)


def test_after_harm_the_way_leads_back_and_the_share_is_smaller_for_long():
    momentum = started()
    shares = [share_of(momentum) for _ in range(10)]
    end = momentum._last.copy()
    np.testing.assert_array_equal(momentum.undo(), end)
    after = [share_of(momentum) for _ in range(10)]
    np.testing.assert_allclose(after[0], shares[-1] / SHRINKAGE)
    assert max(after) < shares[-1] * 1.1  # the ceiling rises slowly
    np.testing.assert_allclose(
        [share_of(momentum) for _ in range(200)][-1], HIGHEST_SHARE
    )  # but it does rise


def test_the_ceiling_after_harm_holds_the_share_down_and_rises_by_a_hundredth_a_step():
    momentum = started()
    harmful = [share_of(momentum) for _ in range(10)][-1]
    momentum.undo()
    free = harmful / SHRINKAGE * GROWTH ** np.arange(25)
    ceiling = harmful * GROWTH_OF_CEILING ** np.arange(25)
    assert (free > ceiling).any() and ceiling[-1] < HIGHEST_SHARE, (
        "the ceiling must be reached, and be a low one"
    )
    np.testing.assert_allclose([share_of(momentum) for _ in range(25)], np.minimum(free, ceiling))


def test_harm_twice_in_a_row_shrinks_the_share_twice():
    momentum = started()
    first = share_of(momentum)
    momentum.undo()
    share_of(momentum)
    momentum.undo()
    np.testing.assert_allclose(share_of(momentum), first / SHRINKAGE**2)


def test_a_slow_map_gets_quick():
    """Steepest descent on a quadratic, undone where the distance rises."""
    phi, fixed = linear_map(np.linspace(0, 0.99, 40))
    momentum = Momentum()
    plain = x = fixed + 0.1
    best = np.inf
    for _ in range(100):
        plain = phi(plain)
        end = phi(x)
        distance = np.linalg.norm(end - fixed)
        if distance > best:
            x = momentum.undo()
        else:
            best = distance
            x = momentum.beyond(end)
    assert best < 1e-1 * np.linalg.norm(plain - fixed)


def test_no_entry_moves_further_than_allowed():
    momentum = Momentum()
    momentum.beyond(np.zeros(2))
    end = np.array([1000.0, -1.0])
    np.testing.assert_allclose(momentum.beyond(end) - end, [LONGEST, -FIRST_SHARE])


def test_a_fixed_point_is_not_left():
    momentum = Momentum()
    for _ in range(3):
        np.testing.assert_array_equal(momentum.beyond(np.ones(2)), np.ones(2))
