"""The search: rounds of ever fewer runs, ever further, each of which can be repeated by itself."""

import numpy as np
import pytest

from bjmd import BJMD
from bjmd.errors import InputError
from bjmd.inference import registry, restarts


def equal(a, b):
    return (
        np.array_equal(a.components, b.components)
        and np.array_equal(a.trace, b.trace)
        and a.options == b.options
    )


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("map-bjmd", {}),
        ("cavi-bjmd", {}),
        ("cavi-bjmd", {"noise": "feature+robust", "offsets": True, "alpha0": "learned"}),
    ],
)
def test_every_run_is_the_single_fit_of_its_seed_and_tolerance(make_sources, method, options):
    """Though it was stopped and went on, with missing entries too; and the further a run went, the
    better it was.
    """
    x = [
        np.where(np.arange(x.size).reshape(x.shape) % 11, x, np.nan)
        for x in make_sources(n_samples=(40, 30)).matrices
    ]
    sources = type(make_sources())(x)
    found = restarts.search(method, sources, 3, n_restarts=20, seed=5, tol=1e-5, **options)
    assert [run.seed for run in found] == [*range(5, 13)]
    assert sorted(run.options["tol"] for run in found) == pytest.approx(
        [1e-7, *[1e-5] * 3, *[3e-5] * 4]
    )
    for run in found:
        assert equal(run, registry.fit(method, sources, 3, seed=run.seed, **run.options))
        assert run.seconds > 0
    for factor, n in ((3.0, 4), (1.0, 1)):
        there = [run for run in found if run.options["tol"] <= factor * 1e-5]
        then = [
            registry.fit(method, sources, 3, seed=run.seed, **{**run.options, "tol": factor * 1e-5})
            for run in there
        ]
        further = {run.seed for run in there if run.options["tol"] < factor * 1e-5}
        assert further == {run.seed for run in restarts.best(then, n)}


def test_the_number_of_threads_changes_nothing(make_sources):
    sources = make_sources(n_samples=(40, 30))
    one, two = (
        restarts.search("cavi-bjmd", sources, 3, n_restarts=20, jobs=jobs) for jobs in (1, 2)
    )
    assert all(equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("cavi-bjmd", {"n_restarts": 19}),
        ("cavi-bjmd", {"priors": "paper"}),
        ("map-bjmd", {"prior": "hierarchical", "max_sweeps": 5}),
        ("kmeans", {}),
    ],
)
def test_where_a_search_makes_no_sense_restarts_are_plain(make_sources, method, options):
    sources = make_sources()
    options = {"n_restarts": 20, **options}
    found, plain = (run(method, sources, 2, **options) for run in (restarts.search, restarts.run))
    assert len(found) == options["n_restarts"]
    assert all(equal(a, b) for a, b in zip(found, plain, strict=True))


def test_a_long_run_that_met_the_tolerance_asked_for_has_converged(make_sources):
    """The limit of sweeps may end a run far beyond the tolerance that was asked for, but not one
    that is before it.
    """
    sources = make_sources(n_samples=(40, 30))
    short, long = (
        restarts.best(
            restarts.search("cavi-bjmd", sources, 3, n_restarts=20, tol=1e-4, max_sweeps=limit), 1
        )[0]
        for limit in (3, 25)
    )
    assert short.reason == "stopped at max_sweeps = 3" and not short.converged
    assert (
        long.reason == "stopped at max_sweeps = 25, with changes per entry below tol = 0.0001"
        and long.converged
    )


def test_a_number_of_restarts_that_cannot_be_meant_is_refused(make_sources):
    with pytest.raises(InputError, match="10,000 restarts are the most"):
        restarts.search("cavi-bjmd", make_sources(), 2, n_restarts=10**400)
    with pytest.raises(InputError, match="n_restarts is"):
        restarts.search("cavi-bjmd", make_sources(), 2, n_restarts="20")


def test_the_estimator_searches_unless_told_otherwise(make_sources):
    data = [x.T for x in make_sources(n_samples=(40, 30)).matrices]
    found = BJMD(3, n_init=20).fit(data)
    assert found.restarts_.shape == (8,) and found.decomposition_.options["tol"] == 1e-8
    for options in ({"search": False}, {"consensus": True}):
        plain = BJMD(3, n_init=20, **options).fit(data)
        assert plain.restarts_.shape == (20,) and "tol" not in plain.decomposition_.options
