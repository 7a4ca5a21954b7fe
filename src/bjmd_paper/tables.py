"""The tables of the paper's exhibits, from scores."""

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from bjmd import __version__
from bjmd_paper import scores
from bjmd_paper.datasets import catalogue
from bjmd_paper.draws import ALL, ANY
from bjmd_paper.table_files import Table, text_cells

SHOWN_ITERATIONS = (1000, 5000, 10_000, 20_000, 40_000, 80_000)
"""Iterations that the table of ADVI's traces shows, besides the last."""
PACKAGES = (
    *("numpy", "scipy", "numba", "scikit-learn", "pandas"),
    *("pymc", "pytensor", "matplotlib", "snakemake"),
)


def performance(runs, family, rows):
    """How well each fit finds the classes of one data set, with the paper's numbers.

    `rows` maps a fit to its label and, as paper_row, to the row of the paper's table that it stands
    for.
    """
    table = _beside_printed({family: runs}, rows)
    table = table.drop(columns=["data", "row", "paper_noise"])
    table["difference"] = table["auc"] - table["paper_auc"]
    table.insert(1, "label", table.pop("label"))
    return Table(
        table, [_wide(table), "With classes and components matched one to one:", _matched(table)]
    )


def noise_levels(runs, real_families, rows):
    """Noise sd per data set, fit and source, and the printed one; only fits with a noise model."""
    table = _beside_printed(dict(zip(real_families, runs, strict=True)), rows)
    table = table.dropna(subset="noise").rename(
        columns={"label": "algorithm", "paper_noise": "paper"}
    )
    table["difference (%)"] = 100 * (table["noise"] / table["paper"] - 1)
    columns = ["data", "algorithm", "source_name", "noise", "paper", "difference (%)"]
    table = table[columns].round(4)
    return Table(table, [text_cells(table)])


def _beside_printed(runs, rows):
    """The summary of the runs of each family with labels and the paper's numbers."""
    table = pd.concat([scores.summary(one).assign(data=family) for family, one in runs.items()])
    table["label"] = [rows[fit]["label"] for fit in table["fit"]]
    table["row"] = [rows[fit].get("paper_row", "") for fit in table["fit"]]
    names = {name: f"paper_{name}" for name in ("auc", "seconds", "noise")}
    paper = catalogue.printed().rename(columns=names)
    return table.merge(paper, on=["data", "row", "source"], how="left")


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
    counts = summary.groupby("Algorithm", sort=False)["n"].max()
    fewer = [f"{n} by {label}" for label, n in counts.items() if n < counts.max()]
    shown = [
        f"Number of draws: {', '.join([str(counts.max()), *fewer])}. Means over draws ± their "
        "standard errors, with the standard deviation of a draw in brackets. The columns are the "
        "noise sd of source 3."
    ]
    for source, part in summary.groupby("source"):
        wide = part.pivot(index="Algorithm", columns="sigma3", values="cell")
        wide = wide.loc[part["Algorithm"].unique()].rename(columns=str).rename_axis(columns=None)
        shown += [f"Source {source}:", wide.reset_index()]
    return Table(pd.concat(draws), shown)


def conjecture(draws, rows):
    """Draws of the small data with patterns of another height, beside the printed numbers."""
    table = over_draws(draws)
    table["row"] = [rows[fit].get("paper_row", "") for fit in table["fit"]]
    paper = catalogue.printed().rename(columns={"auc": "paper"})
    paper = paper.loc[paper["data"] == "small", ["row", "source", "paper"]]
    table = table.merge(paper, on=["row", "source"], how="left")
    table["z"] = (table["paper"] - table["mean"]) / table["sd"]
    shown = []
    for fit, cells in table.groupby("fit", sort=False):
        row = {("", "Algorithm"): rows[fit]["label"]}
        for cell in cells[["source", "mean", "sd", "paper", "z"]].itertuples():
            head = f"source {cell.source}"
            row[head, "ours"] = f"{cell.mean:.1f} ({cell.sd:.1f})"
            row[head, "paper"] = _or_dash(cell.paper, ".1f")
            row[head, "z"] = _or_dash(cell.z, "+.1f")
        shown.append(row)
    columns = ["fit", "source", "mean", "sd", "n", "paper", "z"]
    return Table(table[columns], [f"Number of draws: {table['n'].max()}.", _two_heads(shown)])


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
    return Table(traces, [sentence, shown])


def _with_error(values, form="+.2f"):
    """The mean of some draws and its standard error, as text."""
    if values.empty:
        return "–"
    error = f" ± {values.sem():{form.lstrip('+')}}" if len(values) > 1 else ""
    return f"{values.mean():{form}}{error}"


def feature_draws(features, rows, level):
    """The feature test on every draw, shown as its power and its false positives by source."""
    table = pd.concat(features).sort_values("extra", kind="stable")
    labels = {name: row["label"] for name, row in rows.items()} | {"truth": "the truth"}
    places = {1: "source 1", 2: "source 2", 3: "source 3", ALL: "all sources", ANY: "any source"}
    power = f"Power (%): true features that pass, mean over {table['draw'].nunique()} draws."
    false = f"Draws with a false positive (%); {100 * level:g} are expected in each source."
    parts = []
    for sentence, column, form in ((power, "power", "{:.1f}"), (false, "any_false", "{:.0f}")):
        keys = ["extra", "noise_from"]
        means = 100 * table.pivot_table(index=keys, columns="source", values=column, sort=False)
        cells = means[list(places)].map(form.format).rename(columns=places).reset_index()
        cells["noise_from"] = cells["noise_from"].map(labels)
        heads = {"extra": "noise features", "noise_from": "noise by"}
        parts += [sentence, cells.astype(str).rename(columns=heads).rename_axis(columns=None)]
    return Table(table, parts)


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
    cells = _two_heads(shown)
    n_draws = table.groupby("extra")["draw"].nunique()
    n_passed = table[table["stage"] == "after"].groupby("extra")["draw"].nunique()
    counts = "; ".join(
        f"{extra} noise features: {n_passed.get(extra, 0)} of {n}" for extra, n in n_draws.items()
    )
    sentence = (
        "Mean AUC over sources and draws; the gain is paired by draw, with its standard error. "
        f"Draws in which a feature passed: {counts}."
    )
    return Table(table, [sentence, cells])


def integration(runs, families, fits):
    """Measures of integration of every fit, averaged over the sources and the chosen runs."""
    scored = pd.concat([one.assign(data=name) for one, name in zip(runs, families, strict=True)])
    scored = scored[scored["fit"].isin(fits)]
    chosen, tried = (
        one.groupby(["data", "fit"], sort=False) for one in (scored[scored["chosen"]], scored)
    )
    means = chosen[list(scores.INTEGRATION)].mean()
    counts = {"n_chosen": chosen["seed"].nunique(), "n_restarts": tried["seed"].nunique()}
    means = means.assign(**counts).reset_index()
    means.insert(2, "label", [fits[fit]["label"] for fit in means["fit"]])
    shown = []
    for family, part in means.groupby("data", sort=False):
        cells = {head: part[name].round(n) for name, (head, n) in scores.INTEGRATION.items()}
        ran = [f"{run.n_chosen} of {run.n_restarts}" for run in part.itertuples()]
        cells = pd.DataFrame({"Algorithm": part["label"], **cells, "Runs": ran})
        shown += [f"{family}:", text_cells(cells)]
    return Table(means, shown)


def provenance(runs, families, fits_table, seed):
    """The fits with their options, the processor time of each, the seed and the versions."""
    settings = {"seed": seed, "bjmd": __version__, "python": platform.python_version()}
    settings |= {name: _version(name) for name in PACKAGES}
    of_family = [
        one[(one["source"] == 1) & (one["fit"] != "truth")].groupby("fit", sort=False)["seconds"]
        for one in runs
    ]
    minutes = pd.concat([one.sum() / 60 for one in of_family], axis=1, keys=families)
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


def _version(package):
    try:
        return version(package)
    except PackageNotFoundError:  # PyMC is needed only for ADVI
        return "not installed"


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
    return _two_heads(rows)


def _two_heads(rows):
    """A table of rows {(upper head, lower head): cell}."""
    table = pd.DataFrame(rows)
    table.columns = pd.MultiIndex.from_tuples(table.columns)
    return table


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
