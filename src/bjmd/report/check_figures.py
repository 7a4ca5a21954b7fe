"""Pictures of what `check` finds, one a finding: figure(finding)."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import ndtr, ndtri

from bjmd.analysis.check import FAR, LARGE, SMALL
from bjmd.report.figures import label_columns, legend, log_scale, panels, sheet, short
from bjmd.report.style import COLOURS, MARKERS, styled

BAND = "0.88"  # the grey of what chance, or the prior, allows
HEIGHTS = [1.75]  # of the axes of a panel, in inches


@styled
def figure(finding):
    """The picture that belongs to a finding."""
    picture, axes = DRAWN[finding.name](finding.data)
    legend(picture, axes, n_columns=6)
    return picture


def uneven(data, what):
    """Noise sd of features or samples, sorted, against what equal noise gives by chance (grey: nine
    in ten).
    """
    picture, axes = panels(data["sources"], HEIGHTS, "Noise sd")
    for (ax,), sd, raw, chance in zip(axes, data["sd"], data["raw"], data["chance"], strict=True):
        order = np.argsort(raw)
        places = (np.arange(len(raw)) + 0.5) / len(raw)
        expected = ndtri(places)
        shown = np.linspace(0, 100, len(raw))
        usual = np.median(chance)
        # the sd of an order statistic: sqrt(p (1 - p) / n) over the density there
        wander = 1.645 * np.sqrt(places * (1 - places) / len(raw)) / _normal_density(expected)
        low, high = (
            sd * np.exp(np.median(raw) + usual * (expected + side * wander)) for side in (-1, 1)
        )
        ax.fill_between(shown, low, high, color=BAND, label="equal noise, by chance")
        ax.plot(shown, sd * np.exp(raw[order]), ".", color=COLOURS[0], label=f"{what}s")
        ax.set_yscale("log")
        _plain_log(ax.yaxis, ax.get_ylim())
        ax.set_xlabel(f"Percentile of {what}s")
    return picture, axes


def wild(data):
    """Share of the entries beyond a distance from the fit, against normal noise."""
    at = data["at"]
    picture, [[ax]] = panels([""], HEIGHTS)
    ax.plot(at[at <= 6], 2 * ndtr(-at[at <= 6]), color="black", linewidth=1, label="normal noise")
    for style, share in zip(_styles(data["sources"]), data["share"], strict=True):
        ax.plot(at, np.where(share > 0, share, np.nan), markevery=5, **style)
    log_scale(ax)
    ax.set_ylim(
        bottom=1e-8 if min(share[share > 0].min() for share in data["share"]) < 1e-6 else 1e-6,
        top=2,
    )
    ax.set(xlabel="Distance from the fit (noise sds)", ylabel="Share of entries beyond")
    return picture, [[ax]]


def growing(data):
    """Noise sd against the fitted value."""
    picture, [[ax]] = panels([""], HEIGHTS)
    for c, style in enumerate(_styles(data["sources"])):
        enough = data["n"][c] >= 30
        middle = (data["signal"][c][1:] + data["signal"][c][:-1]) / 2
        ax.plot(middle[enough], data["sd"][c][enough], **style)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="Fitted value", ylabel="Noise sd")
    return picture, [[ax]]


def shifts(data):
    """Mean residuals of the features of every source, in sds, against the normal distribution that
    they should have.
    """
    if (
        "gain" in data
    ):  # the fit has made a component of the shift, so the gains from components show it
        return private(data)
    picture, axes = panels(data["sources"], HEIGHTS, "Density")
    reach = max(4.0, *(np.abs(z).max() for z in data["z"]))
    grid = np.linspace(-reach, reach, 400)
    for (ax,), z in zip(axes, data["z"], strict=True):
        ax.hist(z, np.linspace(-reach, reach, 25), density=True, color=COLOURS[5], label="features")
        ax.plot(grid, _normal_density(grid), color="black", linewidth=1, label="without a shift")
        ax.set_xlabel("Mean residual (sds)")
    return picture, axes


def private(data):
    """What every source gains from every component, on a scale that shows small gains as well."""
    gain = np.asarray(data["gain"])
    picture, [[ax]] = panels([""], HEIGHTS)
    width = 0.8 / len(gain)
    for c, style in enumerate(_styles(data["sources"])):
        places = np.arange(gain.shape[1]) + (c - (len(gain) - 1) / 2) * width
        ax.bar(places, gain[c], width, color=style["color"], label=style["label"])
    ax.set_yscale("symlog", linthresh=0.1)
    ax.axhline(0, color="black", linewidth=0.6)
    label_columns(ax, [f"C{k + 1}" for k in range(gain.shape[1])], 20)
    ax.set(xlabel="Component", ylabel="Gain (nats per sample,\nat equal noise)")
    return picture, [[ax]]


def unit(data):
    """Spread of every source against the sizes that suit the prior (grey)."""
    picture, ax = sheet(0.25 * len(data["sources"]) + 1.2)
    ax.axvspan(
        SMALL * data["lambda_"], LARGE * data["lambda_"], color=BAND, label="suits the prior"
    )
    ax.axvline(data["lambda_"], color="black", linewidth=1, label="lambda_")
    ax.plot(data["size"], np.arange(len(data["sources"])), "o", color=COLOURS[0])
    ax.set_yticks(np.arange(len(data["sources"])), short(data["sources"], 30))
    ax.set(ylim=(len(data["sources"]) - 0.5, -0.5), xscale="log")
    ax.set_xlabel("Spread of the data around the means of features")
    return picture, [[ax]]


def origin(data):
    """Means of the features, with the prior's middle and width."""
    picture, [[ax]] = panels([""], HEIGHTS)
    ax.axvspan(-FAR * data["lambda_"], FAR * data["lambda_"], color=BAND, label="suits the prior")
    ax.hist(data["means"], 40, color=COLOURS[5], label="features")
    ax.axvline(0, color="black", linewidth=1)
    ax.set(xlabel="Mean of the feature", ylabel="Features")
    return picture, [[ax]]


DRAWN: dict[str, Callable] = {
    "unit": unit,
    "origin": origin,
    "signal-dependent noise": growing,
    "outliers": wild,
    "feature noise": partial(uneven, what="feature"),
    "sample noise": partial(uneven, what="sample"),
    "shifts": shifts,
    "source-specific component": private,
}


def _styles(names):
    """The look and the label of every source in a panel that shows them all."""
    return [
        {"color": COLOURS[c % len(COLOURS)], "marker": MARKERS[c % len(MARKERS)], "label": name}
        for c, name in enumerate(short(names, 30))
    ]


def _plain_log(axis, limits):
    """Numbers, not powers, on a logarithmic axis, and enough of them where it spans less than a
    decade.
    """
    low, high = limits
    steps = (1, 2, 5) if high > 10 * low else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.outer(10.0**decades, steps).ravel()
    ticks = ticks[(ticks >= low) & (ticks <= high)]
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def _normal_density(x):
    return np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
