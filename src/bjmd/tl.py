"""BJMD on AnnData objects: as scanpy's tools do, these functions write results into the object.

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
        A folder for the report, the figures and the tables that `bjmd fit` writes.
    copy : bool, default=False
        Whether to return a copy with the result instead of writing into `data`.
    **options
        Those of `bjmd.BJMD`, such as n_init, noise, offsets, n_jobs and random_state.

    Returns
    -------
    None, or with copy=True the copy
        obsm["X_bjmd"] holds the memberships, varm["bjmd"] the components (NaN for features that
        were not used), and uns["bjmd"] the sources, their noise, the variance explained, the
        objective, the parameters, and what `project` needs.  With consensus=True, what the starts
        agree on is under "bjmd_consensus", and its table in uns["bjmd"].
    """
    if options.get("normalize"):
        raise InputError(
            "normalize is an option of bjmd.BJMD only; call scanpy.pp.normalize_total and "
            "scanpy.pp.log1p first"
        )
    data = data.copy() if copy else data
    adata = modality(data, mod)
    if report is not None:
        outputs.require_free(report)
    marked = "highly_variable" in adata.var
    if use_highly_variable is None:
        use_highly_variable = marked
    if use_highly_variable and not marked:
        raise InputError(
            'var has no column "highly_variable"; call scanpy.pp.highly_variable_genes first'
        )
    features = np.flatnonzero(adata.var["highly_variable"]) if use_highly_variable else slice(None)
    raw_sources = anndata_files.split(
        adata, source_key, "the AnnData object", layer=layer, features=features
    )
    sources = assemble(raw_sources)[0]
    model = BJMD(n_components, **options)
    fits = model._fit(sources)
    best = fits.best
    numbers = [*range(len(raw_sources))]
    key = key_added or "bjmd"
    explained = model.variance_explained_
    anndata_files.annotate(adata, numbers, raw_sources, sources, best, explained, key_added)
    stored = adata.uns[key]
    if fits.consensus:
        agreed = fits.consensus.result
        explained = variance.explained(sources, agreed)
        consensus_key = f"{key}_consensus"
        anndata_files.annotate(
            adata, numbers, raw_sources, sources, agreed, explained, consensus_key
        )
        stored["consensus"] = frames.consensus(best, fits.consensus)
    params = {
        "n_components": n_components,
        "source_key": source_key,
        "layer": layer,
        "use_highly_variable": use_highly_variable,
        **options,
    }
    stored["params"] = {
        name: value if isinstance(value, str | int | float | list) else str(value)
        for name, value in params.items()
        if value is not None
    }
    stored["fit"] = _packed(best, sources)
    if report is not None:
        metadata = [raw.metadata for raw in raw_sources]
        summary = summarise(sources, fits.results, metadata=metadata, consensus=fits.consensus)
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
    result = unpacked(stored)
    params = stored["params"]
    if source_key is None and params.get("source_key") in adata.obs:
        source_key = params["source_key"]
    raw_sources = anndata_files.split(
        adata, source_key, "the AnnData object", layer=layer or params.get("layer")
    )
    known_sources = list(stored["sources"])
    memberships = np.empty((adata.n_obs, result.n_components))
    noise = []
    for raw in raw_sources:
        matrix, _ = over_features(raw, list(stored["fit"]["features"]))
        source = known_sources.index(raw.name) if raw.name in known_sources else None
        samples: Any = slice(None)
        if source_key is not None:
            samples = adata.obs[source_key].astype(str) == raw.name
        elif len(known_sources) == 1:
            source = 0
        projected = projection.project(result, matrix, source=source)
        memberships[samples] = projected.memberships.T
        noise.append(projected.noise)
    adata.obsm[key_added or "X_bjmd"] = memberships
    names = np.array([raw.name for raw in raw_sources])
    adata.uns[key] = {"sources": names, "noise": np.array(noise)}
    return data if copy else None


def fit_of(data: Any, key: str = "bjmd") -> Any:
    """What `bjmd` wrote into uns."""
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
        there = "an AnnData object has none"
        if modalities is not None:
            there = f"there are {', '.join(modalities)}"
        raise InputError(f"mod is {mod!r}, which must name a modality of a MuData object; {there}")
    return modalities[mod]


def _packed(result: Decomposition, sources: Sources) -> dict[str, Any]:
    """A fit without its samples, in types that an .h5ad file can hold."""
    assert result.model is not None
    posterior = result.posterior and Posterior(
        result.posterior.components, [], result.posterior.noise
    )
    model = replace(result.model, sample_precision=None)
    bare = replace(
        result, memberships=[], trace=np.empty(0), history={}, posterior=posterior, model=model
    )
    arrays, (run,) = storage.packed([bare])
    # a slash in a name would make a group
    arrays = {name.replace("/", "."): array for name, array in arrays.items()}
    return {"run": json.dumps(run), "features": np.array(sources.feature_names), **arrays}


def unpacked(stored: Any) -> Decomposition:
    """The fit that `bjmd` stored, without memberships."""
    arrays = {name.replace(".", "/"): array for name, array in stored["fit"].items()}
    return storage.unpacked(arrays, 0, json.loads(arrays["run"]))
