"""The estimator BJMD, after scikit-learn's conventions.

    model = BJMD(n_components=5).fit([X1, X2, X3])
    model.components_, model.memberships_, model.noise_
    model.transform(new, source=0)
    print(model.check([X1, X2, X3]))

The fits are those of analysis/fitting.py, and projection.py places new samples.
"""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self, SupportsFloat

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bjmd.analysis import fitting, variance
from bjmd.analysis.check import Check, check
from bjmd.checks import one_of, whole_number
from bjmd.data.assembly import RawSource, assemble, normalized
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import projection, registry
from bjmd.model import Priors
from bjmd.results.decomposition import ALL_VANISHED

INFERENCES = ("cavi", "map", "advi")


class PosteriorDraws(NamedTuple):
    """Draws from the posterior; the first axis of every array runs over draws.

    Attributes
    ----------
    components : ndarray of shape (n_draws, n_components, n_features)
    memberships : list of ndarray of shape (n_draws, n_samples, n_components)
        One array per source.
    noise : ndarray of shape (n_draws, n_sources)
        Standard deviations.
    offsets : ndarray of shape (n_draws, n_sources, n_features), or None for a fit without offsets
    """

    components: np.ndarray
    memberships: list[np.ndarray]
    noise: np.ndarray
    offsets: np.ndarray | None = None


class _FitTransform:
    """A base of BJMD, because set_output wraps what that class itself defines, but not lists."""

    fit: Any
    transform: Any

    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Fit, and return the memberships.

        Parameters
        ----------
        X : the data, as for `fit`
        y : None
            Not used.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or a list of them if X holds several sources
        """
        self.fit(X)
        _, matrices = _listed(X)
        if matrices is None:
            return self.transform(X)
        return [self.transform(x, source=c) for c, x in enumerate(matrices)]


class BJMD(_FitTransform, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Bayesian joint matrix decomposition of one or several sources over the same features.

    Every source is X = H W + offsets + noise.  All sources share the components W.  Each has its
    own memberships H, whose rows are non-negative and sum to 1, its own noise level and, if there
    are two or more sources, its own offsets.  The unit and the origin of the data do not matter,
    but all sources must use the same.  docs/model.md has the whole model.

    Parameters
    ----------
    n_components : int, default=5
        Number of components.
    inference : {"cavi", "map", "advi"}, default="cavi"
        Variational inference in closed form, the mode of the posterior, or the paper's variational
        inference by stochastic gradients, which needs PyMC.
    n_init : int, default=20
        Number of random starts, of which the one with the lowest objective is kept.
    search : bool, default=True
        From n_init=20 on, make two fifths of the starts and run the best of them far beyond `tol`,
        which mostly reaches a lower objective in half the time.  False runs all starts to `tol`, as
        do consensus=True, which compares them, priors="paper" and inference="advi".
    priors : {"data", "paper"}, default="data"
        "data" scales and centres the priors to the data and learns their widths, as described
        below.  "paper" uses the paper's fixed priors and no offsets, and suits entries of about
        unit size; inference="advi" always does.
    noise : str, default="source"
        How the noise varies: by "source" alone, or also by "feature" or "sample", or "robust" to
        outliers; several are joined by +, as in "feature+robust".  `check` says whether one of them
        is worth trying.  inference="map" has "source" only.
    offsets : bool, optional
        Whether every source has its own offset for each feature, which absorbs shifts between
        sources.  By default it has one if there are two or more sources.  Use False where the
        sources hold different kinds of samples, because offsets absorb part of that difference.
    alpha0 : float, sequence of n_components floats, "learned" or "by-source", optional
        Dirichlet prior of the memberships: 1 is flat, larger values favour mixtures, and smaller
        values favour samples of one component.  "learned", the default, learns one value for all
        sources and components.  "by-source" learns a Dirichlet for each source, so that a source
        may lack a component.  inference="map" needs numbers of at least 1, and has 1 by default.
    lambda_ : float or "learned", optional
        Scale of the Laplace prior of the components.  "learned", the default, learns a scale for
        each component.
    a0, b0 : float, default=0.01 and by the unit of the data
        Shape and rate of the inverse gamma prior of the noise variances.
    tol : float, optional
        A fit stops when the objective changes by less in a sweep, in nats per entry (with
        priors="paper", relative); by default that of the inference.
    max_iter : int, optional
        Maximum number of iterations of a fit; by default that of the inference.
    consensus : bool, default=False
        Whether to find the components that the starts agree on as well.
    join : {"outer", "inner"}, default="outer"
        For DataFrames whose columns differ: use every feature, counting those that a source lacks
        as missing, or only the features that all have.
    normalize : bool, default=False
        For counts: scale each sample to a total of 10,000 and take log(1 + x), as scanpy does, in
        `fit` and in whatever gets new samples.
    n_jobs : int, optional
        Number of threads; -1 for all processors.  Starts run side by side; with more threads than
        starts, a fit uses several.  The result does not depend on it.
    random_state : int, RandomState or None, default=0
        Seed of the first start; the others count up from it.  A RandomState or None draws the seed.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components, W.
    memberships_ : list of ndarray of shape (n_samples, n_components)
        The memberships, H, of every source.
    noise_ : ndarray of shape (n_sources,)
        Standard deviation of the noise of every source; with robust noise, the scale of Student's
        t.
    offsets_ : ndarray of shape (n_sources, n_features) or None
        The offsets of every source; None in a fit without them.
    feature_precision_ : ndarray of shape (n_features,) or None
        With noise by feature: the precision of every feature over that of its source, so that its
        noise sd is that of the source times feature_precision_ ** -0.5.
    sample_precision_ : list of ndarray of shape (n_samples,) or None
        The same with noise by sample.
    degrees_of_freedom_ : ndarray of shape (n_sources,) or None
        With robust noise: the degrees of freedom of Student's t.
    variance_explained_ : ndarray of shape (n_sources, n_components)
        Share of the variance of every source that each component explains; a row sums to the R2 of
        its source.
    consensus_ : Consensus or None
        With consensus=True: the consensus `result`, the `share` of starts that have each component,
        and its `spread`.
    objective_ : float
        What the fit minimised.
    elbo_ : float
        Lower bound on the log evidence; not after inference="map".
    n_iter_ : int
        Number of iterations of the start that was kept.
    converged_ : bool
        Whether that start met its stopping rule.
    restarts_ : ndarray of shape (n_runs,)
        The objectives of all starts that were run; n_init of them without a search.
    decomposition_ : Decomposition
        The start that was kept, with its posterior.
    source_names_ : list of str
        Names of the sources.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features; only if the data were DataFrames.
    """

    def __init__(
        self,
        n_components: int = 5,
        *,
        inference: str = "cavi",
        n_init: int = 20,
        search: bool = True,
        priors: str = "data",
        noise: str = "source",
        offsets: bool | None = None,
        alpha0: float | Sequence[float] | str | None = None,
        lambda_: float | str | None = None,
        a0: float = Priors.a0,
        b0: float | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        consensus: bool = False,
        join: str = "outer",
        normalize: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ):
        self.n_components = n_components
        self.inference = inference
        self.n_init = n_init
        self.search = search
        self.priors = priors
        self.noise = noise
        self.offsets = offsets
        self.alpha0 = alpha0
        self.lambda_ = lambda_
        self.a0 = a0
        self.b0 = b0
        self.tol = tol
        self.max_iter = max_iter
        self.consensus = consensus
        self.join = join
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Fit one or several sources.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (n_samples, n_features), or a list or dict of them
            One matrix per source; the keys of a dict name the sources.  NaN in an array or a
            DataFrame is a missing entry.  Features of DataFrames are matched by name.
        y : None
            Not used.

        Returns
        -------
        BJMD
            The fitted estimator itself.
        """
        self._fit(self._sources(X))
        return self

    def _fit(self, sources: Sources) -> fitting.Fits:
        """Fit sources and set the attributes."""
        method = registry.get(f"{one_of('inference', self.inference, INFERENCES)}-bjmd")
        whole_number("n_init", self.n_init, least=2 if self.consensus else 1)
        options = self._options(method)
        fits = fitting.fit(
            method.name,
            sources,
            self.n_components,
            n_restarts=self.n_init,
            seed=_seed(self.random_state),
            jobs=effective_n_jobs(self.n_jobs),
            search=self.search,
            agree=self.consensus,
            **options,
        )
        best = fits.best
        if not best.converged:
            warnings.warn(
                f"the best of {len(fits.results)} starts has not converged ({best.reason}); "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        model: Any = best.model
        share = variance.between_sources(best.memberships)
        if len(best.vanished()) == best.n_components:
            warnings.warn(ALL_VANISHED, stacklevel=3)
        elif model.offsets is not None and share > variance.CONFOUNDED:
            warnings.warn(variance.confounded(share), stacklevel=3)
        self.decomposition_ = best
        self.components_ = np.ascontiguousarray(best.components.T)
        self.memberships_ = [np.ascontiguousarray(h.T) for h in best.memberships]
        self.noise_ = np.asarray(best.noise)
        self.offsets_ = model.offsets
        self.feature_precision_ = model.feature_precision
        self.sample_precision_ = model.sample_precision
        self.degrees_of_freedom_ = model.degrees_of_freedom
        self.objective_ = best.objective
        self.n_iter_ = best.n_iterations
        self.converged_ = best.converged
        self.variance_explained_ = variance.explained(sources, best)
        self.consensus_ = fits.consensus
        self.restarts_ = np.array([result.objective for result in fits.results])
        self.source_names_ = sources.names
        return fits

    def transform(
        self, X: Any, *, source: int | str | None = None, noise: float | None = None
    ) -> np.ndarray:
        """Compute the memberships of new samples.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
            The new samples; NaN is a missing entry.  Features of a DataFrame are matched by name.
        source : int or str, optional
            Number (from 0) or name of the fitted source that the samples belong to, whose noise,
            offsets and Dirichlet they share.
        noise : float, optional
            Standard deviation of their noise.  If neither `source` nor `noise` is given, the noise
            is estimated from X and there are no offsets, unless the model was fitted to one source
            only, to which they then belong.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        x, place = self._new_samples(X, source, noise)
        return np.ascontiguousarray(
            projection.project(self.decomposition_, x, **place).memberships.T
        )

    def score(
        self, X: Any, y: None = None, *, source: int | str | None = None, noise: float | None = None
    ) -> float:
        """Average log-likelihood of new samples: the mean over samples of a lower bound on ln p(x).

        p(x) is the density of a sample's observed entries, with memberships integrated out over
        their prior, components as fitted, and the noise that `transform` would use.  The bound is
        the sample's ELBO.

        Parameters
        ----------
        X, source, noise : as for `transform`
        y : None
            Not used.

        Returns
        -------
        float
        """
        x, place = self._new_samples(X, source, noise)
        return float(projection.log_evidence(self.decomposition_, x, **place).mean())

    def impute(
        self,
        X: Any,
        *,
        source: int | str | None = None,
        noise: float | None = None,
        return_std: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Replace missing entries by their posterior means.

        Parameters
        ----------
        X, source, noise : as for `transform`
        return_std : bool, default=False
            Whether to return standard deviations as well; not after inference="map".

        Returns
        -------
        filled : ndarray of shape (n_samples, n_features)
            X with no entry missing.
        std : ndarray of shape (n_samples, n_features)
            Only with return_std=True: the sd of a new measurement where an entry was missing, 0
            elsewhere.
        """
        x, place = self._new_samples(X, source, noise)
        if return_std and not self.decomposition_.posterior:
            raise InputError(
                "a fit with inference='map' has no standard deviations; use inference='cavi'"
            )
        mean, sd = projection.impute(self.decomposition_, x, **place)
        return (mean.T, sd.T) if return_std else mean.T

    def check(self, X: Any) -> Check:
        """Find out whether another noise model is worth trying on these data.

        Every noise model that the data allow is compared with that of the fit: a tenth of the
        entries is hidden, twice, and each model predicts them.  One is recommended only if it
        predicts them better in squared error as well as in density, and moves the memberships.
        This takes at most 16 fits from single starts.

        Parameters
        ----------
        X : the data that the model was fitted to, as for `fit`
            They must be in memory.

        Returns
        -------
        Check
            Its `recommended` is a dict of parameters, {"noise": "robust"} for example, or an empty
            one.  Its `table` is a DataFrame with a row for each noise model.  Printed, it is the
            recommendation in a sentence.

        Examples
        --------
        >>> checked = model.check(data)  # doctest: +SKIP
        >>> other = BJMD(5, **checked.recommended).fit(data)  # doctest: +SKIP
        """
        check_is_fitted(self)
        sources = clone(self)._sources(X)  # which would set attributes of this one
        shapes = [h.shape[1] for h in self.decomposition_.memberships]
        if sources.n_samples != shapes or sources.n_features != self.n_features_in_:
            raise InputError(
                "these are not the data that the model was fitted to; give the same as to `fit`"
            )
        seed = _seed(self.random_state)
        jobs = effective_n_jobs(self.n_jobs)
        return check(sources, self.decomposition_, seed=seed, jobs=jobs)

    def sample_posterior(
        self, n_draws: int = 1, *, random_state: int | np.random.RandomState | None = 0
    ) -> PosteriorDraws:
        """Draw components, memberships, noise and offsets from the posterior, independently.

        Parameters
        ----------
        n_draws : int, default=1
            Number of draws.
        random_state : int, RandomState or None, default=0
            Source of the randomness.

        Returns
        -------
        PosteriorDraws
            Arrays `components`, `memberships`, `noise` and `offsets`, whose first axis runs over
            the draws.
        """
        check_is_fitted(self)
        whole_number("n_draws", n_draws, least=1)
        posterior: Any = self.decomposition_.posterior
        rng = check_random_state(random_state)
        if self.decomposition_.method != "cavi-bjmd":
            raise InputError(
                "only a fit with inference='cavi' has a posterior to draw from; use it"
            )
        draws = PosteriorDraws(
            components=np.swapaxes(posterior.components.sample(n_draws, rng), 1, 2),
            memberships=[
                np.swapaxes(factor.sample(n_draws, rng), 1, 2) for factor in posterior.memberships
            ],
            noise=posterior.noise.sample(n_draws, rng),
        )
        if self.offsets_ is None:
            return draws
        size = (n_draws, *self.offsets_.shape)
        model: Any = self.decomposition_.model
        return draws._replace(offsets=rng.normal(self.offsets_, model.offsets_sd, size))

    def to_arviz(
        self, n_draws: int = 1000, *, random_state: int | np.random.RandomState | None = 0
    ) -> Any:
        """Draw from the posterior as `sample_posterior` does, into an arviz.InferenceData.

        Its `posterior` has components (component x feature), memberships (sample x component; the
        coordinate `source_of_sample` names the source of a sample), noise (source) and, where the
        fit has them, offsets (source x feature).
        """
        import arviz

        draws = self.sample_posterior(n_draws, random_state=random_state)
        found = draws._asdict() | {"memberships": np.concatenate(draws.memberships, axis=1)}
        dims = {"components": ["component", "feature"], "memberships": ["sample", "component"]}
        dims |= {"noise": ["source"], "offsets": ["source", "feature"]}
        features = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        coords = {
            "component": self.get_feature_names_out(),
            "feature": features,
            "source": self.source_names_,
        }
        data = arviz.from_dict(
            {name: x[None] for name, x in found.items() if x is not None}, coords=coords, dims=dims
        )
        source_of_sample = np.repeat(self.source_names_, [len(h) for h in self.memberships_])
        data.posterior = data.posterior.assign_coords(source_of_sample=("sample", source_of_sample))
        return data

    @property
    def elbo_(self) -> float:
        check_is_fitted(self)
        if not self.decomposition_.posterior:
            raise AttributeError("a fit with inference='map' has no ELBO; see objective_")
        return -self.objective_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_is_fitted__(self) -> bool:
        # the trailing underscore of lambda_ would pass for a fitted attribute
        return hasattr(self, "decomposition_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.inference != "advi"
        return tags

    def _options(self, method: registry.Method) -> dict[str, Any]:
        """What was set to anything but its default; what the inference does not have is refused."""
        default = inspect.signature(BJMD).parameters
        names = ("priors", "noise", "offsets", "alpha0", "lambda_", "a0", "b0", "tol")
        given = {name: getattr(self, name) for name in names}
        if self.alpha0 is not None:
            given["alpha0"] = np.asarray(self.alpha0).tolist()
        options = {name: value for name, value in given.items() if value != default[name].default}
        refused = [name for name in options if name not in method.options()]
        if refused:
            way_out = "leave it out, or use inference='cavi'"
            raise InputError(f"inference={self.inference!r} has no option {refused[0]}; {way_out}")
        if self.max_iter is not None:
            options["max_iterations" if self.inference == "advi" else "max_sweeps"] = self.max_iter
        return options

    def _sources(self, X: Any) -> Sources:
        """The data of a fit; sets n_features_in_ and, for DataFrames, feature_names_in_."""
        names, matrices = _listed(X)
        matrices = [X] if matrices is None else matrices
        raw_sources = []
        names = names or [f"source {c + 1}" for c in range(len(matrices))]
        for name, x in zip(names, matrices, strict=True):
            try:
                matrix = self._validated(x, f"source {name!r}", reset=True).T
            except ValueError as error:
                if len(matrices) == 1 or isinstance(error, InputError):
                    raise
                first_line = str(error).splitlines()[0].rstrip(":")
                raise InputError(f"source {name!r}: {first_line}") from None
            features = list(x.columns) if hasattr(self, "feature_names_in_") else None
            raw = RawSource(matrix, features, name=name)
            raw_sources.append(normalized(raw) if self.normalize else raw)
        sources, _ = assemble(raw_sources, join=self.join)
        if raw_sources[0].feature_names is not None:
            self.feature_names_in_ = np.array(sources.feature_names, dtype=object)
            self.n_features_in_ = sources.n_features
        return sources

    def _new_samples(
        self, X: Any, source: int | str | None, noise: float | None
    ) -> tuple[Any, dict[str, Any]]:
        """New data, features x samples, and what is known of their source."""
        check_is_fitted(self)
        if _listed(X)[1] is not None:
            raise InputError(
                "new samples must be one matrix; call this once per source, "
                "and name it with `source`"
            )
        if source is not None and noise is not None:
            raise InputError(f"source is {source!r} and noise is {noise!r}; give only one of them")
        if source is None and noise is None and len(self.source_names_) == 1:
            source = 0
        source = None if source is None else self._source_number(source)
        # by name: features that X lacks are missing, those unknown to the fit are ignored
        known = getattr(self, "feature_names_in_", ())
        given = getattr(X, "columns", None)
        if given is not None and given.is_unique and given.isin(known).any():
            X = X.reindex(columns=known)
        matrix = self._validated(X, "X", reset=False).T
        if self.normalize:
            matrix = normalized(RawSource(matrix, None, name="X")).matrix
        return matrix, {"source": source, "noise": noise}

    def _source_number(self, source: int | str) -> int:
        if isinstance(source, Integral) and 0 <= source < len(self.source_names_):
            return int(source)
        if source in self.source_names_:
            return self.source_names_.index(source)
        names = ", ".join(map(repr, self.source_names_))
        raise InputError(
            f"there is no source {source!r}; give one of {names}, or its number, counted from 0"
        )

    def _validated(self, x: Any, name: str, reset: bool) -> Any:
        """A samples x features matrix of floats; Sources checks its entries."""
        _require_numbers(x, name)
        return validate_data(
            self,
            x,
            reset=reset,
            accept_sparse=("csr", "csc"),
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )


def _listed(X: Any) -> tuple[list[str] | None, list | None]:
    """The names (if any) and matrices of several sources, or None and None for a single matrix."""
    if getattr(X, "ndim", 0) == 2:  # even a sparse matrix that is a dictionary
        return None, None
    if isinstance(X, Mapping | list | tuple) and not X:
        raise InputError("no source was given; give at least one samples x features matrix")
    if isinstance(X, Mapping):
        return [str(name) for name in X], list(X.values())
    # a list of lists of numbers is one matrix to scikit-learn
    if isinstance(X, list | tuple) and any(getattr(x, "ndim", 0) == 2 for x in X):
        return None, list(X)
    return None, None


def _seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, Integral):
        return whole_number("random_state", random_state, least=0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _require_numbers(x: Any, name: str) -> None:
    """Refuse a DataFrame with a column twice or with text in it, and say where."""
    if not hasattr(x, "iloc") or not hasattr(x, "columns"):
        return
    if not x.columns.is_unique:
        double = x.columns[x.columns.duplicated()][0]
        raise InputError(
            f"{name} has column {double!r} more than once; rename or merge its columns"
        )
    for column, dtype in x.dtypes.items():
        if getattr(dtype, "kind", "O") in "biuf":
            continue
        for row, cell in x[column].items():
            # None is an object column's way to say missing
            if isinstance(cell, str) or not (cell is None or isinstance(cell, SupportsFloat)):
                raise InputError(
                    f"{name} has {cell!r} in column {column!r}, row {row!r}; it must hold numbers "
                    "only (NaN where one is missing), so correct the cell or drop the column"
                )
