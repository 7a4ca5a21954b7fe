"""The picture of a choice of the number of components, in the style of `plots`."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from bjmd.report.style import COLOURS, styled


@styled
def figure(selection):
    """Held-out density with standard errors, ELBO and stability against K; the recommended K is marked in each.

    Density and ELBO are shown as distances below their best: on a logarithmic scale far from it, where K too small
    loses thousands of times what is lost by one component too many, and on a linear one close to it.
    """
    table = selection.table
    lost = -table["difference"]
    panels = [("Held-out log density\nbelow the best (nats an entry)", lost, table["standard_error"])]
    if table["elbo"].notna().all():
        panels.append(("ELBO below the best (nats)", table["elbo"].max() - table["elbo"], None))
    if table["stability"].notna().all():
        panels.append(("Stability of the components", table["stability"], None))
    result = Figure(figsize=(2.9 * len(panels), 3.1), layout="constrained")
    axes = result.subplots(1, len(panels), squeeze=False)[0]
    for ax, (label, values, errors) in zip(axes, panels, strict=True):
        ax.axvline(selection.recommended, color=COLOURS[1], linestyle="--", linewidth=1, zorder=0)
        ax.plot(table["k"], values, color=COLOURS[0], marker="o", zorder=2)
        if errors is not None:
            ax.errorbar(table["k"], values, errors, fmt="none", ecolor="0.3", elinewidth=1, capsize=2.5, zorder=3)
        if label.startswith("Stability"):
            ax.set_ylim(min(0.8, values.min() - 0.02), 1.02)
            ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        else:
            _distances(ax, values)
        ax.set_xlabel("Components")
        ax.set_ylabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        ax.grid(axis="y", color="0.9")
    others = [str(k) for k in selection.candidates if k != selection.recommended]
    note = f"; {', '.join(others)} within one standard error" if others else ""
    result.suptitle(f"{selection.recommended} recommended{note}", x=0.01, ha="left", color=COLOURS[1])
    return result


def _distances(ax, values):
    """An axis that points down from 0, the best; linear up to the smallest distance and logarithmic from there."""
    positive = values[values > 0]
    least, most = (positive.min(), positive.max()) if len(positive) else (1.0, 1.0)
    ax.set_yscale("symlog", linthresh=least, linscale=0.5)
    decades = np.arange(np.floor(np.log10(least)), np.log10(most) + 1)
    ticks = np.outer(10.0**decades, (1, 2, 5) if len(decades) < 4 else (1,)).ravel()
    ax.yaxis.set_major_locator(FixedLocator([0, *ticks[ticks >= least]]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(1.6 * most, -0.2 * least)
