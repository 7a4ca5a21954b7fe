"""The registry of methods: every name that tables, configs and `bjmd.fit` know.

To add a method, write one file with a function

    fit(sources, n_components, *, seed, **options) -> Decomposition

and add one line to METHODS.  Everything else (restarts, storage, scores, tables) follows from that.
A function that takes the argument `watch` can be watched while it runs (loop.py).  What BJMD is
compared with lives beside the paper, in bjmd_paper.baselines; here it is only named.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse

from bjmd.checks import LEAST, one_of, positive_number, true_or_false, whole_number
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.inference.loop import Course, Watch
from bjmd.model import LEARNED, Priors
from bjmd.numerics import threads
from bjmd.results.decomposition import Decomposition

LEAST_COUNTS = {"hold": 0, "burn_in": 0, "n_draws": 4}
"""The least whole number that an option may be, where that is not 1."""


@dataclass(frozen=True)
class Method:
    """One line of the registry: all that the rest must know of a method.  Its module is imported
    when it is used.
    """

    name: str
    label: str
    module: str
    objective: str = "objective"
    """What it minimises, in words."""
    concatenate: bool = False
    """Runs on all samples side by side as one source (the paper's cat variants)."""
    infers_bjmd: bool = False
    """An inference of the BJMD model itself; its fits have a place for new samples."""
    variational: bool = False
    """Has a posterior, and an ELBO that can be compared between numbers of components."""
    nonnegative: bool = False
    """Refuses data with negative entries."""
    missing: bool = False
    """Takes data with missing (NaN) entries."""
    streams: bool = False
    """Sees the data through their products alone, so sources may be memory-mapped or chunked."""
    limit: str = "max_sweeps"
    """The option that bounds its iterations."""
    cost: str = "library"
    """What its time is made of: "sweeps" of ours, "gradients" of ADVI, or a "library" and its own
    loop.
    """

    @property
    def function(self) -> Callable[..., Decomposition]:
        """The function that fits it."""
        return importlib.import_module(self.module).fit

    @property
    def watchable(self) -> bool:
        return "watch" in inspect.signature(self.function).parameters

    def options(self) -> dict[str, Any]:
        """The names of the options that the method takes, with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        others = ("seed", "watch", "course")
        return {
            p.name: p.default
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.name not in others
        }


_MAP = Method(
    "map-bjmd",
    "MAP-BJMD",
    "bjmd.inference.map",
    infers_bjmd=True,
    missing=True,
    streams=True,
    cost="sweeps",
)
_CAVI = replace(
    _MAP,
    name="cavi-bjmd",
    label="VI-BJMD (closed form)",
    module="bjmd.inference.cavi",
    objective="minus the ELBO",
    variational=True,
)
_ADVI = Method(
    "advi-bjmd",
    "VI-BJMD (ADVI)",
    "bjmd_paper.baselines.advi",
    "minus the ELBO",
    infers_bjmd=True,
    variational=True,
    limit="max_iterations",
    cost="gradients",
)
_JMD = Method(
    "jmd",
    "JMD",
    "bjmd_paper.baselines.laplace",
    "minus the approximate ELBO",
    streams=True,
    cost="sweeps",
)

METHODS = {
    method.name: method
    for method in (
        _MAP,
        replace(_MAP, name="map-catbjmd", label="MAP-catBJMD", concatenate=True),
        _CAVI,
        replace(_CAVI, name="cavi-catbjmd", label="VI-catBJMD (closed form)", concatenate=True),
        _ADVI,
        replace(_ADVI, name="advi-catbjmd", label="VI-catBJMD (ADVI)", concatenate=True),
        _JMD,
        replace(_JMD, name="glad", label="GLAD", concatenate=True),
        Method(
            "kmeans", "K-means", "bjmd_paper.baselines.kmeans", "squared error", concatenate=True
        ),
        Method(
            "jnmf",
            "jNMF",
            "bjmd_paper.baselines.joint_nmf",
            "squared error",
            concatenate=True,
            nonnegative=True,
        ),
        Method(
            "semi-nmf",
            "Semi-NMF",
            "bjmd_paper.baselines.semi_nmf",
            "squared error",
            concatenate=True,
        ),
        Method("bnmf", "BNMF", "bjmd_paper.baselines.bnmf", concatenate=True, nonnegative=True),
        Method(
            "intnmf",
            "intNMF",
            "bjmd_paper.baselines.intnmf",
            "weighted squared error",
            nonnegative=True,
        ),
        Method(
            "inmf", "iNMF", "bjmd_paper.baselines.inmf", "penalised squared error", nonnegative=True
        ),
        Method(
            "random",
            "Random H",
            "bjmd_paper.baselines.controls",
            "squared error",
            concatenate=True,
            streams=True,
        ),
    )
}


def method_names() -> list[str]:
    """The names of all methods, in the order of the tables."""
    return list(METHODS)


def get(name: str) -> Method:
    """The registry's line for one method."""
    if name not in METHODS:
        close = difflib.get_close_matches(str(name), METHODS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known methods: {', '.join(METHODS)}"
        raise InputError(f"there is no method {name!r}; {hint}")
    return METHODS[name]


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that the method does not take, or a value that it cannot have, whatever the
    data are.
    """
    method = get(name)
    known = method.options()
    kinds = get_type_hints(method.function)
    for option, value in options.items():
        if option not in known:
            raise InputError(
                f"method {name!r} has no option {option!r}; its options are {', '.join(known)}"
            )
        _check_value(option, value, kinds.get(option, Any))
    Priors.of(
        "paper",
        **{
            option: options[option]
            for option in ("alpha0", "lambda_", "a0", "b0")
            if option in options
        },
    )


def _check_value(option, value, kind):
    """Refuse a value of a kind that the annotation of an option does not allow, or of a size that
    no method takes.
    """
    kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    if get_origin(kind) is Literal:
        one_of(option, value, get_args(kind))
    elif float in kinds and not isinstance(value, list | tuple | np.ndarray):
        learnable = (
            option in ("alpha0", "lambda_") and value == LEARNED
        )  # of MAP too, which says what it cannot learn
        may_be = learnable or (
            type(value) in kinds and not isinstance(value, float)
        )  # a word or None
        if not may_be and not (
            option == "tol" and value == 0
        ):  # with which K-means goes on until nothing moves
            positive_number(option, value, least=0 if option == "tol" else LEAST)
    elif kind is bool and not (isinstance(value, str) and value == "auto"):  # see automatic.py
        true_or_false(option, value)
    elif kind is float or (int in kinds and not isinstance(value, Integral)):
        raise InputError(
            f"{option} is {value!r}; it must be a {'whole ' if int in kinds else ''}number"
        )
    elif int in kinds:
        whole_number(option, value, least=LEAST_COUNTS.get(option, 1))


def require_sources(sources: Sources) -> None:
    """Refuse plain matrices, of which it is not known which way round they are."""
    if not isinstance(sources, Sources):
        raise InputError(
            f"the data are a {type(sources).__name__}; give bjmd.Sources([X1, X2, ...]) with features in rows, "
            "or use the estimator bjmd.BJMD, which takes matrices with samples in rows"
        )


def fit(
    name: str,
    sources: Sources,
    n_components: int,
    seed: int = 0,
    *,
    watch: Watch | None = None,
    course: Course | None = None,
    **options: Any,
) -> Decomposition:
    """Run one method once; the result depends on nothing but the arguments.

    Large data are worked on by all cores of the process, or as many as BJMD_THREADS says, each with
    one thread of BLAS. The result has the same bits for any number of them.

    Parameters
    ----------
    name : str
        One of `method_names()`.
    sources : Sources
        The data.
    n_components : int
        K.
    seed : int, default 0
        The whole randomness of the fit.
    watch : callable, optional
        Called with the memberships (a list of K x samples arrays) after every recorded iteration;
        the numbers it returns by name become series in the result's `history`.
    course : Course, optional
        Where a fit by sweeps keeps its place, to go on from with a smaller `tol` (loop.py).
    **options
        Options of the method; docs/methods.md lists them.

    Returns
    -------
    Decomposition
    """
    method = get(name)
    check_options(name, options)
    require_sources(sources)
    whole_number("seed", seed, least=0)
    sources.require_components(n_components)
    if not method.missing:
        _require_complete(method, sources)
    if not method.streams:
        others = ", ".join(other.name for other in METHODS.values() if other.streams)
        sources.require_in_memory(f"method {name!r}", instead=f", or use one of {others}")
    if method.nonnegative:
        _require_nonnegative(method, sources)
    watching: dict[str, Any] = {}
    if watch is not None:
        if not method.watchable:
            raise InputError(f"method {name!r} cannot be watched while it runs; leave out watch")
        watching = {
            "watch": (lambda h: watch(sources.split(h[0]))) if method.concatenate else watch
        }
    watching |= {} if course is None else {"course": course}
    from bjmd.inference.compilation import Compilation  # numba takes half a second to import

    started = threads.seconds()
    compilation = Compilation()
    with threads.blas_on_one_thread(), compilation.installed():
        given = sources.concatenated() if method.concatenate else sources
        result = method.function(given, n_components, seed=seed, **watching, **options)
    if method.concatenate:
        _hand_to_sources(result, sources)
    result.method = name
    result.seed = int(seed)
    result.options = dict(options)
    result.seconds = threads.seconds() - started - compilation.seconds
    if not result.is_finite():
        raise FitError(
            f"method {name!r} ended with numbers that are not finite; rescale the data or the priors"
        )
    return result


def _hand_to_sources(result, sources):
    """Hand what a cat variant found for the one big source to the sources it was made of."""
    result.memberships = sources.split(result.memberships[0])
    result.noise = None if result.noise is None else np.repeat(result.noise, len(sources))
    result.posterior = result.posterior and result.posterior.by_source(sources.n_samples)
    result.model = result.model and result.model.by_source(len(sources))


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
