import logging

import numpy as np
import pytest

from bjmd.errors import InputError
from bjmd.inference import registry, restarts
from bjmd.results.decomposition import Decomposition


def test_restarts_are_the_single_fits_whatever_the_number_of_threads(make_sources):
    sources = make_sources(n_samples=(40, 30))
    one = restarts.run("map-bjmd", sources, 3, n_restarts=6, seed=5, jobs=1, tol=1e-6)
    two = restarts.run("map-bjmd", sources, 3, n_restarts=6, seed=5, jobs=2, tol=1e-6)
    assert [run.seed for run in one] == [5, 6, 7, 8, 9, 10]
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        single = registry.fit("map-bjmd", sources, 3, seed=5 + i, tol=1e-6)
        for result in (b, single):
            np.testing.assert_array_equal(a.components, result.components)
            np.testing.assert_array_equal(a.trace, result.trace)


def result(seed, objective):
    empty = np.empty((1, 1))
    return Decomposition(
        empty, [empty], None, objective, np.array([objective]), True, "", 0.0, seed=seed
    )


def test_best_is_by_objective_then_seed():
    runs = [result(0, 3.0), result(1, 1.0), result(2, 1.0), result(3, 2.0)]
    assert [run.seed for run in restarts.best(runs, 3)] == [1, 2, 3]


def test_best_of_too_few():
    with pytest.raises(InputError, match="the best 2 of 1 restarts"):
        restarts.best([result(0, 1.0)], 2)


def test_log_lines_where_there_is_no_terminal(make_sources, caplog):
    with caplog.at_level(logging.INFO):
        restarts.run("map-bjmd", make_sources(), 2, n_restarts=2)
    assert [record.getMessage().split(":")[0:2] for record in caplog.records] == [
        ["map-bjmd", " restart 1 of 2 (seed 0)"],
        ["map-bjmd", " restart 2 of 2 (seed 1)"],
    ]


def test_a_failing_restart_fails_the_run(make_sources):
    with pytest.raises(InputError, match="alpha0"):
        restarts.run("map-bjmd", make_sources(), 2, n_restarts=3, alpha0=0.5)
