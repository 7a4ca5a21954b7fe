"""Pictures of a fit: pure functions from results and the names of the data to figures, in the style of `plots`.

`sources` may be the data (`Sources`) or what `outputs.load` gives back: only the names and labels are looked at.
`results` are the restarts of one method, best first.  Components are called C1, C2, ... in the order of the result.

The pictures hold for 1 to a dozen sources, 1 to 40 components and tens of thousands of samples: panels wrap, labels are
thinned out, long names are shortened, and what would be many small shapes is drawn as an image.
"""

from math import ceil

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from bjmd.fits import registry
from bjmd.fits.matching import similarities
from bjmd.report.style import COLOURS, MARKERS, styled

WIDTH = 7.6  # inches, of every figure
MOST_SAMPLES = 1500  # of one source that a picture shows one by one: more have no pixel of their own
OTHER = "0.8"  # the grey of what has no colour of its own


def component_names(result):
    """C1, C2, ... in the order of the result."""
    return [f"C{k + 1}" for k in range(result.n_components)]


def shares(memberships):
    """Memberships that sum to 1 in every sample; those of BJMD do already, those of NMF and its kin are scaled."""
    total = memberships.sum(axis=0)
    return memberships / np.where(total > 0, total, 1)


def order_of_samples(memberships):
    """Samples by their strongest component, and within it the purest first."""
    return np.lexsort((-memberships.max(axis=0), memberships.argmax(axis=0)))


def top_features(components, component, n_features):
    """The features that set a component apart: farthest from their mean over the other components, first first.

    Not the largest entries: where the data have an offset, those are the same features in every component.
    """
    others = mean_of_others(components, component)
    return np.argsort(-np.abs(components[:, component] - others), kind="stable")[:n_features]


def mean_of_others(components, component):
    """The mean of every feature over the other components; 0 if there is no other."""
    others = np.delete(components, component, axis=1)
    return others.mean(axis=1) if others.shape[1] else np.zeros(len(components))


def short(names, most):
    """Names of at most so many characters each, with an ellipsis at the end, or where that keeps more of them apart.

    A dollar sign would start a formula in matplotlib and is kept from that.
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
def memberships(sources, result):
    """A heat map of the memberships of every source, components x samples, above the classes where they are known."""
    class_names = short(sources.class_names, 14) if sources.labels is not None else []
    n_rows = ceil(len(sources.names) / 3)
    heights = [np.clip(0.15 * result.n_components, 0.7, max(1, 8 / n_rows))]
    if class_names:
        heights.append(np.clip(0.15 * len(class_names), 0.3, max(1, 6 / n_rows)))
    figure, panels = _panels(len(sources.names), heights)
    blocks = [shares(h) for h in result.memberships]
    style = {"aspect": "auto", "interpolation": "nearest", "vmin": 0}
    largest = max(h.max() for h in blocks)
    for c, (panel, h, title) in enumerate(zip(panels, blocks, _titles(sources), strict=True)):
        order, note = _shown(order_of_samples(h))
        image = panel[0].imshow(h[:, order], cmap="Blues", vmax=largest, **style)
        _label_rows(panel[0], component_names(result), heights[0])
        if class_names:
            panel[1].imshow(sources.labels[c][:, order], cmap="Greys", vmax=1.4, **style)
            _label_rows(panel[1], class_names, heights[1])
        panel[0].set_title(title, loc="left")
        panel[-1].set_xlabel(note)
    # a legend, not a colour bar, which would take its height from that of the panels
    steps = [
        Patch(facecolor=image.to_rgba(value), edgecolor="0.7", label=f"{value:.2g}")
        for value in np.linspace(0, largest, 6)
    ]
    figure.legend(handles=steps, loc="outside lower center", ncols=6, title="Membership", handlelength=1.2)
    return figure


@styled
def membership_bars(sources, result):
    """A stacked bar for every sample; beyond seven components the largest have colours and the rest is grey."""
    blocks = [shares(h) for h in result.memberships]
    total = sum(h.sum(axis=1) for h in blocks)
    coloured = np.sort(np.argsort(-total, kind="stable")[: len(COLOURS)])
    rest = np.setdiff1d(np.arange(result.n_components), coloured)
    figure, panels = _panels(len(sources.names), [1.5])
    for (ax,), h, title in zip(panels, blocks, _titles(sources), strict=True):
        order, note = _shown(order_of_samples(h))
        h = h[:, order]
        layers = [(f"C{k + 1}", h[k], colour) for k, colour in zip(coloured, COLOURS, strict=False)]
        if len(rest):
            layers.append((f"the other {len(rest)}", h[rest].sum(axis=0), OTHER))
        base = np.zeros(len(order))
        for label, height, colour in layers:
            ax.stairs(
                base + height, np.arange(len(order) + 1), baseline=base, fill=True,
                color=colour, linewidth=0, label=label, rasterized=len(order) > 100,
            )  # fmt: skip
            base = base + height
        ax.set(xlim=(0, len(order)), ylim=(0, 1), xticks=[], yticks=[0, 0.5, 1], xlabel=note)
        ax.set_title(title, loc="left")
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel("Membership")
        else:
            ax.tick_params(labelleft=False)
    _legend(figure, panels, n_columns=8)
    return figure


@styled
def components(sources, result, n_features=10, level=0.9):
    """The features that set each component apart, with credible intervals where the method has them."""
    marginals = result.posterior and result.posterior.components
    low, high = (result.components, result.components) if marginals is None else marginals.interval(level)
    n_features = min(n_features, len(result.components))
    figure, panels = _panels(result.n_components, [0.17 * n_features + 0.1])
    places = np.arange(n_features)
    names = short(sources.feature_names, 16)
    for k, (ax,) in enumerate(panels):
        top = top_features(result.components, k, n_features)
        values = result.components[top, k]
        ax.barh(places, values, height=0.75, color=COLOURS[5], label="this component")
        if marginals is not None:
            label = f"{100 * level:.0f} % credible interval"
            ax.hlines(places, low[top, k], high[top, k], color="black", linewidth=1.2, label=label)
        if result.n_components > 1:
            others = mean_of_others(result.components, k)[top]
            ax.plot(others, places, "|", color=COLOURS[1], ms=8, mew=1.5, label="mean of the other components")
        ax.axvline(0, color="0.4", linewidth=0.6)
        ax.set_yticks(places, [names[i] for i in top], fontsize=7.5)
        ax.tick_params(axis="x", labelsize=7.5)
        ax.set_ylim(n_features - 0.4, -0.6)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.set_title(f"C{k + 1}", loc="left")
    _legend(figure, panels, n_columns=3)
    return figure


@styled
def noise(sources, result, level=0.9):
    """The noise standard deviation of every source, with credible intervals where the method has them."""
    marginals = result.posterior and result.posterior.noise
    places = np.arange(len(sources.names))
    figure = Figure(figsize=(WIDTH, 0.28 * len(places) + 0.8), layout="constrained")
    ax = figure.subplots()
    texts = [f"{sd:.4g}" for sd in result.noise]
    if marginals is not None:
        low, high = marginals.interval(level)
        ax.hlines(places, low, high, color="black", linewidth=1.5)
        texts = [f"{text}  ({a:.4g} to {b:.4g})" for text, a, b in zip(texts, low, high, strict=True)]
    ax.plot(result.noise, places, "o", color=COLOURS[0])
    right = ax.secondary_yaxis("right")
    right.set_yticks(places, texts)
    for side in (ax, right):
        side.tick_params(axis="y", length=0)
    right.spines[:].set_visible(False)
    ax.set_yticks(places, short(sources.names, 30))
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.margins(x=0.1)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.set_xlabel("Noise sd" if marginals is None else f"Noise sd, with {100 * level:.0f} % credible interval")
    return figure


@styled
def convergence(results):
    """How far every restart was above the best one, sweep by sweep and in the end."""
    what = registry.get(results[0].method).objective
    lowest = min(min(result.trace.min(initial=result.objective), result.objective) for result in results)
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    course, final = figure.subplots(1, 2)
    for result in reversed(results):  # the best last, on top
        step = max(1, ceil(len(result.trace) / MOST_SAMPLES))
        iterations = result.trace_step * np.arange(1, len(result.trace) + 1)
        above = np.where(result.trace > lowest, result.trace - lowest, np.nan)
        style = {"color": COLOURS[0], "linewidth": 2} if result is results[0] else {"color": "0.6", "linewidth": 0.7}
        course.plot(iterations[::step], above[::step], **style)
    if max(len(result.trace) for result in results) < 3:
        course.text(
            0.5, 0.5, "This method reports\nits final value only", ha="center", va="center", transform=course.transAxes
        )
        course.set_xticks([])
        course.set_yticks([])
    else:
        course.set_yscale("log")
        course.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        course.xaxis.set_major_formatter("{x:,.0f}")
    course.set_xlabel("Sweep" if results[0].trace_step == 1 else "Iteration")
    course.set_ylabel(f"{what} above the lowest".capitalize().replace("elbo", "ELBO"))
    course.set_title("On the way (best restart in blue)", loc="left")

    best = results[0].objective
    for converged, style in (
        (True, {"color": COLOURS[0], "label": "converged"}),
        (False, {"color": COLOURS[1], "markerfacecolor": "white", "marker": "s", "label": "not converged"}),
    ):
        ranks = [rank for rank, result in enumerate(results, start=1) if result.converged == converged]
        if ranks:
            gaps = [results[rank - 1].objective - best for rank in ranks]
            final.plot(ranks, gaps, **{"linestyle": "", "marker": "o", **style})
    final.set_xlabel("Restart, best first")
    final.set_ylabel(f"{what} above the best".capitalize().replace("elbo", "ELBO"))
    final.set_title(f"In the end (best: {best:,.6g})", loc="left")
    final.set_xticks(np.arange(1, len(results) + 1, ceil(len(results) / 10)))
    final.set_xlim(0.4, len(results) + 0.6)
    gap = max(result.objective for result in results) - best
    final.set_ylim(-0.05 * (gap or 1), 1.05 * (gap or 1))
    final.legend(loc="upper left", handlelength=1)
    return figure


@styled
def simplex(sources, result):
    """Every sample between the components: on a line for two, in a triangle for three, in a polygon for more.

    A sample lies at the mean of the corners weighted by its memberships.  In a line and a triangle the place tells the
    memberships; in a polygon several mixtures share a place, only the corners are unmistakable.
    """
    if result.n_components == 1:
        raise ValueError("one component has no simplex to show")
    if result.n_components == 2:
        draw, height = _draw_line, 1.5
    else:
        draw, height = _draw_polygon, 2.1 if len(sources.names) > 2 else 3
    figure, panels = _panels(len(sources.names), [height])
    for c, ((ax,), title) in enumerate(zip(panels, _titles(sources), strict=True)):
        draw(ax, shares(result.memberships[c]), _by_class(sources, c))
        ax.set_title(title, loc="left")
    _legend(figure, panels, n_columns=5)
    return figure


def _draw_line(ax, h, groups):
    """Two components: a histogram along the line from one to the other."""
    colours = [style["color"] for _, _, style in groups]
    labels = [label for label, _, _ in groups]
    ax.hist(
        [h[1, members] for _, members, _ in groups], np.linspace(0, 1, 26), stacked=True, color=colours, label=labels
    )
    ax.set_xlim(-0.02, 1.02)
    ax.set_xticks([0, 0.5, 1], ["C1", "50 : 50", "C2"])
    ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel("Samples")


def _draw_polygon(ax, h, groups):
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(h)) / len(h)
    corners = np.column_stack([np.cos(angles), np.sin(angles)])
    ax.fill(*corners.T, facecolor="none", edgecolor="0.6", linewidth=0.8)
    places = h.T @ corners
    n = h.shape[1]
    for label, members, style in groups:
        ax.scatter(
            *places[members].T, s=12 if n < 500 else 4, alpha=0.7 if n < 500 else 0.4, linewidths=0,
            label=label, rasterized=n > 500, **style,
        )  # fmt: skip
    for k in range(0, len(h), ceil(len(h) / 24)):
        ax.text(*(1.12 * corners[k]), f"C{k + 1}", ha="center", va="center", fontsize=9 if len(h) <= 12 else 6.5)
    ax.set(xlim=(-1.25, 1.25), ylim=(corners[:, 1].min() - 0.2, 1.2), aspect="equal")
    ax.axis("off")


def _by_class(sources, c):
    """[(label, samples, style)]: the samples of source c by class if there are colours enough for that, else as one."""
    n = len(sources.sample_names[c])
    if sources.labels is None or len(sources.class_names) > len(COLOURS):
        return [(None, np.arange(n), {"color": COLOURS[0]})]
    labels = sources.labels[c]
    count = labels.sum(axis=0)
    groups = [
        (name, np.flatnonzero(labels[k] & (count == 1)), {"color": COLOURS[k], "marker": MARKERS[k]})
        for k, name in enumerate(short(sources.class_names, 24))
    ]
    groups.append(("several classes", np.flatnonzero(count > 1), {"color": "0.5", "marker": "."}))
    groups.append(("no class", np.flatnonzero(count == 0), {"color": OTHER, "marker": "."}))
    return [group for group in groups if len(group[1])]


@styled
def stability(results):
    """How alike each component of the best restart is to its partner in every other one, with the mean above."""
    alike = similarities(results)
    n_runs, n_components = alike.shape
    height = np.clip(0.16 * n_runs, 0.5, 5)
    figure = Figure(figsize=(WIDTH, height + 2.0), layout="constrained")
    mean, each = figure.subplots(2, 1, sharex=True, height_ratios=[1.0, height])
    mean.plot(np.arange(n_components), alike.mean(axis=0), "o", color=COLOURS[0])
    mean.set_ylim(min(0, alike.mean(axis=0).min() - 0.05), 1.08)
    mean.set_title("Mean over the other restarts", loc="left")
    mean.grid(axis="y", color="0.9")
    image = each.imshow(alike, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    _label_rows(each, [f"seed {result.seed}" for result in results[1:]], height)
    step = ceil(n_components / 20)
    each.set_xticks(np.arange(0, n_components, step), component_names(results[0])[::step])
    each.set_xlabel("Component of the best restart")
    each.set_title("Each of the other restarts, best first", loc="left")
    figure.colorbar(image, ax=[mean, each], label="Correlation of memberships", shrink=0.9, aspect=25, pad=0.015)
    return figure


def _panels(count, heights):
    """A figure with `count` panels in rows of up to three; a panel is a list of axes under each other."""
    n_columns = min(3, count)
    n_rows = ceil(count / n_columns)
    figure = Figure(figsize=(WIDTH, n_rows * (sum(heights) + 0.55) + 0.4), layout="constrained")
    grid = figure.subplots(n_rows * len(heights), n_columns, squeeze=False, height_ratios=list(heights) * n_rows)
    panels = [list(grid[row * len(heights) : (row + 1) * len(heights), column])
              for row in range(n_rows) for column in range(n_columns)]  # fmt: skip
    for panel in panels[count:]:
        for ax in panel:
            ax.remove()
    return figure, panels[:count]


def _titles(sources):
    """The names of the sources, as long as the panels are wide."""
    return short(sources.names, {1: 80, 2: 40}.get(len(sources.names), 25))


def _shown(order):
    """The samples that a picture shows, evenly out of their order, and what to say about it."""
    n = len(order)
    if n <= MOST_SAMPLES:
        return order, f"{n:,} sample{'s' if n > 1 else ''}"
    places = np.linspace(0, n - 1, MOST_SAMPLES).round().astype(int)
    return order[places], f"{MOST_SAMPLES:,} of {n:,} samples"


def _label_rows(ax, labels, height):
    """Frame an image that is so many inches high and label its rows, if it stands first in its row of panels.

    As many labels are left out as it takes to keep them apart.
    """
    ax.spines[:].set_visible(True)
    ax.set_xticks([])
    step = ceil(0.13 * len(labels) / height)
    ax.set_yticks(np.arange(0, len(labels), step), labels[::step], fontsize=7.5)
    ax.tick_params(labelleft=ax.get_subplotspec().is_first_col())


def _legend(figure, panels, n_columns):
    """One legend for all panels, below them; none where nothing has a label."""
    entries = {}
    for (ax,) in panels:
        entries |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if entries:
        n_columns = ceil(len(entries) / ceil(len(entries) / n_columns))  # rows of equal length
        legend = figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=n_columns, handlelength=1.2
        )
        for handle in legend.legend_handles:
            handle.set_alpha(1)
