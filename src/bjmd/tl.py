"""BJMD on AnnData objects: as scanpy's tools do, these functions write results into the object::

    bjmd.tl.bjmd(adata, 8, source_key="batch")
    bjmd.tl.rank_features(adata)
    bjmd.tl.project(new, adata)
    scanpy.pp.neighbors(adata, use_rep="X_bjmd")

The fits are those of `bjmd.BJMD`, to the bit.
"""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from bjmd.analysis import number_of_components, ranking, variance
from bjmd.analysis.associations import false_discovery_rates
from bjmd.analysis.fitting import summarise
from bjmd.analysis.number_of_components import Selection
from bjmd.data.assembly import (
    RawSource,
    Settings,
    label_by,
    looks_like_counts,
    over_features,
    prepare,
    prepared_as,
)
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.estimator import BJMD
from bjmd.files import anndata_files, outputs
from bjmd.inference import projection
from bjmd.report import tables as frames
from bjmd.results.decomposition import component_names

OBJECT = "adata"  #: what messages call an object, and its one source


def bjmd(
    data: Any,
    n_components: int = 5,
    *,
    source_key: str | None = None,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    mod: str | None = None,
    key_added: str | None = None,
    labels: str | None = None,
    report: str | Path | None = None,
    overwrite: bool = False,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Find the components that all sources in an AnnData object share.

    Parameters
    ----------
    data : AnnData or MuData
        Samples in obs, features in var.  The matrix of a backed object stays on disk.
    n_components : int, default=5
        Number of components.
    source_key : str, optional
        Column of obs that tells which source a sample belongs to, such as its batch; without it all
        are one source.
    layer : str, optional
        Layer to fit instead of X.
    use_highly_variable : bool, optional
        Whether to fit only the features that var["highly_variable"] marks; by default, if there is
        such a column.
    mod : str, optional
        Of a MuData object, the modality to fit; its columns of obs and var count, and the result
        goes into it.
    key_added : str, optional
        Name under which the result is stored, in place of "X_bjmd" (obsm) and "bjmd" (varm, uns).
    labels : str, optional
        Column of obs with known classes, such as cell types, which the figures of the report show.
    report : str or Path, optional
        A folder for the report, the figures and the tables that `bjmd fit` writes.
    overwrite : bool, default=False
        Whether the report may replace an earlier one in the same folder.
    copy : bool, default=False
        Whether to return a copy with the result instead of writing into `data`.
    **options
        Those of `bjmd.BJMD`, such as n_init, noise, offsets, n_jobs and random_state.

    Returns
    -------
    None, or with copy=True the copy
        obsm["X_bjmd"] holds the memberships, varm["bjmd"] the components (NaN for features that
        were not used), obs["bjmd_source"] the sources, and uns["bjmd"] their noise, the variance
        explained, the objective, the parameters, and what `project` needs.  With consensus=True,
        what the starts agree on is under "bjmd_consensus", and its table in uns["bjmd"].
    """
    data = data.copy() if copy else data
    adata = modality(data, mod)
    if report is not None:
        outputs.require_free(report, overwrite)
    raw_sources, sources, settings = _read(
        adata, source_key, layer, use_highly_variable, bool(options.get("normalize")), labels
    )
    model = BJMD(n_components, **options)
    fits = model._fit(sources)
    key = key_added or "bjmd"
    store = partial(
        anndata_files.annotate, adata, range(len(raw_sources)), raw_sources, sources, settings
    )
    store(fits.best, model.variance_explained_, key_added)
    if fits.consensus:
        agreed = fits.consensus.result
        store(agreed, variance.explained(sources, agreed), f"{key}_consensus")
        adata.uns[key]["consensus"] = frames.consensus(fits.best, fits.consensus)
    if report is not None:
        metadata = [raw.metadata for raw in raw_sources]
        summary = summarise(
            sources,
            fits.results,
            explained=model.variance_explained_,
            metadata=metadata,
            consensus=fits.consensus,
        )
        outputs.write(
            report,
            sources,
            summary,
            settings=settings,
            raw_sources=() if mod else raw_sources,  # modalities are not read one by one
            n_restarts=model.n_init,
            overwrite=overwrite,
        )
    return data if copy else None


def _read(
    adata: Any,
    source_key: str | None,
    layer: str | None,
    use_highly_variable: bool | None,
    normalize: bool = False,
    labels: str | None = None,
) -> tuple[list[RawSource], Sources, Settings]:
    """The same as the command reads from a file, so that `bjmd verify` can read it again.

    Warns of what looks like counts.
    """
    reading = {
        "split_by": source_key,
        "layer": layer,
        "use_highly_variable": use_highly_variable,
        "on_disk": bool(adata.isbacked),
    }
    raw_sources = anndata_files.split(
        adata, source_key, OBJECT, layer=layer, use_highly_variable=use_highly_variable
    )
    if labels is not None:
        label_by(raw_sources, labels)
    counts = None if normalize else looks_like_counts(raw_sources)
    if counts is not None:
        warnings.warn(
            f"{counts}; if these are counts, call scanpy.pp.normalize_total and scanpy.pp.log1p "
            "first",
            stacklevel=3,
        )
    sources, settings = prepare(raw_sources, normalize=normalize, reading=reading)
    files = [str(adata.filename)] if adata.isbacked else []
    return raw_sources, sources, replace(settings, files=files)


def select(
    data: Any,
    ks: Iterable[int] = range(2, 11),
    *,
    source_key: str | None = None,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    mod: str | None = None,
    normalize: bool = False,
    key_added: str = "bjmd_select",
    **options: Any,
) -> Selection:
    """Find out how many components the data support.

    Parameters
    ----------
    data, source_key, layer, use_highly_variable, mod
        As for `bjmd`.
    normalize : bool, default=False
        As for `bjmd.BJMD`.
    ks : iterable of int, default=range(2, 11)
        The numbers of components to try.
    key_added : str, default="bjmd_select"
        Name in uns under which the table is stored.
    **options
        Those of `bjmd.select`, such as n_restarts, n_repeats and jobs.

    Returns
    -------
    Selection
        Printed, it is the recommendation in words; `bjmd.pl.selection` draws it.
    """
    adata = modality(data, mod)
    _, sources, _ = _read(adata, source_key, layer, use_highly_variable, normalize)
    selection = number_of_components.select(sources, ks, **options)
    adata.uns[key_added] = selection.table
    return selection


def rank_features(
    data: Any,
    *,
    mod: str | None = None,
    key: str | None = None,
    key_added: str = "rank_genes_groups",
) -> None:
    """Rank all features of every component by how far they set it apart from the others.

    uns[key_added] has what scanpy.tl.rank_genes_groups writes, with the components C1, C2, ... as
    groups, so that scanpy.pl.rank_genes_groups and scanpy.get.rank_genes_groups_df show it; heat
    maps and dot plots also need groupby, a column of obs.  The score is z: the difference of a
    component from the mean of the others, over its posterior sd.  "logfoldchanges" has the
    difference itself, in the unit of the data, and "pvals" the two-sided p value of z, which
    assumes that the model is right.  After inference="map", which has no posterior, the score is
    the difference, and p values are NaN.

    Parameters
    ----------
    data : AnnData or MuData
        An object that `bjmd` has written a fit into.
    mod : str, optional
        Of a MuData object, the modality that was fitted.
    key : str, optional
        The `key_added` of the fit, if one was given.
    key_added : str, default="rank_genes_groups"
        Name in uns of the ranking.
    """
    adata = modality(data, mod)
    stored = fit_of(adata, key or "bjmd")
    result, _ = anndata_files.stored_fit(stored)
    w = result.components
    scores = ranking.scores(result)
    order = np.argsort(-scores, axis=0, kind="stable")
    p_values = np.full_like(w, np.nan)
    adjusted = p_values
    if result.posterior is not None:
        p_values = 2 * ndtr(-np.abs(scores))
        adjusted = np.column_stack([false_discovery_rates(p) for p in p_values.T])
    values = {
        "names": np.repeat(np.array(stored["fit"]["features"])[:, None], w.shape[1], axis=1),
        "scores": scores,
        "logfoldchanges": w - ranking.mean_of_others(w),
        "pvals": p_values,
        "pvals_adj": adjusted,
    }
    groups = component_names(result.n_components)
    adata.uns[key_added] = {
        "params": {
            "groupby": "bjmd",
            "reference": "the other components",
            "method": "bjmd",
            "use_raw": False,
            "layer": None,
        }
    }
    for name, array in values.items():
        ranked = pd.DataFrame(np.take_along_axis(array, order, axis=0), columns=groups)
        adata.uns[key_added][name] = ranked.to_records(index=False)


def project(
    data: Any,
    reference: Any,
    *,
    source_key: str | None = None,
    layer: str | None = None,
    mod: str | None = None,
    key_added: str | None = None,
    any_scale: bool = False,
    copy: bool = False,
) -> Any:
    """Compute the memberships of new samples in the components of an earlier fit.

    Features are matched by name; those that `data` lacks count as missing.  Samples of a source
    that the fit knows have its noise and offsets; the noise of any other is estimated.

    Parameters
    ----------
    data : AnnData or MuData
        The new samples.
    reference : AnnData or MuData
        The object that `bjmd` has written a fit into.
    source_key, layer : str, optional
        As for `bjmd`; by default those of the fit.
    any_scale : bool, default=False
        Whether to accept samples that look as if they were on another scale than the data of the
        fit: entries far outside the range of these, or counts in place of logarithms.
    mod, key_added, copy
        As for `bjmd`.

    Returns
    -------
    None, or with copy=True the copy
        obsm["X_bjmd"] holds the memberships, and uns["bjmd"] the sources and their noise.
    """
    data = data.copy() if copy else data
    adata = modality(data, mod)
    key = key_added or "bjmd"
    stored = fit_of(modality(reference, mod), key)
    result, settings = anndata_files.stored_fit(stored)
    known_key = settings.reading.get("split_by")
    if source_key is None and known_key in adata.obs:
        source_key = known_key
    raw_sources = anndata_files.split(
        adata,
        source_key,
        OBJECT,
        layer=layer or settings.reading.get("layer"),
        use_highly_variable=False,
    )
    known_sources = list(stored["fit"]["sources"])
    memberships = np.empty((adata.n_obs, result.n_components))
    noise = []
    for raw in raw_sources:
        source = known_sources.index(raw.name) if raw.name in known_sources else None
        samples: Any = slice(None)
        if source_key is not None:
            samples = adata.obs[source_key].astype(str) == raw.name
        elif len(known_sources) == 1:
            source = 0
        ready = prepared_as(raw, settings, source)
        matrix, _ = over_features(ready, list(stored["fit"]["features"]))
        projected = projection.project(result, matrix, source=source, any_scale=any_scale)
        memberships[samples] = projected.memberships.T
        noise.append(projected.noise)
    adata.obsm[key_added or "X_bjmd"] = memberships
    names = np.array([raw.name for raw in raw_sources])
    adata.uns[key] = {"sources": names, "noise": np.array(noise)}
    return data if copy else None


def fit_of(data: Any, key: str = "bjmd") -> Any:
    """What `bjmd` wrote into uns."""
    if "settings" not in data.uns.get(key, {}).get("fit", ()):
        raise InputError(
            f"uns has no fit under {key!r}, or one by an older version; call bjmd.tl.bjmd first, "
            "or give the right key"
        )
    return data.uns[key]


def modality(data: Any, mod: str | None) -> Any:
    """The AnnData object itself, or that of a modality of a MuData object."""
    if not hasattr(data, "uns"):
        raise InputError(
            f"this is a {type(data).__name__}, not an AnnData or MuData object; "
            "anndata.read_h5ad reads a file"
        )
    if mod is None and not hasattr(data, "mod"):
        return data
    modalities = getattr(data, "mod", {})
    if mod not in modalities:
        raise InputError(
            f"mod is {mod!r}, which must name a modality of a MuData object; "
            f"there are {', '.join(modalities) or 'none'}"
        )
    return modalities[mod]
