"""The registry of methods: every name that tables, configs and `registry.fit` know.

To add a method, write one file with a function

    fit(sources, n_components, *, seed, **options) -> Decomposition

and add one line to METHODS.  Everything else (restarts, storage, scores, tables) follows from that.
"""

import difflib
import importlib
import inspect
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

from bjmd.checks import whole_number
from bjmd.data.sources import Sources
from bjmd.errors import InputError


@dataclass(frozen=True)
class Method:
    """One line of the registry; the module is imported only when the method is used."""

    name: str
    label: str
    module: str
    concatenate: bool = False
    """Run on all samples side by side as one source (the paper's cat variants)."""
    nonnegative: bool = False
    """Refuse data with negative entries."""
    missing: bool = False
    """Take data with missing (NaN) entries."""
    streams: bool = False
    """Sees the data through their products alone, so sources may be memory-mapped or streamed."""

    @property
    def function(self):
        """The function that fits it."""
        return importlib.import_module(self.module).fit

    def options(self):
        """The names of the options that the method takes, with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "seed"}


METHODS = {
    method.name: method
    for method in (
        Method("map-bjmd", "MAP-BJMD", "bjmd.inference.map", missing=True, streams=True),
        Method("map-catbjmd", "MAP-catBJMD", "bjmd.inference.map", concatenate=True, missing=True, streams=True),
        Method("cavi-bjmd", "VI-BJMD (closed form)", "bjmd.inference.cavi", missing=True, streams=True),
        Method(
            "cavi-catbjmd",
            "VI-catBJMD (closed form)",
            "bjmd.inference.cavi",
            concatenate=True,
            missing=True,
            streams=True,
        ),
        Method("advi-bjmd", "VI-BJMD (ADVI)", "bjmd.inference.advi"),
        Method("advi-catbjmd", "VI-catBJMD (ADVI)", "bjmd.inference.advi", concatenate=True),
        Method("jmd", "JMD", "bjmd.inference.laplace", streams=True),
        Method("glad", "GLAD", "bjmd.inference.laplace", concatenate=True, streams=True),
        Method("kmeans", "K-means", "bjmd.baselines.kmeans", concatenate=True),
        Method("jnmf", "jNMF", "bjmd.baselines.joint_nmf", concatenate=True, nonnegative=True),
        Method("semi-nmf", "Semi-NMF", "bjmd.baselines.semi_nmf", concatenate=True),
        Method("bnmf", "BNMF", "bjmd.baselines.bnmf", concatenate=True, nonnegative=True),
        Method("intnmf", "intNMF", "bjmd.baselines.intnmf", nonnegative=True),
        Method("random", "Random H", "bjmd.baselines.controls", concatenate=True, streams=True),
    )
}


def method_names():
    """The names of all methods, in the order of the tables."""
    return list(METHODS)


def get(name):
    """The registry's line for one method."""
    if name not in METHODS:
        close = difflib.get_close_matches(str(name), METHODS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known methods: {', '.join(METHODS)}"
        raise InputError(f"there is no method {name!r}; {hint}")
    return METHODS[name]


def check_options(name, options):
    """Refuse an option that the method does not take."""
    known = get(name).options()
    for option in options:
        if option not in known:
            raise InputError(f"method {name!r} has no option {option!r}; its options are {', '.join(known)}")


def require_sources(sources):
    """Refuse plain matrices, of which it is not known which way round they are."""
    if not isinstance(sources, Sources):
        raise InputError(
            f"the data are a {type(sources).__name__}; give bjmd.Sources([X1, X2, ...]) with features in rows, "
            "or use the estimator bjmd.BJMD, which takes matrices with samples in rows"
        )


def fit(name, sources, n_components, seed=0, **options):
    """Run one method once; the result depends on nothing but the arguments.

    BLAS runs on one thread, so that the result has the same bits whatever else the machine does.
    """
    method = get(name)
    check_options(name, options)
    require_sources(sources)
    whole_number("seed", seed, least=0)
    if not method.missing:
        _require_complete(method, sources)
    if not method.streams:
        others = ", ".join(other.name for other in METHODS.values() if other.streams)
        sources.require_in_memory(f"method {name!r}", instead=f", or use one of {others}")
    if method.nonnegative:
        _require_nonnegative(method, sources)
    with threadpool_limits(1):
        given = sources.concatenated() if method.concatenate else sources
        result = method.function(given, n_components, seed=seed, **options)
    if method.concatenate:
        _split_by_source(result, sources)
    result.method, result.seed, result.options = name, int(seed), dict(options)
    return result


def _split_by_source(result, sources):
    """Hand what a cat variant found for the one big source to the sources it was made of."""
    result.memberships = sources.split(result.memberships[0])
    result.noise = None if result.noise is None else np.repeat(result.noise, len(sources))
    for name in list(result.posterior):
        if name.endswith("_0"):  # one array per source, components x samples
            parts = sources.split(result.posterior.pop(name))
            result.posterior |= {f"{name.removesuffix('0')}{c}": part for c, part in enumerate(parts)}
        elif result.posterior[name].shape == (1,):  # one number per source
            result.posterior[name] = np.repeat(result.posterior[name], len(sources))


def _require_complete(method, sources):
    for n_missing, name in zip(sources.n_missing, sources.names, strict=True):
        if n_missing:
            able = ", ".join(other.name for other in METHODS.values() if other.missing)
            raise InputError(
                f"method {method.name!r} takes no missing entries but source {name!r} has {n_missing} (NaN); "
                f"impute them, or use one of {able}"
            )


def _require_nonnegative(method, sources):
    for x, name in zip(sources.matrices, sources.names, strict=True):
        if (x.data if scipy.sparse.issparse(x) else x).min() < 0:
            raise InputError(
                f"method {method.name!r} needs non-negative data but source {name!r} has negative entries; "
                "shift, clip or exponentiate it first"
            )
