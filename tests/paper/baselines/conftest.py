import numpy as np
import pytest

from bjmd.data.sources import Sources


@pytest.fixture
def nonnegative(make_sources):
    return Sources([np.abs(x) for x in make_sources(n_samples=(20, 15)).matrices])
