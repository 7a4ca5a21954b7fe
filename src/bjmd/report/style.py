"""One style for all figures: colour-blind safe, readable in grey and in print."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

P = ParamSpec("P")

# Okabe and Ito's palette without its yellow, which vanishes on white, and ten more
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
COLOURS += ["#8A2BE2", "#8B4513", "#9ACD32", "#DC143C", "#808080"]
COLOURS += ["#20B2AA", "#FF8FA3", "#4B5320", "#B8860B", "#6A5ACD"]
UP = "#D55E00"
DOWN = "#0072B2"
GREY = "#777777"  # samples of several classes
OTHER = "#cccccc"  # samples of none
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


def save(figure: Figure, svg: str | Path, png: str | Path) -> None:
    """Write both formats, without a date, so that equal figures are equal files.

    The layout, which is slow, is computed once; `Figure.savefig` would compute it for each file.
    """
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        if not axis.get_label_text():
            axis.set_label_coords(0, 0)  # else all ticks are measured to place an empty label
    with matplotlib.rc_context(STYLE):
        figure.dpi = STYLE["savefig.dpi"]
        canvas = FigureCanvasAgg(figure)
        layout = figure.get_layout_engine()
        if layout is not None:
            layout.execute(figure)
            figure.set_layout_engine("none")
        canvas.print_png(png)
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})


def styled(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with the common style, whatever the user's matplotlib settings are."""

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        defaults = matplotlib.rcParamsDefault.items()
        settings = {name: value for name, value in defaults if name != "backend"} | STYLE
        with matplotlib.rc_context(settings):  # a backend would import pyplot
            return function(*args, **kwargs)

    return draw
