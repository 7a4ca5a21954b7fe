"""Restarts, and the search: rounds of ever fewer runs, ever further, each of which can be repeated
by itself.
"""

import logging

import numpy as np
import pytest

from bjmd import BJMD
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry, restarts
from bjmd.results.decomposition import Decomposition


def equal(a, b):
    return (
        np.array_equal(a.components, b.components)
        and np.array_equal(a.trace, b.trace)
        and a.options == b.options
    )


@pytest.mark.parametrize("search", [False, True])
def test_the_number_of_threads_changes_nothing(make_sources, search):
    sources = make_sources(n_samples=(40, 30))
    options = {"n_restarts": 20, "seed": 5, "search": search}
    one, two = (restarts.run("cavi-bjmd", sources, 3, jobs=jobs, **options) for jobs in (1, 2))
    assert [run.seed for run in one] == [*range(5, 5 + len(one))]
    assert all(equal(a, b) for a, b in zip(one, two, strict=True))
    for result in one[:3]:
        assert equal(
            result, registry.fit("cavi-bjmd", sources, 3, seed=result.seed, **result.options)
        )


def test_best_is_by_objective_then_seed():
    empty = np.empty((1, 1))
    runs = [
        Decomposition(empty, [empty], None, objective, empty[0], True, "", 0.0, seed=seed)
        for seed, objective in enumerate([3.0, 1.0, 1.0, 2.0])
    ]
    assert [run.seed for run in restarts.best(runs, 3)] == [1, 2, 3]
    with pytest.raises(InputError, match="the best 5 of 4 restarts"):
        restarts.best(runs, 5)


def test_log_lines_where_there_is_no_terminal(make_sources, caplog):
    with caplog.at_level(logging.INFO):
        restarts.run("map-bjmd", make_sources(), 2, n_restarts=2)
    # not what is said where the code had to be compiled first
    records = [record for record in caplog.records if record.name == restarts.log.name]
    assert [record.getMessage().split(":")[0:2] for record in records] == [
        ["map-bjmd", " restart 1 of 2 (seed 0)"],
        ["map-bjmd", " restart 2 of 2 (seed 1)"],
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha0": 0.5}, "alpha0"),  # in a thread of its own
        ({"n_restarts": 10**400}, "10,000 restarts are the most"),
        ({"n_restarts": "20"}, "n_restarts is"),
    ],
)
def test_a_mistake_fails_the_run(make_sources, options, message):
    with pytest.raises(InputError, match=message):
        restarts.run("map-bjmd", make_sources(), 2, **{"n_restarts": 3, **options})


@pytest.mark.parametrize(
    ("method", "options"),
    [("map-bjmd", {}), ("cavi-bjmd", {}), ("cavi-bjmd", {"noise": "feature+robust"})],
)
def test_every_run_of_a_search_is_the_single_fit_of_its_seed_and_tolerance(
    make_sources, method, options
):
    """Though it was stopped and went on, with missing entries too; and the best went further."""
    sources = Sources(
        [
            np.where(np.arange(x.size).reshape(x.shape) % 11, x, np.nan)
            for x in make_sources(n_samples=(40, 30)).matrices
        ]
    )

    def single(run, **changes):
        return registry.fit(method, sources, 3, seed=run.seed, **{**run.options, **changes})

    found = restarts.run(
        method, sources, 3, n_restarts=20, seed=5, search=True, tol=1e-5, **options
    )
    assert sorted(run.options["tol"] for run in found) == pytest.approx(
        [1e-7, *[1e-5] * 3, *[3e-5] * 4]
    )
    for run in found:
        assert equal(run, single(run))
        assert run.seconds > 0
    for tol, n in ((3e-5, 4), (1e-5, 1)):
        there = [run for run in found if run.options["tol"] <= 1.01 * tol]
        further = {run.seed for run in there if run.options["tol"] < 0.99 * tol}
        best = restarts.best([single(run, tol=tol) for run in there], n)
        assert further == {run.seed for run in best}


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
    options = {"n_restarts": 20, **options}
    found, plain = (
        restarts.run(method, make_sources(), 2, search=search, **options)
        for search in (True, False)
    )
    assert len(found) == options["n_restarts"]
    assert all(equal(a, b) for a, b in zip(found, plain, strict=True))


def test_a_long_run_that_met_the_tolerance_asked_for_has_converged(make_sources):
    """The limit of sweeps may end a run far beyond the tolerance that was asked for, but not one
    that is before it.
    """
    sources = make_sources(n_samples=(40, 30))
    options = {"n_restarts": 20, "tol": 1e-4}
    short, long = (
        restarts.best(
            restarts.run("cavi-bjmd", sources, 3, search=True, max_sweeps=limit, **options), 1
        )[0]
        for limit in (3, 25)
    )
    assert short.reason == "stopped at max_sweeps = 3" and not short.converged
    assert (
        long.reason == "stopped at max_sweeps = 25, with changes per entry below tol = 0.0001"
        and long.converged
    )


def test_the_estimator_searches_unless_told_otherwise(make_sources):
    data = [x.T for x in make_sources().matrices]
    options = {"n_init": 20, "tol": 1e-3}
    found = BJMD(2, **options).fit(data)
    assert found.restarts_.shape == (8,) and found.decomposition_.options["tol"] == 1e-5
    for plainly in ({"search": False}, {"consensus": True}):
        plain = BJMD(2, **options, **plainly).fit(data)
        assert plain.restarts_.shape == (20,) and plain.decomposition_.options["tol"] == 1e-3
