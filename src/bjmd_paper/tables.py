"""The tables of the paper's exhibits, from scores, and how a table is written to files."""

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from bjmd import __version__
from bjmd.report import pages
from bjmd.report.tables import markdown
from bjmd_paper import scores
from bjmd_paper.datasets import catalogue
from bjmd_paper.draws import ALL, ANY

DECIMALS = {
    **dict.fromkeys(
        ("auc", "auc_1", "auc_2", "auc_3", "auc_scaled", "matched", "matched_scaled"), 3
    ),
    **dict.fromkeys(("noise", "seconds", "power"), 4),
    **dict.fromkeys(("objective", "converged", "iterations"), 2),
    "false_rate": 6,
}
"""Decimals of the numbers of single draws: enough to compute their statistics again."""
SHOWN_ITERATIONS = (1000, 5000, 10_000, 20_000, 40_000, 80_000)
"""Iterations that the table of ADVI's traces shows, besides the last."""
PACKAGES = (
    *("numpy", "scipy", "numba", "scikit-learn", "pandas"),
    *("pymc", "pytensor", "matplotlib", "snakemake"),
)


@dataclass(frozen=True)
class Table:
    """A table as numbers, and as the sentences and tables of text cells that people read."""

    data: pd.DataFrame
    shown: list

    @classmethod
    def of(cls, data):
        """A table that people read as it is."""
        return cls(data, [text_cells(data)])


@dataclass(frozen=True)
class Marked:
    """A table of text cells, with a CSS class of page.css, or nothing, for each cell."""

    cells: pd.DataFrame
    marks: pd.DataFrame


def text_cells(table):
    """The same table as text, with a dash where there is no value."""
    return table.astype(object).where(table.notna(), "–").astype(str)


def write(table, title, caption, output):
    """Write a table as CSV, Markdown, LaTeX, an HTML fragment for the report, and an HTML page."""
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
    """How well each fit finds the classes of one data set, with the paper's numbers.

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
        table, [_wide(table), "With classes and components matched one to one:", _matched(table)]
    )


def noise_levels(runs, real_families, rows):
    """Noise sd per data set, fit and source, and the printed one; only fits with a noise model."""
    summaries = [
        scores.summary(one).assign(data=name) for name, one in zip(real_families, runs, strict=True)
    ]
    table = pd.concat(summaries).dropna(subset="noise")
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
    """Mean AUC by fit, sigma3 and source, with its standard error and half its 95 % interval."""
    grouped = pd.concat(draws).groupby(["fit", "sigma3", "source"], sort=False)["auc"]
    table = grouped.agg(mean="mean", sd="std", n="count").reset_index()
    table["se"] = table["sd"] / np.sqrt(table["n"])
    table["half_width"] = table["se"] * stdtrit(np.maximum(table["n"] - 1, 1), 0.975)
    return table


def draws(draws, rows):
    """All draws of one scale, shown as means with standard errors and the sd of a draw."""
    summary = over_draws(draws)
    summary["Algorithm"] = [rows[fit]["label"] for fit in summary["fit"]]
    summary["cell"] = [
        f"{row.mean:.2f} ± {row.se:.2f} ({row.sd:.2f})" if row.n > 1 else f"{row.mean:.2f}"
        for row in summary[["mean", "se", "sd", "n"]].itertuples()
    ]
    shown = [
        f"Number of draws: {summary['n'].max()}. Means over draws ± their standard errors, with "
        "the standard deviation of a draw in brackets. The columns are the noise sd of source 3."
    ]
    for source, part in summary.groupby("source"):
        wide = part.pivot(index="Algorithm", columns="sigma3", values="cell")
        wide = wide.loc[part["Algorithm"].unique()].rename(columns=str).rename_axis(columns=None)
        shown += [f"Source {source}:", wide.reset_index()]
    return Table(_rounded(pd.concat(draws)), shown)


def _rounded(table):
    return table.round({name: decimals for name, decimals in DECIMALS.items() if name in table})


def advi_traces(advi):
    """The traces of ADVI, shown as means over draws at some of the iterations."""
    traces = pd.concat(advi, ignore_index=True)
    last = traces["iteration"].max()
    lowest = traces.groupby("draw")["objective"].transform("min")
    columns = {
        "Minus ELBO above its lowest": (traces["objective"] - lowest, ",.1f"),
        "Change of the memberships (%)": (100 * traces["change"], ".3g"),
        **{f"AUC, source {c}": (traces[f"auc_{c}"], ".2f") for c in (1, 2, 3)},
    }
    iterations = [iteration for iteration in SHOWN_ITERATIONS if iteration < last] + [last]
    shown = pd.DataFrame({"Iteration": [f"{iteration:,}" for iteration in iterations]})
    for head, (values, form) in columns.items():
        shown[head] = [
            _with_error(values[traces["iteration"] == iteration], form) for iteration in iterations
        ]
    n_draws = traces["draw"].nunique()
    sentence = f"Number of draws: {n_draws}. Means over draws ± their standard errors."
    return Table(_rounded(traces), [sentence, shown])


def _with_error(values, form="+.2f"):
    """The mean of some draws and its standard error, as text."""
    if values.empty:
        return "–"
    error = f" ± {values.sem():{form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{values.mean():{form}}{error}"


def feature_draws(features, rows, level):
    """The feature test on every draw, shown as its power and its false positives by source."""
    table = pd.concat(features)
    labels = {name: row["label"] for name, row in rows.items()} | {"truth": "the truth"}
    places = {1: "source 1", 2: "source 2", 3: "source 3", ALL: "all sources", ANY: "any source"}
    power = f"Power (%): true features that pass, mean over {table['draw'].nunique()} draws."
    false = f"Draws with a false positive (%); {100 * level:g} are expected in each source."
    parts = []
    for sentence, column, decimals in ((power, "power", 1), (false, "any_false", 0)):
        keys = ["extra", "noise_from"]
        means = 100 * table.pivot_table(index=keys, columns="source", values=column, sort=False)
        cells = means[list(places)].map(f"{{:.{decimals}f}}".format).rename(columns=places)
        cells = cells.rename_axis(columns=None).reset_index()
        cells["noise_from"] = cells["noise_from"].map(labels)
        cells["extra"] = cells["extra"].astype(str)
        parts += [
            sentence,
            cells.rename(columns={"extra": "noise features", "noise_from": "noise by"}),
        ]
    return Table(_rounded(table), parts)


def feature_draws_auc(feature_auc, rows):
    """The AUC of every method before and after the feature test, shown as means over draws."""
    table = pd.concat(feature_auc)
    wide = table.pivot_table(
        index=["fit", "extra", "draw"], columns="stage", values="auc", sort=False
    )
    wide = wide.reindex(columns=["before", "after"])
    shown = []
    for name, fit in wide.groupby("fit", sort=False):
        row = {("", "Algorithm"): rows[name]["label"]}
        for extra, auc in fit.groupby("extra"):
            head = f"{extra} noise features"
            row[head, "before"] = f"{auc['before'].mean():.2f}"
            row[head, "after"] = _or_dash(auc["after"].mean(), ".2f")
            row[head, "gain"] = _with_error((auc["after"] - auc["before"]).dropna())
        shown.append(row)
    cells = pd.DataFrame(shown)
    cells.columns = pd.MultiIndex.from_tuples(cells.columns)
    n_draws = table.groupby("extra")["draw"].nunique()
    n_passed = table[table["stage"] == "after"].groupby("extra")["draw"].nunique()
    counts = "; ".join(
        f"{extra} noise features: {n_passed.get(extra, 0)} of {n}" for extra, n in n_draws.items()
    )
    sentence = (
        "Mean AUC over sources and draws; the gain is paired by draw, with its standard error. "
        f"Draws in which a feature passed: {counts}."
    )
    return Table(_rounded(table), [sentence, cells])


def integration(runs, families, fits):
    """Measures of integration of every fit, averaged over the sources and the chosen runs."""
    means = []
    shown = []
    for family, scored in zip(families, runs, strict=True):
        n_restarts = scored.groupby("fit")["seed"].nunique()
        by_fit = scored[scored["chosen"] & scored["fit"].isin(fits)].groupby("fit", sort=False)
        mean = by_fit[list(scores.INTEGRATION)].mean()
        mean = mean.assign(n_chosen=by_fit["seed"].nunique(), n_restarts=n_restarts).reset_index()
        mean.insert(0, "data", family)
        mean.insert(2, "label", [fits[fit]["label"] for fit in mean["fit"]])
        means.append(mean)
        cells = {head: mean[name].round(n) for name, (head, n) in scores.INTEGRATION.items()}
        cells = pd.DataFrame({"Algorithm": mean["label"], **cells})
        cells["Runs"] = [f"{run.n_chosen} of {run.n_restarts}" for run in mean.itertuples()]
        shown += [f"{family}:", text_cells(cells)]
    return Table(pd.concat(means, ignore_index=True), shown)


def provenance(runs, datasets, fits_table, seed):
    """The fits with their options, the processor time of each, the seed and the versions.

    `datasets` has the family of each run.
    """
    settings = {"seed": seed, "bjmd": __version__, "python": platform.python_version()}
    settings |= {name: version(name) for name in PACKAGES}
    rows = [
        one[one["source"] == 1].assign(data=family)
        for family, one in zip(datasets.values(), runs, strict=True)
    ]
    rows = pd.concat(rows)
    rows = rows[rows["fit"] != "truth"]
    seconds = rows.pivot_table(
        index="fit", columns="data", values="seconds", aggfunc="sum", sort=False
    )
    minutes = seconds / 60
    minutes["all"] = minutes.sum(axis=1)
    minutes.loc["all"] = minutes.sum()
    minutes = minutes.reset_index()
    return Table(
        minutes,
        [
            "The fits:",
            text_cells(pd.DataFrame(fits_table)),
            "Processor time of all restarts of each fit, in minutes:",
            text_cells(minutes.round(2)),
            "The seed and the versions:",
            pd.DataFrame(settings.items(), columns=["what", "value"]).astype(str),
        ],
    )


def _wide(table):
    """A row per fit and way to score it: our AUC in each source, the paper's, the difference."""
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
    """(label, score) of a fit, and of its scaled memberships if they did not sum to one anyway."""
    label = fit["label"].iloc[0]
    raw = fit[["auc", "matched"]]
    scaled = fit[["auc_scaled", "matched_scaled"]]
    if np.allclose(raw, scaled, rtol=0, atol=1e-9, equal_nan=True):
        return [(label, score)]
    return [(label, score), (f"{label}, columns scaled", f"{score}_scaled")]


def _or_dash(value, form):
    return "–" if pd.isna(value) else format(value, form)
