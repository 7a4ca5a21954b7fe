"""Whether the noise of every source is found."""

from functools import partial

import numpy as np

from bjmd_paper.claims.evidence import found, restart_effects
from bjmd_paper.claims.rules import Claims, beats, within
from bjmd_paper.claims.statistics import Effect, percent


def _errors(evidence, scale, fit):
    """The relative error of the noise sd in per cent, draw by draw."""
    noise = evidence.at_table(scale, fit, "noise")
    truth = evidence.at_table(scale, fit, "true_noise")
    error = 100 * (noise / truth - 1)
    return [Effect(f"{fit} source {c}", error[c], form=percent) for c in error.columns]


def _found(evidence, scale, fits):
    effects, lacking = found([lambda fit=fit: _errors(evidence, scale, fit) for fit in fits])
    return within(effects, evidence.margins.noise).noting(lacking)


def _gap(evidence, family, one, other, label):
    """By how many per cent the noise of one fit is above that of another."""
    return restart_effects(
        label,
        lambda a, b: 100 * (a / b - 1),
        evidence.restarts(family, one, "noise"),
        evidence.restarts(family, other, "noise"),
        printed=_printed_ratio(evidence, family, one, other),
        form=percent,
    )


def _printed_ratio(evidence, family, one, other):
    first = evidence.print_of(family, one, "noise")
    second = evidence.print_of(family, other, "noise")
    return None if first is None or second is None else 100 * (first / second - 1)


def _consistent(evidence, vi, mode):
    families = evidence.real_families()
    effects, lacking = found(
        [lambda name=name: _gap(evidence, name, vi, mode, name) for name in families]
    )
    return within(effects, evidence.margins.noise).noting(lacking)


def _table_is_reached(evidence, fit):
    inside = []

    def cells(family):
        printed = evidence.print_of(family, fit, "noise")
        ours = evidence.restarts(family, fit, "noise")
        inside.extend((ours.chosen.min(axis=0) <= printed) & (printed <= ours.chosen.max(axis=0)))
        return restart_effects(
            family, lambda noise: 100 * (noise / printed - 1), ours, form=percent
        )

    families = [
        name
        for name in evidence.real_families()
        if evidence.print_of(name, fit, "noise") is not None
    ]
    effects, lacking = found([lambda name=name: cells(name) for name in families])
    number = f"the printed digits lie in the range of our chosen runs in {int(np.sum(inside))} of {len(inside)} cells"
    return within(effects, evidence.margins.noise).noting(number).noting(lacking)


def side_is_noisier(evidence):
    def cell(fit):
        printed = evidence.print_of("yale-b", fit, "noise")
        noise = evidence.restarts("yale-b", fit, "noise")
        values, point = (
            100 * (both[..., 1] / both[..., 0] - 1) for both in (noise.samples, noise.point)
        )
        print_ = None if printed is None else float(100 * (printed[1] / printed[0] - 1))
        return [Effect(fit, values, print_, percent, "restarts", float(point))]

    effects, lacking = found(
        [
            lambda fit=fit: cell(fit)
            for fit in ("map-bjmd", "map-bjmd-printed", "cavi-bjmd", "advi-bjmd", "jmd")
        ]
    )
    return beats(effects).noting(lacking)


CLAIMS: Claims = {
    "N2": partial(_table_is_reached, fit="map-bjmd-printed"),
    "N2-held": partial(_table_is_reached, fit="map-bjmd-held"),
    "N2-end": partial(_table_is_reached, fit="map-bjmd"),
    "N2-vi": partial(_table_is_reached, fit="cavi-bjmd"),
    "N2-advi": partial(_table_is_reached, fit="advi-bjmd"),
    "N1": lambda evidence: _found(evidence, "small", ("jmd", "cavi-bjmd", "map-bjmd")),
    "N1-printed": lambda evidence: _found(evidence, "small", ("map-bjmd-printed",)),
    "N3": lambda evidence: _consistent(evidence, "cavi-bjmd", "map-bjmd"),
    "N3-printed": lambda evidence: _consistent(evidence, "advi-bjmd", "map-bjmd-printed"),
    "N4": side_is_noisier,
}
