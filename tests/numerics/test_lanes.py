import numpy as np
import pytest

from bjmd.numerics.lanes import cholesky, invert_factor, solve
from bjmd.numerics.rows import whiten


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
    np.testing.assert_allclose(
        x.T, np.linalg.solve(matrices, right[:, :, None])[:, :, 0], rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize("size", [1, 2, 7])
def test_every_lane_is_whitened_by_its_own_roots(size, rng):
    half = rng.standard_normal((size, size + 3))
    precision = half @ half.T
    root = rng.random((size, 4))
    root[0, 0] = 0.0  # an entry without a variance
    matrix = np.empty((size, size, 4))
    whiten(precision, np.ones(4), np.empty((0, 4)), root, matrix)
    for lane in range(4):
        d = np.diag(root[:, lane])
        np.testing.assert_allclose(
            np.tril(matrix[:, :, lane]), np.tril(np.eye(size) + d @ precision @ d), rtol=1e-14
        )


def test_a_singular_matrix_gives_finite_numbers():
    packed = np.ones((3, 3, 2))
    x = np.ones((3, 2))
    cholesky(packed)
    solve(packed, x)
    assert np.isfinite(x).all()


@pytest.mark.parametrize("size", [1, 2, 7, 38])
def test_the_inverted_factor_gives_the_inverse(size, rng):
    lanes = 5
    half = rng.standard_normal((lanes, size, size + 3))
    matrices = half @ half.transpose(0, 2, 1)
    packed = matrices.transpose(1, 2, 0).copy()
    cholesky(packed)
    invert_factor(packed)
    lower = np.tril(packed.transpose(2, 0, 1))
    np.testing.assert_allclose(
        lower, np.linalg.inv(np.linalg.cholesky(matrices)), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        lower.transpose(0, 2, 1) @ lower @ matrices, [np.eye(size)] * lanes, atol=1e-8
    )


def test_the_smallest_pivot_tells_definite_from_indefinite():
    """Pivots over diagonal entries by hand: 1 and 1 - 1/4, 1 and 1 - 4, 1 and 1 - 1, -1 and (2 +
    1)/2.
    """
    matrices = np.array(
        [[[1, 0.5], [0.5, 1]], [[1, 2], [2, 1]], [[1, 1], [1, 1]], [[-1, 1], [1, 2]]]
    )
    smallest = cholesky(matrices.transpose(1, 2, 0).copy())
    np.testing.assert_allclose(smallest[:3], [0.75, -3, 0])
    assert smallest[3] <= -1
