"""All methods on all data sets in one screen: who is best where, and by how much BJMD wins or
loses.
"""

import numpy as np
import pandas as pd

from bjmd.inference import registry
from bjmd_paper import scores
from bjmd_paper.tables import Marked, Table

BJMD = "BJMD"
POOLED = "BJMD, pooled"
OTHER = "other"
CONTROL = "control"
SEEN = 0.05
"""The smallest difference of AUCs that a tenth shows; below it, two methods are equally good."""
HOW_TO_READ = (
    "The AUC is the mean over the sources, and every method has the better of two scores: its memberships as they are, "
    "or scaled to sum to one. Behind the best is the distance to the best method of each data set in points, as a mean "
    "and at worst, for methods that ran on all of them. The synthetic data are one draw, as in the paper, and the real "
    "data one sample; the verdicts say which differences are more than chance."
)


def table(runs, families, fits):
    """AUC and rank of every fit on the data of every family; `runs` are the scores of the
    `families`.
    """
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
    shown = [_sentence(against), _grid(found, families), HOW_TO_READ]
    if len(against):
        shown += ["Where BJMD wins, and where it loses:", _marked_against(against)]
    return Table(found, shown)


def _scored(runs, fits):
    """The AUC of every fit in one data set: the mean over sources of the chosen runs, by the better
    of two scores.
    """
    means = (
        scores.summary(runs).groupby("fit", sort=False)[["auc", "auc_scaled"]].mean().max(axis=1)
    )
    means = means[means.index.isin(fits)].dropna()
    return pd.DataFrame({"fit": means.index, "auc": means.to_numpy()})


def _kind(name):
    method = registry.get(name)
    if method.name == "random":
        return CONTROL
    return OTHER if not method.infers_bjmd else POOLED if method.concatenate else BJMD


def _against(found):
    """The best fit that knows the noise of each source, and the best of all others, on each data
    set that has both.
    """
    rows = []
    for data, one in found.groupby("data", sort=False):
        ours = one[one["kind"] == BJMD]
        others = one[one["kind"].isin([POOLED, OTHER])]
        if len(ours) and len(others):
            our, other = (part.loc[part["auc"].idxmax()] for part in (ours, others))
            rows.append(
                (
                    data,
                    our["label"],
                    our["auc"],
                    other["label"],
                    other["auc"],
                    our["auc"] - other["auc"],
                )
            )
    return pd.DataFrame(
        rows, columns=["Data", "Best BJMD", "AUC", "Best other", "Its AUC", "Difference"]
    )


def _sentence(against):
    if against.empty:
        return "This run has no data on which BJMD and another method both ran."
    won, lost = (against[sign * against["Difference"] >= SEEN] for sign in (1, -1))
    best = f"{len(won)} of {len(against)} data sets" + (
        f" ({', '.join(won['Data'])})" if len(won) else ""
    )
    losses = [
        f"{row[0]}, by {-row[5]:.1f} points to {row[3]}" for row in lost.itertuples(index=False)
    ]
    return f"BJMD is best on {best}. It loses on {len(lost)}{': ' if losses else ''}{'; '.join(losses)}."


def _grid(found, families):
    """A row for each fit: the one least behind the best first, those not run everywhere and the
    control last.
    """
    by_fit = [own.set_index("data") for _, own in found.groupby("fit", sort=False)]
    by_fit.sort(
        key=lambda own: (
            own["kind"].iloc[0] == CONTROL,
            len(own) < len(families),
            own["behind"].mean(),
        )
    )
    rows = []
    marks = []
    for own in by_fit:
        row = {"Method": own["label"].iloc[0]}
        mark = {"Method": "ours" if own["kind"].iloc[0] == BJMD else ""}
        for family in families:
            row[family], mark[family] = _cell(own, family, found[found["data"] == family])
        over_all = (own["rank"].mean(), own["behind"].mean(), own["behind"].max())
        for head, value in zip(("Mean rank", "Behind the best", "At worst"), over_all, strict=True):
            row[head] = "–" if len(own) < len(families) or np.isnan(value) else f"{value:.1f}"
        rows.append(row)
        marks.append(mark)
    cells = pd.DataFrame(rows)
    return Marked(cells, pd.DataFrame(marks).reindex(columns=cells.columns).fillna(""))


def _cell(own, family, column):
    """AUC and rank as text, and how strong its colour is: the best has all of it, the worst tenth
    none.
    """
    if family not in own.index:
        return "–", ""
    auc, rank = own.loc[family, ["auc", "rank"]]
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
    text["Difference"] = gaps.map("{:+.1f}".format).where(gaps.abs() >= SEEN, "0.0")
    marks = pd.DataFrame("", text.index, text.columns)
    marks["Difference"] = ["good" if gap >= SEEN else "bad" if gap <= -SEEN else "" for gap in gaps]
    return Marked(text, marks)
