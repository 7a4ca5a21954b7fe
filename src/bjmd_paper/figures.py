"""The figures of the paper's exhibits; exhibits.toml says what each is drawn from."""

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from bjmd.inference import registry
from bjmd.report.figures import COLOURS, MARKERS, styled
from bjmd_paper import feature_test, scores, tables

STABLE = (20_000, 80_000)
"""Iterations of ADVI after which the paper calls the ELBO and the memberships stable."""


def _panels(n, width, height, most_columns=4, **shared):
    """A figure and its n panels of some width and height, from left to right and top to bottom."""
    n_columns = min(n, most_columns)
    n_rows = -(-n // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False, **shared)
    for ax in axes.ravel()[n:]:
        ax.set_visible(False)
    return figure, axes


def _line(i):
    """The colour and the dashes of line i."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": ("-", "--", ":")[i % 3]}


def _points(i):
    """The colour and the marker of group i."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


def _legend_below(figure, ax, n_columns):
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=n_columns, handlelength=3.5)


def grouped(fits):
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
    for i, group in enumerate(grouped(fits)):
        for name in group:
            pooled = registry.get(fits[name]["method"]).concatenate
            style = (
                {"linestyle": "-"} if pooled else {"linestyle": "--", "markerfacecolor": "white"}
            )
            styles[name] = _points(i) | style
    return styles


@styled
def auc(draws, fits):
    """AUC against the noise of source 3 by source: the mean over draws and its 95 % interval."""
    table = tables.over_draws(draws)
    styles = line_styles({name: fit for name, fit in fits.items() if name in set(table["fit"])})
    figure, (axes,) = _panels(table["source"].nunique(), 3.1, 3.8, sharey=True)
    for ax, (source, part) in zip(axes, table.groupby("source"), strict=True):
        for fit, line in part.groupby("fit", sort=False):
            ax.plot(line["sigma3"], line["mean"], label=fits[fit]["label"], **styles[fit])
            if line["n"].max() < table["n"].max():
                continue  # the interval of a few draws would cover the others
            ends = line["mean"] - line["half_width"], line["mean"] + line["half_width"]
            colour = styles[fit]["color"]
            ax.fill_between(line["sigma3"], *ends, color=colour, alpha=0.15, linewidth=0)
        ax.set(title=f"Source {source}", xlabel="Noise sd of source 3")
        ax.grid(axis="y", color="0.9")
    axes[0].set_ylabel(f"AUC (%), mean of {table['n'].max()} draws")
    _legend_below(figure, axes[0], 4)
    return figure


@styled
def advi_traces(advi):
    """ELBO, change and AUC along the iterations of ADVI: draws thin, their means thick."""
    traces = pd.concat(advi)
    above = traces["objective"] - traces.groupby("draw")["objective"].transform("min")
    traces["objective"] = above.where(above > 0)  # a log axis has no zero
    traces["change"] *= 100
    panels = {
        "Minus ELBO above its lowest": ["objective"],
        "Change of the memberships (%)": ["change"],
        "AUC (%)": [column for column in traces if column.startswith("auc_")],
    }
    figure, (axes,) = _panels(3, 3.1, 2.9)
    for ax, (title, columns) in zip(axes, panels.items(), strict=True):
        for c, column in enumerate(columns):
            wide = traces.pivot(index="iteration", columns="draw", values=column)
            ax.plot(wide.index, wide, alpha=0.35, linewidth=0.6, **_line(c))
            mean = wide.mean(axis=1)
            ax.plot(wide.index, mean, linewidth=1.8, label=f"source {c + 1}", **_line(c))
        for place in STABLE:
            if place < traces["iteration"].max():
                ax.axvline(place, color="0.6", linestyle=":", linewidth=1)
        ax.set_yscale("linear" if title.startswith("AUC") else "log")
        ax.set_title(title, loc="left")
        ax.set_xlabel("Iteration")
        ax.xaxis.set(major_locator=MaxNLocator(4, integer=True), major_formatter="{x:,.0f}")
    axes[2].legend(loc="lower right", handlelength=2.5)
    return figure


@styled
def objective(traces, fits):
    """Objective against iteration, a panel per group; the best run thick, other chosen runs thin.

    Methods that report only their last value are left out.
    """
    longest = traces.groupby("fit")["iteration"].nunique()
    groups = [[name for name in group if longest.get(name, 0) > 1] for group in grouped(fits)]
    groups = [group for group in groups if group]
    styles = line_styles(fits)
    figure, axes = _panels(len(groups), 3.4, 2.8, most_columns=3)
    for ax, group in zip(axes.ravel(), groups, strict=False):
        for name in group:
            style = {**styles[name], "marker": ""}
            for rank, line in traces[traces["fit"] == name].groupby("rank"):
                best = {"linewidth": 1.8, "label": textwrap.fill(fits[name]["label"], 22)}
                width = best if rank == 1 else {"linewidth": 0.6, "alpha": 0.6}
                ax.plot(line["iteration"], line["objective"], **style, **width)
        ax.set(xlabel="Iteration", xscale="log")
        few_decades = traces[traces["fit"].isin(group)]["iteration"].max() < 100
        ticks = LogLocator(subs=(1, 2, 5) if few_decades else (1,), numticks=9)
        ax.xaxis.set(major_locator=ticks, major_formatter="{x:,.0f}", minor_formatter="")
        ax.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)
        ax.legend(loc="best", handlelength=2, fontsize="small")
    for ax in axes[:, 0]:
        ax.set_ylabel("Objective")
    return figure


@styled
def noise(sources, truth, runs, fits):
    """Histograms of the true noise of each source and the estimated normal densities, by fit."""
    (truth,) = truth
    noise = [
        (x - truth.components @ h).ravel()
        for x, h in zip(sources.matrices, truth.memberships, strict=True)
    ]
    estimates = runs[runs["chosen"]].pivot_table(index="fit", columns="source", values="noise")
    rows = [
        name
        for name, fit in fits.items()
        if name in estimates.index and not registry.get(fit["method"]).concatenate
    ]
    widest = 3.5 * max(truth.noise)
    grid = np.linspace(-widest, widest, 601)
    bins = np.linspace(-widest, widest, 121)
    figure, axes = _panels(len(rows), 7.6, 2.1, most_columns=1, sharex=True)
    for ax, name in zip(axes[:, 0], rows, strict=True):
        for c, source in enumerate(sources.names):
            sigma = estimates.loc[name, c + 1]
            ax.hist(noise[c], bins, density=True, color=COLOURS[c], alpha=0.3)
            label = f"{source}: true sd {truth.noise[c]:g},\nestimate {sigma:.3f}"
            density = np.exp(-((grid / sigma) ** 2) / 2) / (sigma * np.sqrt(2 * np.pi))
            ax.plot(grid, density, label=label, **_line(c))
        ax.set_title(fits[name]["label"], loc="left")
        ax.set_ylabel("Density")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=2.5)
    axes[-1, 0].set_xlabel("Noise")
    return figure


@styled
def features(table, sources, runs, fit, level):
    """The sorted variances of the features by source, with the noise variance and the threshold."""
    noise = scores.mean_noise(runs, fit)
    limits = feature_test.threshold(sources, noise, level)
    figure, (axes,) = _panels(len(sources), 3.1, 3.2, sharey=True)
    for ax, name, sd, limit in zip(axes, sources.names, noise, limits, strict=True):
        variance = np.sort(table[f"variance {name}"])[::-1]
        n_passed = int(table[f"passes {name}"].sum())
        rank = np.arange(1, len(variance) + 1)
        ax.plot(rank, variance, color=COLOURS[0])
        above = rank[:n_passed], variance[:n_passed], limit
        ax.fill_between(*above, color=COLOURS[0], alpha=0.2, linewidth=0)
        ax.axhline(limit, color=COLOURS[1], linestyle="--", label=f"threshold {limit:.3g}")
        ax.axhline(sd**2, color=COLOURS[2], linestyle=":", label=f"noise variance {sd**2:.3g}")
        ax.set(yscale="log", xlabel="Features by variance")
        ax.set_title(f"{name}: {n_passed:,} of {len(variance):,} pass", loc="left")
        ax.legend(loc="upper right", handlelength=2.5)
    axes[0].set_ylabel("Sample variance")
    figure.suptitle(f"{int(table['kept'].sum()):,} features are kept", x=0.01, ha="left")
    return figure


@styled
def noise_by_amount(runs, fits):
    """The noise sd of each source against its amount of RNA, by fit; sources are called "30 pg"."""
    chosen = runs[runs["chosen"] & runs["fit"].isin(fits)].dropna(subset="noise")
    amount = chosen["source_name"].str.removesuffix(" pg").astype(float)
    figure, ((ax,),) = _panels(1, 4.6, 3.4)
    for i, (fit, line) in enumerate(chosen.groupby("fit", sort=False)):
        noise_sd = line["noise"].groupby(amount).mean()
        ax.plot(noise_sd, label=fits[fit]["label"], **_line(i) | _points(i))
    amounts = sorted(amount.unique())
    ax.set(xscale="log", xlabel="RNA in a sample (pg)", ylabel="Noise sd", ylim=(0, None))
    ax.set_xticks(amounts, [f"{amount:g}" for amount in amounts])
    ax.minorticks_off()
    ax.legend(loc="best", handlelength=3)
    return figure


@styled
def shares(shares, fits):
    """Estimated against true shares, a panel for the best run of each fit, the best fit first."""
    best = shares[shares["rank"] == 1]
    errors = (best["estimate"] - best["true"]).abs().groupby(best["fit"]).mean().sort_values()
    # samples of the same share side by side, not on top of each other
    shift = np.random.default_rng(0).uniform(-0.015, 0.015, len(best))
    best = best.assign(place=best["true"] + shift)
    figure, axes = _panels(len(errors), 2.5, 2.7, sharex=True, sharey=True)
    for ax, (fit, error) in zip(axes.ravel(), errors.items(), strict=False):
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for i, (part, points) in enumerate(best[best["fit"] == fit].groupby("part")):
            dots = {"linestyle": "", "markersize": 2.5, "alpha": 0.5, "label": part}
            ax.plot(points["place"], points["estimate"], **_points(i), **dots)
        ax.set_title(fits[fit]["label"], loc="left", fontsize="small")
        ax.text(0.03, 0.97, f"error {error:.3f}", transform=ax.transAxes, va="top")
        ax.set_xlabel("True share")
        ax.tick_params(labelbottom=True)
    for ax in axes[:, 0]:
        ax.set_ylabel("Estimated share")
    _legend_below(figure, axes[0, 0], 4)
    return figure
