"""From scores to the tables that people read, and from those to files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from bjmd.report import pages
from bjmd.report.tables import markdown
from bjmd_paper import scores
from bjmd_paper.datasets import catalogue
from bjmd_paper.draws import ALL, ANY


@dataclass(frozen=True)
class Table:
    """A table as numbers for machines, and as what people read: sentences and tables of text cells,
    in this order.
    """

    data: pd.DataFrame
    shown: list

    @classmethod
    def of(cls, data):
        """A table that people read as it is."""
        return cls(data, [text_cells(data)])


@dataclass(frozen=True)
class Marked:
    """A table of text cells, and for each cell what its look on a page is called in page.css, or
    nothing.
    """

    cells: pd.DataFrame
    marks: pd.DataFrame


def text_cells(table):
    """The same table as text, with a dash where there is no value."""
    return table.astype(object).where(table.notna(), "–").astype(str)


def write(table, title, caption, output):
    """Write a table as CSV, Markdown, LaTeX, a fragment of HTML for the report, and a page of the
    same.
    """
    table.data.to_csv(output.csv, index=False)
    text = []
    latex = []
    fragment = []
    for part in table.shown:
        marks = None
        if isinstance(part, Marked):
            part, marks = part.cells, part.marks
        if isinstance(part, str):
            text.append(f"{part}\n")
            latex.append(f"{part}\n")
            fragment.append(pages.paragraph(part))
        else:
            text.append(markdown(part.set_axis(_flat(part.columns), axis=1)))
            latex.append(part.to_latex(index=False, escape=True, multicolumn_format="c"))
            fragment.append(pages.table(title, part, marks))
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
    """How well each fit finds the classes of one data set, ours beside the printed numbers of the
    paper.

    `rows` maps a fit to its label and, as paper_row, to the row of the paper's table that it stands
    for.
    """
    table = scores.summary(runs)
    table.insert(1, "label", [rows[fit]["label"] for fit in table["fit"]])
    table.insert(2, "row", [rows[fit].get("paper_row", "") for fit in table["fit"]])
    paper = printed()
    paper = paper[paper["data"] == family].rename(
        columns={"auc": "paper_auc", "seconds": "paper_seconds"}
    )
    table = table.merge(
        paper[["row", "source", "paper_auc", "paper_seconds"]], on=["row", "source"], how="left"
    )
    table["difference"] = table["auc"] - table["paper_auc"]
    table = table.drop(columns="row")
    return Table(
        table,
        [_wide(table), "The same with a component of its own for each class:", _matched(table)],
    )


def noise_levels(runs, real_families, rows):
    """Noise sd per data set, fit and source, ours beside the printed one; fits without a noise
    model are left out.
    """
    table = pd.concat(
        [
            scores.summary(one).assign(data=name)
            for name, one in zip(real_families, runs, strict=True)
        ]
    )
    table = table.dropna(subset="noise")
    table["row"] = [rows[fit].get("paper_row", "") for fit in table["fit"]]
    table["algorithm"] = [rows[fit]["label"] for fit in table["fit"]]
    paper = printed().rename(columns={"noise": "paper"})
    table = table.merge(
        paper[["data", "row", "source", "paper"]], on=["data", "row", "source"], how="left"
    )
    table["difference (%)"] = 100 * (table["noise"] / table["paper"] - 1)
    return Table.of(
        table[["data", "algorithm", "source_name", "noise", "paper", "difference (%)"]].round(4)
    )


def over_draws(draws):
    """Mean AUC by fit, sigma3 and source, sd of a draw, standard error, and half of the 95 %
    interval of the mean.
    """
    grouped = pd.concat(draws).groupby(["fit", "sigma3", "source"], sort=False)["auc"]
    table = grouped.agg(mean="mean", sd="std", n="count").reset_index()
    table["se"] = table["sd"] / np.sqrt(table["n"])
    table["half_width"] = table["se"] * stdtrit(np.maximum(table["n"] - 1, 1), 0.975)
    return table


def draws(draws, rows):
    """Every draw of one scale as numbers; to read, the mean, its standard error and the sd of a
    draw.
    """
    summary = over_draws(draws)
    summary["Algorithm"] = [rows[fit]["label"] for fit in summary["fit"]]
    summary["cell"] = [
        f"{row.mean:.2f} ± {row.se:.2f} ({row.sd:.2f})" if row.n > 1 else f"{row.mean:.2f}"
        for row in summary[["mean", "se", "sd", "n"]].itertuples()
    ]
    n_draws = summary["n"].max()
    shown = [
        f"Number of draws: {n_draws}. Means over draws ± their standard errors, and in brackets the standard deviation "
        "of a draw. The columns are the noise sd of source 3."
    ]
    for source, part in summary.groupby("source"):
        wide = part.pivot_table(
            index="Algorithm", columns="sigma3", values="cell", aggfunc="first", sort=False
        )
        shown += [
            f"Source {source}:",
            wide.rename(columns=str).rename_axis(columns=None).reset_index(),
        ]
    return Table(_rounded(pd.concat(draws)), shown)


DECIMALS = {
    **dict.fromkeys(
        ("auc", "auc_1", "auc_2", "auc_3", "auc_scaled", "matched", "matched_scaled"), 3
    ),
    **dict.fromkeys(("noise", "seconds", "power"), 4),
    **dict.fromkeys(("objective", "converged", "iterations"), 2),
    "false_rate": 6,
}
"""With which numbers of single draws are kept: enough to compute again what is said about them, in
small files.
"""


def _rounded(table):
    return table.round({name: decimals for name, decimals in DECIMALS.items() if name in table})


LOOKS = (1000, 5000, 10_000, 20_000, 40_000, 80_000)
"""At which the table of ADVI's traces shows them, and at the end."""


def advi_traces(advi):
    """Every look at ADVI as numbers; to read, the means over draws at some of them."""
    looks = pd.concat(advi)
    end = looks["iteration"].max()
    above = looks["objective"] - looks.groupby("draw")["objective"].transform("min")
    looks = looks.assign(
        **{
            "Minus ELBO above its lowest": above,
            "Change of the memberships (%)": 100 * looks["change"],
        }
    )
    looks = looks.rename(columns={f"auc_{c}": f"AUC, source {c}" for c in (1, 2, 3)})
    at = looks[looks["iteration"].isin([*(look for look in LOOKS if look < end), end])].groupby(
        "iteration"
    )
    shown = pd.DataFrame({"Iteration": [f"{iteration:,}" for iteration in at.groups]})
    for column, form in zip(
        [
            "Minus ELBO above its lowest",
            "Change of the memberships (%)",
            *(f"AUC, source {c}" for c in (1, 2, 3)),
        ],
        [",.1f", ".3g", ".2f", ".2f", ".2f"],
        strict=True,
    ):
        shown[column] = [_with_error(values, form) for _, values in at[column]]
    n_draws = looks["draw"].nunique()
    return Table(
        _rounded(pd.concat(advi)),
        [f"Number of draws: {n_draws}. Means over draws ± their standard errors.", shown],
    )


def _with_error(values, form="+.2f"):
    """The mean of some draws and its standard error, as text."""
    if values.empty:
        return "–"
    error = f" ± {values.sem():{form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{values.mean():{form}}{error}"


def feature_draws(features, rows, level):
    """The feature test on every draw as numbers; to read, its power and its false positives by
    source.
    """
    table = pd.concat(features)
    places = {1: "source 1", 2: "source 2", 3: "source 3", ALL: "all sources", ANY: "any source"}
    n_draws = table["draw"].nunique()
    parts = []
    for sentence, column, form in (
        (
            f"Power: the share of the true features that pass (%), mean over {n_draws} draws.",
            "power",
            "{:.1f}",
        ),
        (
            f"Draws with a false positive (%); by source, {100 * level:g} are expected.",
            "any_false",
            "{:.0f}",
        ),
    ):
        means = 100 * table.pivot_table(
            index=["extra", "noise_from"], columns="source", values=column, sort=False
        )
        shown = (
            means[list(places)]
            .rename(columns=places)
            .map(form.format)
            .rename_axis(columns=None)
            .reset_index()
        )
        shown["extra"] = shown["extra"].astype(str)
        shown["noise_from"] = [
            {**rows, "truth": {"label": "the truth"}}[name]["label"] for name in shown["noise_from"]
        ]
        parts += [
            sentence,
            shown.rename(columns={"extra": "noise features", "noise_from": "noise by"}),
        ]
    return Table(_rounded(table), parts)


def feature_draws_auc(feature_auc, rows):
    """The AUC of every method before and after the feature test; to read, the means over sources
    and draws.
    """
    table = pd.concat(feature_auc)
    wide = table.pivot_table(
        index=["fit", "extra", "draw"], columns="stage", values="auc", sort=False
    )
    wide = wide.reindex(columns=["before", "after"])
    shown = []
    for name, of_fit in wide.groupby("fit", sort=False):
        row = {("", "Algorithm"): rows[name]["label"]}
        for extra, found in of_fit.groupby("extra"):
            head = f"{extra} noise features"
            row[head, "before"] = f"{found['before'].mean():.2f}"
            row[head, "after"] = _or_dash(found["after"].mean(), ".2f")
            row[head, "gain"] = _with_error((found["after"] - found["before"]).dropna())
        shown.append(row)
    cells = pd.DataFrame(shown)
    cells.columns = pd.MultiIndex.from_tuples(cells.columns)
    tested = table[table["stage"] == "after"].groupby("extra")["draw"].nunique()
    of = table.groupby("extra")["draw"].nunique()
    counts = "; ".join(
        f"{extra} noise features: {tested.get(extra, 0)} of {n}" for extra, n in of.items()
    )
    sentence = (
        "Mean AUC over sources and draws; the gain is paired by draw, with its standard error. Draws with features "
        f"that passed: {counts}."
    )
    return Table(_rounded(table), [sentence, cells])


def _wide(table):
    """A row per fit; under each source our AUC, the paper's, and the difference.  Below it, the
    scaled memberships.
    """
    rows = []
    for _, fit in table.groupby("fit", sort=False):
        first = fit.iloc[0]
        time = f"{first['seconds']:.2g}" if first["seconds"] < 10 else f"{first['seconds']:.0f}"
        last = {
            ("Processor time (s)", "ours"): time,
            ("Processor time (s)", "paper"): _or_dash(first["paper_seconds"], ".1f"),
            ("", "Converged"): f"{100 * first['converged']:.0f} %",
            ("", "Runs"): f"{first['n_chosen']} of {first['n_restarts']}",
        }
        for label, score in _ways(fit, "auc"):
            row = {("", "Algorithm"): label}
            for _, cell in fit.iterrows():
                source = cell["source_name"]
                spread = "" if pd.isna(cell[f"{score}_sd"]) else f" ± {cell[f'{score}_sd']:.2f}"
                row[source, "AUC"] = f"{cell[score]:.2f}{spread}"
                row[source, "paper"] = _or_dash(cell["paper_auc"], ".2f")
                row[source, "diff."] = _or_dash(cell[score] - cell["paper_auc"], "+.2f")
            rows.append(row | (last if score == "auc" else dict.fromkeys(last, "")))
    wide = pd.DataFrame(rows)
    wide.columns = pd.MultiIndex.from_tuples(wide.columns)
    return wide


def _matched(table):
    """A row per fit: the mean AUC in each source if no two classes may share a component."""
    return pd.DataFrame(
        [
            {
                "Algorithm": label,
                **{cell["source_name"]: f"{cell[score]:.2f}" for _, cell in fit.iterrows()},
            }
            for _, fit in table.groupby("fit", sort=False)
            for label, score in _ways(fit, "matched")
        ]
    )


def _ways(fit, score):
    """(label, score) of a fit, and again with the memberships scaled, unless they sum to one
    anyway.
    """
    label = fit["label"].iloc[0]
    if np.allclose(
        fit[["auc", "matched"]],
        fit[["auc_scaled", "matched_scaled"]],
        rtol=0,
        atol=1e-9,
        equal_nan=True,
    ):
        return [(label, score)]
    return [(label, score), (f"{label}, columns scaled", f"{score}_scaled")]


def _or_dash(value, form):
    return "–" if pd.isna(value) else format(value, form)
