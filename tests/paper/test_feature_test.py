import numpy as np
import pytest
import scipy.sparse
from scipy.stats import chi2

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd_paper.feature_test import feature_table, filtered, threshold


@pytest.fixture
def sources(rng):
    """Forty features of noise (sd 2 and 3) of which the first five have signal in both sources, the
    sixth in one.
    """
    noise = [2 * rng.standard_normal((40, 60)), 3 * rng.standard_normal((40, 80))]
    signal = [np.zeros((40, 60)), np.zeros((40, 80))]
    for block in signal:
        block[:5] = 9 * rng.standard_normal((5, block.shape[1]))
    signal[0][5] = 9 * rng.standard_normal(60)
    return Sources([a + b for a, b in zip(noise, signal, strict=True)], names=["a", "b"])


def test_by_hand(sources):
    table = feature_table(sources, [2.0, 3.0])
    x = sources.matrices[0][7]
    statistic = 59 * ((x - x.mean()) ** 2).sum() / 59 / 4
    assert table.loc[7, "statistic a"] == pytest.approx(statistic)
    assert table.loc[7, "p a"] == pytest.approx(1 - chi2.cdf(statistic, 59), abs=1e-12)


def test_all_and_any(sources):
    np.testing.assert_array_equal(
        np.flatnonzero(feature_table(sources, [2.0, 3.0])["kept"]), range(5)
    )
    np.testing.assert_array_equal(
        np.flatnonzero(feature_table(sources, [2.0, 3.0], rule="any")["kept"]), range(6)
    )


def test_the_threshold_is_where_the_decision_turns(sources):
    limits = threshold(sources, [2.0, 3.0], 0.05)
    table = feature_table(sources, [2.0, 3.0])
    for name, limit in zip(("a", "b"), limits, strict=True):
        np.testing.assert_array_equal(table[f"passes {name}"], table[f"variance {name}"] > limit)


def test_false_alarms_are_as_rare_as_promised(rng):
    """Noise alone: at level 0.5 about 40 % of the data sets (1 - exp(-0.5)) have a feature that
    passes by chance.
    """
    alarms = [
        feature_table(Sources([rng.standard_normal((30, 20))]), [1.0], level=0.5)["kept"].any()
        for _ in range(400)
    ]
    assert abs(np.mean(alarms) - (1 - np.exp(-0.5))) < 0.1


def test_the_kept_features_of_sparse_data_are_those_of_dense_ones(sources):
    sparse = Sources([scipy.sparse.csr_array(x) for x in sources.matrices], names=["a", "b"])
    dense_table = feature_table(sources, [2.0, 3.0])
    sparse_table = feature_table(sparse, [2.0, 3.0])
    np.testing.assert_allclose(dense_table["variance b"], sparse_table["variance b"], rtol=1e-10)
    small = filtered(sparse, sparse_table["kept"])
    np.testing.assert_array_equal(small.matrices[1].toarray(), sources.matrices[1][:5])
    assert small.feature_names == sources.feature_names[:5]
    with pytest.raises(InputError, match="no feature passes"):
        filtered(sources, np.zeros(40))
