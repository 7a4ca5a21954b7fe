"""From scores to the tables that people read, and from those to files."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bjmd.report import pages
from bjmd.report.tables import markdown
from bjmd_paper import scores
from bjmd_paper.datasets import catalogue


@dataclass(frozen=True)
class Table:
    """A table as numbers for machines, and as what people read: sentences and tables of text cells, in this order."""

    data: pd.DataFrame
    shown: list

    @classmethod
    def of(cls, data):
        """A table that people read as it is."""
        return cls(data, [text_cells(data)])


def text_cells(table):
    """The same table as text, with a dash where there is no value."""
    return table.astype(object).where(table.notna(), "–").astype(str)


def write(table, title, caption, output):
    """Write a table as CSV, Markdown, LaTeX, a fragment of HTML for the report, and a page of the same."""
    table.data.to_csv(output.csv, index=False)
    text, latex, fragment = [], [], []
    for part in table.shown:
        if isinstance(part, str):
            text.append(f"{part}\n")
            latex.append(f"{part}\n")
            fragment.append(pages.paragraph(part))
        else:
            text.append(markdown(part.set_axis(_flat(part.columns), axis=1)))
            latex.append(part.to_latex(index=False, escape=True, multicolumn_format="c"))
            fragment.append(pages.table(title, part))
    Path(output.markdown).write_text("\n".join(text))
    Path(output.latex).write_text("\n".join(latex))
    Path(output.fragment).write_text("\n".join(fragment))
    Path(output.html).write_text(pages.page(title, [pages.paragraph(caption), *fragment]))


def _flat(columns):
    return [" ".join(filter(None, name)) if isinstance(name, tuple) else name for name in columns]


def printed():
    """All numbers that the paper prints: a row for every family, row of its tables, and source."""
    rows = [
        (name, row, c + 1, auc, numbers.seconds, numbers.noise[c] if numbers.noise else None)
        for name, family in catalogue.families().items()
        for row, numbers in family.printed.items()
        for c, auc in enumerate(numbers.auc)
    ]
    return pd.DataFrame(rows, columns=["data", "row", "source", "auc", "seconds", "noise"])


def performance(runs, family, rows):
    """How well each fit finds the classes of one data set, ours beside the printed numbers of the paper.

    `rows` maps a fit to its label and, as paper_row, to the row of the paper's table that it stands for.
    """
    table = scores.summary(runs)
    table.insert(1, "label", [rows[fit]["label"] for fit in table["fit"]])
    table.insert(2, "row", [rows[fit].get("paper_row", "") for fit in table["fit"]])
    paper = printed()
    paper = paper[paper["data"] == family].rename(columns={"auc": "paper_auc", "seconds": "paper_seconds"})
    table = table.merge(paper[["row", "source", "paper_auc", "paper_seconds"]], on=["row", "source"], how="left")
    table["difference"] = table["auc"] - table["paper_auc"]
    table = table.drop(columns="row")
    return Table(table, [_wide(table)])


def noise_levels(runs, real_families, rows):
    """Noise sd per data set, fit and source, ours beside the printed one; fits without a noise model are left out."""
    table = pd.concat([scores.summary(one).assign(data=name) for name, one in zip(real_families, runs, strict=True)])
    table = table.dropna(subset="noise")
    table["row"] = [rows[fit].get("paper_row", "") for fit in table["fit"]]
    table["algorithm"] = [rows[fit]["label"] for fit in table["fit"]]
    paper = printed().rename(columns={"noise": "paper"})
    table = table.merge(paper[["data", "row", "source", "paper"]], on=["data", "row", "source"], how="left")
    table["difference (%)"] = 100 * (table["noise"] / table["paper"] - 1)
    return Table.of(table[["data", "algorithm", "source_name", "noise", "paper", "difference (%)"]].round(4))


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
