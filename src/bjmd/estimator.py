"""BJMD in scikit-learn's manner: samples in rows, fit, transform, and attributes that end with an underscore.

    model = BJMD(n_components=5).fit([X1, X2, X3])
    model.components_, model.memberships_, model.noise_
    model.transform(new, source=0)

It says nothing new: fits are those of restarts.py, bit for bit, and new samples are placed by projection.py.
"""

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import NamedTuple

import numpy as np
import scipy.sparse
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bjmd.checks import one_of, whole_number
from bjmd.data.alignment import align
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.fits import projection, restarts

MOST_ITERATIONS = {"cavi": "max_sweeps", "map": "max_sweeps", "advi": "max_iterations"}
"""The inferences, and what each calls max_iter."""


class PosteriorDraws(NamedTuple):
    """Draws from the posterior; the first axis of every array runs over draws."""

    components: np.ndarray
    """draws x components x features."""
    memberships: list[np.ndarray]
    """By source, draws x samples x components."""
    noise: np.ndarray
    """Standard deviations, draws x sources."""


class _FitTransform:
    """Apart from BJMD: scikit-learn's set_output wraps what that class itself defines, and would trip over a list."""

    def fit_transform(self, X, y=None):
        """Fit, and give back the memberships, samples x components: a list by source where X has several."""
        self.fit(X)
        _, matrices = _listed(X)
        if matrices is None:
            return self.transform(X)
        return [self.transform(x, source=c) for c, x in enumerate(matrices)]


class BJMD(_FitTransform, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Bayesian joint matrix decomposition of one or several sources over the same features.

    Every source is X = H W + noise, with one W (components x features) for all, memberships H whose rows are
    non-negative and sum to 1, and a noise level of its own.  The default priors are made for entries of about unit
    size: far larger ones are shrunk away, so scale the data or set lambda_.

    Parameters
    ----------
    n_components : number of components.
    inference : "cavi" (variational, closed form), "map" (posterior mode) or "advi" (the paper's, needs PyMC).
    n_init : random starts, of which the one with the best objective is kept.
    alpha0, lambda_, a0, b0 : the priors; Dirichlet of the memberships (a number, or one for each component), Laplace
        scale of W, inverse gamma of the noise variances.
    tol, max_iter : when to stop; None takes the defaults of the inference.
    join : "outer" or "inner", for DataFrames with different columns: take every feature, those that a source lacks
        being missing in it, or only the features that all have.
    n_jobs : starts that run at the same time; -1 for all processors.  The result does not depend on it.
    random_state : seed of the first start, the others follow; or None or a RandomState, from which a seed is drawn.

    Attributes
    ----------
    components_ : W, components x features.
    memberships_ : a list by source of H, samples x components.
    noise_ : standard deviation of the noise of every source.
    objective_, elbo_ : what the fit minimises; its ELBO, unless by MAP.
    n_iter_, converged_ : of the start that was kept.
    restarts_ : the objectives of all starts.
    decomposition_ : the Decomposition of the start that was kept, with its posterior.
    source_names_, n_features_in_, feature_names_in_ : what was fitted; the last for DataFrames only.
    """

    def __init__(
        self,
        n_components=5,
        *,
        inference="cavi",
        n_init=20,
        alpha0=1.1,
        lambda_=1.0,
        a0=0.01,
        b0=0.01,
        tol=None,
        max_iter=None,
        join="outer",
        n_jobs=None,
        random_state=0,
    ):
        self.n_components = n_components
        self.inference = inference
        self.n_init = n_init
        self.alpha0 = alpha0
        self.lambda_ = lambda_
        self.a0 = a0
        self.b0 = b0
        self.tol = tol
        self.max_iter = max_iter
        self.join = join
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X, y=None):
        """Fit a matrix, a list of matrices, or a dictionary of them by source name; each samples x features.

        A matrix is an array, a DataFrame or scipy-sparse; NaN in the first two is a missing entry.  Features of
        DataFrames are matched by name.  y is not used.
        """
        one_of("inference", self.inference, MOST_ITERATIONS)
        one_of("join", self.join, ("outer", "inner"))
        whole_number("n_init", self.n_init, least=1)
        sources = self._sources(X)
        options = {"alpha0": np.asarray(self.alpha0).tolist(), "lambda_": self.lambda_, "a0": self.a0, "b0": self.b0}
        limits = {"tol": self.tol, MOST_ITERATIONS[self.inference]: self.max_iter}
        options |= {name: value for name, value in limits.items() if value is not None}
        results = restarts.run(
            f"{self.inference}-bjmd",
            sources,
            self.n_components,
            n_restarts=self.n_init,
            seed=_seed(self.random_state),
            jobs=effective_n_jobs(self.n_jobs),
            **options,
        )
        (best,) = restarts.best(results, 1)
        if not best.converged:
            warnings.warn(
                f"the best of {self.n_init} starts has not converged ({best.reason}); raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.decomposition_ = best
        self.components_ = np.ascontiguousarray(best.components.T)
        self.memberships_ = [np.ascontiguousarray(h.T) for h in best.memberships]
        self.noise_ = np.asarray(best.noise)
        self.objective_ = best.objective
        self.n_iter_ = best.n_iterations
        self.converged_ = best.converged
        self.restarts_ = np.array([result.objective for result in results])
        self.source_names_ = sources.names
        return self

    def transform(self, X, *, source=None, noise=None):
        """Memberships of new samples, samples x components.

        Their noise is that of a training source (its name or number), or is given as a standard deviation; it is
        estimated from X where neither is said, unless there was but one source.
        """
        check_is_fitted(self)
        x, noise = self._new_samples(X, source, noise)
        return np.ascontiguousarray(projection.project(self.decomposition_, x, noise=noise).memberships.T)

    def score(self, X, y=None, *, source=None, noise=None):
        """Average log-likelihood of new samples: the mean over samples of a lower bound on ln p(x).

        p(x) is the density of the observed entries of a sample, its memberships integrated out over their prior, W as
        fitted, at the noise that `transform` would use.  The bound is the ELBO of the sample (projection.log_evidence);
        missing entries are left out.
        """
        check_is_fitted(self)
        x, noise = self._new_samples(X, source, noise)
        return float(projection.log_evidence(self.decomposition_, x, noise=noise).mean())

    def impute(self, X, *, source=None, noise=None, return_std=False):
        """X with its missing entries replaced by their posterior means, samples x features.

        With return_std=True also the standard deviation of every entry: of a new measurement where one is missing,
        0 where there is one.
        """
        check_is_fitted(self)
        if return_std and not self.decomposition_.posterior:
            raise InputError("a fit with inference='map' knows no standard deviations; use inference='cavi'")
        x, noise = self._new_samples(X, source, noise)
        mean, sd = projection.impute(self.decomposition_, x, noise=noise)
        return (mean.T, sd.T) if return_std else mean.T

    def sample_posterior(self, n_draws=1, *, random_state=0):
        """Independent draws of components, memberships and noise from the posterior."""
        check_is_fitted(self)
        whole_number("n_draws", n_draws, least=1)
        if self.inference != "cavi":
            raise InputError("only a fit with inference='cavi' has a posterior to draw from; use it")
        posterior, rng = self.decomposition_.posterior, check_random_state(random_state)
        return PosteriorDraws(
            components=np.swapaxes(posterior.components.sample(n_draws, rng), 1, 2),
            memberships=[np.swapaxes(factor.sample(n_draws, rng), 1, 2) for factor in posterior.memberships],
            noise=posterior.noise.sample(n_draws, rng),
        )

    @property
    def elbo_(self):
        check_is_fitted(self)
        if not self.decomposition_.posterior:
            raise AttributeError("a fit with inference='map' has no ELBO; see objective_")
        return -self.objective_

    @property
    def _n_features_out(self):
        return len(self.components_)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "decomposition_")  # the trailing underscore of lambda_ would pass for a fitted attribute

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.inference != "advi"
        return tags

    def _sources(self, X):
        """The data of a fit, features x samples; sets n_features_in_ and, for DataFrames, feature_names_in_."""
        names, matrices = _listed(X)
        if matrices is None:
            matrices = [X]
        names = names or [f"source {c + 1}" for c in range(len(matrices))]
        checked, features = [], []
        for name, x in zip(names, matrices, strict=True):
            try:
                checked.append(self._validated(x, f"source {name!r}", reset=True).T)
            except ValueError as error:
                if len(matrices) == 1 or isinstance(error, InputError):
                    raise
                first_line = str(error).splitlines()[0].rstrip(":")
                raise InputError(f"source {name!r}: {first_line}") from None
            features.append(list(x.columns) if hasattr(self, "feature_names_in_") else None)
        self._source_features = features
        named = [f is not None for f in features]
        if not any(named):
            _require_same_features(checked, names)
            return Sources(checked, names=names)
        if not all(named):
            raise InputError(
                f"source {names[named.index(False)]!r} has no feature names but {names[named.index(True)]!r} has; "
                "give all sources as DataFrames with named columns, or none"
            )
        checked, alignment = align(checked, features, names, join=self.join)
        self.feature_names_in_ = np.array(alignment.feature_names, dtype=object)
        self.n_features_in_ = len(alignment.feature_names)
        return Sources(checked, names=names, feature_names=alignment.feature_names)

    def _new_samples(self, X, source, noise):
        """New data, features x samples, and their noise sd or None."""
        if _listed(X)[1] is not None:
            raise InputError("new samples come as one matrix; call this once for every source, with its `source`")
        if source is not None and noise is not None:
            raise InputError(f"source is {source!r} and noise is {noise!r}; give one of them")
        if source is None and noise is None and len(self.source_names_) == 1:
            source = 0
        if source is not None:
            c = self._source_number(source)
            noise = self.noise_[c]
            # features that the source lacked, or that were left out, are treated as they were in the fit
            if self._source_features[c] is not None and list(getattr(X, "columns", [])) == self._source_features[c]:
                X = X.reindex(columns=self.feature_names_in_)
        return self._validated(X, "X", reset=False).T, noise

    def _source_number(self, source):
        if isinstance(source, Integral) and 0 <= source < len(self.source_names_):
            return int(source)
        if source in self.source_names_:
            return self.source_names_.index(source)
        names = ", ".join(map(repr, self.source_names_))
        raise InputError(f"there is no source {source!r}; give one of {names}, or its number counted from 0")

    def _validated(self, x, name, reset):
        """A float64 samples x features matrix, checked as scikit-learn does; entries are checked by Sources."""
        _require_numbers(x, name)
        return validate_data(
            self, x, reset=reset, accept_sparse=("csr", "csc"), dtype=np.float64, ensure_all_finite=False
        )


def _listed(X):
    """The names (if any) and matrices of several sources, or None and None for a single matrix."""
    if scipy.sparse.issparse(X):  # even the format that is a dictionary
        return None, None
    if isinstance(X, Mapping | list | tuple) and not X:
        raise InputError("no source was given; give at least one samples x features matrix")
    if isinstance(X, Mapping):
        return [str(name) for name in X], list(X.values())
    # a list of lists of numbers is one matrix to scikit-learn
    if isinstance(X, list | tuple) and any(scipy.sparse.issparse(x) or getattr(x, "ndim", 0) == 2 for x in X):
        return None, list(X)
    return None, None


def _seed(random_state):
    if isinstance(random_state, Integral):
        return whole_number("random_state", random_state, least=0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _require_numbers(x, name):
    """Refuse a DataFrame with a column twice or with text in it, and say where."""
    if not hasattr(x, "iloc") or not hasattr(x, "columns"):
        return
    if not x.columns.is_unique:
        double = x.columns[x.columns.duplicated()][0]
        raise InputError(f"{name} has column {double!r} more than once; rename or merge its columns")
    for k, (column, dtype) in enumerate(zip(x.columns, x.dtypes, strict=True)):
        if getattr(dtype, "kind", "O") in "biuf":
            continue
        for row, cell in zip(x.index, x.iloc[:, k], strict=True):
            if not _is_number(cell):
                raise InputError(
                    f"{name} has {cell!r} in column {column!r}, row {row!r}; it must hold numbers only "
                    "(NaN where one is missing), so correct the cell or drop the column"
                )


def _is_number(cell):
    if cell is None:  # an object column's way to say missing
        return True
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return not isinstance(cell, str)


def _require_same_features(matrices, names):
    """Refuse features x samples matrices without names that do not have the same number of features."""
    n_features, n_samples = ({x.shape[axis] for x in matrices} for axis in (0, 1))
    if len(n_features) == 1:
        return
    counts = ", ".join(f"{name!r} has {x.shape[0]}" for name, x in zip(names, matrices, strict=True))
    if len(n_samples) == 1:
        raise InputError(
            f"the sources have the same number of rows but not of columns ({counts}); rows are samples and columns are "
            "features here, so if rows are your features, transpose them: X.T"
        )
    raise InputError(
        f"the sources have different numbers of features ({counts}), which cannot be matched without names; "
        "give DataFrames with named columns, or bring them to common features"
    )
