import numpy as np
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd_paper.nonnegative import nonnegative

DATA = [np.array([[-1.0, 2.0], [3.0, 4.0]]), np.array([[0.0], [-5.0]])]


def test_clip_and_shift():
    np.testing.assert_array_equal(nonnegative(Sources(DATA), "clip").matrices[1], [[0], [0]])
    shifted = nonnegative(Sources(DATA), "shift").matrices
    np.testing.assert_array_equal(shifted[0], [[0, 3], [8, 9]])
    np.testing.assert_array_equal(shifted[1], [[1], [0]])
    assert nonnegative(Sources(DATA), "as-is").matrices[0] is DATA[0]


def test_clip_keeps_sparse_sparse():
    sources = Sources([scipy.sparse.csc_array(DATA[0])], labels=[np.eye(2)], class_names=["a", "b"])
    clipped = nonnegative(sources, "clip")
    assert scipy.sparse.issparse(clipped.matrices[0])
    assert clipped.class_names == ["a", "b"]
    assert clipped.matrices[0].min() == 0
