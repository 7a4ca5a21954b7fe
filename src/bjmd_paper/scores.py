"""From results to tidy tables: one row per run and source, and their summary over the chosen runs."""

import numpy as np
import pandas as pd

from bjmd.fits import restarts
from bjmd_paper.metric import auc_per_source


def runs_table(sources, results, n_best):
    """Every restart of every fit: AUC (in percent) and noise per source, and whether the run is among the best.

    `results` maps the name of a fit to its restarts, `n_best` to how many of them are chosen, by objective alone.
    """
    rows = []
    for fit, runs in results.items():
        chosen = [run.seed for run in restarts.best(runs, n_best[fit])]
        for run in runs:
            rows += _rows(sources, fit, run, chosen=run.seed in chosen)
    return pd.DataFrame(rows)


def with_truth(runs, sources, truth):
    """The same table with the truth below, as a control."""
    return pd.concat([runs, pd.DataFrame(_rows(sources, "truth", truth, chosen=True))], ignore_index=True)


def _rows(sources, fit, run, chosen):
    auc = [np.nan] * len(sources) if sources.labels is None else auc_per_source(run.memberships, sources.labels)
    return [
        {
            "fit": fit,
            "seed": -1 if run.seed is None else run.seed,
            "source": c + 1,
            "source_name": name,
            "auc": 100 * auc[c],
            "noise": np.nan if run.noise is None else run.noise[c],
            "objective": run.objective,
            "iterations": run.n_iterations,
            "seconds": run.seconds,
            "converged": run.converged,
            "chosen": chosen,
        }
        for c, name in enumerate(sources.names)
    ]


def traces_table(results, n_best):
    """The objective along the iterations of the chosen runs of every fit."""
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "fit": fit,
                    "rank": rank,
                    "iteration": run.trace_step * np.arange(1, len(run.trace) + 1),
                    "objective": run.trace,
                }
            )
            for fit, runs in results.items()
            for rank, run in enumerate(restarts.best(runs, n_best[fit]), start=1)
        ]
    )


def summary(runs):
    """Mean and spread over the chosen runs of each fit, per source."""
    restarts_of = runs.groupby("fit")["seed"].nunique()
    grouped = runs[runs["chosen"]].groupby(["fit", "source", "source_name"], sort=False)
    table = grouped.agg(
        auc=("auc", "mean"),
        auc_sd=("auc", "std"),
        noise=("noise", "mean"),
        iterations=("iterations", "mean"),
        seconds=("seconds", "mean"),
        converged=("converged", "mean"),
        n_chosen=("seed", "nunique"),
    ).reset_index()
    table["n_restarts"] = table["fit"].map(restarts_of)
    return table


def sweep(runs, levels):
    """The summaries of one scale at every sigma3, below each other; `levels` are those of the tables of `runs`."""
    return pd.concat([summary(one).assign(sigma3=level) for one, level in zip(runs, levels, strict=True)])


def mean_noise(runs, fit):
    """The noise sd of every source by one fit, averaged over its chosen runs."""
    chosen = runs[(runs["fit"] == fit) & runs["chosen"]]
    return chosen.groupby("source")["noise"].mean().to_numpy()
