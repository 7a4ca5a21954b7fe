import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy.special import gammaln, polygamma, psi

import bjmd
from bjmd.numerics import threads
from bjmd.numerics.lanes import cholesky, gamma_functions, invert_factor, solve
from bjmd.numerics.rows import ridge_rows


@pytest.mark.parametrize("size", [1, 2, 7, 38])
def test_every_lane_has_its_own_factor_solution_and_inverse(size, rng):
    lanes = 5
    half = rng.standard_normal((lanes, size, size + 3))
    matrices = half @ half.transpose(0, 2, 1)
    right = rng.standard_normal((lanes, size))
    packed = matrices.transpose(1, 2, 0).copy()
    x = right.T.copy()
    cholesky(packed)
    solve(packed, x)
    solution = np.linalg.solve(matrices, right[:, :, None])[:, :, 0]
    np.testing.assert_allclose(x.T, solution, rtol=1e-7, atol=1e-9)
    invert_factor(packed)
    lower = np.tril(packed.transpose(2, 0, 1))
    inverse = np.linalg.inv(np.linalg.cholesky(matrices))
    np.testing.assert_allclose(lower, inverse, rtol=1e-6, atol=1e-8)


def test_a_singular_matrix_gives_finite_numbers_that_have_no_unit():
    found = []
    for unit in (1.0, 2.0**-60, 2.0**60):
        packed = np.full((3, 3, 2), unit)
        x = unit * np.array([[1.0, 2.0], [1.0, 0.5], [1.0, -1.0]])
        cholesky(packed)
        solve(packed, x)
        assert np.isfinite(x).all()
        found.append(x)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-9)


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


def test_rows_of_map_by_the_normal_equations(rng, monkeypatch):
    """More rows than lanes or than one part has, and some entries whose prior has no width."""
    monkeypatch.setattr(threads, "PART_OF_WORK", 500)
    half = rng.standard_normal((4, 9))
    precision = half @ half.T
    linear = rng.standard_normal((4, 70))
    variance = rng.uniform(0.1, 2, size=(4, 70))
    variance[2, ::3] = 0.0
    found = ridge_rows(precision, linear, variance)
    for i in range(70):
        kept = np.flatnonzero(variance[:, i])
        matrix = precision[np.ix_(kept, kept)] + np.diag(1 / variance[kept, i])
        expected = np.zeros(4)
        expected[kept] = np.linalg.solve(matrix, linear[kept, i])
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-10)


@njit
def compiled(x, out):
    gamma_functions(x, out)


POINTS = {
    "vanishing": np.geomspace(1e-30, 1e-3, 210),
    "ordinary": np.geomspace(1e-3, 50, 210),
    "large": np.geomspace(50, 1e30, 210),
    # ln Gamma is zero at 1 and 2, psi at 1.46163...
    "near the zeros": np.concatenate(
        [zero + np.linspace(-1e-3, 1e-3, 70) for zero in (1, 2, 1.4616321449683623)]
    ),
}


@pytest.mark.parametrize("name", POINTS)
def test_the_gamma_functions_agree_with_scipy(name):
    x = POINTS[name].reshape(3, 70)
    found = np.empty((4, 3, 70))
    compiled(x, found)
    expected = [gammaln(x), psi(x), polygamma(1, x), polygamma(2, x)]
    # near its zeros a function can only be right in absolute terms
    absolute = [4e-14, 4e-14, 0, 0]
    for got, want, tolerance in zip(found, expected, absolute, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-13, atol=tolerance)


def test_code_is_compiled_where_no_cache_can_be_written(tmp_path):
    """Both places for a cache are files here: folders that are read-only to all but root."""
    shutil.copytree(
        Path(bjmd.__file__).parent, tmp_path / "bjmd", ignore=lambda *_: ["__pycache__"]
    )
    (tmp_path / "bjmd/numerics/__pycache__").touch()
    code = "import numpy\nfrom bjmd.numerics import moments\n"
    code += "print(moments.column_moments(numpy.ones((1, 2))).tolist())"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": "/dev/null"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert run.stdout == "[[1.0], [1.0]]\n", run.stderr
