import numpy as np
import pytest
import scipy.sparse

from bjmd.data.assembly import divided, scales
from bjmd.data.sources import Sources
from bjmd.errors import InputError

DATA = [np.array([[-1.0, 2.0], [3.0, 4.0]]), np.array([[0.0], [-5.0]])]


def test_scales_are_those_of_the_observed_entries():
    x = np.array([[1.0, np.nan], [3.0, 5.0]])
    sources = Sources([x, scipy.sparse.csc_array([[0.0, 4.0], [0.0, 2.0]])])
    np.testing.assert_allclose(scales(sources, "mean"), [3, 1.5], rtol=1e-15)
    np.testing.assert_allclose(scales(sources, "rms"), np.sqrt([35 / 3, 5]), rtol=1e-15)
    np.testing.assert_array_equal(scales(sources, "none"), [1, 1])
    halves = divided(sources, [2, 4])
    np.testing.assert_array_equal(halves.matrices[0], x / 2)
    np.testing.assert_array_equal(halves.matrices[1].toarray(), [[0, 1], [0, 0.5]])


def test_a_scale_that_is_not_positive_is_refused():
    with pytest.raises(
        InputError, match=r"source 'source 2' has mean -2.5, by which it cannot be divided"
    ):
        scales(Sources(DATA), "mean")
