import numpy as np
import pytest

from bjmd.lanes import cholesky, solve


@pytest.mark.parametrize("size", [1, 2, 7, 38])
def test_every_lane_solves_its_own_system(size, rng):
    lanes = 5
    factor = rng.standard_normal((lanes, size, size + 3))
    matrices = factor @ factor.transpose(0, 2, 1)
    right = rng.standard_normal((lanes, size))
    packed = matrices.transpose(1, 2, 0).copy()
    x = right.T.copy()
    cholesky(packed)
    solve(packed, x)
    np.testing.assert_allclose(x.T, np.linalg.solve(matrices, right[:, :, None])[:, :, 0], rtol=1e-7, atol=1e-9)


def test_a_singular_matrix_gives_finite_numbers():
    packed = np.ones((3, 3, 2))
    x = np.ones((3, 2))
    cholesky(packed)
    solve(packed, x)
    assert np.isfinite(x).all()
