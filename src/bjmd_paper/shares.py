"""Memberships beside the true shares, for real mixtures whose composition is known."""

import numpy as np
import pandas as pd

from bjmd.inference import restarts
from bjmd_paper import metric
from bjmd_paper.table_files import Table

LEVEL = 0.9
"""The level of the intervals whose coverage is counted."""


def tidy(true, sources, results, n_best):
    """A row for each fit, chosen run, sample and part: the true share, the estimate, its interval.

    `true` has the shares, samples x parts, in the order of the sources, `results` maps the name of
    a fit to its restarts, and `n_best` to how many of them are chosen.  Components are matched to
    parts so that the error is as small as possible.  Only the best run has its intervals.
    """
    names = [name for block in sources.sample_names for name in block]
    source = np.repeat(sources.names, sources.n_samples)
    tables = []
    for fit, runs in results.items():
        for rank, run in enumerate(restarts.best(runs, n_best[fit]), start=1):
            estimate = np.hstack(metric.scaled(run.memberships, run.components))
            part = matched(estimate, true.to_numpy().T)
            low = high = np.full(estimate.shape, np.nan)
            if rank == 1 and run.posterior is not None:
                ends = [factor.interval(LEVEL) for factor in run.posterior.memberships]
                low, high = (np.hstack(blocks) for blocks in zip(*ends, strict=True))
            tables += [
                pd.DataFrame(
                    {
                        "fit": fit,
                        "rank": rank,
                        "source": source,
                        "sample": names,
                        "part": name,
                        "true": true[name].to_numpy(),
                        "estimate": estimate[k],
                        "low": low[k],
                        "high": high[k],
                    }
                )
                for name, k in zip(true.columns, part, strict=True)
            ]
    return pd.concat(tables, ignore_index=True)


def matched(estimate, true):
    """For every part the number of its component, so that the mean absolute error is smallest."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    errors = np.abs(true[:, None] - estimate[None]).mean(axis=2)
    return linear_sum_assignment(errors)[1]


def error(memberships, true):
    """The mean absolute error of the shares of all samples, with components matched to parts."""
    estimate = np.hstack(memberships)
    return np.abs(estimate[matched(estimate, true)] - true).mean()


def table(shares, runs, rows):
    """The error of every fit, over all samples and by source, the coverage, and the noise."""
    shares = shares.assign(
        error=(shares["estimate"] - shares["true"]).abs(),
        covered=(shares["low"] <= shares["true"]) & (shares["true"] <= shares["high"]),
    )
    with_interval = shares[(shares["rank"] == 1) & shares["low"].notna()]
    errors = shares.groupby("fit", sort=False)["error"].mean()
    by_source = {
        "error": shares.groupby(["fit", "source"])["error"].mean().unstack(),
        "noise": runs[runs["chosen"]].groupby(["fit", "source_name"])["noise"].mean().unstack(),
    }
    measured = pd.DataFrame(
        {
            "label": {fit: rows[fit]["label"] for fit in errors.index},
            "error": errors,
            "coverage": with_interval.groupby("fit")["covered"].mean(),
            **{
                f"{what} {source}": values[source]
                for what, values in by_source.items()
                for source in shares["source"].unique()
            },
        },
        index=errors.sort_values().index,
    ).reset_index()
    return Table(measured, [_cells(measured)])


def _cells(measured):
    """The same as text, with two heads."""
    heads = {"error": "Error of the shares", "noise": "Noise sd"}
    cells = {("", "Method"): measured["label"]}
    for column in measured.columns.drop(["fit", "label", "coverage"]):
        what, _, source = column.partition(" ")
        cells[heads[what], source or "all samples"] = measured[column].map("{:.3f}".format)
    coverage = (100 * measured["coverage"]).map("{:.0f}".format)
    cells["", f"{100 * LEVEL:.0f} % intervals that hold the truth (%)"] = coverage
    return pd.DataFrame(cells).replace("nan", "–")
