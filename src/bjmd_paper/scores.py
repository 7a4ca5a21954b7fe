"""Scores of runs as tidy tables, one row per run and source, and their summary."""

import numpy as np
import pandas as pd

from bjmd.analysis.associations import mixing
from bjmd.inference import restarts
from bjmd_paper import metric

SCORES = ("auc", "auc_scaled", "matched", "matched_scaled")
"""AUCs in percent: by the best component of each class, or with components matched to classes; of
memberships as they are, or scaled to sum to one in components of unit sum.
"""
INTEGRATION = {
    "ari": ("ARI", 3),
    "nmi": ("NMI", 3),
    "mixing": ("Mixing of sources", 2),
    "transfer": ("Accuracy across sources (%)", 1),
}
"""A measure of integration, of scaled memberships -> its heading and decimals in tables."""


def runs_table(sources, results, n_best, integration=False):
    """Every restart of every fit: SCORES and noise per source, and whether the run is chosen.

    `results` maps the name of a fit to its restarts, and `n_best` to how many of them are chosen,
    by their objective.  With `integration` the chosen runs also have those measures.
    """
    rows = []
    for fit, runs in results.items():
        chosen = [run.seed for run in restarts.best(runs, n_best[fit])]
        for run in runs:
            rows += _rows(sources, fit, run, chosen=run.seed in chosen, integration=integration)
    return pd.DataFrame(rows)


def with_truth(runs, sources, truth):
    """The same table with the truth below, as a control."""
    rows = _rows(sources, "truth", truth, chosen=True, integration="mixing" in runs)
    return pd.concat([runs, pd.DataFrame(rows)], ignore_index=True)


def _rows(sources, fit, run, chosen, integration):
    by_source = four_scores(run, sources.labels)
    if integration and chosen:
        by_source |= integration_scores(run, sources.labels)
    condition = metric.condition(run.memberships)
    return [
        {
            "fit": fit,
            "seed": -1 if run.seed is None else run.seed,
            "source": c + 1,
            "source_name": name,
            **{name: values[c] for name, values in by_source.items()},
            "noise": np.nan if run.noise is None else run.noise[c],
            "objective": run.objective,
            "iterations": run.n_iterations,
            "seconds": run.seconds,
            "converged": run.converged,
            "chosen": chosen,
            "condition": condition,
        }
        for c, name in enumerate(sources.names)
    ]


def four_scores(run, labels):
    """The SCORES of every source."""
    ways = {"": run.memberships, "_scaled": metric.scaled(run.memberships, run.components)}
    measures = {"auc": metric.auc_per_class, "matched": metric.matched_per_class}
    return {
        f"{name}{way}": 100 * metric.auc_per_source(metric.both_ends(h), labels, per_class)
        for name, per_class in measures.items()
        for way, h in ways.items()
    }


def integration_scores(run, labels):
    """The measures of INTEGRATION for every source."""
    h = metric.scaled(run.memberships, run.components)
    ari, nmi = metric.strongest(metric.both_ends(h), labels)
    transfer = 100 * metric.transferred(h, labels)
    return {"ari": ari, "nmi": nmi, "mixing": mixing(h), "transfer": transfer}


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
    """Mean and spread over the chosen runs of each fit, per source.

    The time is the median, because the first fit in a process also compiles or loads its updates.
    """
    restarts_of = runs.groupby("fit")["seed"].nunique()
    grouped = runs[runs["chosen"]].groupby(["fit", "source", "source_name"], sort=False)
    table = grouped.agg(
        auc=("auc", "mean"),
        auc_sd=("auc", "std"),
        auc_scaled=("auc_scaled", "mean"),
        auc_scaled_sd=("auc_scaled", "std"),
        matched=("matched", "mean"),
        matched_scaled=("matched_scaled", "mean"),
        noise=("noise", "mean"),
        iterations=("iterations", "mean"),
        seconds=("seconds", "median"),
        converged=("converged", "mean"),
        n_chosen=("seed", "nunique"),
        condition=("condition", "mean"),
    ).reset_index()
    table["n_restarts"] = table["fit"].map(restarts_of)
    return table


def mean_noise(runs, fit):
    """The noise sd of every source by one fit, averaged over its chosen runs."""
    chosen = runs[(runs["fit"] == fit) & runs["chosen"]]
    return chosen.groupby("source")["noise"].mean().to_numpy()
