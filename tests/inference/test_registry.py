import functools
import time

import numba
import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.inference import compilation, registry
from bjmd.inference import map as map_bjmd


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
        (lambda s: registry.fit("zzz", s, 3), "there is no method 'zzz'; known methods: map-bjmd"),
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
    from bjmd_paper.baselines import kmeans

    plain = kmeans.fit

    def broken(*args, **options):
        result = plain(*args, **options)
        result.components[0, 0] = np.nan
        return result

    monkeypatch.setattr(kmeans, "fit", broken)
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


@pytest.mark.parametrize("package", compilation.OURS)
def test_compiling_is_said_once_and_not_counted(package, make_sources, monkeypatch, caplog):
    """A fit that waits for the compiler says so, and its seconds are those of a fit that does not."""
    registry.fit(
        "map-bjmd", make_sources(), 2
    )  # so that nothing else has to be compiled or loaded below
    caplog.set_level("INFO", "bjmd")
    monkeypatch.setattr(compilation.Compilation, "said", False)
    fit = map_bjmd.fit
    n_waits = 2
    spent = []

    def waiting(*arguments, **options):
        if len(spent) < n_waits:
            before = time.thread_time()
            namespace = {"__name__": f"{package}.new"}
            exec(
                "def inner(x):\n    return x + 1\ndef outer(x):\n    return inner(x).sum()",
                namespace,
            )
            namespace["inner"] = numba.njit(namespace["inner"])
            numba.njit(namespace["outer"])(np.ones(3))
            spent.append(time.thread_time() - before)
        return fit(*arguments, **options)

    monkeypatch.setattr(map_bjmd, "fit", functools.wraps(fit)(waiting))
    seconds = [registry.fit("map-bjmd", make_sources(), 2).seconds for _ in range(n_waits + 1)]
    for waited, taken in zip(spent, seconds[:n_waits], strict=True):
        assert 0 < taken < 0.5 * waited + seconds[-1]
    assert caplog.text.count("compiling, once after an installation") == 1
