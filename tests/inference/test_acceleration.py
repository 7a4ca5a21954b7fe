"""Anderson acceleration: exact on small linear maps, quicker on slow ones, bounded, and able to go back."""

import numpy as np

from bjmd.inference.acceleration import LONGEST, MEMORY, Accelerator


def linear_map(rates, seed=0):
    """x -> fixed + A (x - fixed) with the given eigenvalues, and its fixed point."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((len(rates), len(rates)))).Q
    fixed = rng.standard_normal(len(rates))
    return lambda x: fixed + axes @ (rates * (axes.T @ (x - fixed))), fixed


def iterate(phi, x, n, accelerator=None):
    for _ in range(n):
        after = phi(x)
        x = after if accelerator is None else accelerator.extrapolate(x, after)
    return x


def test_the_first_step_is_a_plain_one():
    before, after = np.zeros(3), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(Accelerator().extrapolate(before, after), after)


def test_a_linear_map_of_few_dimensions_is_solved():
    """n + 1 sweeps determine an affine map of n dimensions along its path, and so its fixed point."""
    phi, fixed = linear_map(np.array([0.9, 0.5, -0.3]))
    start = fixed + 0.1
    assert np.abs(iterate(phi, start, 4) - fixed).max() > 0.03
    np.testing.assert_allclose(iterate(phi, start, 4, Accelerator()), fixed, atol=1e-5)


def test_a_slow_map_gets_quick():
    phi, fixed = linear_map(np.linspace(0, 0.99, 40))
    start = fixed + 0.1
    plain = np.linalg.norm(iterate(phi, start, 60) - fixed)
    accelerated = np.linalg.norm(iterate(phi, start, 60, Accelerator()) - fixed)
    assert accelerated < 1e-2 * plain


def test_no_entry_moves_further_than_allowed():
    """A map that hardly moves promises a fixed point far away."""
    phi, fixed = linear_map(np.full(3, 1 - 1e-9))
    before = fixed + 1000.0
    accelerator = Accelerator()
    first = accelerator.extrapolate(before, phi(before))
    after = phi(first)
    jump = accelerator.extrapolate(first, after) - after
    np.testing.assert_allclose(np.abs(jump), LONGEST)


def test_a_fixed_point_is_not_left():
    phi, fixed = linear_map(np.array([0.5, 0.2]))
    accelerator = Accelerator()
    for x in (fixed + 1.0, fixed + 0.5, fixed):
        at = accelerator.extrapolate(x, phi(x))
    np.testing.assert_allclose(at, fixed, atol=1e-12)


def test_restart_goes_back_to_the_last_sweep_and_forgets_the_rest():
    phi, fixed = linear_map(np.array([0.9, 0.5, 0.1]))
    accelerator = Accelerator()
    x = fixed + 1.0
    for _ in range(4):
        after = phi(x)
        x = accelerator.extrapolate(x, after)
    np.testing.assert_array_equal(accelerator.restart(), after)
    fresh = Accelerator()
    before = phi(after)
    # one earlier sweep is left, as in an accelerator that saw that sweep alone
    fresh._swept, fresh._residuals = list(accelerator._swept), list(accelerator._residuals)
    assert len(fresh._swept) == 1
    np.testing.assert_array_equal(accelerator.extrapolate(after, before), fresh.extrapolate(after, before))


def test_memory_is_bounded():
    phi, fixed = linear_map(np.linspace(0, 0.9, 8))
    accelerator = Accelerator()
    iterate(phi, fixed + 1.0, 30, accelerator)
    assert len(accelerator._swept) == len(accelerator._residuals) == MEMORY + 1


def test_sweeps_that_move_alike_give_finite_numbers():
    """Two identical changes make a singular system."""
    accelerator = Accelerator()
    for i in range(5):
        x = np.full(3, float(i))
        at = accelerator.extrapolate(x, x + 1)
    assert np.isfinite(at).all()
