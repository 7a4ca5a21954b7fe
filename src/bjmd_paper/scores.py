"""From results to tidy tables: one row per run and source, and their summary over the chosen runs."""

import warnings

import numpy as np
import pandas as pd

from bjmd.inference import restarts
from bjmd_paper import metric

SCORES = ("auc", "auc_scaled", "matched", "matched_scaled")
"""In percent: the best component of each class, or one of its own; memberships as they are, or
`metric.scaled`.
"""

INTEGRATION = ("ari", "nmi", "mixing", "transfer")
"""What users of integration ask for (metric.strongest, mixing and transferred), of scaled
memberships.
"""


def runs_table(sources, results, n_best, integration=False):
    """Every restart of every fit: SCORES and noise per source, and whether the run is among the
    best.

    `results` maps the name of a fit to its restarts, `n_best` to how many of them are chosen, by
    objective alone.  With `integration` the chosen ones have those measures too, which take longer.
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
    found = four_scores(run.memberships, sources.labels)
    if integration and chosen and sources.labels is not None:
        found |= integration_scores(run.memberships, sources.labels)
    condition = metric.condition(run.memberships)
    return [
        {
            "fit": fit,
            "seed": -1 if run.seed is None else run.seed,
            "source": c + 1,
            "source_name": name,
            **{name: values[c] for name, values in found.items()},
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


def four_scores(memberships, labels):
    """The SCORES of every source, NaN where there are no labels; classes without an AUC are named
    once.
    """
    if labels is None:
        return {name: np.full(len(memberships), np.nan) for name in SCORES}
    found = {"auc": 100 * metric.auc_per_source(memberships, labels)}
    scaled = metric.scaled(memberships)
    as_they_are = all(h is same for h, same in zip(memberships, scaled, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", metric.UndefinedAUCWarning)
        found["matched"] = 100 * metric.auc_per_source(
            memberships, labels, metric.matched_per_class
        )
        if as_they_are:
            return found | {"auc_scaled": found["auc"], "matched_scaled": found["matched"]}
        found["auc_scaled"] = 100 * metric.auc_per_source(scaled, labels)
        found["matched_scaled"] = 100 * metric.auc_per_source(
            scaled, labels, metric.matched_per_class
        )
    return found


def integration_scores(memberships, labels):
    """The measures of INTEGRATION for every source; the last in percent."""
    h = metric.scaled(memberships)
    ari, nmi = metric.strongest(h, labels)
    return dict(
        zip(
            INTEGRATION,
            (ari, nmi, metric.mixing(h), 100 * metric.transferred(h, labels)),
            strict=True,
        )
    )


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

    Of their times the median: the first fit in a process also loads or compiles its updates.
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
