"""The estimator BJMD, after scikit-learn's conventions.

    model = BJMD(n_components=5).fit([X1, X2, X3])
    model.components_, model.memberships_, model.noise_
    model.transform(new, source=0)
    model.report("out")

The fits are those of analysis/fitting.py, and projection.py places new samples.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self, SupportsFloat

import numpy as np
import pandas as pd
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bjmd.analysis import draws, fitting, variance
from bjmd.analysis.check import Check, check
from bjmd.analysis.draws import PosteriorDraws
from bjmd.data.assembly import RawSource, Settings, looks_like_counts, normalized, prepare
from bjmd.data.sources import Sources
from bjmd.errors import InputError, one_of, whole_number
from bjmd.inference import projection, restarts
from bjmd.model import Priors
from bjmd.report.tables import Named
from bjmd.results import storage
from bjmd.results.decomposition import ALL_VANISHED, Decomposition, component_names

INFERENCES = ("cavi", "map", "advi")


class AgreedComponents(NamedTuple):
    """What the starts agree on.

    Attributes
    ----------
    components : ndarray of shape (n_components, n_features)
    memberships : list of ndarray of shape (n_samples, n_components)
    share : ndarray of shape (n_components,)
        Share of the starts that have each component.
    spread : ndarray of shape (n_components,)
        How far their versions of it lie apart.
    """

    components: np.ndarray
    memberships: list[np.ndarray]
    share: np.ndarray
    spread: np.ndarray


class _FitTransform:
    """A base of BJMD, because set_output wraps what that class itself defines, but not lists."""

    fit: Any
    transform: Any

    def fit_transform(self, X: Any, y: None = None, *, sources: Any = None) -> Any:
        """Fit, and return the memberships.

        Parameters
        ----------
        X, sources : as for `fit`
        y : None
            Not used.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or a list of them if X is a list or a dict
        """
        self.fit(X, sources=sources)
        if not _is_several(X):
            return self.transform(X, sources=sources)
        return [self.transform(x, source=c) for c, x in enumerate(_by_source(X).values())]


class BJMD(_FitTransform, TransformerMixin, BaseEstimator):
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
        Number of random starts; the one with the lowest objective is kept.
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
        noise sd is that of the source times ``feature_precision_ ** -0.5``.
    sample_precision_ : list of ndarray of shape (n_samples,) or None
        The same with noise by sample.
    degrees_of_freedom_ : ndarray of shape (n_sources,) or None
        With robust noise: the degrees of freedom of Student's t.
    variance_explained_ : ndarray of shape (n_sources, n_components)
        Share of the variance of every source that each component explains; a row sums to the R2 of
        its source.
    consensus_ : AgreedComponents or None
        With consensus=True: `components` and `memberships` that the starts agree on, the `share` of
        starts that have each component, and its `spread`.
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
        The start that was kept, with its posterior; like `Sources`, with features in rows.
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

    def fit(self, X: Any, y: None = None, *, sources: Any = None) -> Self:
        """Fit one or several sources.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (n_samples, n_features), or a list or dict of them
            One matrix per source; the keys of a dict name the sources.  NaN in an array or a
            DataFrame is a missing entry.  Features of DataFrames are matched by name.
        y : None
            Not used.
        sources : array-like of shape (n_samples,), optional
            For one matrix with the samples of several sources: the source of every sample.  With
            it, several sources work in pipelines and in cross-validation (metadata routing).

        Returns
        -------
        BJMD
            The fitted estimator itself.
        """
        raw_sources = self._raw_sources(_by_source(X, sources))
        assembled = self._assembled(raw_sources)
        hint = None if self.normalize else looks_like_counts(raw_sources)
        if hint is not None:
            warnings.warn(f"{hint}; if these are counts, use normalize=True", stacklevel=2)
        self._fit(assembled)
        return self

    def _fit(self, sources: Sources) -> fitting.Fits:
        """Fit sources and set the attributes."""
        method = f"{one_of('inference', self.inference, INFERENCES)}-bjmd"
        name = "n_init, with consensus=True," if self.consensus else "n_init"
        whole_number(name, self.n_init, least=2 if self.consensus else 1)
        fits = fitting.fit(
            method,
            sources,
            self.n_components,
            n_restarts=self.n_init,
            seed=_seed(self.random_state),
            jobs=effective_n_jobs(self.n_jobs),
            search=self.search,
            agree=self.consensus,
            **self._options(),
        )
        best = fits.best
        if not best.converged:
            warnings.warn(
                f"the best of {len(fits.results)} starts has not converged ({best.reason}); "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )
        explained = variance.explained(sources, best)
        self._set(fits.results, Named.of(sources), explained, fits.consensus)
        share = variance.between_sources(best.memberships)
        if len(best.vanished()) == best.n_components:
            warnings.warn(ALL_VANISHED, stacklevel=3)
        elif self.offsets_ is not None and share > variance.CONFOUNDED:
            warnings.warn(variance.confounded(share), stacklevel=3)
        return fits

    def _set(
        self,
        results: list[Decomposition],
        named: Named,
        explained: np.ndarray,
        consensus: Any = None,
    ) -> None:
        """The attributes that follow from all runs, names, variance explained and consensus."""
        (best,) = restarts.best(results, 1)
        model: Any = best.model
        # reports show how the others ended, not what they say about uncertainty
        self._runs = [run if run is best else replace(run, posterior=None) for run in results]
        self._named = named
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
        self.variance_explained_ = explained
        self._checked: Check | None = None
        self._consensus = consensus
        self.consensus_ = consensus and AgreedComponents(
            consensus.result.components.T,
            [h.T for h in consensus.result.memberships],
            consensus.share,
            consensus.spread,
        )
        self.restarts_ = np.array([result.objective for result in results])
        self.source_names_ = named.names

    def transform(
        self,
        X: Any,
        *,
        source: int | str | None = None,
        sources: Any = None,
        noise: float | None = None,
        any_scale: bool = False,
    ) -> np.ndarray:
        """Compute the memberships of new samples.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_samples, n_features)
            The new samples; NaN is a missing entry.  Features of a DataFrame are matched by name.
        source : int or str, optional
            Number (from 0) or name of the fitted source that the samples belong to, whose noise,
            offsets and Dirichlet they share.
        sources : array-like of shape (n_samples,), optional
            The source of every sample, by name; samples of a source that the fit does not know have
            their noise estimated.
        noise : float, optional
            Standard deviation of their noise, if it is not that of their source.  If none of the
            three is given, the noise is estimated from X and there are no offsets, unless the model
            was fitted to one source only, to which they then belong.
        any_scale : bool, default=False
            Whether to accept samples that look as if they were on another scale than the data of
            the fit: entries far outside the range of these, or counts in place of logarithms.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        place = (source, sources, noise, any_scale)
        projected = self._for_each_source(projection.project, X, *place)
        return _in_order(sources, [(rows, part.memberships.T) for rows, part in projected])

    def inverse_transform(
        self, X: Any, *, source: int | str | None = None, sources: Any = None
    ) -> np.ndarray:
        """What the fit expects of samples with these memberships.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Memberships.
        source, sources : as for `transform`
            Which source has its offsets added.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        expected = np.asarray(X, dtype=float) @ self.components_
        if self.offsets_ is None:
            return expected
        for rows, name in self._places(len(expected), source, sources):
            if name is not None:
                expected[rows] += self.offsets_[name]
        return expected

    def score(
        self,
        X: Any,
        y: None = None,
        *,
        source: int | str | None = None,
        sources: Any = None,
        noise: float | None = None,
        any_scale: bool = False,
        sample_weight: Any = None,
    ) -> float:
        """Average log-likelihood of new samples: the mean over samples of a lower bound on ln p(x).

        p(x) is the density of a sample's observed entries, with memberships integrated out over
        their prior, components as fitted, and the noise that `transform` would use.  The bound is
        the sample's ELBO.

        Parameters
        ----------
        X, source, sources, noise, any_scale : as for `transform`
        y : None
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the samples in the mean.

        Returns
        -------
        float
        """
        place = (source, sources, noise, any_scale)
        bounds = _in_order(sources, self._for_each_source(projection.log_evidence, X, *place))
        return float(np.average(bounds, weights=sample_weight))

    def impute(
        self,
        X: Any,
        *,
        source: int | str | None = None,
        noise: float | None = None,
        any_scale: bool = False,
        return_std: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Replace missing entries by their posterior means.

        Parameters
        ----------
        X, source, noise, any_scale : as for `transform`
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
        check_is_fitted(self)
        if return_std and not self.decomposition_.posterior:
            raise InputError(
                "a fit with inference='map' has no standard deviations; use inference='cavi'"
            )
        place = (source, None, noise, any_scale)
        ((_, (mean, sd)),) = self._for_each_source(projection.impute, X, *place)
        return (mean.T, sd.T) if return_std else mean.T

    def check(self, X: Any, *, sources: Any = None) -> Check:
        """Find out whether another noise model is worth trying on these data.

        Every noise model that the data allow is compared with that of the fit: a tenth of the
        entries is hidden, twice, and each model predicts them.  One is recommended only if it
        predicts them better in squared error as well as in density, and moves the memberships.
        This takes at most eight fits from single starts.  A later `report` shows the comparison.

        Parameters
        ----------
        X, sources : the data that the model was fitted to, as for `fit`
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
        self._checked = check(
            self._fitted_data(X, sources),
            self.decomposition_,
            seed=_seed(self.random_state),
            jobs=effective_n_jobs(self.n_jobs),
        )
        return self._checked

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
        return draws.sample(self.decomposition_, n_draws, check_random_state(random_state))

    def to_arviz(
        self,
        n_draws: int = 1000,
        *,
        X: Any = None,
        sources: Any = None,
        n_entries: int = 2000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Any:
        """Draw from the posterior as `sample_posterior` does, into an arviz.InferenceData.

        Parameters
        ----------
        n_draws : int, default=1000
            Number of draws, which are independent; they are dealt out to four chains, as ArviZ
            expects them.
        X, sources : the data that the model was fitted to, as for `fit`, optional
            With them, there are the groups observed_data, posterior_predictive and log_likelihood,
            so that arviz.loo and arviz.plot_ppc work.
        n_entries : int, default=2000
            These groups are about so many random entries of the data.
        random_state : int, RandomState or None, default=0
            Source of the randomness.

        Returns
        -------
        arviz.InferenceData
            Its `posterior` has components (component x feature), memberships (sample x component;
            the coordinate `source_of_sample` names the source of a sample), noise (source) and,
            where the fit has them, offsets (source x feature).
        """
        check_is_fitted(self)
        whole_number("n_draws", n_draws, least=1)
        coords = {
            "component": self.get_feature_names_out(),
            "feature": self._named.feature_names,
            "sample": [name for names in self._named.sample_names for name in names],
            "source": self.source_names_,
        }
        data = None if X is None else self._fitted_data(X, sources)
        rng = check_random_state(random_state)
        return draws.to_arviz(self.decomposition_, coords, n_draws, rng, data, n_entries)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, which `bjmd.load` reads; nothing in it is pickled.

        Parameters
        ----------
        path : str or Path
            The file, for example "model.npz".
        """
        check_is_fitted(self)
        params = {
            name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
            for name, value in self.get_params().items()
        }
        if not isinstance(params["random_state"], int):
            params["random_state"] = None
        about = {
            "params": params,
            "named": self._named.to_json(),
            "variance_explained": self.variance_explained_.tolist(),
        }
        storage.save_decompositions(path, self._runs, about)

    def report(
        self, folder: str | Path, X: Any = None, *, sources: Any = None, overwrite: bool = False
    ) -> None:
        """Write the report, the figures and the tables that `bjmd fit` writes.

        Parameters
        ----------
        folder : str or Path
            A new folder.  `bjmd.load` reads the model from it, too.
        X, sources : the data that the model was fitted to, as for `fit`, optional
            Only the table of residuals needs them.
        overwrite : bool, default=False
            Whether an earlier report in the folder may be replaced.
        """
        from bjmd.files import outputs

        check_is_fitted(self)
        data: Any = self._named if X is None else self._fitted_data(X, sources)
        explained = self.variance_explained_
        summary = fitting.summarise(
            data, self._runs, explained=explained, consensus=self._consensus
        )
        outputs.write(
            folder,
            data,
            summary,
            settings=Settings(reading={"join": self.join, "normalize": self.normalize}),
            n_restarts=self.n_init,
            overwrite=overwrite,
        )
        if self._checked is not None:
            outputs.add_check(folder, self._checked.table)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """C1, C2, ..., as the components are called in reports and figures.

        Parameters
        ----------
        input_features : None
            Not used.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array(component_names(len(self.components_)), dtype=object)

    @property
    def elbo_(self) -> float:
        check_is_fitted(self)
        if not self.decomposition_.posterior:
            raise AttributeError("a fit with inference='map' has no ELBO; see objective_")
        return -self.objective_

    def __sklearn_is_fitted__(self) -> bool:
        # the trailing underscore of lambda_ would pass for a fitted attribute
        return hasattr(self, "decomposition_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.inference != "advi"
        return tags

    def _options(self) -> dict[str, Any]:
        """What was set to anything but its default."""
        default = BJMD().get_params()
        names = ("priors", "noise", "offsets", "alpha0", "lambda_", "a0", "b0", "tol")
        given = {name: getattr(self, name) for name in names}
        if self.alpha0 is not None:
            given["alpha0"] = np.asarray(self.alpha0).tolist()
        options = {name: value for name, value in given.items() if value != default[name]}
        if self.max_iter is not None:
            options["max_iterations" if self.inference == "advi" else "max_sweeps"] = self.max_iter
        return options

    def _raw_sources(self, matrices: dict[str, Any]) -> list[RawSource]:
        """The data of a fit by source; sets n_features_in_."""
        raw_sources = []
        for name, x in matrices.items():
            try:
                matrix = self._validated(x, f"source {name!r}", reset=True).T
            except ValueError as error:
                if len(matrices) == 1 or isinstance(error, InputError):
                    raise
                reason = " ".join(str(error).split())[:200]
                raise InputError(f"source {name!r}: {reason}") from None
            features = list(x.columns) if hasattr(self, "feature_names_in_") else None
            raw_sources.append(RawSource(matrix, features, _sample_names(x), name=name))
        return raw_sources

    def _assembled(self, raw_sources: list[RawSource]) -> Sources:
        """The data of a fit; for DataFrames, sets feature_names_in_ and n_features_in_."""
        sources, _ = prepare(raw_sources, join=self.join, normalize=self.normalize)
        if raw_sources[0].feature_names is not None:
            self.feature_names_in_ = np.array(sources.feature_names, dtype=object)
            self.n_features_in_ = sources.n_features
        return sources

    def _fitted_data(self, X: Any, sources: Any) -> Sources:
        """The data of the fit, given again."""
        check_is_fitted(self)
        reader = clone(self)  # because reading data sets attributes
        data = reader._assembled(reader._raw_sources(_by_source(X, sources)))
        shapes = [h.shape[1] for h in self.decomposition_.memberships]
        if data.n_samples != shapes or data.n_features != self.n_features_in_:
            raise InputError(
                "these are not the data that the model was fitted to; give the same as to `fit`"
            )
        return data

    def _for_each_source(
        self,
        function: Callable[..., Any],
        X: Any,
        source: int | str | None,
        sources: Any,
        noise: float | None,
        any_scale: bool,
    ) -> list[tuple[Any, Any]]:
        """Rows of new samples, and function(fit, features x samples, ...) of these, by source."""
        check_is_fitted(self)
        if _is_several(X):
            raise InputError(
                "new samples must be one matrix; call this once per source and name it with "
                "`source`, or give the source of every sample as `sources`"
            )
        if len(self.source_names_) == 1 and source is None and sources is None and noise is None:
            source = 0
        # by name: features that X lacks are missing, those unknown to the fit are ignored
        known = getattr(self, "feature_names_in_", ())
        columns = getattr(X, "columns", None)
        if columns is not None and columns.is_unique and columns.isin(known).any():
            X = X.reindex(columns=known)
        matrix = self._validated(X, "X", reset=False).T
        if self.normalize:
            matrix = normalized(RawSource(matrix, None, name="X")).matrix
        apply = partial(function, self.decomposition_, noise=noise, any_scale=any_scale)
        places = self._places(matrix.shape[1], source, sources)
        return [(rows, apply(matrix[:, rows], source=number)) for rows, number in places]

    def _places(
        self, n_samples: int, source: int | str | None, sources: Any
    ) -> list[tuple[Any, Any]]:
        """Rows of new samples, and the number of the fitted source that they belong to, or None."""
        names = self.source_names_
        if sources is not None:
            number_of = {name: c for c, name in enumerate(names)}
            rows_of = _rows_by_source(sources, n_samples)
            return [(rows, number_of.get(name)) for name, rows in rows_of.items()]
        if source is not None and source not in (*names, *range(len(names))):
            raise InputError(
                f"there is no source {source!r}; give one of {', '.join(map(repr, names))}, or its "
                "number, counted from 0"
            )
        return [(slice(None), names.index(source) if source in names else source)]

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


def load(path: str | Path) -> BJMD:
    """Read a fitted model.

    Parameters
    ----------
    path : str or Path
        A file that `BJMD.save` wrote, or a folder from `BJMD.report`, `bjmd.tl.bjmd` or the command
        `bjmd fit`.

    Returns
    -------
    BJMD
        The fitted estimator.
    """
    if Path(path).is_dir():
        model, results, named, explained = _from_folder(path)
    else:
        results, about = storage.load_with_about(path)
        model = BJMD(**about["params"])
        named = Named.from_json(about["named"])
        explained = np.array(about["variance_explained"])
    model._set(results, named, explained)
    features = named.feature_names
    model.n_features_in_ = len(features)
    if features != [f"feature {i + 1}" for i in range(len(features))]:
        model.feature_names_in_ = np.array(features, dtype=object)
    return model


def _from_folder(path: str | Path) -> tuple[BJMD, list[Decomposition], Named, np.ndarray]:
    """The model, its runs, names and variance explained."""
    from bjmd.files import outputs

    fit = outputs.load(path)
    best = fit.results[0]
    inference = best.method.removesuffix("-bjmd")
    if inference not in INFERENCES or fit.settings.scale != "none":
        raise InputError(
            f"the fit in {path} is by {best.method} of data with scale {fit.settings.scale!r}, "
            "which bjmd.BJMD does not have; use bjmd.files.outputs.load, or `bjmd transform`"
        )
    options = dict(best.options)
    for name in ("max_sweeps", "max_iterations"):
        if name in options:
            options["max_iter"] = options.pop(name)
    reading = fit.settings.reading
    model = BJMD(
        best.n_components,
        inference=inference,
        n_init=fit.n_restarts,
        random_state=min(run.seed or 0 for run in fit.results),
        normalize=bool(reading.get("normalize", False)),
        join=reading.get("join", "outer"),
        **options,
    )
    explained = fit.answers["variance_explained"].drop(columns=["source", "total"]).to_numpy()
    return model, sorted(fit.results, key=lambda run: run.seed or 0), Named.of(fit), explained


def _is_several(X: Any) -> bool:
    """Whether X has one matrix per source."""
    if isinstance(X, list | tuple):
        # a list of lists of numbers is one matrix to scikit-learn
        return not X or any(getattr(x, "ndim", 0) == 2 for x in X)
    return isinstance(X, Mapping) and not hasattr(X, "ndim")  # as a sparse matrix may have


def _by_source(X: Any, sources: Any = None) -> dict[str, Any]:
    """The matrix of every source by its name."""
    if _is_several(X):
        if sources is not None:
            raise InputError("sources goes with one matrix; a list or a dict has one per source")
        if isinstance(X, Mapping):
            return {str(name): x for name, x in X.items()}
        return {f"source {c + 1}": x for c, x in enumerate(X)}
    if sources is None:
        return {"source 1": X}
    if not hasattr(X, "iloc"):
        X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    rows = _rows_by_source(sources, X.shape[0])
    return {name: X.iloc[i] if hasattr(X, "iloc") else X[i] for name, i in rows.items()}


def _rows_by_source(sources: Any, n_samples: int) -> dict[str, np.ndarray]:
    """The rows of the samples of every source, from the source of every sample."""
    labels = pd.Series(np.asarray(sources).ravel())
    if len(labels) != n_samples or labels.isna().any():
        raise InputError(
            f"sources names the source of {labels.notna().sum()} samples, but X has {n_samples}; "
            "give one name for each sample"
        )
    names = labels.astype(str)
    return {name: np.flatnonzero(names == name) for name in names.unique()}


def _in_order(sources: Any, parts: list[tuple[Any, np.ndarray]]) -> np.ndarray:
    """What was computed source by source, in the order of the samples."""
    joined = np.concatenate([part for _, part in parts])
    if sources is not None:
        joined[np.concatenate([rows for rows, _ in parts])] = joined.copy()
    return joined


def _sample_names(x: Any) -> list[str] | None:
    """The row names of a DataFrame, unless they only count."""
    index = getattr(x, "index", None)
    if not isinstance(index, pd.Index) or isinstance(index, pd.RangeIndex) or not index.is_unique:
        return None
    return [str(name) for name in index]


def _seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, Integral):
        return whole_number("random_state", random_state, least=0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _require_numbers(x: Any, name: str) -> None:
    """Refuse a DataFrame with text in it, and say where."""
    others = x.select_dtypes(exclude=["number", "bool"]) if isinstance(x, pd.DataFrame) else {}
    for column, cells in others.items():
        for row, cell in cells.items():
            # None is an object column's way to say missing
            if isinstance(cell, str) or not (cell is None or isinstance(cell, SupportsFloat)):
                raise InputError(
                    f"{name} has {cell!r} in column {column!r}, row {row!r}; it must hold numbers "
                    "only (NaN where one is missing), so correct the cell or drop the column"
                )
