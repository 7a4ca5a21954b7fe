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
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bjmd.analysis import ranking
from bjmd.analysis.matching import similarities
from bjmd.errors import InputError, count
from bjmd.report import tables
from bjmd.report.style import COLOURS, DOWN, GREY, NEUTRAL, OTHER, UP, styled
from bjmd.report.tables import INTERVAL, LEVEL, NO_CLASS, SEVERAL, Named, number, polygon, shares
from bjmd.results.decomposition import Decomposition, component_names

if TYPE_CHECKING:
    from bjmd.analysis.number_of_components import Selection
    from bjmd.analysis.summary import Summary

WIDTH = 6.4  # inches, of every figure: text stays readable on a phone
MAX_SAMPLES = 1500  # of one source in a figure; more would have less than a pixel each


def of_summary(
    data: Named, summary: Summary, answers: Mapping[str, pd.DataFrame]
) -> dict[str, Figure]:
    """Every figure of a report, by name; `answers` are the tables from `tables.of_summary`."""
    results = summary.results
    best = results[0]
    drawn = {
        "memberships": memberships(data, best),
        "membership_bars": membership_bars(data, best),
        "components": components(data, best, n_features=6 if best.n_components <= 12 else 4),
    }
    if best.noise is not None:
        drawn["noise"] = noise(data, best)
    shifts = tables.shifts(data, best)
    if len(shifts):
        drawn["offsets"] = offsets(shifts)
    if best.n_components > 2:  # of two memberships, the heat map says it all
        drawn["simplex"] = simplex(data, best)
    if len(results) > 1:
        drawn["stability"] = stability(results)
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
    n_rows = ceil(len(data.names) / 3)
    heights = [np.clip(0.15 * result.n_components, 0.7, max(1, 8 / n_rows))]
    if class_names:
        heights.append(np.clip(0.15 * len(class_names), 0.3, max(1, 6 / n_rows)))
    figure, axes = panels(data.names, heights)
    blocks = [shares(h) for h in result.memberships]
    distances = ranking.distances(result)[:, None]
    style = {"aspect": "auto", "interpolation": "nearest", "vmin": 0}
    largest = max(h.max() for h in blocks)
    for c, (panel, h) in enumerate(zip(axes, blocks, strict=True)):
        order, note = _shown(distances * h)
        image = panel[0].imshow(h[:, order], cmap="Blues", vmax=largest, **style)
        _label_rows(panel[0], component_names(result.n_components), heights[0])
        if data.labels:
            panel[1].imshow(data.labels[c][:, order], cmap="Greys", vmax=1.4, **style)
            _label_rows(panel[1], class_names, heights[1])
        panel[-1].set_xlabel(note)
    bar = {"orientation": "horizontal", "aspect": 40, "shrink": 0.5, "pad": 0.02}
    figure.colorbar(image, ax=[ax for panel in axes for ax in panel], label="Membership", **bar)
    return figure


@styled
def membership_bars(data: Named, result: Decomposition) -> Figure:
    """A stacked bar for every sample."""
    figure, axes = panels(data.names, [1.5], "Membership")
    distances = ranking.distances(result)[:, None]
    for (ax,), block in zip(axes, result.memberships, strict=True):
        h = shares(block)
        order, note = _shown(distances * h)
        tops = np.cumsum(h[:, order], axis=0)
        for k, name in enumerate(component_names(result.n_components)):
            ax.stairs(
                tops[k],
                np.arange(len(order) + 1),
                baseline=tops[k - 1] if k else 0,
                fill=True,
                color=COLOURS[k % len(COLOURS)],
                linewidth=0,
                label=name,
                rasterized=len(order) > 100,
            )
        ax.set(xlim=(0, len(order)), ylim=(0, 1), xticks=[], yticks=[0, 0.5, 1], xlabel=note)
        ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())
    legend(figure, axes, n_columns=8)
    return figure


@styled
def components(data: Named, result: Decomposition, n_features: int = 6) -> Figure:
    """The features that set each component apart, so many up and so many down."""
    w = result.components
    centre = ranking.mean_sample(result)[:, None]
    others = ranking.mean_of_others(w) - centre
    scores = ranking.scores(result)
    low = high = np.full_like(w, np.nan)
    if result.posterior:
        low, high = (end - centre for end in result.posterior.components.interval(LEVEL))
    n_rows = min(2 * n_features, len(w))
    figure, axes = panels(component_names(result.n_components), [0.17 * n_rows + 0.1], most=2)
    for k, (ax,) in enumerate(axes):
        up, down = ranking.up_and_down(scores[:, k], n_features)
        top = np.concatenate([up, down])
        names = [data.feature_names[i] for i in top]
        bars = (w - centre)[top, k]
        _ranked_bars(ax, names, bars, len(up), low[top, k], high[top, k])
        if result.n_components > 1:
            style = {"color": "0.35", "ms": 8, "mew": 1.5, "label": "mean of the other components"}
            ax.plot(others[top, k], np.arange(len(top)), "|", **style)
    legend(figure, axes, n_columns=2)
    return figure


@styled
def offsets(table: pd.DataFrame, n_features: int = 6) -> Figure:
    """The features in which each source is shifted most, so many up and so many down."""
    sources = list(table["source"].unique())
    figure, axes = panels(sources, [0.34 * n_features + 0.1], most=2)
    for (ax,), source in zip(axes, sources, strict=True):
        part = table[table["source"] == source]
        up = part[part["offset"] > 0][:n_features]
        top = pd.concat([up, part[part["offset"] < 0][:n_features]])
        half = 1.645 * top["sd"]
        bars = top["offset"]
        _ranked_bars(ax, top["feature"], bars, len(up), bars - half, bars + half)
        ax.set_xlabel("Offset")
    legend(figure, axes, n_columns=3)
    return figure


def _ranked_bars(
    ax: Axes, names: Sequence[str], values: Any, n_up: int, low: Any, high: Any
) -> None:
    """Bars for features that are up, then for those that are down, with intervals if known."""
    places = np.arange(len(names))
    for rows, colour, label in ((places[:n_up], UP, "up"), (places[n_up:], DOWN, "down")):
        ax.barh(rows, np.asarray(values)[rows], height=0.75, color=colour, label=label)
    if not np.isnan(low).all():
        ax.hlines(places, low, high, color="black", linewidth=1.2, label=INTERVAL)
    ax.axvline(0, color="0.4", linewidth=0.6)
    ax.set_yticks(places, short(names, 16), fontsize=7.5)
    ax.tick_params(axis="x", labelsize=7.5)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    ax.xaxis.set_major_locator(MaxNLocator(4))


@styled
def noise(data: Named, result: Decomposition) -> Figure:
    """The noise sd of every source, with credible intervals if there are any."""
    levels = tables.noise(data, result)
    has_intervals = levels["low"].notna().all()
    places = np.arange(len(data.names))
    figure, ax = sheet(0.28 * len(places) + 0.8)
    if has_intervals:
        ax.hlines(places, levels["low"], levels["high"], color="black", linewidth=1.5)
    ax.plot(levels["noise"], places, "o", color=COLOURS[0])
    ax.set_yticks(places, short(data.names, 30))
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1.05 * levels[["noise", "high"]].max(axis=None))
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.set_xlabel(f"Noise sd, with {INTERVAL}" if has_intervals else "Noise sd")
    return figure


@styled
def components_by_source(table: pd.DataFrame) -> Figure:
    """The share of every component in each source, with confidence intervals."""
    names = list(table["component"].unique())
    sources = list(table["source"].unique())
    width = min(0.8 / len(sources), 0.25)
    row = max(0.22, 0.055 * len(sources))
    figure, ax = sheet(row * len(names) + 0.9)
    for c, (source, label) in enumerate(zip(sources, short(sources, 24), strict=True)):
        part = table[table["source"] == source]
        places = np.arange(len(names)) + width * (c - (len(sources) - 1) / 2)
        colour = COLOURS[c % len(COLOURS)]
        ax.hlines(places, 100 * part["low"], 100 * part["high"], color=colour)
        ax.plot(100 * part["share"], places, "o", color=colour, markersize=4, label=label)
    ax.hlines(
        np.arange(len(names) - 1) + 0.5, 0, 1, transform=ax.get_yaxis_transform(), color="0.9"
    )
    ax.set_yticks(np.arange(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.set(xlabel="Share (%)", ylim=(len(names) - 0.5, -0.5), xlim=(0, None))
    legend(figure, [[ax]], n_columns=3)
    return figure


@styled
def variance_explained(table: pd.DataFrame) -> Figure:
    """A heat map of the variance that each component explains, beside the totals."""
    shares = 100 * table.set_index("source").drop(columns="total")
    total = 100 * table["total"]
    height = np.clip(0.25 * len(table), 0.5, 5)
    figure, (each, bars) = sheet(height + 0.8, 1, 2, width_ratios=[3, 1], sharey=True)
    least = 0 if shares.size <= 100 else 0.15 * shares.to_numpy().max()
    digits = int(shares.shape[1] <= 10)
    _by_component(
        each, shares, height, lambda share: f"{share:z.{digits}f}" if abs(share) >= least else ""
    )
    each.set_title("By component (%)", loc="left")
    bars.barh(np.arange(len(table)), total, color=NEUTRAL)
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
    _label_rows(ax, short(values.index, 24), height)
    label_columns(ax, values.columns, 14)
    for (row, k), value in np.ndenumerate(values):
        colour = "white" if value > 0.6 * most else "black"
        ax.text(k, row, label(value), ha="center", va="center", fontsize=7, color=colour)
    return image


@styled
def simplex(data: Named, result: Decomposition) -> Figure:
    """Every sample in a polygon between the components, at least three of them.

    A sample lies at the mean of the corners weighted by its memberships.  With more than three
    components, several mixtures share a place, and only the corners are unambiguous.
    """
    if result.n_components < 3:
        raise InputError("a simplex needs at least three components; see the memberships instead")
    figure, axes = panels(data.names, [2.0 if len(data.names) > 2 else 2.8])
    for c, (ax,) in enumerate(axes):
        _draw_polygon(ax, shares(result.memberships[c]), *_classes(data, c))
    legend(figure, axes, n_columns=3)
    return figure


def _draw_polygon(ax: Axes, h: np.ndarray, code: np.ndarray, looks: dict[str, str]) -> None:
    corners = polygon(len(h))
    ax.fill(*corners.T, facecolor="none", edgecolor="0.6", linewidth=0.8)
    n = h.shape[1]
    # in random order, so that no class hides another
    order = np.random.default_rng(0).permutation(n)
    ax.scatter(
        *(h.T[order] @ corners).T,
        s=12 if n < 500 else 4,
        c=np.array(list(looks.values()))[code[order]],
        alpha=0.7 if n < 500 else 0.5,
        linewidths=0,
        rasterized=n > 500,
    )
    for i, (label, colour) in enumerate(looks.items()):
        if label and (code == i).any():
            ax.add_line(Line2D([], [], marker="o", linestyle="", color=colour, label=label))
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
    looks = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    looks |= {SEVERAL: GREY, NO_CLASS: OTHER}
    n_classes = labels.sum(axis=0)
    code = np.where(n_classes == 1, labels.argmax(axis=0), len(looks) - 1 - (n_classes > 1))
    return code, looks


@styled
def stability(results: list[Decomposition]) -> Figure:
    """How well every other restart recovered each component of the best one."""
    correlations = similarities(results)
    height = np.clip(0.16 * len(correlations), 0.5, 5)
    figure, ax = sheet(height + 0.8)
    image = ax.imshow(
        correlations, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    _label_rows(ax, [f"seed {result.seed}" for result in results[1:]], height)
    label_columns(ax, component_names(results[0].n_components), 20)
    ax.set_xlabel("Component of the best restart")
    figure.colorbar(image, label="Correlation", aspect=12, pad=0.015)
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
    figure, axes = sheet(3.1, 1, len(shown), squeeze=False)
    for ax, (label, values, errors) in zip(axes[0], shown, strict=True):
        ax.axvline(selection.recommended, color=COLOURS[1], linestyle="--", linewidth=1, zorder=0)
        ax.errorbar(table["k"], values, errors, color=COLOURS[0], marker="o", ecolor="0.3")
        if label.startswith("Stability"):
            ax.set_ylim(min(0.8, values.min() - 0.02), 1.02)
        else:
            least = values[values > 0].min() if values.any() else 1.0
            ax.set_yscale("symlog", linthresh=least, linscale=0.5)
            ax.set_ylim(1.6 * values.max(), -0.2 * least)
            ax.yaxis.set_major_formatter(lambda value, _: number(value))
        ax.set(xlabel="Components", ylabel=label)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.grid(axis="y", color="0.9")
    others = [str(k) for k in selection.candidates if k != selection.recommended]
    note = f"; {', '.join(others)} within one standard error" if others else ""
    figure.suptitle(
        f"{selection.recommended} recommended{note}", x=0.01, ha="left", color=COLOURS[1]
    )
    return figure


def sheet(height: float, *shape: int, **how: Any) -> tuple[Figure, Any]:
    """A figure of the common width, and its axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(*shape, **how)


def panels(
    titles: list[str], heights: list, label: str = "", most: int = 3
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a panel for each title, `most` in a row; a panel is a column of axes.

    `label` is that of the upper y axis of every panel, written at the beginning of a row.
    """
    count = len(titles)
    n_columns = min(most, count)
    n_rows = ceil(count / n_columns)
    shape = (n_rows * len(heights), n_columns)
    each = list(heights) * n_rows
    figure, grid = sheet(
        n_rows * (sum(heights) + 0.55) + 0.5, *shape, squeeze=False, height_ratios=each
    )
    made = grid.reshape(n_rows, len(heights), n_columns).swapaxes(1, 2).reshape(-1, len(heights))
    for ax in made[count:].ravel():
        ax.remove()
    for panel, title in zip(made, short(titles, 66 // n_columns), strict=False):
        panel[0].set_title(title, loc="left")
    for first in made[::n_columns]:
        first[0].set_ylabel(label)
    return figure, made[:count].tolist()


def _shown(contributions: np.ndarray) -> tuple[np.ndarray, str]:
    """The samples that a figure shows, evenly spaced, and a label that counts them.

    They are sorted by the component that contributes most (ranking.distances), the purest first.
    """
    pure = contributions.max(axis=0) / np.maximum(contributions.sum(axis=0), 1e-300)
    order = np.lexsort((-pure, contributions.argmax(axis=0)))
    n = len(order)
    if n <= MAX_SAMPLES:
        return order, count(n, "sample")
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


def label_columns(ax: Axes, names: Sequence[str], most: int) -> None:
    """Name at most `most` columns of an image or of bars."""
    step = ceil(len(names) / most)
    ax.set_xticks(np.arange(0, len(names), step), list(names)[::step])


def legend(figure: Figure, axes: list[list[Axes]], n_columns: int) -> None:
    """One legend for all panels, below them; none if nothing has a label."""
    entries: dict = {}
    for (ax,) in axes:
        entries |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    entries.pop("", None)
    if entries:
        n_columns = ceil(len(entries) / ceil(len(entries) / n_columns))  # rows of equal length
        place = {"loc": "outside lower center", "ncols": n_columns, "handlelength": 1.2}
        figure.legend(entries.values(), entries.keys(), **place)
