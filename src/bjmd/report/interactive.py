"""Interactive figures of a fit, drawn by Bokeh: scatter plots of its samples and its features.

Bokeh is the extra `interactive`.  Its script goes into the page, so that nothing is loaded later.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np

from bjmd.analysis import ranking
from bjmd.report.style import COLOURS, GREY, OTHER
from bjmd.report.tables import Named, component_names, polygon, shares
from bjmd.results.decomposition import Decomposition

MISSING = "For interactive figures, install bjmd[interactive] and fit again."
MAX_SAMPLES = 4000  # in the page; of more, equally many of every source, evenly spaced
MAX_FEATURES = 1500
MAX_VALUES = 6  # in the text about a point
ALL = "all components"
NO_CLASS = "no class"
SEVERAL = "several classes"
DRAW = """
document.querySelectorAll(".chart").forEach((figure) => {
  const item = JSON.parse(figure.querySelector("script").textContent);
  Bokeh.embed.embed_item(item, figure.querySelector("div"));
});
"""
CHOOSE_AXES = """
if (cb_obj.value === ALL) other.value = ALL;
else if (other.value === ALL)
  other.value = other.options.find((name) => name !== ALL && name !== cb_obj.value);
const is_map = across.value === ALL;
points.data = {...points.data, x: points.data[is_map ? "map_x" : across.value],
  y: points.data[is_map ? "map_y" : up.value]};
x_axis.axis_label = across.value;
y_axis.axis_label = up.value;
for (const part of axes) part.visible = !is_map;
for (const part of outline) part.visible = is_map;
plot.reset.emit();
"""
FIND = """
const sought = cb_obj.value_input.toLowerCase();
const indices = [...points.data.name.keys()];
const words = (i) => columns.map((column) => points.data[column][i]).join(" ").toLowerCase();
points.selected.indices = sought ? indices.filter((i) => words(i).includes(sought)) : [];
"""


def is_installed() -> bool:
    return find_spec("bokeh") is not None


def scripts() -> list[str]:
    """Bokeh's own scripts, and the one that draws every figure of the page."""
    from bokeh.resources import Resources

    parts = Resources(mode="inline", components=["bokeh", "bokeh-widgets"]).js_raw
    library = [part for part in parts if not part.startswith("Bokeh.set_log_level")]
    return [*library, 'Bokeh.logger.set_level("error");', DRAW]


def of_fit(data: Named, best: Decomposition) -> dict[str, dict[str, Any]]:
    """Bokeh's JSON of every interactive figure, by the name of the static figure beside it."""
    if best.n_components == 1:
        return {}
    charts = {"components": features_chart(data, best)}
    if best.n_components > 2:  # of two memberships, one says it all
        charts["simplex"] = samples_chart(data, best)
    return charts


def samples_chart(data: Named, best: Decomposition) -> dict[str, Any]:
    """Every sample between the components, or by two of them; coloured by class, or by source."""
    limit = max(1, MAX_SAMPLES // len(data.names))
    chosen = [
        np.linspace(0, len(names) - 1, min(len(names), limit)).astype(int)
        for names in data.sample_names
    ]
    h = np.hstack([shares(block)[:, i] for block, i in zip(best.memberships, chosen, strict=True)])
    columns = {
        "name": [data.sample_names[c][i] for c, rows in enumerate(chosen) for i in rows],
        "source": [data.names[c] for c, rows in enumerate(chosen) for _ in rows],
    }
    levels = list(data.names)
    if data.labels:
        labels = np.hstack([block[:, i] for block, i in zip(data.labels, chosen, strict=True)])
        class_names = np.array(data.class_names)
        columns["class"] = [", ".join(class_names[sample]) or NO_CLASS for sample in labels.T]
        levels = data.class_names
    return _chart("simplex", columns, levels, h, corners=polygon(len(h)))


def features_chart(data: Named, best: Decomposition) -> dict[str, Any]:
    """The features that set components apart, by their values in two components."""
    scores = ranking.scores(best)
    n_features = max(1, MAX_FEATURES // best.n_components)
    kept = np.unique([ranking.top(score, n_features) for score in scores.T])
    strongest = np.argmax(np.abs(scores[kept]), axis=1)
    columns = {
        "name": [data.feature_names[i] for i in kept],
        "sets apart": [f"C{k + 1}" for k in strongest],
    }
    sd = best.posterior.components.sd[kept].T if best.posterior else None
    return _chart("components", columns, component_names(best), best.components[kept].T, sd=sd)


def _chart(
    name: str,
    columns: dict[str, list[str]],
    levels: list[str],
    values: np.ndarray,
    *,
    sd: np.ndarray | None = None,
    corners: np.ndarray | None = None,
) -> dict[str, Any]:
    """A scatter plot with a choice of axes and a search.

    `columns` has the name of every point, and then what to say about it; the last of them colours
    the points, one colour for each of `levels`.  `values` and `sd` are components x points.  With
    `corners`, the plot begins as a map of all components between these corners.
    """
    from bokeh.embed import json_item
    from bokeh.layouts import column, row
    from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Select, Slope, TextInput
    from bokeh.plotting import figure

    components = [f"C{k + 1}" for k in range(len(values))]
    *_, group = columns
    colours = {level: COLOURS[i % len(COLOURS)] for i, level in enumerate(levels)}
    colours |= {NO_CLASS: OTHER, SEVERAL: GREY}
    shown = [level if level in colours else SEVERAL for level in columns[group]]
    content: dict[str, list] = {
        **columns,
        **{k: _rounded(row) for k, row in zip(components, values, strict=True)},
        "values": _texts(components, values, sd),
        "colour": [colours[level] for level in shown],
        "legend": [_short(level) for level in shown],
    }
    across = up = ALL
    if corners is None:
        across, up = components[:2]
        content |= {"x": content[across], "y": content[up]}
    else:
        map_x, map_y = (_rounded(places) for places in (values.T @ corners).T)
        content |= {"map_x": map_x, "map_y": map_y, "x": map_x, "y": map_y}
    # in random order, so that no group of points hides another
    order = np.random.default_rng(0).permutation(values.shape[1])
    points = ColumnDataSource({key: [column[i] for i in order] for key, column in content.items()})

    plot = figure(
        height=440 + 12 * len(set(shown)),  # of which the legend takes its part
        sizing_mode="stretch_width",
        match_aspect=True,
        tools="pan,box_zoom,wheel_zoom,reset,save",
        toolbar_location="above",
        x_axis_label=across,
        y_axis_label=up,
    )
    plot.toolbar.active_scroll = None  # the wheel scrolls the page until its tool is chosen
    plot.toolbar.logo = None
    axes = [*plot.xaxis, *plot.yaxis, *plot.xgrid, *plot.ygrid]
    outline = []
    if corners is not None:
        edge = np.vstack([corners, corners[:1]])
        outline.append(plot.line(edge[:, 0], edge[:, 1], color="#999999"))
        labels = {"text": components, "text_align": "center", "text_baseline": "middle"}
        outline.append(plot.text(*(1.1 * corners).T, text_font_size="13px", **labels))
        for part in axes:
            part.visible = False
    else:
        plot.add_layout(Slope(gradient=1, y_intercept=0, line_color="#999999"))
    style = {"size": 7 if len(order) <= 800 else 5, "fill_alpha": 0.7, "nonselection_alpha": 0.05}
    drawn = plot.scatter("x", "y", source=points, color="colour", legend_group="legend", **style)
    tooltips = [("", "@name"), *((c, f"@{{{c}}}") for c in list(columns)[1:]), ("", "@values")]
    plot.add_tools(HoverTool(renderers=[drawn], tooltips=tooltips, limit=5))
    entries = plot.legend[0]
    place = {_short(level): i for i, level in enumerate(colours)}
    entries.items.sort(key=lambda entry: place[entry.label.value])
    entries.title = group
    entries.ncols = 2
    entries.location = "center"
    plot.add_layout(entries, "below")

    options = components if corners is None else [ALL, *components]
    choice_across = Select(title="Across", value=across, options=options, width=120)
    choice_up = Select(title="Up", value=up, options=options, width=120)
    search = TextInput(title="Find", width=120)
    named = {
        "points": points,
        "plot": plot,
        "axes": axes,
        "x_axis": plot.xaxis[0],
        "y_axis": plot.yaxis[0],
        "outline": outline,
        "across": choice_across,
        "up": choice_up,
        "ALL": ALL,
    }
    for choice, other in ((choice_across, choice_up), (choice_up, choice_across)):
        choice.js_on_change("value", CustomJS(args={**named, "other": other}, code=CHOOSE_AXES))
    found = {"points": points, "columns": list(columns)}
    search.js_on_change("value_input", CustomJS(args=found, code=FIND))
    controls = row(
        choice_across, choice_up, search, sizing_mode="stretch_width", styles={"flex-wrap": "wrap"}
    )
    layout = column(controls, plot, sizing_mode="stretch_width")
    return json_item(layout, f"{name}-chart")


def _short(level: str) -> str:
    return level if len(level) <= 18 else f"{level[:17]}…"


def _rounded(values: np.ndarray) -> list[float]:
    """Numbers with four significant digits, to keep the page small."""
    return [float(f"{value:.4g}") for value in values]


def _texts(components: list[str], values: np.ndarray, sd: np.ndarray | None) -> list[str]:
    """The largest values of every point, in words."""
    texts = []
    for j, order in enumerate(np.argsort(-np.abs(values), axis=0)[:MAX_VALUES].T):
        parts = [f"{components[k]} {values[k, j]:.3g}" for k in order]
        if sd is not None:
            parts = [f"{part} ± {sd[k, j]:.2g}" for part, k in zip(parts, order, strict=True)]
        texts.append(", ".join(parts))
    return texts
