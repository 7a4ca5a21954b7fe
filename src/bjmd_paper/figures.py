"""The figures of the paper's exhibits; exhibits.toml says what each is drawn from."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from bjmd.inference import registry, restarts
from bjmd.report.style import COLOURS, MARKERS, styled
from bjmd_paper import feature_test, scores, tables
from bjmd_paper.metric import auc_watch


def families(fits):
    """Names of fits in groups: a method and its pooled version with the same options."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, fit in fits.items():
        options = str(sorted(fit.get("options", {}).items()))
        key = registry.get(fit["method"]).fit.__module__, options
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def line_styles(fits):
    """One colour and marker per group; as in the paper, dashed with a noise level per source."""
    styles = {}
    for i, family in enumerate(families(fits)):
        colour = COLOURS[i % len(COLOURS)]
        for name in family:
            pooled = registry.get(fits[name]["method"]).concatenate
            styles[name] = {
                "color": colour,
                "marker": MARKERS[i % len(MARKERS)],
                "linestyle": "-" if pooled else "--",
                "markerfacecolor": colour if pooled else "white",
            }
    return styles


@styled
def auc(draws, fits):
    """AUC against the noise of source 3 by source: the mean over draws and its 95 % interval."""
    table = tables.over_draws(draws)
    sources = sorted(table["source"].unique())
    styles = line_styles({name: fit for name, fit in fits.items() if name in set(table["fit"])})
    figure = Figure(figsize=(3.1 * len(sources), 3.8), layout="constrained")
    axes = figure.subplots(1, len(sources), sharey=True, squeeze=False)[0]
    for ax, source in zip(axes, sources, strict=True):
        for fit, line in table[table["source"] == source].groupby("fit", sort=False):
            ax.plot(line["sigma3"], line["mean"], label=fits[fit]["label"], **styles[fit])
            half = line["half_width"]
            ax.fill_between(
                line["sigma3"],
                line["mean"] - half,
                line["mean"] + half,
                color=styles[fit]["color"],
                alpha=0.15,
                linewidth=0,
            )
        ax.set_title(f"Source {source}")
        ax.set_xlabel("Noise sd of source 3")
        ax.grid(axis="y", color="0.9")
    axes[0].set_ylabel(f"AUC (%), mean of {table['n'].max()} draws")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, handlelength=3.5)
    return figure


@styled
def advi_traces(advi):
    """ELBO, change and AUC along the iterations of ADVI: draws thin, their means thick."""
    traces = pd.concat(advi)
    above = traces["objective"] - traces.groupby("draw")["objective"].transform("min")
    traces["objective"] = above.where(above > 0)  # a log axis has no zero
    traces["change"] *= 100
    aucs = [column for column in traces if column.startswith("auc_")]
    figure = Figure(figsize=(9.4, 2.9), layout="constrained")
    axes = figure.subplots(1, 3)
    panels = (
        (["objective"], "Minus ELBO above its lowest"),
        (["change"], "Change of the memberships (%)"),
        (aucs, "AUC (%)"),
    )
    for ax, (columns, title) in zip(axes, panels, strict=True):
        for c, column in enumerate(columns):
            wide = traces.pivot(index="iteration", columns="draw", values=column)
            style = {"color": COLOURS[c % len(COLOURS)], "linestyle": ["-", "--", ":"][c % 3]}
            ax.plot(wide.index, wide, alpha=0.35, **{**style, "linewidth": 0.6})
            ax.plot(
                wide.index,
                wide.mean(axis=1),
                label=f"source {c + 1}",
                **{**style, "linewidth": 1.8},
            )
        for place in (20_000, 80_000):
            if place < traces["iteration"].max():
                ax.axvline(place, color="0.6", linestyle=":", linewidth=1)
        ax.set_yscale("linear" if columns is aucs else "log")
        ax.set_title(title, loc="left")
        ax.set_xlabel("Iteration")
        ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.xaxis.set_major_formatter("{x:,.0f}")
    axes[2].legend(loc="lower right", handlelength=2.5)
    return figure


@styled
def objective(traces, fits):
    """Objective against iteration, a panel per group; the best run thick, other chosen runs thin.

    Methods that report only their last value are left out.
    """
    longest = traces.groupby("fit")["iteration"].nunique()
    present = [[name for name in family if longest.get(name, 0) > 1] for family in families(fits)]
    present = [family for family in present if family]
    styles = line_styles(fits)
    n_columns = min(3, len(present))
    n_rows = -(-len(present) // n_columns)
    figure = Figure(figsize=(3.4 * n_columns, 2.8 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for ax, family in zip(axes, present, strict=False):
        for name in family:
            for rank, line in traces[traces["fit"] == name].groupby("rank"):
                style = {**styles[name], "marker": ""}
                first = rank == 1
                ax.plot(
                    line["iteration"],
                    line["objective"],
                    label=fits[name]["label"] if first else None,
                    **{**style, "linewidth": 1.8 if first else 0.6, "alpha": 1 if first else 0.6},
                )
        ax.set_xlabel("Iteration")
        ax.set_xscale("log")
        few_decades = traces[traces["fit"].isin(family)]["iteration"].max() < 100
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few_decades else (1,), numticks=9))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter("")
        ax.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)
        ax.legend(loc="best", handlelength=3)
    for ax in axes[len(present) :]:
        ax.set_visible(False)
    for ax in axes[::n_columns]:
        ax.set_ylabel("Objective")
    return figure


@styled
def noise(sources, truth, runs, fits):
    """Histograms of the true noise of each source and the estimated normal densities, by fit."""
    (truth,) = truth
    residuals = [
        (x - truth.components @ h).ravel()
        for x, h in zip(sources.matrices, truth.memberships, strict=True)
    ]
    chosen = runs[runs["chosen"]].groupby(["fit", "source"])["noise"].mean()
    rows = [
        name
        for name, fit in fits.items()
        if not registry.get(fit["method"]).concatenate
        and name in chosen
        and chosen[name].notna().all()
    ]
    widest = 3.5 * max(truth.noise)
    grid = np.linspace(-widest, widest, 601)
    bins = np.linspace(-widest, widest, 121)
    figure = Figure(figsize=(7.6, 1.9 * len(rows) + 0.6), layout="constrained")
    axes = figure.subplots(len(rows), 1, sharex=True, squeeze=False).ravel()
    for ax, name in zip(axes, rows, strict=True):
        for c, (residual, source) in enumerate(zip(residuals, sources.names, strict=True)):
            sigma = chosen[name, c + 1]
            ax.hist(residual, bins, density=True, color=COLOURS[c], alpha=0.3)
            label = f"{source}: true sd {truth.noise[c]:g},\nestimate {sigma:.3f}"
            density = np.exp(-((grid / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
            ax.plot(grid, density, color=COLOURS[c], linestyle=["-", "--", ":"][c % 3], label=label)
        ax.set_title(fits[name]["label"], loc="left")
        ax.set_ylabel("Density")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=2.5)
    axes[-1].set_xlabel("Noise")
    return figure


@styled
def convergence(sources, advi, n_components, seed):
    """ELBO, change and AUC of the best run by ADVI (above) and a run of the closed form (below)."""
    (advi,) = restarts.best([run for chunk in advi for run in chunk], 1)
    cavi = registry.fit(
        "cavi-bjmd",
        sources,
        n_components,
        seed=seed,
        priors="paper",
        watch=auc_watch(sources.labels),
    )
    figure = Figure(figsize=(9.4, 4.8), layout="constrained")
    axes = figure.subplots(2, 3)
    iterations = advi.trace_step * np.arange(1, len(advi.trace) + 1)
    sweeps = np.arange(1, len(cavi.trace) + 1)
    # the closed form stops by its ELBO, so its panel shows the relative gain of a sweep
    gains = -np.diff(cavi.trace, prepend=np.nan) / np.abs(cavi.trace)
    for row, x, run, name, change, of_what in (
        (axes[0], iterations, advi, "ADVI", advi.history["relative_change"], "the memberships"),
        (axes[1], sweeps, cavi, "Closed form", np.where(gains > 0, gains, np.nan), "the ELBO"),
    ):
        row[0].plot(x, run.trace, color=COLOURS[0])
        row[0].set_title(f"{name}: down to {run.trace[-1]:,.0f}", loc="left")
        row[0].set_ylabel("Minus ELBO")
        row[1].plot(x, 100 * change, color=COLOURS[0])
        row[1].set_title(f"{name}: change of {of_what}", loc="left")
        row[1].set_ylabel("Change (%)")
        for c, source in enumerate(sources.names):
            style = {
                "color": COLOURS[c % len(COLOURS)],
                "linestyle": ["-", "--", ":"][c % 3],
                "label": source,
            }
            row[2].plot(x, 100 * run.history["auc"][:, c], **style)
        row[2].set_title(f"{name}: AUC after {run.seconds:,.2f} s", loc="left")
        row[2].set_ylabel("AUC (%)")
        row[2].legend(loc="lower right", handlelength=2.5)
        row[1].set_yscale("log")
        for ax in row:
            ax.set_xlabel("Iteration" if run is advi else "Sweep")
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            ax.xaxis.set_major_formatter("{x:,.0f}")
    return figure


@styled
def features(table, sources, runs, fit, level):
    """The sorted variances of the features by source, with the noise variance and the threshold."""
    noise = scores.mean_noise(runs, fit)
    limits = feature_test.threshold(sources, noise, level)
    figure = Figure(figsize=(3.1 * len(sources), 3.2), layout="constrained")
    axes = figure.subplots(1, len(sources), sharey=True, squeeze=False)[0]
    for ax, name, sd, limit in zip(axes, sources.names, noise, limits, strict=True):
        variance = np.sort(table[f"variance {name}"])[::-1]
        n_passed = int(table[f"passes {name}"].sum())
        rank = np.arange(1, len(variance) + 1)
        ax.plot(rank, variance, color=COLOURS[0])
        ax.fill_between(
            rank[:n_passed], variance[:n_passed], limit, color=COLOURS[0], alpha=0.2, linewidth=0
        )
        ax.axhline(limit, color=COLOURS[1], linestyle="--", label=f"threshold {limit:.3g}")
        ax.axhline(sd**2, color=COLOURS[2], linestyle=":", label=f"noise variance {sd**2:.3g}")
        ax.set_yscale("log")
        ax.set_title(f"{name}: {n_passed:,} of {len(variance):,} pass", loc="left")
        ax.set_xlabel("Features by variance")
        ax.legend(loc="upper right", handlelength=2.5)
    axes[0].set_ylabel("Sample variance")
    figure.suptitle(f"{int(table['kept'].sum()):,} features are kept", x=0.01, ha="left")
    return figure


@styled
def noise_by_amount(runs, fits):
    """The noise sd of each source against its amount of RNA, by fit; sources are called "30 pg"."""
    chosen = runs[runs["chosen"] & runs["fit"].isin(fits)].dropna(subset="noise")
    chosen = chosen.assign(amount=chosen["source_name"].str.removesuffix(" pg").astype(float))
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    ax = figure.subplots()
    for i, (fit, line) in enumerate(chosen.groupby("fit", sort=False)):
        noise_sd = line.groupby("amount")["noise"].mean()
        ax.plot(
            noise_sd.index,
            noise_sd,
            label=fits[fit]["label"],
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            linestyle=["-", "--", ":"][i % 3],
        )
    amounts = sorted(chosen["amount"].unique())
    ax.set_xscale("log")
    ax.set_xticks(amounts, [f"{amount:g}" for amount in amounts])
    ax.minorticks_off()
    ax.set_xlabel("RNA in a sample (pg)")
    ax.set_ylabel("Noise sd")
    ax.set_ylim(bottom=0)
    ax.legend(loc="best", handlelength=3)
    return figure


@styled
def shares(shares, fits):
    """Estimated against true shares, a panel for the best run of each fit, the best fit first."""
    best = shares[shares["rank"] == 1]
    errors = (best["estimate"] - best["true"]).abs().groupby(best["fit"]).mean().sort_values()
    n_columns = min(4, len(errors))
    n_rows = -(-len(errors) // n_columns)
    figure = Figure(figsize=(2.5 * n_columns, 2.6 * n_rows + 0.4), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False).ravel()
    # samples of the same share side by side, not on top of each other
    shift = np.random.default_rng(0).uniform(-0.015, 0.015, len(best))
    best = best.assign(place=best["true"] + shift)
    for ax, (fit, error) in zip(axes, errors.items(), strict=False):
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for i, (part, points) in enumerate(best[best["fit"] == fit].groupby("part")):
            ax.plot(
                points["place"],
                points["estimate"],
                linestyle="",
                marker=MARKERS[i % len(MARKERS)],
                markersize=2.5,
                alpha=0.5,
                color=COLOURS[i % len(COLOURS)],
                label=part,
            )
        ax.set_title(fits[fit]["label"], loc="left", fontsize="small")
        ax.text(0.03, 0.97, f"error {error:.3f}", transform=ax.transAxes, va="top")
    for ax in axes[len(errors) :]:
        ax.set_visible(False)
    for ax in axes[::n_columns]:
        ax.set_ylabel("Estimated share")
    for ax in axes[max(0, len(errors) - n_columns) : len(errors)]:
        ax.set_xlabel("True share")
        ax.tick_params(labelbottom=True)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure
