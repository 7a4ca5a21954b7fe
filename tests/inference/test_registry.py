from dataclasses import replace

import numba
import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.inference import registry
from bjmd.numerics.lanes import first_compilation


def test_every_registered_method_runs_and_fills_the_contract(make_sources):
    """Except ADVI, which takes long to compile; test_advi.py asks the same of it."""
    sources = Sources([np.abs(x) for x in make_sources().matrices])
    for name in registry.method_names():
        if name.startswith("advi"):
            continue
        result, again = (registry.fit(name, sources, 3, seed=1) for _ in range(2))
        assert result.components.shape == (12, 3), name
        assert [h.shape for h in result.memberships] == [(3, 9), (3, 7)], name
        assert result.noise is None or result.noise.shape == (2,), name
        assert np.isfinite(result.objective), name
        assert isinstance(result.converged, bool), name
        assert result.reason and result.seconds > 0, name
        assert (result.method, result.seed) == (name, 1)
        np.testing.assert_array_equal(result.components, again.components, err_msg=name)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("map-bjm", {}, "there is no method 'map-bjm'; did you mean 'map-bjmd'"),
        ("zzz", {}, "there is no method 'zzz'; known methods: advi-bjmd"),
        ("map-bjmd", {"tolerance": 1}, "method 'map-bjmd' has no option 'tolerance'"),
        ("map-bjmd", {"seed": "1"}, "seed is '1'; it must be a whole number"),
        ("map-bjmd", {"seed": True}, "seed is True"),
        ("map-bjmd", {"n_components": 100}, "n_components is 100, more than the data allow"),
        ("kmeans", {"tol": "learned"}, "tol is 'learned'; it must be a finite number"),
        *(
            (method, {"max_sweeps": 0}, "max_sweeps is 0; it")
            for method in ("map-bjmd", "semi-nmf")
        ),
        ("cavi-bjmd", {"tol": 0}, "tol is 0"),
        ("cavi-bjmd", {"priors": "thesis"}, "priors is 'thesis'; it must be one of"),
        *(
            ("cavi-bjmd", {"noise": name}, "noise is .*; it must be source, .* for example feature")
            for name in ("loud", "", "feature+feature", "feature,sample", "source+robust")
        ),
        *(
            ("cavi-bjmd", {"offsets": word}, r"offsets is .*; it must be True or False")
            for word in ("no", 1)  # both true to Python
        ),
    ],
)
def test_bad_calls(make_sources, method, options, message):
    with pytest.raises(InputError, match=message):
        registry.fit(method, make_sources(), **{"n_components": 3, **options})


def test_data_that_no_fit_can_take_are_refused(make_sources):
    matrices = make_sources().matrices
    with pytest.raises(InputError, match=r"the data are a list; give bjmd.Sources\("):
        registry.fit("map-bjmd", matrices, 3)
    sparse = Sources([scipy.sparse.csc_array(x) for x in matrices])
    with pytest.raises(InputError, match="would make sparse data dense"):
        registry.fit("cavi-bjmd", sparse, 3, noise="robust")


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


def test_more_components_than_features():
    """Three corners in two dimensions are a fair wish."""
    corners = np.array([[0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    rng = np.random.default_rng(0)
    h = rng.dirichlet([0.3] * 3, 60).T
    x = corners @ h + 0.02 * rng.standard_normal((2, 60))
    fit = registry.fit("map-bjmd", Sources([x]), 3)
    assert np.sqrt(np.mean((x - fit.components @ fit.memberships[0]) ** 2)) < 0.05


def test_compiling_is_said_once(monkeypatch, caplog):
    caplog.set_level("INFO", "bjmd")
    monkeypatch.setattr(first_compilation, "said", False)
    for _ in range(2):
        namespace = {"__name__": "bjmd_paper.new"}
        exec("def inner(x):\n    return x + 1", namespace)
        numba.njit(namespace["inner"])(np.ones(3))
    assert caplog.text.count("compiling (only in the first run)") == 1
