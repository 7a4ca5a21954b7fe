"""Pure functions from scores to the tables that people read."""

from pathlib import Path

import pandas as pd

from bjmd.paper import scores
from bjmd.report.tables import markdown


def performance(runs, printed, fits):
    """The tidy performance table: one row per fit and source, ours beside the printed numbers of the paper.

    `printed` has columns row, source, auc, seconds; `fits` is the config's section, whose paper_row ties the two.
    """
    table = scores.summary(runs)
    table.insert(1, "label", [fits[fit]["label"] for fit in table["fit"]])
    table.insert(2, "row", [fits[fit].get("paper_row", "") for fit in table["fit"]])
    printed = printed[["row", "source", "auc", "seconds"]].rename(
        columns={"auc": "paper_auc", "seconds": "paper_seconds"}
    )
    table = table.merge(printed, on=["row", "source"], how="left")
    table["difference"] = table["auc"] - table["paper_auc"]
    return table.drop(columns="row")


def noise_levels(runs_by_data, printed, fits):
    """Noise sd per data set, fit and source, ours beside the printed one; fits without a noise model are left out."""
    table = pd.concat([scores.summary(runs).assign(data=name) for name, runs in runs_by_data.items()])
    table = table.dropna(subset="noise")
    table["row"] = [fits[fit].get("paper_row", "") for fit in table["fit"]]
    table["algorithm"] = [fits[fit]["label"] for fit in table["fit"]]
    printed = printed.rename(columns={"table": "data", "noise": "paper"})
    table = table.merge(printed, on=["data", "row", "source"], how="left")
    table["difference (%)"] = 100 * (table["noise"] / table["paper"] - 1)
    return table[["data", "algorithm", "source_name", "noise", "paper", "difference (%)"]]


def render(table, kind):
    """The performance table for reading: a row per fit; kind is markdown, latex or html."""
    wide = _wide(table)
    if kind == "latex":
        return wide.to_latex(index=False, escape=True, multicolumn_format="c")
    if kind == "html":
        return html_page(wide)
    wide.columns = [" ".join(filter(None, names)) for names in wide.columns]
    return markdown(wide)


def save(table, output):
    """Write a table as it is to output.csv, and for reading (text cells, – for none) to .markdown, .latex and .html."""
    table.to_csv(output.csv, index=False)
    text = table.astype(object).where(table.notna(), "–").astype(str)
    Path(output.markdown).write_text(markdown(text))
    Path(output.latex).write_text(text.to_latex(index=False, escape=True))
    Path(output.html).write_text(html_page(text))


def html_page(*tables):
    """A page of its own with one or more tables, for the report."""
    return _HTML.format(tables="\n".join(table.to_html(index=False, border=0, na_rep="–") for table in tables))


def _wide(table):
    """A row per fit; under each source our AUC, the paper's, and the difference."""
    rows = []
    for _, fit in table.groupby("fit", sort=False):
        first = fit.iloc[0]
        row = {("", "Algorithm"): first["label"]}
        for _, cell in fit.iterrows():
            source = cell["source_name"]
            spread = "" if pd.isna(cell["auc_sd"]) else f" ± {cell['auc_sd']:.2f}"
            row[source, "AUC"] = f"{cell['auc']:.2f}{spread}"
            row[source, "paper"] = _or_dash(cell["paper_auc"], ".2f")
            row[source, "diff."] = _or_dash(cell["difference"], "+.2f")
        row["Time (s)", "ours"] = f"{first['seconds']:.2g}" if first["seconds"] < 10 else f"{first['seconds']:.0f}"
        row["Time (s)", "paper"] = _or_dash(first["paper_seconds"], ".1f")
        row["", "Converged"] = f"{100 * first['converged']:.0f} %"
        row["", "Runs"] = f"{first['n_chosen']} of {first['n_restarts']}"
        rows.append(row)
    wide = pd.DataFrame(rows)
    wide.columns = pd.MultiIndex.from_tuples(wide.columns)
    return wide


def _or_dash(value, form):
    return "–" if pd.isna(value) else format(value, form)


_HTML = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 1.5em; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; margin-bottom: 2em; }}
th, td {{ padding: .35em .8em; text-align: left; vertical-align: top; max-width: 40em; }}
thead tr:last-child th {{ border-bottom: 2px solid #333; }}
td {{ border-bottom: 1px solid #ddd; }}
</style></head><body>
{tables}
</body></html>
"""
