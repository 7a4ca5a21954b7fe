"""One style for all figures: colour-blind safe, readable in grey and in print."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

import matplotlib
from matplotlib.figure import Figure

P = ParamSpec("P")

# Okabe and Ito's palette without its yellow, which vanishes on white
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
MARKERS = "osD^vPX"

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "svg.hashsalt": "bjmd",
    "savefig.dpi": 200,
}


def save(figure: Figure, svg: str | Path, png: str | Path) -> None:
    """Write both formats; no date goes in, so equal figures are equal files."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png)


def styled(function: Callable[P, Figure]) -> Callable[P, Figure]:
    """Draw with the common style whatever the user's matplotlib settings are."""

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
            return function(*args, **kwargs)

    return draw
