"""All methods on all data sets in one screen: who is best where, and by how much BJMD wins or loses."""

import numpy as np
import pandas as pd

from bjmd.fits import registry
from bjmd_paper import scores
from bjmd_paper.tables import Marked, Table

BJMD, POOLED, OTHER, CONTROL = "BJMD", "BJMD, pooled", "other", "control"


def table(runs, families, fits):
    """AUC and rank of every fit on the data of every family; `runs` are the scores of the `families`."""
    scored = [_scored(one, fits).assign(data=family) for one, family in zip(runs, families, strict=True)]
    found = pd.concat(scored, ignore_index=True)
    found["kind"] = [_kind(fits[fit]["method"]) for fit in found["fit"]]
    ranked = found[found["kind"] != CONTROL]
    # methods that agree to a tenth share a rank
    found["rank"] = ranked["auc"].round(1).groupby(ranked["data"]).rank(ascending=False, method="min")
    found["behind"] = found["data"].map(ranked.groupby("data")["auc"].max()) - found["auc"]
    against = _against(found)
    found.insert(1, "label", [fits[fit]["label"] for fit in found["fit"]])
    shown = [_sentence(against), _grid(found, families)]
    if len(against):
        against["Best BJMD"], against["Best other"] = (
            [fits[fit]["label"] for fit in against[column]] for column in ("Best BJMD", "Best other")
        )
        shown += ["Where BJMD wins, and where it loses:", _marked_against(against)]
    return Table(found, shown)


def _scored(runs, fits):
    """The AUC of every fit in one data set: the mean over sources of the chosen runs, by the better of two scores."""
    means = scores.summary(runs).groupby("fit", sort=False)[["auc", "auc_scaled"]].mean().max(axis=1)
    means = means[means.index.isin(fits)].dropna()
    return pd.DataFrame({"fit": means.index, "auc": means.to_numpy()})


def _kind(name):
    method = registry.get(name)
    if method.name == "random":
        return CONTROL
    return OTHER if not method.infers_bjmd else POOLED if method.concatenate else BJMD


def _against(found):
    """The best fit that knows the noise of each source, and the best of all others, on each data set that has both."""
    rows = []
    for data, one in found.groupby("data", sort=False):
        ours, others = one[one["kind"] == BJMD], one[one["kind"].isin([POOLED, OTHER])]
        if len(ours) and len(others):
            our, other = (part.loc[part["auc"].idxmax()] for part in (ours, others))
            rows.append((data, our["fit"], our["auc"], other["fit"], other["auc"], our["auc"] - other["auc"]))
    return pd.DataFrame(rows, columns=["Data", "Best BJMD", "AUC", "Best other", "Its AUC", "Difference"])


def _sentence(against):
    if against.empty:
        return "This run has no data on which BJMD and another method both ran."
    won, lost = (against.loc[sign * against["Difference"] >= 0.05, "Data"] for sign in (1, -1))
    words = f"BJMD is best on {len(won)} of {len(against)} data sets"
    words += f" ({', '.join(won)})" if len(won) else ""
    return words + (f" and loses on {len(lost)} ({', '.join(lost)})." if len(lost) else " and loses on none.")


def _grid(found, families):
    """A row for each fit, those first that are least behind the best; the controls last."""
    mean = found.groupby("fit", sort=False)["behind"].mean()
    control = found.drop_duplicates("fit").set_index("fit")["kind"] == CONTROL
    order = sorted(mean.index, key=lambda fit: (control[fit], mean[fit]))
    rows, marks = [], []
    for fit in order:
        own = found[found["fit"] == fit].set_index("data")
        worst = own["behind"].idxmax()
        row = {"Method": own["label"].iloc[0], "Kind": own["kind"].iloc[0]}
        mark = {"Method": "best" if row["Kind"] == BJMD else ""}
        for family in families:
            row[family], mark[family] = _cell(own, family, found[found["data"] == family])
        row["Mean rank"] = "–" if control[fit] else f"{own['rank'].mean():.1f}"
        row["Behind the best"] = f"{mean[fit]:.1f}"
        row["At worst"] = f"{own.loc[worst, 'behind']:.1f} ({worst})"
        rows.append(row)
        marks.append(mark)
    cells = pd.DataFrame(rows)
    return Marked(cells, pd.DataFrame(marks).reindex(columns=cells.columns).fillna(""))


def _cell(own, family, column):
    """AUC and rank as text, and how strong its colour is: from chance or the worst, whichever is higher, to the best."""
    if family not in own.index:
        return "–", ""
    auc, rank = own.loc[family, ["auc", "rank"]]
    ranked = column[column["kind"] != CONTROL]["auc"]
    low, high = ranked.quantile(0.1), ranked.max()  # one very bad method must not make all others look alike
    heat = int(np.clip(round(9 * (auc - low) / max(high - low, 1e-9)), 0, 9))
    place = "" if np.isnan(rank) else f" ({rank:.0f})"
    return f"{auc:.1f}{place}", f"heat heat-{heat}{' best' if rank == 1 else ''}"


def _marked_against(against):
    text = against.assign(**{column: against[column].map("{:.1f}".format) for column in ("AUC", "Its AUC")})
    text["Difference"] = against["Difference"].map("{:+.1f}".format)
    marks = pd.DataFrame("", text.index, text.columns)
    marks["Difference"] = ["good" if gap >= 0.05 else "bad" if gap <= -0.05 else "" for gap in against["Difference"]]
    return Marked(text, marks)
