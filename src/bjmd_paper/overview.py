"""All methods on all data sets in one table."""

import numpy as np
import pandas as pd

from bjmd.inference import registry
from bjmd_paper import scores
from bjmd_paper.table_files import Marked, Table

BJMD = "BJMD"
POOLED = "BJMD, pooled"
OTHER = "other"
CONTROL = "control"
HOW_TO_READ = """
The AUC is the mean over the sources. Every method gets the better of two scores: its memberships as
they are, or scaled to sum to one. "Behind the best" is the mean distance to the best method of
each data set in points, and "At worst" the largest, for methods that ran on all of them. The
synthetic data are one draw, as in the paper, and the real data one sample; the verdicts say which
differences are more than chance."""


def table(runs, families, fits):
    """AUC and rank of every fit on every family of data; `runs` are the scores by family."""
    scored = [
        _scored(one, fits).assign(data=family) for one, family in zip(runs, families, strict=True)
    ]
    results = pd.concat(scored, ignore_index=True)
    results["kind"] = [_kind(fits[fit]["method"]) for fit in results["fit"]]
    ranked = results[results["kind"] != CONTROL].groupby("data")["auc"]
    # methods that agree to a tenth share a rank
    results["rank"] = ranked.transform(lambda auc: auc.round(1).rank(ascending=False, method="min"))
    results["behind"] = results["data"].map(ranked.max()) - results["auc"]
    results.insert(1, "label", [fits[fit]["label"] for fit in results["fit"]])
    return Table(results, [_grid(results, families), " ".join(HOW_TO_READ.split())])


def _scored(runs, fits):
    """The AUC of every fit on one data set, over sources and chosen runs, by the better score."""
    by_fit = scores.summary(runs).groupby("fit", sort=False)
    means = by_fit[["auc", "auc_scaled"]].mean().max(axis=1)
    return means[means.index.isin(fits)].dropna().rename("auc").reset_index()


def _kind(name):
    method = registry.get(name)
    if method.name == "random":
        return CONTROL
    if not method.infers_bjmd:
        return OTHER
    return POOLED if method.concatenate else BJMD


def _grid(results, families):
    """A row for each fit, by its distance to the best; the control and incomplete fits are last."""
    rows = results.groupby("fit", sort=False).agg(
        label=("label", "first"),
        kind=("kind", "first"),
        n=("data", "size"),
        rank=("rank", "mean"),
        behind=("behind", "mean"),
        worst=("behind", "max"),
    )
    rows["incomplete"] = rows["n"] < len(families)
    rows["control"] = rows["kind"] == CONTROL
    rows = rows.sort_values(["control", "incomplete", "behind"], kind="stable")
    cells, marks = (
        results.assign(text=text)
        .pivot(index="fit", columns="data", values="text")
        .reindex(index=rows.index, columns=families)
        .fillna(absent)
        for text, absent in ((_texts(results), "–"), (_colours(results), ""))
    )
    cells.insert(0, "Method", rows["label"])
    marks.insert(0, "Method", np.where(rows["kind"] == BJMD, "ours", ""))
    heads = {"rank": "Mean rank", "behind": "Behind the best", "worst": "At worst"}
    for column, head in heads.items():
        known = rows[column].notna() & ~rows["incomplete"]
        cells[head] = rows[column].map("{:.1f}".format).where(known, "–")
        marks[head] = ""
    return Marked(cells.reset_index(drop=True), marks.reset_index(drop=True))


def _texts(results):
    """AUC and rank of every fit on every data set; the control has no rank."""
    ranks = results["rank"].map(" ({:.0f})".format, na_action="ignore").fillna("")
    return results["auc"].map("{:.1f}".format) + ranks


def _colours(results):
    """How strong the colour of each of them is, from the worst tenth of a data set to the best."""
    ranked = results[results["kind"] != CONTROL].groupby("data")["auc"]
    # one bad method must not make all others look alike
    low = results["data"].map(ranked.quantile(0.1))
    width = results["data"].map(ranked.max()) - low
    heat = (9 * (results["auc"] - low) / np.maximum(width, 1e-9)).round().clip(0, 9)
    return heat.map("heat heat-{:.0f}".format) + np.where(results["rank"] == 1, " best", "")
