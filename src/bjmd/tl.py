"""BJMD for those who work with AnnData: as scanpy's tools do, these write what they find into the
object.

    bjmd.tl.bjmd(adata, 8, source_key="batch")
    bjmd.tl.project(new, adata)
    scanpy.pp.neighbors(adata, use_rep="X_bjmd")

The fits are those of `bjmd.BJMD`, to the bit.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bjmd.analysis import variance
from bjmd.analysis.summary import summarise
from bjmd.data.assembly import assemble, over_features
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.estimator import BJMD
from bjmd.files import anndata_files, outputs
from bjmd.inference import projection
from bjmd.report import tables as frames
from bjmd.results import storage
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import Posterior


def bjmd(
    data: Any,
    n_components: int = 5,
    *,
    source_key: str | None = None,
    layer: str | None = None,
    use_highly_variable: bool | None = None,
    mod: str | None = None,
    key_added: str | None = None,
    report: str | Path | None = None,
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
    report : str or Path, optional
        A folder for the report, the figures and the raw_sources that `bjmd fit` writes.
    copy : bool, default=False
        Whether to return a copy with the result instead of writing into `data`.
    **options
        Those of `bjmd.BJMD`, such as n_init, noise, offsets, n_jobs and random_state.

    Returns
    -------
    None, or with copy=True the copy
        obsm["X_bjmd"] holds the memberships, varm["bjmd"] the components (NaN for features that were not used), and
        uns["bjmd"] the sources, their noise, the variance explained, the objective, the parameters, and what `project`
        needs.  With consensus=True, what the starts agree on is under "bjmd_consensus", its table in uns["bjmd"].
    """
    data = data.copy() if copy else data
    one = modality(data, mod)
    if report is not None:
        outputs.require_free(report)
    marked = "highly_variable" in one.var
    use_highly_variable = marked if use_highly_variable is None else use_highly_variable
    if use_highly_variable and not marked:
        raise InputError(
            'var has no column "highly_variable"; call scanpy.pp.highly_variable_genes first'
        )
    features = np.flatnonzero(one.var["highly_variable"]) if use_highly_variable else slice(None)
    raw_sources = anndata_files.split(
        one, source_key, "the AnnData object", layer=layer, features=features
    )
    sources = assemble(raw_sources)[0]
    model = BJMD(n_components, **options)
    results = model._fit(lambda: sources)
    every = [*range(len(raw_sources))]
    key = key_added or "bjmd"
    best = model.decomposition_
    explained = variance.explained(sources, best)
    anndata_files.annotate(one, every, raw_sources, sources, best, explained, key_added)
    given = {
        "source_key": source_key,
        "layer": layer,
        "use_highly_variable": use_highly_variable,
        **options,
    }
    found = one.uns[key]
    if model.consensus_:
        agreed = model.consensus_.result
        explained = variance.explained(sources, agreed)
        anndata_files.annotate(
            one, every, raw_sources, sources, agreed, explained, f"{key}_consensus"
        )
        found["consensus"] = frames.consensus(model.decomposition_, model.consensus_)
    simple = {
        k: v if isinstance(v, str | int | float | list) else str(v)
        for k, v in given.items()
        if v is not None
    }
    found.update(
        params={"n_components": n_components, **simple}, fit=_packed(model.decomposition_, sources)
    )
    if report is not None:
        metadata = [raw.metadata for raw in raw_sources]
        summary = summarise(sources, results, metadata=metadata, consensus=model.consensus_)
        outputs.write(report, sources, summary, raw_sources=raw_sources)
    return data if copy else None


def project(
    data: Any,
    reference: Any,
    *,
    source_key: str | None = None,
    layer: str | None = None,
    mod: str | None = None,
    key_added: str | None = None,
    copy: bool = False,
) -> Any:
    """Compute the memberships of the new samples in `data` in the components that `bjmd` has put
    into `reference`.

    Features are matched by name; those that `data` lacks count as missing.  Samples of a source
    that the fit knows have its noise and offsets; the noise of any other is estimated.  By default,
    source_key and layer are those of the fit; the rest is as for `bjmd`.  Memberships go into
    obsm["X_bjmd"], sources and their noise into uns["bjmd"].
    """
    data = data.copy() if copy else data
    one = modality(data, mod)
    key = key_added or "bjmd"
    found = fit_of(modality(reference, mod), key)
    known = unpacked(found)
    params = found["params"]
    by = source_key or (params["source_key"] if params.get("source_key") in one.obs else None)
    raw_sources = anndata_files.split(
        one, by, "the AnnData object", layer=layer or params.get("layer")
    )
    names = list(found["sources"])
    memberships = np.empty((one.n_obs, known.n_components))
    noise = []
    for table in raw_sources:
        matrix, _ = over_features(table, list(found["fit"]["features"]))
        source = (
            0
            if len(names) == 1 and by is None
            else names.index(table.name)
            if table.name in names
            else None
        )
        projected = projection.project(known, matrix, source=source)
        memberships[one.obs[by].astype(str) == table.name if by else slice(None)] = (
            projected.memberships.T
        )
        noise.append(projected.noise)
    one.obsm[key_added or "X_bjmd"] = memberships
    one.uns[key] = {
        "sources": np.array([table.name for table in raw_sources]),
        "noise": np.array(noise),
    }
    return data if copy else None


def fit_of(data: Any, key: str = "bjmd") -> Any:
    """What `bjmd` wrote into uns; refused where there is nothing of it."""
    if "fit" not in data.uns.get(key, ()):
        raise InputError(
            f"uns has no fit under {key!r}; call bjmd.tl.bjmd first, or give the right key"
        )
    return data.uns[key]


def modality(data: Any, mod: str | None) -> Any:
    """The AnnData object itself, or that of a modality of a MuData object."""
    modalities = getattr(data, "mod", None)
    if modalities is None and mod is None:
        return data
    if modalities is None or mod not in modalities:
        there = (
            "an AnnData object has none"
            if modalities is None
            else f"there are {', '.join(modalities)}"
        )
        raise InputError(f"mod is {mod!r}, which must name a modality of a MuData object; {there}")
    return modalities[mod]


def _packed(result: Decomposition, sources: Sources) -> dict[str, Any]:
    """A fit without its samples, in what an .h5ad file can hold; a slash would make a group of a
    name.
    """
    assert result.model is not None
    posterior = result.posterior and Posterior(
        result.posterior.components, [], result.posterior.noise
    )
    model = replace(result.model, sample_precision=None)
    bare = replace(
        result, memberships=[], trace=np.empty(0), history={}, posterior=posterior, model=model
    )
    arrays, (run,) = storage.packed([bare])
    arrays = {name.replace("/", "."): array for name, array in arrays.items()}
    return {"run": json.dumps(run), "features": np.array(sources.feature_names), **arrays}


def unpacked(found: Any) -> Decomposition:
    """The fit that `fit_of` has found, without memberships."""
    arrays = {name.replace(".", "/"): array for name, array in found["fit"].items()}
    return storage.unpacked(arrays, 0, json.loads(arrays["run"]))
