"""All methods on all data sets in one table, and by how much BJMD wins or loses."""

import numpy as np
import pandas as pd

from bjmd.inference import registry
from bjmd_paper import scores
from bjmd_paper.tables import Marked, Table

BJMD = "BJMD"
POOLED = "BJMD, pooled"
OTHER = "other"
CONTROL = "control"
VISIBLE = 0.05
"""The smallest difference of AUCs that one decimal shows; below it, methods are equally good."""
HOW_TO_READ = """
The AUC is the mean over the sources. Every method gets the better of two scores: its memberships as
they are, or scaled to sum to one. "Behind the best" is the mean distance to the best method of
each data set in points, and "At worst" the largest, for methods that ran on all of them. The
synthetic data are one draw, as in the paper, and the real data one sample; the verdicts say which
differences are more than chance."""


def table(runs, families, fits):
    """AUC and rank of every fit on every family of data; `runs` are the scores by family."""
    if not families:
        return Table(pd.DataFrame(columns=["fit", "data", "auc"]), ["This run has no data."])
    scored = [
        _scored(one, fits).assign(data=family) for one, family in zip(runs, families, strict=True)
    ]
    found = pd.concat(scored, ignore_index=True)
    found["kind"] = [_kind(fits[fit]["method"]) for fit in found["fit"]]
    ranked = found[found["kind"] != CONTROL]
    # methods that agree to a tenth share a rank
    found["rank"] = (
        ranked["auc"].round(1).groupby(ranked["data"]).rank(ascending=False, method="min")
    )
    found["behind"] = found["data"].map(ranked.groupby("data")["auc"].max()) - found["auc"]
    found.insert(1, "label", [fits[fit]["label"] for fit in found["fit"]])
    against = _against(found)
    shown = [_sentence(against), _grid(found, families), " ".join(HOW_TO_READ.split())]
    if len(against):
        shown += ["Where BJMD wins, and where it loses:", _marked_against(against)]
    return Table(found, shown)


def _scored(runs, fits):
    """The AUC of every fit on one data set, over sources and chosen runs, by the better score."""
    by_fit = scores.summary(runs).groupby("fit", sort=False)
    means = by_fit[["auc", "auc_scaled"]].mean().max(axis=1)
    means = means[means.index.isin(fits)].dropna()
    return pd.DataFrame({"fit": means.index, "auc": means.to_numpy()})


def _kind(name):
    method = registry.get(name)
    if method.name == "random":
        return CONTROL
    if not method.infers_bjmd:
        return OTHER
    return POOLED if method.concatenate else BJMD


def _against(found):
    """The best fit of BJMD and the best of all others on each data set that has both."""
    rows = []
    for data, one in found.groupby("data", sort=False):
        ours = one[one["kind"] == BJMD]
        others = one[one["kind"].isin([POOLED, OTHER])]
        if len(ours) and len(others):
            our, other = (part.loc[part["auc"].idxmax()] for part in (ours, others))
            gap = our["auc"] - other["auc"]
            rows.append((data, our["label"], our["auc"], other["label"], other["auc"], gap))
    heads = ["Data", "Best BJMD", "AUC", "Best other", "Its AUC", "Difference"]
    return pd.DataFrame(rows, columns=heads)


def _sentence(against):
    if against.empty:
        return "This run has no data on which BJMD and another method both ran."
    won, lost = (against[sign * against["Difference"] >= VISIBLE] for sign in (1, -1))
    best = f"{len(won)} of {len(against)} data sets"
    if len(won):
        best += f" ({', '.join(won['Data'])})"
    losses = [
        f"{row['Data']}, by {-row['Difference']:.1f} points to {row['Best other']}"
        for _, row in lost.iterrows()
    ]
    lost_on = f"{len(lost)}: {'; '.join(losses)}" if losses else "0"
    return f"BJMD is best on {best}. It loses on {lost_on}."


def _grid(found, families):
    """A row for each fit, by its distance to the best; the control and incomplete fits are last."""

    def place(scored):
        incomplete = len(scored) < len(families)
        return scored["kind"].iloc[0] == CONTROL, incomplete, scored["behind"].mean()

    by_fit = [scored.set_index("data") for _, scored in found.groupby("fit", sort=False)]
    rows = []
    marks = []
    for scored in sorted(by_fit, key=place):
        row = {"Method": scored["label"].iloc[0]}
        mark = {"Method": "ours" if scored["kind"].iloc[0] == BJMD else ""}
        for family in families:
            row[family], mark[family] = _cell(scored, family, found[found["data"] == family])
        over_all = {
            "Mean rank": scored["rank"].mean(),
            "Behind the best": scored["behind"].mean(),
            "At worst": scored["behind"].max(),
        }
        for head, value in over_all.items():
            row[head] = "–" if len(scored) < len(families) or np.isnan(value) else f"{value:.1f}"
        rows.append(row)
        marks.append(mark)
    cells = pd.DataFrame(rows)
    return Marked(cells, pd.DataFrame(marks).reindex(columns=cells.columns).fillna(""))


def _cell(scored, family, column):
    """AUC and rank as text, and the strength of its colour, from the worst tenth to the best."""
    if family not in scored.index:
        return "–", ""
    auc, rank = scored.loc[family, ["auc", "rank"]]
    ranked = column[column["kind"] != CONTROL]["auc"]
    # one bad method must not make all others look alike
    low = ranked.quantile(0.1)
    high = ranked.max()
    heat = int(np.clip(round(9 * (auc - low) / max(high - low, 1e-9)), 0, 9))
    place = "" if np.isnan(rank) else f" ({rank:.0f})"
    return f"{auc:.1f}{place}", f"heat heat-{heat}{' best' if rank == 1 else ''}"


def _marked_against(against):
    text = against.assign(
        **{column: against[column].map("{:.1f}".format) for column in ("AUC", "Its AUC")}
    )
    gaps = against["Difference"]
    text["Difference"] = gaps.map("{:+.1f}".format).where(gaps.abs() >= VISIBLE, "0.0")
    marks = pd.DataFrame("", text.index, text.columns)
    marks["Difference"] = np.select([gaps >= VISIBLE, gaps <= -VISIBLE], ["good", "bad"], "")
    return Marked(text, marks)
