"""The interactive figures of a fit: what scatter.js draws, and d3, which it draws with.

d3 comes with the package mpld3, the extra `interactive`, and goes into the page, so that nothing is
loaded later.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bjmd.report.tables import Named, component_names, mean_of_others, polygon, shares, top_features
from bjmd.results.decomposition import Decomposition

MISSING = "For figures to hover over and to zoom in on, install bjmd[interactive] and fit again."
MOST_SAMPLES = 4000  # in the page; of more, as many from every source, evenly out of their order
MOST_FEATURES = 1500


def d3() -> str | None:
    """The script of d3, or None where it is not installed."""
    spec = find_spec("mpld3")
    path = Path(spec.origin).parent / "js/d3.v5.min.js" if spec and spec.origin else None
    return path.read_text(encoding="utf-8") if path and path.exists() else None


def of_fit(data: Named, best: Decomposition) -> dict[str, dict[str, Any]]:
    """The content of every interactive figure, by the name of the static one that it stands beside."""
    if best.n_components < 3:  # of two memberships, one says it all
        return {"components": components(data, best)} if best.n_components == 2 else {}
    return {"components": components(data, best), "simplex": simplex(data, best)}


def simplex(data: Named, best: Decomposition) -> dict[str, Any]:
    """Every sample with its source, its classes, its strongest component and its memberships."""
    most = max(1, MOST_SAMPLES // len(data.names))
    counts = [len(names) for names in data.sample_names]
    picked = [np.linspace(0, n - 1, min(n, most)).astype(int) for n in counts]
    h = np.hstack(
        [shares(block)[:, own] for block, own in zip(best.memberships, picked, strict=True)]
    )
    names = [
        samples[i] for samples, own in zip(data.sample_names, picked, strict=True) for i in own
    ]
    groups = [["Source", list(data.names), [c for c, own in enumerate(picked) for _ in own]]]
    if data.labels:
        of = np.hstack([block[:, own] for block, own in zip(data.labels, picked, strict=True)]).T
        told = [tuple(np.flatnonzero(sample).tolist()) for sample in of]
        code = {
            classes: i
            for i, classes in enumerate(sorted(set(told), key=lambda one: (not one, one)))
        }
        levels = [", ".join(data.class_names[k] for k in classes) or "no class" for classes in code]
        groups.insert(0, ["Class", levels, [code[classes] for classes in told]])
    groups.append(["Strongest", component_names(best), h.argmax(axis=0).tolist()])
    corners = polygon(len(h))
    places = h.T @ corners
    return {
        "names": names,
        "axes": _axes(best, h, 3),
        "sd": None,
        "groups": groups,
        "map": {
            "x": places[:, 0].round(3).tolist(),
            "y": places[:, 1].round(3).tolist(),
            "corners": [
                [f"C{k + 1}", *corner] for k, corner in enumerate(corners.round(3).tolist())
            ],
        },
    }


def components(data: Named, best: Decomposition) -> dict[str, Any]:
    """The features that set the components apart, with their values, and the component that each
    sets apart most.
    """
    w = best.components
    kept = np.unique(
        [top_features(w, k, max(1, MOST_FEATURES // w.shape[1])) for k in range(w.shape[1])]
    )
    apart = np.column_stack([np.abs(w[:, k] - mean_of_others(w, k)) for k in range(w.shape[1])])[
        kept
    ]
    sd = best.posterior.components.sd[kept] if best.posterior else None
    return {
        "names": [data.feature_names[i] for i in kept],
        "axes": _axes(best, w[kept].T, 4),
        "sd": None if sd is None else _short(sd.T, 2),
        "map": None,
        "groups": [["Sets apart", component_names(best), apart.argmax(axis=1).tolist()]],
    }


def _axes(best: Decomposition, values: np.ndarray, digits: int) -> list:
    return [list(pair) for pair in zip(component_names(best), _short(values, digits), strict=True)]


def _short(values: np.ndarray, digits: int) -> list:
    """Numbers with so many significant digits, to keep the page small."""
    return [[float(f"{value:.{digits}g}") for value in row] for row in values]
