"""The logarithm of many numbers at once against NumPy's."""

import numpy as np
import pytest

from bjmd.numerics.logarithm import logarithms

RNG = np.random.default_rng(0)
NUMBERS = {
    "all sizes": np.exp(RNG.uniform(-706, 709, 5000)),
    "around 1": RNG.uniform(0.4, 2.5, 5000),
    "near 1": 1 + 1e-7 * RNG.standard_normal(500),
    "where the halves meet": np.nextafter(
        np.sqrt(0.5) * 2.0 ** np.arange(-20, 20), RNG.choice([0, 9e9], 40)
    ),
    "powers of 2": 2.0 ** np.arange(-1000, 1000),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_agrees_with_numpy(name):
    x = NUMBERS[name]
    out = np.empty_like(x)
    logarithms(x, out, np.empty_like(x))
    np.testing.assert_allclose(out, np.log(x), rtol=1e-15, atol=0)
