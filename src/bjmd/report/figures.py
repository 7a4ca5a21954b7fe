"""The figures of one fit, and of a choice of the number of components; `tables` has their numbers.

`data` may be `Sources` or a fit loaded from its folder: only names and labels are used.
`results` are the restarts of one method, best first.

The figures work for 1 to a dozen sources, 1 to 40 components and tens of thousands of samples:
panels wrap, labels are thinned out, long names are shortened, and many small shapes become an
image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from bjmd.analysis.matching import similarities
from bjmd.inference import registry
from bjmd.report import tables
from bjmd.report.style import COLOURS, MARKERS, styled
from bjmd.report.tables import (
    INTERVAL,
    LEVEL,
    Named,
    component_names,
    mean_of_others,
    polygon,
    shares,
    top_features,
)
from bjmd.results.decomposition import Decomposition

if TYPE_CHECKING:
    from bjmd.analysis.number_of_components import Selection
    from bjmd.analysis.summary import Summary

WIDTH = 7.6  # inches, of every figure
MAX_SAMPLES = 1500  # of one source in a figure; more would have less than a pixel each
OTHER = "0.8"  # the grey of whatever has no colour of its own


def of_summary(
    data: Named, summary: Summary, answers: Mapping[str, pd.DataFrame]
) -> dict[str, Figure]:
    """Every figure of a report, by name; `answers` are the tables from `tables.of_summary`."""
    results = summary.results
    best = results[0]
    extensions = tables.extensions(data, best)
    drawn = {
        "memberships": memberships(data, best),
        "membership_bars": membership_bars(data, best),
        "components": components(data, best, n_features=10 if best.n_components <= 12 else 6),
        "convergence": convergence(results),
    }
    if best.noise is not None:
        drawn["noise"] = noise(data, best)
    if "feature_noise" in extensions:
        drawn["feature_noise"] = feature_noise(extensions["feature_noise"])
    if tables.is_shifted(best):
        drawn["offsets"] = offsets(data, extensions["offsets"])
    if best.n_components > 1:
        drawn["simplex"] = simplex(data, best)
    if len(results) > 1:
        drawn["stability"] = stability(results)
    draw_answer = {
        "variance_explained": variance_explained,
        "associations": associations,
        "consensus": consensus,
    }
    drawn |= {
        name: draw_answer[name](table) for name, table in answers.items() if name in draw_answer
    }
    return drawn


def order_of_samples(memberships: np.ndarray) -> np.ndarray:
    """Samples by their strongest component, and within it the purest first."""
    return np.lexsort((-memberships.max(axis=0), memberships.argmax(axis=0)))


def short(names: Sequence, most: int) -> list[str]:
    """Names of at most `most` characters, cut where most of them stay different.

    A dollar sign, which would start a formula in matplotlib, is escaped.
    """
    names = [" ".join(str(name).split()) for name in names]
    half = (most - 1) // 2
    cuts = (
        lambda name: name[: most - 1] + "…",
        lambda name: name[:half] + "…" + name[len(name) - (most - 1 - half) :],
        lambda name: "…" + name[len(name) - most + 1 :],
    )
    ways = [[name if len(name) <= most else cut(name) for name in names] for cut in cuts]
    return [name.replace("$", r"\$") for name in max(ways, key=lambda way: len(set(way)))]


@styled
def memberships(data: Named, result: Decomposition) -> Figure:
    """A heat map of the memberships of every source, above the known classes."""
    labels = data.labels or []
    class_names = short(data.class_names, 14) if labels else []
    n_rows = ceil(len(data.names) / 3)
    heights = [np.clip(0.15 * result.n_components, 0.7, max(1, 8 / n_rows))]
    if class_names:
        heights.append(np.clip(0.15 * len(class_names), 0.3, max(1, 6 / n_rows)))
    figure, axes = panels(data.names, heights)
    blocks = [shares(h) for h in result.memberships]
    style = {"aspect": "auto", "interpolation": "nearest", "vmin": 0}
    largest = max(h.max() for h in blocks)
    for c, (panel, h) in enumerate(zip(axes, blocks, strict=True)):
        order, note = _shown(order_of_samples(h))
        image = panel[0].imshow(h[:, order], cmap="Blues", vmax=largest, **style)
        _label_rows(panel[0], component_names(result), heights[0])
        if class_names:
            panel[1].imshow(labels[c][:, order], cmap="Greys", vmax=1.4, **style)
            _label_rows(panel[1], class_names, heights[1])
        panel[-1].set_xlabel(note)
    # a legend, not a colour bar, which would take its height from that of the panels
    steps = [
        Patch(facecolor=image.to_rgba(value), edgecolor="0.7", label=f"{value:.2g}")
        for value in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, largest)
        if value <= largest
    ]
    figure.legend(
        handles=steps, loc="outside lower center", ncols=6, title="Membership", handlelength=1.2
    )
    return figure


@styled
def membership_bars(data: Named, result: Decomposition) -> Figure:
    """A stacked bar for every sample; beyond seven components, the smaller ones are grey."""
    blocks = [shares(h) for h in result.memberships]
    total = sum(h.sum(axis=1) for h in blocks)
    coloured = np.sort(np.argsort(-total, kind="stable")[: len(COLOURS)])
    rest = np.setdiff1d(np.arange(result.n_components), coloured)
    others = f"C{rest[0] + 1}" if len(rest) == 1 else f"the other {len(rest)}"
    figure, axes = panels(data.names, [1.5], "Membership")
    for (ax,), h in zip(axes, blocks, strict=True):
        order, note = _shown(order_of_samples(h))
        h = h[:, order]
        layers = [(f"C{k + 1}", h[k], colour) for k, colour in zip(coloured, COLOURS, strict=False)]
        if len(rest):
            layers.append((others, h[rest].sum(axis=0), OTHER))
        base = np.zeros(len(order))
        for label, height, colour in layers:
            ax.stairs(
                base + height,
                np.arange(len(order) + 1),
                baseline=base,
                fill=True,
                color=colour,
                linewidth=0,
                label=label,
                rasterized=len(order) > 100,
            )
            base = base + height
        ax.set(xlim=(0, len(order)), ylim=(0, 1), xticks=[], yticks=[0, 0.5, 1], xlabel=note)
        ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())
    legend(figure, axes, n_columns=8)
    return figure


@styled
def components(data: Named, result: Decomposition, n_features: int = 10) -> Figure:
    """The features that set each component apart, with credible intervals if there are any."""
    intervals = result.posterior.components.interval(LEVEL) if result.posterior else None
    n_features = min(n_features, len(result.components))
    figure, axes = panels(component_names(result), [0.17 * n_features + 0.1])
    places = np.arange(n_features)
    names = short(data.feature_names, 16)
    for k, (ax,) in enumerate(axes):
        top = top_features(result.components, k, n_features)
        values = result.components[top, k]
        ax.barh(places, values, height=0.75, color=COLOURS[5], label="this component")
        if intervals is not None:
            low, high = intervals
            style = {"color": "black", "linewidth": 1.2, "label": INTERVAL}
            ax.hlines(places, low[top, k], high[top, k], **style)
        if result.n_components > 1:
            others = mean_of_others(result.components, k)[top]
            style = {"color": COLOURS[1], "ms": 8, "mew": 1.5}
            ax.plot(others, places, "|", label="mean of the other components", **style)
        ax.axvline(0, color="0.4", linewidth=0.6)
        ax.set_yticks(places, [names[i] for i in top], fontsize=7.5)
        ax.tick_params(axis="x", labelsize=7.5)
        ax.set_ylim(n_features - 0.4, -0.6)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    legend(figure, axes, n_columns=3)
    return figure


@styled
def noise(data: Named, result: Decomposition) -> Figure:
    """The noise sd of every source, with credible intervals if there are any."""
    levels = tables.noise(data, result)
    has_intervals = levels["low"].notna().all()
    places = np.arange(len(data.names))
    figure, ax = sheet(0.28 * len(places) + 0.8)
    texts = [f"{sd:.4g}" for sd in levels["noise"]]
    if has_intervals:
        ax.hlines(places, levels["low"], levels["high"], color="black", linewidth=1.5)
        texts = [
            f"{row.noise:.4g}  ({row.low:.4g} to {row.high:.4g})" for row in levels.itertuples()
        ]
    ax.plot(levels["noise"], places, "o", color=COLOURS[0])
    right = ax.secondary_yaxis("right")
    right.set_yticks(places, texts)
    for side in (ax, right):
        side.tick_params(axis="y", length=0)
    right.spines[:].set_visible(False)
    ax.set_yticks(places, short(data.names, 30))
    ax.set(xlim=(0, None), ylim=(len(places) - 0.5, -0.5))
    ax.margins(x=0.1)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.set_xlabel(f"Noise sd, with {INTERVAL}" if has_intervals else "Noise sd")
    return figure


@styled
def variance_explained(table: pd.DataFrame) -> Figure:
    """A heat map of the variance that each component explains, beside the totals."""
    shares = 100 * table.set_index("source").drop(columns="total")
    total = 100 * table["total"]
    height = np.clip(0.25 * len(table), 0.5, 5)
    figure, (each, bars) = sheet(height + 0.8, 1, 2, width_ratios=[3, 1], sharey=True)
    least = 0 if shares.size <= 100 else 0.15 * shares.to_numpy().max()
    digits = int(shares.shape[1] <= 14)
    _by_component(
        each, shares, height, lambda share: f"{share:.{digits}f}" if abs(share) >= least else ""
    )
    each.set_title("By component (%)", loc="left")
    bars.barh(np.arange(len(table)), total, color=COLOURS[5])
    bars.set_title("Total (%)", loc="left")
    bars.set_xlim(min(0, total.min()), 100)
    bars.tick_params(axis="y", length=0, labelleft=False)
    return figure


@styled
def associations(table: pd.DataFrame) -> Figure:
    """A heat map of how strongly metadata are associated with components; dots if significant."""
    columns = table["column"].unique()[:25]
    names = sorted(table["component"].unique(), key=lambda name: int(name[1:]))
    strength, q = (
        table.pivot(index="column", columns="component", values=values).loc[columns, names]
        for values in ("strength", "q_value")
    )
    height = np.clip(0.2 * len(columns), 0.5, 5)
    figure, ax = sheet(height + 0.8)
    image = _by_component(ax, strength, height, lambda _: "")
    for row, k in np.argwhere(q < 0.05):
        ax.plot(k, row, "o", color="white", markeredgecolor="black", markersize=4)
    figure.colorbar(image, label="Strength", aspect=12, pad=0.015)
    return figure


def _by_component(
    ax: Axes, values: pd.DataFrame, height: float, label: Callable[[float], str]
) -> AxesImage:
    """A heat map with a column for each component, its cells labelled."""
    most = max(float(np.max(values)), 1e-3)  # shares of nothing are 0 up to rounding
    image = ax.imshow(
        values, cmap="Blues", vmin=0, vmax=most, aspect="auto", interpolation="nearest"
    )
    _label_rows(ax, short(values.index, 30), height)
    label_columns(ax, values.columns, 14)
    for (row, k), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 * np.nanmax(values) else "black"
        ax.text(k, row, label(value), ha="center", va="center", fontsize=7, color=colour)
    return image


@styled
def feature_noise(table: pd.DataFrame) -> Figure:
    """The noise sd of all features, relative to their source, and the noisiest by name."""
    table = table.sort_values("relative_sd", ascending=False, kind="stable")
    top = table[:10]
    figure, (every, noisiest) = sheet(2.6, 1, 2)
    every.plot(np.linspace(0, 100, len(table)), table["relative_sd"][::-1], ".", color=COLOURS[0])
    every.axhline(1, color="0.6", linewidth=0.8)
    every.set(
        xlabel="Percentile of features", ylabel="Noise sd over that of the source", ylim=(0, None)
    )
    noisiest.plot(top["relative_sd"], np.arange(len(top)), "o", color=COLOURS[0])
    noisiest.set_yticks(np.arange(len(top)), short(top["feature"], 24), fontsize=7.5)
    noisiest.set(xlabel="The noisiest", ylim=(len(top) - 0.5, -0.5))
    noisiest.grid(axis="x", color="0.9")
    return figure


@styled
def offsets(data: Named, table: pd.DataFrame) -> Figure:
    """A histogram of the offsets of every source, on one scale."""
    figure, axes = panels(data.names, [1.3], "Features")
    reach = float(table["offset"].abs().max()) or 1.0
    for (ax,), name in zip(axes, data.names, strict=True):
        ax.hist(
            table["offset"][table["source"] == name],
            np.linspace(-reach, reach, 31),
            color=COLOURS[5],
        )
        ax.set_xlabel("Offset")
        ax.xaxis.set_major_locator(MaxNLocator(3))
    return figure


@styled
def convergence(results: list[Decomposition]) -> Figure:
    """How far every restart was above the best one, sweep by sweep and at the end."""
    what = registry.get(results[0].method).objective
    what = what[0].upper() + what[1:]
    lowest = min(result.trace.min(initial=result.objective) for result in results)
    figure, (course, final) = sheet(3.1, 1, 2)
    for result in reversed(results):  # the best last, on top
        step = max(1, ceil(len(result.trace) / MAX_SAMPLES))
        iterations = result.trace_step * np.arange(1, len(result.trace) + 1)
        above = np.where(result.trace > lowest, result.trace - lowest, np.nan)
        style = (
            {"color": COLOURS[0], "linewidth": 2}
            if result is results[0]
            else {"color": "0.6", "linewidth": 0.7}
        )
        course.plot(iterations[::step], above[::step], **style)
    if max(len(result.trace) for result in results) < 3:
        note = "This method reports\nits final value only"
        course.text(0.5, 0.5, note, ha="center", va="center", transform=course.transAxes)
        course.set(xticks=[], yticks=[])
    else:
        log_scale(course)
        course.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        course.xaxis.set_major_formatter("{x:,.0f}")
    sweep = "Sweep" if results[0].trace_step == 1 else "Iteration"
    course.set(xlabel=sweep, ylabel=f"{what}, above the lowest")
    course.set_title("During the fit (best restart in blue)", loc="left")

    best = results[0].objective
    ranks = np.arange(1, len(results) + 1)
    gaps = np.array([result.objective - best for result in results])
    ended = np.array([result.converged for result in results])
    open_square = {
        "color": COLOURS[1],
        "markerfacecolor": "white",
        "marker": "s",
        "label": "not converged",
    }
    for own, looks in (
        (ended, {"color": COLOURS[0], "marker": "o", "label": "converged"}),
        (~ended, open_square),
    ):
        if own.any():
            final.plot(ranks[own], gaps[own], linestyle="", **looks)
    reach = gaps.max() or 1
    final.set(
        xlim=(0.4, len(ranks) + 0.6),
        ylim=(-0.05 * reach, 1.05 * reach),
        xticks=ranks[:: ceil(len(ranks) / 10)],
    )
    final.set(xlabel="Restart, best first", ylabel=f"{what}, above the best")
    final.set_title(f"At the end (best: {best:,.6g})", loc="left")
    final.legend(loc="upper left", handlelength=1)
    return figure


@styled
def simplex(data: Named, result: Decomposition) -> Figure:
    """Every sample between the components: on a line for two, in a polygon for more.

    A sample lies at the mean of the corners weighted by its memberships.  With more than three
    components, several mixtures share a place, and only the corners are unambiguous.
    """
    if result.n_components == 1:
        raise ValueError("one component has no simplex to show")
    if result.n_components == 2:
        draw = _draw_line
        height = 1.5
        label = "Samples"
    else:
        draw = _draw_polygon
        height = 2.1 if len(data.names) > 2 else 3
        label = ""
    figure, axes = panels(data.names, [height], label)
    for c, (ax,) in enumerate(axes):
        draw(ax, shares(result.memberships[c]), _by_class(data, c))
    legend(figure, axes, n_columns=5)
    return figure


def _draw_line(ax: Axes, h: np.ndarray, groups: list) -> None:
    """Two components: a histogram along the line from one to the other."""
    labels, members, styles = zip(*groups, strict=True)
    values = [h[1, own] for own in members]
    colours = [style["color"] for style in styles]
    ax.hist(values, np.linspace(0, 1, 26), stacked=True, color=colours, label=labels)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xticks([0, 0.5, 1], ["C1", "50 : 50", "C2"])
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def _draw_polygon(ax: Axes, h: np.ndarray, groups: list) -> None:
    corners = polygon(len(h))
    ax.fill(*corners.T, facecolor="none", edgecolor="0.6", linewidth=0.8)
    places = h.T @ corners
    n = h.shape[1]
    for label, members, style in groups:
        ax.scatter(
            *places[members].T,
            s=12 if n < 500 else 4,
            alpha=0.7 if n < 500 else 0.4,
            linewidths=0,
            label=label,
            rasterized=n > 500,
            **style,
        )
    for k in range(0, len(h), ceil(len(h) / 24)):
        ax.text(
            *(1.12 * corners[k]),
            f"C{k + 1}",
            ha="center",
            va="center",
            fontsize=9 if len(h) <= 12 else 6.5,
        )
    ax.set(xlim=(-1.25, 1.25), ylim=(corners[:, 1].min() - 0.2, 1.2), aspect="equal")
    ax.axis("off")


def _by_class(data: Named, c: int) -> list:
    """[(label, samples, style)]: the samples of source c by class, if there are enough colours."""
    n = len(data.sample_names[c])
    if data.labels is None or len(data.class_names) > len(COLOURS):
        return [(None, np.arange(n), {"color": COLOURS[0]})]
    labels = data.labels[c]
    count = labels.sum(axis=0)
    groups = []
    for k, name in enumerate(short(data.class_names, 24)):
        style = {"color": COLOURS[k], "marker": MARKERS[k]}
        groups.append((name, np.flatnonzero(labels[k] & (count == 1)), style))
    groups.append(("several classes", np.flatnonzero(count > 1), {"color": "0.5", "marker": "."}))
    groups.append(("no class", np.flatnonzero(count == 0), {"color": OTHER, "marker": "."}))
    return [group for group in groups if len(group[1])]


@styled
def stability(results: list[Decomposition]) -> Figure:
    """How well every other restart recovered each component of the best one, and the mean."""
    correlations = similarities(results)
    n_runs, n_components = correlations.shape
    height = np.clip(0.16 * n_runs, 0.5, 5)
    figure, (mean, each) = sheet(height + 2.0, 2, 1, sharex=True, height_ratios=[1.0, height])
    mean.plot(np.arange(n_components), correlations.mean(axis=0), "o", color=COLOURS[0])
    mean.set_ylim(min(0, correlations.mean(axis=0).min() - 0.05), 1.08)
    mean.set_title("Mean over the other restarts", loc="left")
    mean.grid(axis="y", color="0.9")
    image = each.imshow(
        correlations, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    _label_rows(each, [f"seed {result.seed}" for result in results[1:]], height)
    label_columns(each, component_names(results[0]), 20)
    each.set_xlabel("Component of the best restart")
    each.set_title("Each of the other restarts, best first", loc="left")
    figure.colorbar(
        image, ax=[mean, each], label="Correlation of memberships", shrink=0.9, aspect=25, pad=0.015
    )
    return figure


@styled
def consensus(table: pd.DataFrame) -> Figure:
    """The share of restarts that have each consensus component, and how far they differ."""
    figure, axes = sheet(3, 2, 1, sharex=True)
    limits = {"share": 1.05, "spread": max(0.05, 1.1 * table["spread"].max())}
    for ax, (name, top) in zip(axes, limits.items(), strict=True):
        ax.bar(np.arange(len(table)), table[name], color=COLOURS[5])
        ax.set(ylabel=name.capitalize(), ylim=(0, top))
        ax.grid(axis="y", color="0.9")
        ax.set_axisbelow(True)
    label_columns(ax, table["component"], 20)
    return figure


@styled
def selection(selection: Selection) -> Figure:
    """Held-out density with standard errors, ELBO and stability against K.

    Density and ELBO are shown as distances below their best, on a scale that is linear close to it
    and logarithmic far from it: too few components cost thousands of times what one too many does.
    """
    table = selection.table
    lost = -table["difference"]
    shown = [
        ("Held-out log density\nbelow the best (nats per entry)", lost, table["standard_error"])
    ]
    if table["elbo"].notna().all():
        shown.append(("ELBO below the best (nats)", table["elbo"].max() - table["elbo"], None))
    if table["stability"].notna().all():
        shown.append(("Stability of the components", table["stability"], None))
    figure = Figure(figsize=(2.9 * len(shown), 3.1), layout="constrained")
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for ax, (label, values, errors) in zip(axes, shown, strict=True):
        ax.axvline(selection.recommended, color=COLOURS[1], linestyle="--", linewidth=1, zorder=0)
        ax.plot(table["k"], values, color=COLOURS[0], marker="o", zorder=2)
        if errors is not None:
            style = {"fmt": "none", "ecolor": "0.3", "elinewidth": 1, "capsize": 2.5, "zorder": 3}
            ax.errorbar(table["k"], values, errors, **style)
        if label.startswith("Stability"):
            ax.set_ylim(min(0.8, values.min() - 0.02), 1.02)
            ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        else:
            _distances(ax, values)
        ax.set(xlabel="Components", ylabel=label)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.grid(axis="y", color="0.9")
    others = [str(k) for k in selection.candidates if k != selection.recommended]
    note = f"; {', '.join(others)} within one standard error" if others else ""
    figure.suptitle(
        f"{selection.recommended} recommended{note}", x=0.01, ha="left", color=COLOURS[1]
    )
    return figure


def _distances(ax: Axes, values: pd.Series) -> None:
    """An axis that points down from 0, linear up to the smallest distance, then logarithmic."""
    positive = values[values > 0]
    least, most = (positive.min(), positive.max()) if len(positive) else (1.0, 1.0)
    ax.set_yscale("symlog", linthresh=least, linscale=0.5)
    decades = np.arange(np.floor(np.log10(least)), np.log10(most) + 1)
    ticks = np.outer(10.0**decades, (1, 2, 5) if len(decades) < 4 else (1,)).ravel()
    ax.yaxis.set_major_locator(FixedLocator([0, *ticks[ticks >= least]]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(1.6 * most, -0.2 * least)


def sheet(height: float, *shape: int, **how: Any) -> tuple[Figure, Any]:
    """A figure of the common width, and its axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(*shape, **how)


def panels(titles: list[str], heights: list, label: str = "") -> tuple[Figure, list[list[Axes]]]:
    """A figure with a panel for each title, in rows of up to three; a panel is a column of axes.

    `label` is that of the upper y axis of every panel, written at the beginning of a row.
    """
    count = len(titles)
    n_columns = min(3, count)
    n_rows = ceil(count / n_columns)
    shape = (n_rows * len(heights), n_columns)
    each = list(heights) * n_rows
    figure, grid = sheet(
        n_rows * (sum(heights) + 0.55) + 0.4, *shape, squeeze=False, height_ratios=each
    )
    made = grid.reshape(n_rows, len(heights), n_columns).swapaxes(1, 2).reshape(-1, len(heights))
    for ax in made[count:].ravel():
        ax.remove()
    as_wide = {1: 80, 2: 40}.get(count, 25)  # characters above a panel
    for panel, title in zip(made, short(titles, as_wide), strict=False):
        panel[0].set_title(title, loc="left")
    for first in made[::n_columns]:
        first[0].set_ylabel(label)
    return figure, made[:count].tolist()


def _shown(order: np.ndarray) -> tuple[np.ndarray, str]:
    """The samples that a figure shows, evenly spaced, and a label that counts them."""
    n = len(order)
    if n <= MAX_SAMPLES:
        return order, f"{n:,} sample{'s' if n > 1 else ''}"
    places = np.linspace(0, n - 1, MAX_SAMPLES).round().astype(int)
    return order[places], f"{MAX_SAMPLES:,} of {n:,} samples"


def _label_rows(ax: Axes, labels: list[str], height: float) -> None:
    """Frame an image of this height in inches, and label its rows if it is first in its row.

    Labels are left out where they would overlap.
    """
    ax.spines[:].set_visible(True)
    ax.set_xticks([])
    step = ceil(0.13 * len(labels) / height)
    ax.set_yticks(np.arange(0, len(labels), step), labels[::step], fontsize=7.5)
    ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())


def log_scale(ax: Axes) -> None:
    """A logarithmic y axis with powers of ten in plain text, which is faster than formulas."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"10{f'{np.log10(value):.0f}'.translate(raised)}")


def label_columns(ax: Axes, names: Sequence[str], most: int) -> None:
    """Name at most `most` columns of an image or of bars."""
    step = ceil(len(names) / most)
    ax.set_xticks(np.arange(0, len(names), step), list(names)[::step])


def legend(figure: Figure, axes: list[list[Axes]], n_columns: int) -> None:
    """One legend for all panels, below them; none if nothing has a label."""
    entries: dict = {}
    for (ax,) in axes:
        entries |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if entries:
        n_columns = ceil(len(entries) / ceil(len(entries) / n_columns))  # rows of equal length
        place = {"loc": "outside lower center", "ncols": n_columns, "handlelength": 1.2}
        for handle in figure.legend(entries.values(), entries.keys(), **place).legend_handles:
            handle.set_alpha(1)
