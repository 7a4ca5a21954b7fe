"""Memberships beside the true shares, for real mixtures whose composition is known."""

import numpy as np
import pandas as pd

from bjmd.inference import restarts
from bjmd_paper import metric
from bjmd_paper.tables import Table

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
    noise = runs[runs["chosen"]].groupby(["fit", "source_name"])["noise"].mean()
    measured = []
    for fit, one in shares.groupby("fit", sort=False):
        best = one[(one["rank"] == 1) & one["low"].notna()]
        by_source = one.groupby("source", sort=False)["error"].mean()
        measured.append(
            {
                "fit": fit,
                "label": rows[fit]["label"],
                "error": one["error"].mean(),
                "coverage": best["covered"].mean() if len(best) else np.nan,
                **{f"error {source}": value for source, value in by_source.items()},
                **{
                    f"noise {source}": noise.get((fit, source), np.nan)
                    for source in by_source.index
                },
            }
        )
    measured = pd.DataFrame(measured).sort_values("error", ignore_index=True)
    return Table(measured, [_cells(measured)])


def _cells(measured):
    """The same as text, with two heads."""
    heads = {"label": ("", "Method"), "error": ("Error of the shares", "all samples")}
    for column in measured:
        what, _, source = column.partition(" ")
        if source:
            heads[column] = ({"error": "Error of the shares", "noise": "Noise sd"}[what], source)
    heads["coverage"] = ("", f"{100 * LEVEL:.0f} % intervals that hold the truth (%)")
    percent = measured.assign(coverage=100 * measured["coverage"])
    forms = {"label": "{}", "coverage": "{:.0f}"}
    cells = pd.DataFrame(
        {
            head: percent[column].map(forms.get(column, "{:.3f}").format, na_action="ignore")
            for column, head in heads.items()
        }
    )
    return cells.fillna("–")
