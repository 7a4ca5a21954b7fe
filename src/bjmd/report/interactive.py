"""The interactive figure of a fit, drawn by Bokeh: all samples between the components.

Bokeh is the extra `interactive`.  Its script goes into the page, so that nothing is loaded later.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np

from bjmd.report.style import COLOURS, GREY, OTHER
from bjmd.report.tables import NO_CLASS, SEVERAL, Named, polygon, shares
from bjmd.results.decomposition import Decomposition, component_names

MISSING = "For an interactive figure, install bjmd[interactive] and fit again."
MAX_SAMPLES = 4000  # in the page; of more, equally many of every source, evenly spaced
MAX_VALUES = 6  # in the text about a sample
DRAW = """
document.querySelectorAll(".chart").forEach((figure) => {
  const item = JSON.parse(figure.querySelector("script").textContent);
  Bokeh.embed.embed_item(item, figure.querySelector("div"));
});
"""


def is_installed() -> bool:
    return find_spec("bokeh") is not None


def scripts() -> list[str]:
    """Bokeh's own script, and the one that draws the figure."""
    from bokeh.resources import Resources

    parts = Resources(mode="inline", components=["bokeh"]).js_raw
    library = [part for part in parts if not part.startswith("Bokeh.set_log_level")]
    return [*library, 'Bokeh.logger.set_level("error");', DRAW]


def samples(data: Named, best: Decomposition) -> dict[str, list]:
    """A column for everything that is known about the samples: name, source, class, memberships."""
    limit = max(1, MAX_SAMPLES // len(data.names))
    places = [
        (c, i)
        for c, names in enumerate(data.sample_names)
        for i in np.linspace(0, len(names) - 1, min(len(names), limit)).astype(int)
    ]
    # in random order, so that no group of samples hides another
    places = [places[i] for i in np.random.default_rng(0).permutation(len(places))]
    h = shares(np.column_stack([best.memberships[c][:, i] for c, i in places]))
    components = component_names(best.n_components)
    largest = np.argsort(-h, axis=0)[:MAX_VALUES]
    x, y = polygon(best.n_components).T @ h
    columns = {
        "x": x.round(4).tolist(),
        "y": y.round(4).tolist(),
        "sample": [data.sample_names[c][i] for c, i in places],
        "source": [data.names[c] for c, _ in places],
        "memberships": [
            ", ".join(f"{components[k]} {h[k, j]:.3g}" for k in order)
            for j, order in enumerate(largest.T)
        ],
    }
    if data.labels:
        class_names = np.array(data.class_names)
        classes = [class_names[data.labels[c][:, i].astype(bool)] for c, i in places]
        columns["class"] = [", ".join(of_sample) or NO_CLASS for of_sample in classes]
    return columns


def simplex(data: Named, best: Decomposition) -> dict[str, Any]:
    """Bokeh's JSON of every sample between the components, coloured by class, or by source."""
    from bokeh.embed import json_item
    from bokeh.models import ColumnDataSource
    from bokeh.plotting import figure

    columns = samples(data, best)
    group = "class" if data.labels else "source"
    levels = data.class_names if data.labels else data.names
    colours = {level: COLOURS[i % len(COLOURS)] for i, level in enumerate(levels)}
    colours |= {NO_CLASS: OTHER, SEVERAL: GREY}
    shown = [level if level in colours else SEVERAL for level in columns[group]]
    labels = {level: level if len(level) <= 18 else f"{level[:17]}…" for level in colours}
    plot = figure(
        height=440 + 12 * len(set(shown)),  # of which the legend takes its part
        sizing_mode="stretch_width",
        match_aspect=True,
        tools="pan,box_zoom,wheel_zoom,reset,save,hover",
        tooltips=[(name, f"@{name}") for name in list(columns)[2:]],
        toolbar_location="above",
    )
    plot.toolbar.active_scroll = None  # the wheel scrolls the page until its tool is chosen
    plot.toolbar.logo = None
    plot.axis.visible = False
    plot.grid.visible = False
    corners = polygon(best.n_components)
    plot.patch(*corners.T, fill_color=None, line_color="#999999")
    places = {"text_align": "center", "text_baseline": "middle", "text_font_size": "13px"}
    plot.text(*(1.1 * corners).T, text=component_names(best.n_components), **places)
    points = ColumnDataSource(
        {
            **columns,
            "colour": [colours[level] for level in shown],
            "legend": [labels[level] for level in shown],
        }
    )
    style = {"size": 7 if len(shown) <= 800 else 5, "fill_alpha": 0.7}
    drawn = plot.scatter("x", "y", source=points, color="colour", legend_group="legend", **style)
    plot.hover.renderers = [drawn]
    plot.hover.limit = 5
    plot.legend[0].items.sort(key=lambda item: list(labels.values()).index(item.label.value))
    plot.legend.title = group
    plot.legend.ncols = 2
    plot.legend.location = "center"
    plot.add_layout(plot.legend[0], "below")
    return json_item(plot)
