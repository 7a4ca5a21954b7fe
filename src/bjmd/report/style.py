"""One style for all figures: colour-blind safe, readable in grey and in print."""

import functools

import matplotlib

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


def save(figure, svg, png):
    """Write both formats; no date goes in, so equal figures are equal files."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png)


def styled(function):
    """Draw with the common style whatever the user's matplotlib settings are."""

    @functools.wraps(function)
    def draw(*args, **kwargs):
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
            return function(*args, **kwargs)

    return draw
