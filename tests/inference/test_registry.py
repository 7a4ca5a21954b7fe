from dataclasses import replace

import numba
import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.inference import registry
from bjmd.numerics.lanes import first_compilation


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
        (
            lambda s: registry.fit("map-bjm", s, 3),
            "there is no method 'map-bjm'; did you mean 'map-bjmd'",
        ),
        (lambda s: registry.fit("zzz", s, 3), "there is no method 'zzz'; known methods: advi-bjmd"),
        (
            lambda s: registry.fit("map-bjmd", s, 3, tolerance=1),
            "method 'map-bjmd' has no option 'tolerance'",
        ),
        (
            lambda s: registry.fit("map-bjmd", s, 3, seed="1"),
            "seed is '1'; it must be a whole number",
        ),
        (lambda s: registry.fit("map-bjmd", s, 3, seed=True), "seed is True"),
        (
            lambda s: registry.fit("kmeans", s, 3, tol="learned"),
            "tol is 'learned'; it must be a finite number",
        ),
        (
            lambda s: registry.fit("map-bjmd", s.matrices, 3),
            r"the data are a list; give bjmd.Sources\(",
        ),
        *(
            (lambda s, m=m: registry.fit(m, s, 3, max_sweeps=0), "max_sweeps is 0; it")
            for m in ("map-bjmd", "semi-nmf")
        ),
        (
            lambda s: registry.fit("map-bjmd", s, 100),
            "n_components is 100, more than the data allow",
        ),
    ],
)
def test_bad_calls(make_sources, call, message):
    with pytest.raises(InputError, match=message):
        call(make_sources())


def test_numbers_that_are_not_finite_never_leave_a_fit(make_sources, monkeypatch):
    plain = registry.get("kmeans")

    def broken(*args, **options):
        result = plain.fit(*args, **options)
        result.components[0, 0] = np.nan
        return result

    monkeypatch.setattr(registry, "_registered", {"kmeans": replace(plain, fit=broken)})
    with pytest.raises(FitError, match="method 'kmeans' ended with numbers that are not finite"):
        registry.fit("kmeans", make_sources(), 3)


@pytest.mark.parametrize("method", ["map-bjmd", "cavi-bjmd"])
def test_a_whole_number_larger_than_any_of_numpy_is_a_number(make_sources, method):
    large, float_ = (
        registry.fit(method, make_sources(), 2, max_sweeps=3, b0=b0) for b0 in (2**70, 2.0**70)
    )
    assert np.array_equal(large.noise, float_.noise) and np.isfinite(large.noise).all()


def test_more_components_than_features(make_sources):
    """Three corners in two dimensions are a fair wish."""
    corners = np.array([[0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    rng = np.random.default_rng(0)
    h = rng.dirichlet([0.3] * 3, 60).T
    sources = Sources([corners @ h + 0.02 * rng.standard_normal((2, 60))])
    fit = registry.fit("map-bjmd", sources, 3)
    assert np.sqrt(np.mean((sources.matrices[0] - fit.components @ fit.memberships[0]) ** 2)) < 0.05


def test_compiling_is_said_once(monkeypatch, caplog):
    caplog.set_level("INFO", "bjmd")
    monkeypatch.setattr(first_compilation, "said", False)
    for _ in range(2):
        namespace = {"__name__": "bjmd_paper.new"}
        exec("def inner(x):\n    return x + 1", namespace)
        numba.njit(namespace["inner"])(np.ones(3))
    assert caplog.text.count("compiling; first run only") == 1
