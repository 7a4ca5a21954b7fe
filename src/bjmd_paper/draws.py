"""Many draws of the synthetic data.

One draw says little: draws of the small data differ by points of AUC.  All fits see the same draws,
so that two of them can be compared draw by draw, and that difference varies far less than either.
"""

import itertools

import numpy as np
import pandas as pd

from bjmd.inference import registry, restarts
from bjmd_paper import feature_test, scores
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_watch
from bjmd_paper.nonnegative import nonnegative

SIGMA3 = 4.0
"""The noise of source 3 where the paper looks closely, at convergence and in its tables."""


def seed_of(seed, draw):
    """The seed of the data of a draw: none of those that the restarts or the one draw of the tables
    have.
    """
    return seed + 1000 + draw


def table(scale, draws, levels, jobs, n_restarts, n_best, seed):
    """Some draws at every sigma3 of `levels`: a row per fit and source, the mean over the best runs
    by objective.

    `jobs` has the method of every fit, its options and K (`Plan.job`); all have the same restarts.
    """
    warm_up(jobs, seed)
    rows = []
    for draw, sigma3 in itertools.product(draws, levels):
        drawn = synthetic.generate(scale, sigma3, seed_of(seed, draw))
        best = _best_runs(drawn.sources, jobs, n_restarts, n_best, seed).groupby(
            ["fit", "source"], sort=False
        )
        means = best[
            [*scores.SCORES, "noise", "objective", "iterations", "seconds", "converged"]
        ].mean()
        means.insert(
            means.columns.get_loc("iterations") + 1, "most_iterations", best["iterations"].max()
        )
        means = means.reset_index()
        means.insert(
            means.columns.get_loc("noise") + 1, "true_noise", drawn.noise[means["source"] - 1]
        )
        for column, value in (("draw", draw), ("sigma3", sigma3), ("scale", scale)):
            means.insert(0, column, value)
        rows.append(means)
    return pd.concat(rows, ignore_index=True)


def warm_up(jobs, seed):
    """The first fit of its kind in a process compiles or loads its updates, and that is no part of
    a fit's time.
    """
    _best_runs(synthetic.generate("small", SIGMA3, seed).sources, jobs, 1, 1, seed)


def _best_runs(sources, jobs, n_restarts, n_best, seed):
    """The best restarts of all fits on one data set, scored."""
    results = {}
    for fit, job in jobs.items():
        seen = sources if job["nonnegative"] is None else nonnegative(sources, job["nonnegative"])
        runs = restarts.run(
            job["method"],
            seen,
            job["n_components"],
            n_restarts=n_restarts,
            seed=seed,
            **job["options"],
        )
        results[fit] = restarts.best(runs, n_best)
    return scores.runs_table(sources, results, dict.fromkeys(jobs, n_best))


def advi_trace(draw, max_iterations, seed):
    """ADVI on one draw of the small data, which nothing stops: what a look every thousand
    iterations finds.
    """
    drawn = synthetic.generate("small", SIGMA3, seed_of(seed, draw))
    run = registry.fit(
        "advi-bjmd",
        drawn.sources,
        synthetic.SCALES["small"].n_components,
        seed=seed,
        tol=np.finfo(float).tiny,
        max_iterations=max_iterations,
        watch=auc_watch(drawn.sources.labels),
    )
    looks = {
        "draw": draw,
        "iteration": run.trace_step * np.arange(1, len(run.trace) + 1),
        "objective": run.trace,
        "change": run.history["relative_change"],
    }
    return pd.DataFrame(
        looks | {f"auc_{c + 1}": 100 * auc for c, auc in enumerate(run.history["auc"].T)}
    )


ALL = 0
ANY = -1
"""Where tables have the number of a source: passing in all of them, or in any."""


def feature_tables(draw, extra, jobs, noise_from, n_restarts, n_best, seed, *, fit, level):
    """The feature test on one draw of the small data with `extra` features of pure noise: where the
    truth is known.

    Returns two tables: which shares of the true features and of pure noise pass, by the noise of
    each fit of `noise_from` and by the true noise; and the AUC of every fit of `jobs` before and
    after the test by the noise of `fit`, the better of memberships as they are and scaled.  After
    the test means features that pass in any source, because hardly one passes in all; a test that
    no feature passes has nothing after it.
    """
    drawn = synthetic.generate("small", SIGMA3, seed_of(seed, draw), extra_features=extra)
    signal = drawn.components.any(axis=1)
    before = _best_runs(drawn.sources, jobs, n_restarts, n_best, seed)
    noise = {name: scores.mean_noise(before, name) for name in {*noise_from, fit}} | {
        "truth": drawn.noise
    }
    rows = []
    passes = {}
    for name in dict.fromkeys([*noise_from, fit, "truth"]):
        tested = feature_test.feature_table(drawn.sources, noise[name], level=level)
        by_source = tested[[f"passes {source}" for source in drawn.sources.names]].to_numpy().T
        passes[name] = {ALL: by_source.all(axis=0), ANY: by_source.any(axis=0)}
        found = dict(enumerate(by_source, start=1)) | passes[name]
        rows += [
            (extra, draw, name, source, *_rates(passed, signal)) for source, passed in found.items()
        ]
    stages = {"before": before}
    if passes[fit][ANY].any():
        kept = feature_test.filtered(drawn.sources, passes[fit][ANY])
        stages["after"] = _best_runs(kept, jobs, n_restarts, n_best, seed)
    auc = pd.concat(
        [
            _better_auc(runs).assign(extra=extra, draw=draw, stage=stage)
            for stage, runs in stages.items()
        ]
    )
    return (
        pd.DataFrame(
            rows,
            columns=["extra", "draw", "noise_from", "source", "power", "false_rate", "any_false"],
        ),
        auc[["extra", "draw", "fit", "stage", "source", "auc", "seconds"]],
    )


def _rates(passes, signal):
    """Power, the share of pure noise that passes, and whether any of it does."""
    return passes[signal].mean(), passes[~signal].mean(), int(passes[~signal].any())


def _better_auc(runs):
    """The AUC of every fit and source, memberships as they are or scaled, whichever is higher over
    all sources.
    """
    summary = scores.summary(runs)
    means = summary.groupby("fit")[["auc", "auc_scaled"]].transform("mean")
    better = means["auc_scaled"] > means["auc"]
    return summary.assign(auc=summary["auc"].where(~better, summary["auc_scaled"]))[
        ["fit", "source", "auc", "seconds"]
    ]
