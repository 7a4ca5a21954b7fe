"""Figures of what `bjmd.tl.bjmd` has written into an AnnData object::

    bjmd.pl.memberships(adata, groups="cell_type")
    bjmd.pl.components(adata).savefig("components.png")

Each function returns a matplotlib Figure, as in the report.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bjmd import tl
from bjmd.analysis.associations import by_source
from bjmd.analysis.number_of_components import Selection
from bjmd.data.assembly import classes
from bjmd.errors import InputError
from bjmd.files import anndata_files
from bjmd.report import figures, tables
from bjmd.report.tables import Named


def memberships(
    data: Any, groups: str | None = None, *, mod: str | None = None, key: str | None = None
) -> Figure:
    """A heat map of the memberships of every source.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    groups : str, optional
        Column of obs with known classes, which are shown below.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return figures.memberships(*_samples(data, groups, mod, key))


def membership_bars(data: Any, *, mod: str | None = None, key: str | None = None) -> Figure:
    """A stacked bar of memberships for every sample.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return figures.membership_bars(*_samples(data, None, mod, key))


def simplex(
    data: Any, groups: str | None = None, *, mod: str | None = None, key: str | None = None
) -> Figure:
    """Every sample in a polygon between the components, of which there must be at least three.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    groups : str, optional
        Column of obs with known classes, which have a colour each.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return figures.simplex(*_samples(data, groups, mod, key))


def components(
    data: Any, n_features: int = 6, *, mod: str | None = None, key: str | None = None
) -> Figure:
    """The features that set each component apart.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    n_features : int, default=6
        Number of features that are up, and of those that are down.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return figures.components(*_samples(data, None, mod, key), n_features=n_features)


def components_by_source(data: Any, *, mod: str | None = None, key: str | None = None) -> Figure:
    """The share of every component in each source, with confidence intervals.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names, result = _samples(data, None, mod, key)
    return figures.components_by_source(by_source(result, names.names))


def offsets(
    data: Any, n_features: int = 6, *, mod: str | None = None, key: str | None = None
) -> Figure:
    """The features in which each source is shifted most, if it is shifted.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    n_features : int, default=6
        Number of features that are up, and of those that are down.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names, result, *_ = _fit(data, mod, key)
    shifts = tables.shifts(names, result)
    if not len(shifts):
        raise InputError("this fit has no offsets to show: it has none, or they are practically 0")
    return figures.offsets(shifts, n_features)


def noise(data: Any, *, mod: str | None = None, key: str | None = None) -> Figure:
    """The noise of every source, with credible intervals.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return figures.noise(*_fit(data, mod, key)[:2])


def variance_explained(data: Any, *, mod: str | None = None, key: str | None = None) -> Figure:
    """The share of the variance of every source that each component explains.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd.tl.bjmd` has written a fit into.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names, *_, stored = _fit(data, mod, key)
    names.names = list(stored["sources"])
    explained = tables.variance_explained(names, stored["variance_explained"])
    return figures.variance_explained(explained)


def selection(selection: Selection) -> Figure:
    """Held-out density, ELBO and stability against the number of components.

    Parameters
    ----------
    selection : Selection
        What `bjmd.select` or `bjmd.tl.select` returned.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return figures.selection(selection)


def _fit(data: Any, mod: str | None, key: str | None) -> tuple[Any, Any, Any, Any]:
    """Names and the fit, as the figures want them, the AnnData object, and what is in its uns."""
    adata = tl.modality(data, mod)
    stored = tl.fit_of(adata, key or "bjmd")
    names = Named(
        names=[*stored["fit"]["sources"]],
        feature_names=[*stored["fit"]["features"]],
        sample_names=[],
        n_missing=[],
        labels=None,
        class_names=[],
    )
    return names, anndata_files.stored_fit(stored)[0], adata, stored


def _samples(data: Any, groups: str | None, mod: str | None, key: str | None) -> tuple[Any, Any]:
    """The same with those samples that the object still has, by source."""
    names, result, adata, _ = _fit(data, mod, key)
    h = np.asarray(adata.obsm[key or "X_bjmd"]).T
    source = np.repeat(names.names[:1], h.shape[1])
    if len(names.names) > 1:
        source = adata.obs[f"{key or 'bjmd'}_source"].astype(str).to_numpy()
    names.names = [name for name in names.names if name in source]
    names.sample_names = [adata.obs_names[source == name] for name in names.names]
    if groups is not None:
        if groups not in adata.obs:
            raise InputError(
                f"obs has no column {groups!r}; it has {', '.join(adata.obs) or 'none'}"
            )
        names.class_names, labels = classes(adata.obs[groups])
        names.labels = [labels[:, source == name] for name in names.names]
    return names, replace(result, memberships=[h[:, source == name] for name in names.names])
