"""Many draws of the synthetic data.

One draw says little: on the small data the AUC varies by several points between draws.  All fits
see the same draws, so they can be compared draw by draw, and those differences vary far less.
"""

import itertools

import numpy as np
import pandas as pd

from bjmd.inference import registry, restarts
from bjmd_paper import feature_test, scores
from bjmd_paper.datasets import synthetic
from bjmd_paper.metric import auc_watch
from bjmd_paper.nonnegative import nonnegative

MEANS = [*scores.SCORES, "noise", "objective", "iterations", "seconds", "converged"]
COLUMNS = [
    *("scale", "sigma3", "draw", "fit", "source", *scores.SCORES, "noise", "true_noise"),
    *("objective", "iterations", "most_iterations", "seconds", "converged"),
]
WARM_UP_SIGMA3 = 4.0
ALL = 0
ANY = -1
"""In place of the number of a source: features that pass in all sources, or in any of them."""


def seed_of(seed, draw):
    """The seed of the data of a draw, different from those of the restarts and of the tables."""
    return seed + 1000 + draw


def table(scale, draws, levels, jobs, n_restarts, n_best, seed, height=None):
    """Some draws at every sigma3 of `levels`: a row per fit and source, the mean of the best runs.

    `jobs` has the method, the options and K of every fit (`Plan.job`).
    """
    warm_up(jobs, seed)
    rows = []
    for draw, sigma3 in itertools.product(draws, levels):
        drawn = synthetic.generate(scale, sigma3, seed_of(seed, draw), height=height)
        runs = _best_runs(drawn.sources, jobs, n_restarts, n_best, seed)
        best = runs.groupby(["fit", "source"], sort=False)
        means = best[MEANS].mean().assign(most_iterations=best["iterations"].max()).reset_index()
        true_noise = drawn.noise[means["source"] - 1]
        rows.append(means.assign(scale=scale, sigma3=sigma3, draw=draw, true_noise=true_noise))
    return pd.concat(rows, ignore_index=True)[COLUMNS]


def warm_up(jobs, seed):
    """Run every method once, so that the time to compile or load its updates is not measured."""
    _best_runs(synthetic.generate("small", WARM_UP_SIGMA3, seed).sources, jobs, 1, 1, seed)


def _best_runs(sources, jobs, n_restarts, n_best, seed):
    """The best restarts of all fits on one data set, scored."""
    results = {}
    for fit, job in jobs.items():
        runs = restarts.run(
            job["method"],
            nonnegative(sources, job["nonnegative"]),
            job["n_components"],
            n_restarts=n_restarts,
            seed=seed,
            **job["options"],
        )
        results[fit] = restarts.best(runs, n_best)
    return scores.runs_table(sources, results, dict.fromkeys(jobs, n_best))


def advi_trace(draw, sigma3, max_iterations, seed):
    """ADVI without a stopping rule on one draw of the small data, every 1000 iterations."""
    drawn = synthetic.generate("small", sigma3, seed_of(seed, draw))
    run = registry.fit(
        "advi-bjmd",
        drawn.sources,
        synthetic.SCALES["small"].n_components,
        seed=seed,
        tol=np.finfo(float).tiny,
        max_iterations=max_iterations,
        watch=auc_watch(drawn.sources.labels),
    )
    trace = {
        "draw": draw,
        "iteration": run.trace_step * np.arange(1, len(run.trace) + 1),
        "objective": run.trace,
        "change": run.history["relative_change"],
    }
    return pd.DataFrame(
        trace | {f"auc_{c + 1}": 100 * auc for c, auc in enumerate(run.history["auc"].T)}
    )


def feature_tables(draw, extra, jobs, noise_from, n_restarts, n_best, seed, *, sigma3, fit, level):
    """The feature test on one draw of the small data with `extra` features of pure noise.

    Returns two tables.  The first has the shares of the true features and of the noise features
    that pass, with the noise by each fit of `noise_from` and with the true noise.  The second has
    the AUC of every fit of `jobs` before and after the test, with the noise by `fit`.  Features
    that pass in any source are kept, because hardly any passes in all; if none passes, there is no
    AUC after the test.
    """
    drawn = synthetic.generate("small", sigma3, seed_of(seed, draw), extra_features=extra)
    signal = drawn.components.any(axis=1)
    before = _best_runs(drawn.sources, jobs, n_restarts, n_best, seed)
    noise = {name: scores.mean_noise(before, name) for name in (*noise_from, fit)}
    rows = []
    passes = {}
    for name, noise_sd in {**noise, "truth": drawn.noise}.items():
        tested = feature_test.feature_table(drawn.sources, noise_sd, level=level)
        by_source = tested[[f"passes {source}" for source in drawn.sources.names]].to_numpy().T
        passes[name] = {ALL: by_source.all(axis=0), ANY: by_source.any(axis=0)}
        places = dict(enumerate(by_source, start=1)) | passes[name]
        for place, passed in places.items():
            false = passed[~signal]
            rates = passed[signal].mean(), false.mean(), int(false.any())
            rows.append((extra, draw, name, place, *rates))
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
    names = ["extra", "draw", "noise_from", "source", "power", "false_rate", "any_false"]
    passed = pd.DataFrame(rows, columns=names)
    return passed, auc[["extra", "draw", "fit", "stage", "source", "auc", "seconds"]]


def _better_auc(runs):
    """The AUC of every fit and source, of memberships as they are or scaled, the better one."""
    summary = scores.summary(runs)
    means = summary.groupby("fit")[["auc", "auc_scaled"]].transform("mean")
    use_scaled = means["auc_scaled"] > means["auc"]
    auc = summary["auc_scaled"].where(use_scaled, summary["auc"])
    return summary.assign(auc=auc)[["fit", "source", "auc", "seconds"]]
