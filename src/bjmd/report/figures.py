"""The figures of one fit, and of a choice of the number of components; `tables` has their numbers.

All figures, those of the paper too, have one style: colour-blind safe, readable in grey and in
print.

`data` may be `Sources` or a fit loaded from its folder: only names and labels are used.
`results` are the restarts of one method, best first.

The figures work for 1 to a dozen sources, 1 to 40 components and tens of thousands of samples:
panels wrap, labels are thinned out, long names are shortened, and many small shapes become an
image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bjmd.analysis import ranking
from bjmd.errors import InputError, count
from bjmd.report import tables
from bjmd.report.tables import INTERVAL, Named, number, shares
from bjmd.results.decomposition import Decomposition, component_names

if TYPE_CHECKING:
    from bjmd.analysis.number_of_components import Selection

# Okabe and Ito's palette without its yellow, which vanishes on white, and ten more
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
COLOURS += ["#8A2BE2", "#8B4513", "#9ACD32", "#DC143C", "#808080"]
COLOURS += ["#20B2AA", "#FF8FA3", "#4B5320", "#B8860B", "#6A5ACD"]
UP = "#D55E00"
DOWN = "#0072B2"
MARKERS = "osD^vPX"

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titley": 1.0,  # no ticks above a panel: matplotlib need not look for them
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.hashsalt": "bjmd",
    "savefig.dpi": 200,
}
_DEFAULTS = {name: x for name, x in matplotlib.rcParamsDefault.items() if name != "backend"}
styled = matplotlib.rc_context(_DEFAULTS | STYLE)
"""Lets a function draw with the common style, whatever the user's matplotlib settings are; without
a backend, which would import pyplot.
"""
WIDTH = 4.4  # inches, of every figure: text stays readable on a phone
MANY = 12  # components, above which the corners of a simplex cannot be told apart
MAX_SAMPLES = 1500  # of one source in a heat map or bars; more would have less than a pixel each
IMAGE: dict[str, Any] = {"cmap": "Blues", "aspect": "auto", "interpolation": "nearest"}


def save(figure: Figure, svg: str | Path, png: str | Path) -> None:
    """Write both formats, without a date, so that equal figures are equal files.

    The layout, which is slow, is computed once; `Figure.savefig` would compute it for each file.
    """
    with matplotlib.rc_context(STYLE):
        figure.dpi = STYLE["savefig.dpi"]
        canvas = FigureCanvasAgg(figure)
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)
            figure.set_layout_engine("none")
        canvas.print_png(png)
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})


def of_fit(
    data: Named, best: Decomposition, answers: Mapping[str, pd.DataFrame]
) -> dict[str, Figure]:
    """Every figure of a report, by name; `answers` are the tables from `tables.of_summary`."""
    is_large = best.n_components > MANY
    drawn = {
        "memberships": memberships(data, best),
        "components": components(data, best, n_features=4 if is_large else 6),
        "membership_bars": membership_bars(data, best),
    }
    if best.noise is not None:
        drawn["noise"] = noise(data, best)
    shifts = tables.shifts(data, best)
    if len(shifts):
        drawn["offsets"] = offsets(shifts)
    if best.n_components > 2 and not is_large:  # of two memberships, the heat map says it all
        drawn["simplex"] = simplex(data, best)
    for draw in (components_by_source, variance_explained, associations):
        if draw.__name__ in answers:
            drawn[draw.__name__] = draw(answers[draw.__name__])
    return drawn


def short(names: Sequence, most: int) -> list[str]:
    """Names of at most `most` characters, with their beginnings and ends.

    A dollar sign, which would start a formula in matplotlib, is escaped.
    """
    names = [" ".join(str(name).split()) for name in names]
    half = most // 2
    cut = [
        name if len(name) <= most else f"{name[: most - half]}…{name[len(name) - half + 1 :]}"
        for name in names
    ]
    return [name.replace("$", r"\$") for name in cut]


@styled
def memberships(data: Named, result: Decomposition) -> Figure:
    """A heat map of the memberships of every source, above the known classes."""
    class_names = short(data.class_names, 14) if data.labels else []
    n_rows = ceil(len(data.names) / 2)
    heights = [np.clip(0.15 * result.n_components, 0.7, max(1, 12 / n_rows))]
    if class_names:
        heights.append(np.clip(0.15 * len(class_names), 0.3, max(1, 9 / n_rows)))
    figure, axes = panels(data.names, heights)
    blocks = [shares(h) for h in result.memberships]
    distances = ranking.distances(result)[:, None]
    largest = max(h.max() for h in blocks)
    for c, (panel, h) in enumerate(zip(axes, blocks, strict=True)):
        order = _order(distances * h)
        image = panel[0].imshow(h[:, order], vmin=0, vmax=largest, **IMAGE)
        _label_rows(panel[0], component_names(result.n_components), heights[0])
        if data.labels:
            panel[1].imshow(data.labels[c][:, order], vmin=0, vmax=1.4, **IMAGE | {"cmap": "Greys"})
            _label_rows(panel[1], class_names, heights[1])
        panel[-1].set_xlabel(count(h.shape[1], "sample"))
    bar = {"orientation": "horizontal", "aspect": 40, "shrink": 0.5, "pad": 0.02}
    figure.colorbar(image, ax=[ax for panel in axes for ax in panel], label="Membership", **bar)
    return figure


@styled
def membership_bars(data: Named, result: Decomposition) -> Figure:
    """A stacked bar for every sample."""
    figure, axes = panels(data.names, [1.5])
    distances = ranking.distances(result)[:, None]
    for (ax,), block in zip(axes, result.memberships, strict=True):
        h = shares(block)
        tops = np.cumsum(h[:, _order(distances * h)], axis=0)
        edges = np.arange(tops.shape[1] + 1)
        for k, name in enumerate(component_names(len(h))):
            style = {"color": COLOURS[k % len(COLOURS)], "linewidth": 0, "label": name}
            base = tops[k - 1] if k else 0
            ax.stairs(tops[k], edges, baseline=base, fill=True, rasterized=True, **style)
        ax.set(xlim=(0, edges[-1]), ylim=(0, 1), xticks=[], yticks=[0, 0.5, 1])
        ax.set_xlabel(count(h.shape[1], "sample"))
        ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())
    legend(figure, axes, n_columns=6)
    return figure


@styled
def noise(data: Named, result: Decomposition) -> Figure:
    """The noise sd of every source, with credible intervals if there are any."""
    levels = tables.noise(data, result)
    places = np.arange(len(levels))
    figure, ax = sheet(0.28 * len(levels) + 0.8)
    ax.hlines(places, levels["low"], levels["high"], color="black", linewidth=1.5)
    ax.plot(levels["noise"], places, "o", color=COLOURS[0])
    ax.set_yticks(places, short(data.names, 20))
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1.05 * levels[["noise", "high"]].max(axis=None))
    ax.set_ylim(len(levels) - 0.5, -0.5)
    ax.grid(axis="x", color="0.9")
    ax.set_xlabel(f"Noise sd, with {INTERVAL}" if result.posterior else "Noise sd")
    return figure


@styled
def components(data: Named, result: Decomposition, n_features: int = 6) -> Figure:
    """The features that set each component apart, so many up and so many down."""
    top = tables.highest_ranked(data, result, n_features)
    top = top.assign(**top[["value", "low", "high", "mean_of_others"]].sub(top["mean"], axis=0))
    names = component_names(result.n_components)
    n_rows = top.groupby("component").size().max()
    figure, axes = panels(names, [0.17 * n_rows + 0.1])
    for (ax,), name in zip(axes, names, strict=True):
        part = top[top["component"] == name]
        _ranked_bars(ax, part, n_rows)
        if result.n_components > 1:
            style = {"color": "0.35", "ms": 8, "mew": 1.5, "label": "mean of the other components"}
            ax.plot(part["mean_of_others"], np.arange(len(part)), "|", **style)
    legend(figure, axes, n_columns=2)
    return figure


@styled
def offsets(shifts: pd.DataFrame, n_features: int = 6) -> Figure:
    """The features in which each source is shifted most, so many up and so many down."""
    bars = shifts.assign(
        value=shifts["offset"],
        low=shifts["offset"] - 1.645 * shifts["sd"],
        high=shifts["offset"] + 1.645 * shifts["sd"],
        direction=np.where(shifts["offset"] > 0, "up", "down"),
    )
    top = bars.groupby(["source", "direction"], sort=False).head(n_features)
    top = top.sort_values("direction", ascending=False, kind="stable")
    sources = list(shifts["source"].unique())
    figure, axes = panels(sources, [0.34 * n_features + 0.1])
    for (ax,), source in zip(axes, sources, strict=True):
        _ranked_bars(ax, top[top["source"] == source], 2 * n_features)
        ax.set_xlabel("Offset")
    legend(figure, axes, n_columns=3)
    return figure


def _ranked_bars(ax: Axes, bars: pd.DataFrame, n_rows: int) -> None:
    """Bars for features that are up and for those that are down, with intervals if known."""
    places = np.arange(len(bars))
    for direction, colour in (("up", UP), ("down", DOWN)):
        chosen = bars["direction"] == direction
        ax.barh(places[chosen], bars["value"][chosen], color=colour, label=direction)
    if bars["low"].notna().any():
        ax.hlines(places, bars["low"], bars["high"], color="black", lw=1.2, label=INTERVAL)
    ax.axvline(0, color="0.4", linewidth=0.6)
    ax.set_yticks(places, short(bars["feature"], 16), fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.set_ylim(n_rows - 0.4, -0.6)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 4, 5, 10]))


@styled
def components_by_source(table: pd.DataFrame) -> Figure:
    """The share of every component in each source, with confidence intervals."""
    names = list(table["component"].unique())
    sources = list(table["source"].unique())
    width = min(0.8 / len(sources), 0.25)
    row = max(0.22, 0.055 * len(sources))
    figure, ax = sheet(row * len(names) + 0.9)
    for c, (source, label) in enumerate(zip(sources, short(sources, 20), strict=True)):
        part = table[table["source"] == source]
        places = np.arange(len(names)) + width * (c - (len(sources) - 1) / 2)
        ends = (part["share"] - part["low"], part["high"] - part["share"])
        style = {"color": COLOURS[c % len(COLOURS)], "fmt": "o", "markersize": 4, "label": label}
        ax.errorbar(100 * part["share"], places, xerr=100 * np.array(ends), **style)
    ax.hlines(
        np.arange(len(names) - 1) + 0.5, 0, 1, transform=ax.get_yaxis_transform(), color="0.9"
    )
    ax.set_yticks(np.arange(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="Share (%)", ylim=(len(names) - 0.5, -0.5), xlim=(0, None))
    legend(figure, [[ax]], n_columns=3 if max(map(len, sources)) <= 10 else 2)
    return figure


@styled
def variance_explained(table: pd.DataFrame) -> Figure:
    """A heat map of the variance that each component explains, beside the totals."""
    total = 100 * table["total"]
    height = np.clip(0.25 * len(table), 0.5, 5)
    figure, (each, bars) = sheet(height + 0.8, 1, 2, width_ratios=[3, 1], sharey=True)
    shares = 100 * table.set_index("source").drop(columns="total")
    _heat_map(each, shares, height)
    each.set_title("By component (%)", loc="left")
    bars.barh(np.arange(len(table)), total, color=COLOURS[0])
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
    _heat_map(ax, strength, height, "Strength")
    for row, k in np.argwhere(q < 0.05):
        ax.plot(k, row, "o", color="white", markeredgecolor="black", markersize=4)
    return figure


def _heat_map(ax: Axes, values: pd.DataFrame, height: float, label: str = "") -> None:
    """An image with a column for each component, and a colour bar with a label."""
    most = max(float(np.max(values)), 1e-3)  # shares of nothing are 0 up to rounding
    image = ax.imshow(values, vmin=0, vmax=most, **IMAGE)
    _label_rows(ax, short(values.index, 16), height)
    step = ceil(values.shape[1] / 10)
    ax.set_xticks(np.arange(0, values.shape[1], step), values.columns[::step], fontsize=8)
    ax.figure.colorbar(image, ax=ax, label=label, aspect=12, pad=0.015)


@styled
def simplex(data: Named, result: Decomposition) -> Figure:
    """Every sample in a polygon between the components, at least three of them.

    A sample lies at the mean of the corners weighted by its memberships.  With more than three
    components, several mixtures share a place, and only the corners are unambiguous.
    """
    if result.n_components < 3:
        raise InputError("a simplex needs at least three components; see the memberships instead")
    figure, axes = panels(data.names, [2.8 if len(data.names) == 1 else 1.9])
    codes = []
    for c, (ax,) in enumerate(axes):
        code, colours = _classes(data, c)
        _draw_polygon(ax, shares(result.memberships[c]), code, list(colours.values()))
        codes.append(code)
    for i, (label, colour) in enumerate(colours.items()):
        if label and any((code == i).any() for code in codes):
            axes[0][0].plot([], [], "o", color=colour, label=label)
    legend(figure, axes, n_columns=2)
    return figure


def _draw_polygon(ax: Axes, h: np.ndarray, code: np.ndarray, colours: list[str]) -> None:
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(h)) / len(h)  # clockwise from the top
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    ax.fill(*corners.T, facecolor="none", edgecolor="0.6", linewidth=0.8)
    n = h.shape[1]
    # in random order, so that no class hides another
    order = np.random.default_rng(0).permutation(n)
    ax.scatter(
        *(h.T[order] @ corners).T,
        s=12 if n < 500 else 4,
        c=np.array(colours)[code[order]],
        alpha=0.7 if n < 500 else 0.5,
        linewidths=0,
        rasterized=n > 500,
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


def _classes(data: Named, c: int) -> tuple[np.ndarray, dict[str, str]]:
    """The class of every sample of a source, by number, and the colours of all classes by name."""
    if data.labels is None:
        return np.zeros(len(data.sample_names[c]), dtype=int), {"": COLOURS[0]}
    labels = data.labels[c]
    names = short(data.class_names, 22)
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    colours |= {"several classes": "#777777", "no class": "#cccccc"}
    n_classes = labels.sum(axis=0)
    code = np.where(n_classes == 1, labels.argmax(axis=0), len(colours) - 1 - (n_classes > 1))
    return code, colours


@styled
def selection(selection: Selection) -> Figure:
    """Held-out density with standard errors, ELBO and stability against K.

    Density and ELBO are shown as distances below their best, on a scale that is linear close to it
    and logarithmic far from it: too few components cost thousands of times what one too many does.
    """
    table = selection.table
    density = "Held-out log density below the best (nats per entry)"
    shown = [(density, -table["difference"], table["standard_error"])]
    if table["elbo"].notna().all():
        shown.append(("ELBO below the best (nats)", table["elbo"].max() - table["elbo"], None))
    if table["stability"].notna().all():
        shown.append(("Stability of the components", table["stability"], None))
    figure, axes = sheet(1.7 * len(shown) + 0.6, len(shown), squeeze=False, sharex=True)
    for (ax,), (label, values, errors) in zip(axes, shown, strict=True):
        ax.axvline(selection.recommended, color=COLOURS[1], linestyle="--", linewidth=1, zorder=0)
        ax.errorbar(table["k"], values, errors, color=COLOURS[0], marker="o", ecolor="0.3")
        if label.startswith("Stability"):
            ax.set_ylim(min(0.8, values.min() - 0.02), 1.02)
        else:
            least = values[values > 0].min() if values.any() else 1.0
            decade = 10 ** np.floor(np.log10(least))
            ax.set_yscale("symlog", linthresh=decade, linscale=0.5)
            ax.set_ylim(1.6 * values.max(), -0.2 * decade)
            ax.yaxis.set_major_formatter(lambda value, _: number(value))
        ax.set_title(label, loc="left", fontsize=9)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.grid(axis="y", color="0.9")
    ax.set_xlabel("Components")
    others = [str(k) for k in selection.candidates if k != selection.recommended]
    more = " or more" if selection.recommended == table["k"].max() else ""
    note = f"; {', '.join(others)} within one standard error" if others else ""
    figure.suptitle(
        f"{selection.recommended}{more} recommended{note}", x=0.01, ha="left", color=COLOURS[1]
    )
    return figure


def sheet(height: float, *shape: int, **how: Any) -> tuple[Figure, Any]:
    """A figure of the common width, and its axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(*shape, **how)


def panels(titles: list[str], heights: list) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a panel for each title, two in a row; a panel is a column of axes."""
    n_columns = min(2, len(titles))
    n_rows = ceil(len(titles) / n_columns)
    height = n_rows * (sum(heights) + 0.55) + 0.5
    shape = (n_rows * len(heights), n_columns)
    figure, grid = sheet(height, *shape, squeeze=False, height_ratios=list(heights) * n_rows)
    panels = grid.reshape(n_rows, len(heights), n_columns).swapaxes(1, 2).reshape(-1, len(heights))
    for ax in panels[len(titles) :].ravel():
        ax.remove()
    for panel, title in zip(panels, short(titles, 40 // n_columns), strict=False):
        panel[0].set_title(title, loc="left")
    return figure, panels[: len(titles)].tolist()


def _order(contributions: np.ndarray) -> np.ndarray:
    """The samples, sorted by the component that contributes most (ranking.distances).

    Of one component, the purest come first.  Of many samples, evenly spaced ones are shown.
    """
    pure = contributions.max(axis=0) / np.maximum(contributions.sum(axis=0), 1e-300)
    order = np.lexsort((-pure, contributions.argmax(axis=0)))
    return order[:: ceil(len(order) / MAX_SAMPLES)]


def _label_rows(ax: Axes, labels: list[str], height: float) -> None:
    """Frame an image of this height in inches, and label its rows if it is first in its row.

    Labels are left out where they would overlap.
    """
    ax.spines[:].set_visible(True)
    ax.set_xticks([])
    step = ceil(0.13 * len(labels) / height)
    ax.set_yticks(np.arange(0, len(labels), step), labels[::step], fontsize=8)
    ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())


def legend(figure: Figure, axes: list[list[Axes]], n_columns: int) -> None:
    """One legend for all panels, below them; none if nothing has a label."""
    entries: dict = {}
    for (ax,) in axes:
        entries |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if entries:
        n_rows = ceil(len(entries) / n_columns)
        n_columns = ceil(len(entries) / n_rows)  # rows of equal length
        figure.set_figheight(figure.get_figheight() + 0.2 * max(n_rows - 6, 0))
        place = {"loc": "outside lower center", "ncols": n_columns, "handlelength": 1.2}
        figure.legend(entries.values(), entries.keys(), **place)
