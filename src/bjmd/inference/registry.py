"""The registry of methods: every name that `bjmd.fit`, the command, configs and tables know.

A method is one file, in this package or in any other, with a function

    fit(sources, n_components, *, seed, **options) -> Decomposition

and a `Method` that describes it, which the package names under the entry points `bjmd.methods` of
its pyproject.toml (docs/how-to/new-method.md).  Restarts, storage, scores and tables follow from
that.  A function that takes the argument `watch` can be watched while it runs, and one that takes
`course` can be continued with a smaller tolerance (loop.py).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import numpy as np

from bjmd.data.matrix import Extent
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError, whole_number
from bjmd.inference.loop import Course, Watch
from bjmd.numerics import threads
from bjmd.results.decomposition import Decomposition

GROUP = "bjmd.methods"


@dataclass(frozen=True)
class Method:
    """A method, and what the rest must know about it."""

    name: str
    label: str
    """Its name in tables and figures."""
    fit: Callable[..., Decomposition]
    objective: str = "objective"
    """What it minimises, in words."""
    concatenate: bool = False
    """Runs on all samples side by side as one source (the paper's cat variants)."""
    infers_bjmd: bool = False
    """An inference of the BJMD model itself; new samples can be projected on its fits."""
    variational: bool = False
    """Has a posterior, and an ELBO that can be compared between numbers of components."""
    nonnegative: bool = False
    """Refuses data with negative entries."""
    missing: bool = False
    """Takes data with missing (NaN) entries."""
    streams: bool = False
    """Sees the data through their products alone, so sources may stay on disk."""

    def takes(self, argument: str) -> bool:
        """Whether its function has such an argument."""
        return argument in inspect.signature(self.fit).parameters

    def options(self) -> dict[str, Any]:
        """The names of the options that the method takes, with their defaults."""
        parameters = inspect.signature(self.fit).parameters.values()
        return {
            p.name: p.default
            for p in parameters
            if p.kind is p.KEYWORD_ONLY and p.name not in ("seed", "watch", "course")
        }


@cache
def _entries() -> dict[str, EntryPoint]:
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    if "cavi-bjmd" not in entries:
        raise InputError(
            "the methods of bjmd are not registered because the package is not installed; "
            "run `pip install -e .` in its folder, or install it again"
        )
    return entries


_registered: dict[str, Method] = {}


def register(method: Method) -> None:
    """Make a method known until Python ends, for example in a notebook."""
    _registered[method.name] = method


def method_names() -> list[str]:
    """The names of all methods in alphabetical order, those of other packages included."""
    return sorted({*_entries(), *_registered})


def get(name: str) -> Method:
    """A method by its name; imports its module."""
    if name in _registered:
        return _registered[name]
    if name not in _entries():
        known = method_names()
        close = difflib.get_close_matches(str(name), known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known methods: {', '.join(known)}"
        raise InputError(f"there is no method {name!r}; {hint}")
    entry = _entries()[name]
    try:
        method = entry.load()
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"method {name!r} cannot be loaded from {entry.value!r} ({error}); "
            "install its package again"
        ) from error
    if not isinstance(method, Method) or method.name != name:
        raise InputError(
            f"the entry point {name!r} must name a bjmd Method of that name, but {entry.value!r} "
            "does not; correct it in the package that provides it"
        )
    return method


def names_with(attribute: str) -> str:
    """The names of the methods of which an attribute is true, for messages."""
    return ", ".join(name for name in method_names() if getattr(get(name), attribute))


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an option that the method does not take; its fit checks the values."""
    known = get(name).options()
    for option, value in options.items():
        if option in ("noise", "offsets") and value == "auto":
            instead = {
                "noise": "leave it out, and let `bjmd check` (in Python model.check) say whether "
                "another noise model is worth trying",
                "offsets": "leave it out, or compare a fit with offsets and one without",
            }
            raise InputError(
                f"{option}='auto' was removed because it made results worse on real data; "
                f"{instead[option]}"
            )
        if option not in known:
            raise InputError(
                f"method {name!r} has no option {option!r}; its options are {', '.join(known)}"
            )


def require_sources(sources: Sources) -> None:
    """Refuse plain matrices: nothing says which way round they are."""
    if not isinstance(sources, Sources):
        raise InputError(
            f"the data are a {type(sources).__name__}; give bjmd.Sources([X1, X2, ...]) with "
            "features in rows, or use the estimator bjmd.BJMD, which takes matrices with samples "
            "in rows"
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
        Number of components, K.
    seed : int, default=0
        Seed of everything random in the fit.
    watch : callable, optional
        Called with the memberships (a list of K x samples arrays) after every recorded iteration;
        the numbers it returns by name become series in the result's `history`.
    course : Course, optional
        Where a fit by sweeps keeps its place, to continue from with a smaller `tol` (loop.py).
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
    _require_able(method, sources)
    arguments = dict(options)
    if watch is not None:
        if not method.takes("watch"):
            raise InputError(f"method {name!r} cannot be watched while it runs; leave out watch")
        arguments["watch"] = watch
        if method.concatenate:
            arguments["watch"] = lambda memberships: watch(sources.split(memberships[0]))
    if course is not None:
        arguments["course"] = course
    started = threads.seconds()
    with threads.blas_on_one_thread():
        data = sources.concatenated() if method.concatenate else sources
        result = method.fit(data, n_components, seed=seed, **arguments)
    if method.concatenate:
        _split_between(sources, result)
    if result.model is not None:
        extent = Extent.of_all(x.extent for x in sources.data)
        result.model = replace(result.model, data_extent=np.array(extent, dtype=float))
    result.method = name
    result.seed = int(seed)
    result.options = dict(options)
    result.seconds = threads.seconds() - started
    if not result.is_finite():
        raise FitError(
            f"method {name!r} ended with numbers that are not finite; "
            "rescale the data or the priors"
        )
    return result


def _require_able(method, sources):
    """Refuse data that the method cannot take."""
    if not method.streams and not all(x.in_memory for x in sources.data):
        others = f", or use one of {names_with('streams')}"
        sources.require_in_memory(f"method {method.name!r}", instead=others)
    for x, name in zip(sources.data, sources.names, strict=True):
        if x.n_missing and not method.missing:
            raise InputError(
                f"method {method.name!r} takes no missing entries but source {name!r} has "
                f"{x.n_missing} (NaN); impute them, or use one of {names_with('missing')}"
            )
        if method.nonnegative and (x.values < 0).any():
            raise InputError(
                f"method {method.name!r} needs non-negative data but source {name!r} has negative "
                "entries; shift, clip or exponentiate it first"
            )


def _split_between(sources, result):
    """Hand what a cat variant found for the one big source to the sources it was made of."""
    result.memberships = sources.split(result.memberships[0])
    result.noise = None if result.noise is None else np.repeat(result.noise, len(sources))
    result.posterior = result.posterior and result.posterior.by_source(sources.n_samples)
    result.model = result.model and result.model.by_source(sources.n_samples)
