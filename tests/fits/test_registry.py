import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.fits import registry


def test_every_registered_method_runs_and_fills_the_contract(make_sources):
    sources = Sources([np.abs(x) for x in make_sources().matrices])
    fast = {"advi-bjmd": {"max_iterations": 200}, "advi-catbjmd": {"max_iterations": 200}}
    for name in registry.method_names():
        result = registry.fit(name, sources, 3, seed=1, **fast.get(name, {}))
        assert result.components.shape == (12, 3), name
        assert [h.shape for h in result.memberships] == [(3, 9), (3, 7)], name
        assert np.isfinite(result.components).all(), name
        assert result.noise is None or result.noise.shape == (2,), name
        assert np.isfinite(result.objective), name
        assert isinstance(result.converged, bool), name
        assert result.reason and result.seconds > 0, name
        assert (result.method, result.seed) == (name, 1)
        again = registry.fit(name, sources, 3, seed=1, **fast.get(name, {}))
        np.testing.assert_array_equal(result.components, again.components, err_msg=name)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: registry.fit("map-bjm", s, 3), "there is no method 'map-bjm'; did you mean 'map-bjmd'"),
        (lambda s: registry.fit("zzz", s, 3), "there is no method 'zzz'; known methods: map-bjmd"),
        (lambda s: registry.fit("map-bjmd", s, 3, tolerance=1), "method 'map-bjmd' has no option 'tolerance'"),
        (lambda s: registry.fit("map-bjmd", s, 3, seed="1"), "seed is '1'; it must be a whole number"),
        (lambda s: registry.fit("map-bjmd", s, 3, seed=True), "seed is True"),
        (lambda s: registry.fit("map-bjmd", s.matrices, 3), r"the data are a list; give bjmd.Sources\("),
        (lambda s: registry.fit("map-bjmd", s, 100), "n_components is 100, more than the data allow"),
    ],
)
def test_bad_calls(make_sources, call, message):
    with pytest.raises(InputError, match=message):
        call(make_sources())
