"""Missing entries: latent, monotone, and the same as leaving them out."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bjmd.data.sources import Sources
from bjmd.data.view import View
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd_paper.datasets import synthetic

ABLE = ["map-bjmd", "map-catbjmd", "cavi-bjmd", "cavi-catbjmd"]


def with_holes(sources, share, seed=0):
    rng = np.random.default_rng(seed)
    return Sources([np.where(rng.random(x.shape) < share, np.nan, x) for x in sources.matrices])


@pytest.fixture
def holed(make_sources):
    return with_holes(make_sources(n_features=40, n_samples=(30, 20)), 0.3)


def test_a_point_estimate_fills_in_its_fit(holed, rng):
    wt = rng.standard_normal((3, 40))
    h = [rng.random((3, n)) for n in holed.n_samples]
    for x, block in zip(holed.matrices, h, strict=True):
        view = View(x, unit=2.0, origin=np.arange(40.0))
        added = view.fill(wt, block)
        z = np.where(np.isnan(x), wt.T @ block, (x - np.arange(40.0)[:, None]) / 2)
        np.testing.assert_allclose(view.times_components(wt), wt @ z)
        np.testing.assert_allclose(added, ((wt.T @ block)[np.isnan(x)] ** 2).sum())
        assert np.isnan(x).any(), "the user's data must stay as they are"


def test_a_fifth_missing_hardly_changes_the_memberships_of_the_large_data():
    sources = synthetic.generate("large", 1.5, 4).sources
    complete = np.hstack(registry.fit("cavi-bjmd", sources, 10, seed=1).memberships)
    partial = np.hstack(registry.fit("cavi-bjmd", with_holes(sources, 0.2), 10, seed=1).memberships)
    rows, columns = linear_sum_assignment(-np.corrcoef(complete, partial)[:10, 10:])
    assert np.corrcoef(complete[rows].ravel(), partial[columns].ravel())[0, 1] > 0.98


def test_other_methods_refuse_missing_entries(holed):
    for name in registry.method_names():
        if name not in ABLE:
            with pytest.raises(
                InputError,
                match=f"method '{name}' takes no missing entries but source 'source 1' has",
            ):
                registry.fit(name, holed, 3)
