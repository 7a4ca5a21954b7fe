"""The measures that people who integrate data ask for, of every method on every data set."""

import pandas as pd

from bjmd_paper.scores import INTEGRATION
from bjmd_paper.tables import Table, text_cells

COLUMNS = dict(
    zip(
        INTEGRATION, ("ARI", "NMI", "Mixing of sources", "Accuracy across sources (%)"), strict=True
    )
)
DECIMALS = {"ARI": 3, "NMI": 3, "Mixing of sources": 2, "Accuracy across sources (%)": 1}


def table(runs, families, fits):
    """The mean of each measure over the sources and the chosen runs; `runs` are the scores of the
    `families`.
    """
    means = []
    for family, one in zip(families, runs, strict=True):
        n_restarts = one.groupby("fit")["seed"].nunique()
        one = one[one["chosen"] & one["fit"].isin(fits)]
        by_fit = one.groupby("fit", sort=False)
        mean = (
            by_fit[list(INTEGRATION)]
            .mean()
            .assign(n_chosen=by_fit["seed"].nunique(), n_restarts=n_restarts)
        )
        mean = mean.reset_index()
        mean.insert(0, "data", family)
        mean.insert(2, "label", [fits[fit]["label"] for fit in mean["fit"]])
        means.append(mean)
    shown = []
    for family, mean in zip(families, means, strict=True):
        cells = (
            mean[["label", *INTEGRATION]]
            .rename(columns={"label": "Algorithm", **COLUMNS})
            .round(DECIMALS)
        )
        cells["Runs"] = [f"{run.n_chosen} of {run.n_restarts}" for run in mean.itertuples()]
        shown += [f"{family}:", text_cells(cells)]
    return Table(pd.concat(means, ignore_index=True), shown)
