"""What "auto" chooses: nothing on data of the model, the right part on data broken in one way."""

import numpy as np
import pytest
import scipy.sparse

from bjmd.analysis import automatic
from bjmd.data.sources import Sources
from bjmd.errors import InputError

AUTO = {"noise": "auto", "offsets": "auto"}


def draw(seed, change=lambda x, c, rng: x):
    """Three sources of 40 features; change(noise, source, rng) breaks their noise."""
    rng = np.random.default_rng(seed)
    components = 2 * rng.laplace(size=(40, 3))
    matrices = []
    for c, n in enumerate((40, 30, 30)):
        noise = change(
            (0.5 + 0.2 * c) * rng.standard_normal((40, n)), c, np.random.default_rng(seed)
        )
        matrices.append(components @ rng.dirichlet(np.ones(3), n).T + noise)
    return Sources(matrices)


def chosen(sources, options=AUTO):
    return automatic.resolved("cavi-bjmd", sources, 3, options, jobs=2)


BROKEN = {
    ("source", False): lambda x, c, rng: x,
    ("feature", False): lambda x, c, rng: x * np.where(np.arange(40) % 8 == 0, 6.0, 1.0)[:, None],
    ("sample", False): lambda x, c, rng: x * np.exp(0.8 * rng.standard_normal(x.shape[1])),
    ("robust", False): lambda x, c, rng: np.where(rng.random(x.shape) < 0.01, 40.0, x),
    ("source", True): lambda x, c, rng: x + (c == 1) * rng.standard_normal((40, 1)),
}


@pytest.mark.parametrize("expected", BROKEN)
def test_the_right_model_is_chosen(expected):
    options, choice = chosen(draw(3, BROKEN[expected]), {**AUTO, "tol": 1e-5})
    assert (options["noise"], options["offsets"]) == (choice.noise, choice.offsets) == expected
    assert options["tol"] == 1e-5
    table = choice.table.set_index(["noise", "offsets"])
    assert table["heldout"].is_monotonic_decreasing and not table.loc[expected, "below"]
    if expected == ("source", False):
        assert "nothing beyond it predicts held-out entries clearly better" in str(choice)
    else:
        gain, error = table.loc[("source", False), ["below", "standard_error"]]
        assert gain > automatic.ENOUGH * error
        assert f"better than noise source without offsets by {gain:.2g} ± {error:.1g} nats" in str(
            choice
        )


def test_what_is_given_stays():
    options, choice = chosen(
        draw(3, BROKEN["source", True]), {"noise": "feature", "offsets": "auto"}
    )
    assert options == {"noise": "feature", "offsets": True}
    assert set(choice.table["noise"]) == {"feature"}
    assert chosen(draw(3), {"noise": "robust", "offsets": True}) == (
        {"noise": "robust", "offsets": True},
        None,
    )


def test_jobs_are_nothing_to_the_choice():
    sources = draw(5, BROKEN["feature", False])
    tables = [
        automatic.resolved("cavi-bjmd", sources, 3, {**AUTO, "max_sweeps": 15}, jobs=jobs)[1].table
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(tables[0]["heldout"], tables[1]["heldout"])


def test_robust_noise_is_not_tried_on_sparse_data():
    sparse = Sources([scipy.sparse.csr_array(np.maximum(x, 0)) for x in draw(0).matrices])
    choice = automatic.resolved("cavi-bjmd", sparse, 3, {**AUTO, "max_sweeps": 5})[1]
    assert len(choice.table) > 2
    assert not choice.table["noise"].str.contains("robust").any()


def test_what_cannot_hold_out_entries_is_refused():
    with pytest.raises(InputError, match="'map-bjmd' has no option 'noise'"):
        automatic.resolved("map-bjmd", draw(0), 3, AUTO)
