"""Bayesian PCA by variational inference (Bishop 1999) on all sources side by side.

    x_j = mu + W h_j + noise,     noise ~ N(0, 1/tau),     h_j ~ N(0, I),
    w_k ~ N(0, I / alpha_k),     alpha_k, tau ~ Gamma(a0, b0)

mu is the mean of every feature, which is subtracted first.  alpha_k switches off a component that
the data do not need.  q is a product of normal rows of W, all of covariance S, normal columns of H,
all of covariance V, and gammas; every update is a formula, with expectations in angle brackets:

    V = (I + <tau> <W'W>)^-1,                H = <tau> V W'X
    S = (diag <alpha> + <tau> <HH'>)^-1,     W = <tau> X H' S
    alpha_k ~ Gamma(a0 + M/2, b0 + <||w_k||^2> / 2)
    tau ~ Gamma(a0 + MN/2, b0 + <||X - WH||^2> / 2)

The ELBO never falls.  Memberships are signed, and components are those of the data minus mu.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from bjmd.data.sources import Sources
from bjmd.inference import loop
from bjmd.inference.registry import Method
from bjmd.results.decomposition import Decomposition

A0 = B0 = 1e-3
"""The broad prior of the precisions."""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    tol: float = 1e-8,
    max_sweeps: int = 1000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit from the principal components, so that all seeds give the same.

    Stops when the relative change of the ELBO is at most `tol`.
    """
    algorithm = BayesianPCA(sources, n_components)
    return loop.run(algorithm, tol=tol, max_sweeps=max_sweeps, watch=watch, objective="ELBO")


METHOD = Method("bpca", "Bayesian PCA", fit, objective="minus the ELBO", concatenate=True)


@dataclass(frozen=True)
class State:
    """What one sweep hands to the next."""

    h: np.ndarray
    spread: np.ndarray
    """V."""
    alpha: np.ndarray
    tau: float
    w: np.ndarray | None = None


class BayesianPCA:
    """W, alpha, H and tau in turn (loop.Algorithm)."""

    def __init__(self, sources, n_components):
        (x,) = sources.data
        dense = x.columns(slice(None))
        self.x = dense - dense.mean(axis=1, keepdims=True)
        self.squared_norm = np.vdot(self.x, self.x)
        self.n_components = n_components

    def start(self):
        from sklearn.utils.extmath import svd_flip

        k = self.n_components
        left, _, right = np.linalg.svd(self.x, full_matrices=False)
        h = np.sqrt(self.x.shape[1]) * svd_flip(left, right)[1][:k]
        tau = self.x.size / max(self.squared_norm, np.finfo(float).tiny)
        return State(h, np.zeros((k, k)), np.zeros(k), tau)

    def sweep(self, state):
        n_features, n_samples = self.x.shape
        squares = state.h @ state.h.T + n_samples * state.spread
        spread_of_rows = np.linalg.inv(np.diag(state.alpha) + state.tau * squares)
        w = state.tau * self.x @ state.h.T @ spread_of_rows
        gram = w.T @ w + n_features * spread_of_rows
        alpha = Gamma(A0 + n_features / 2, B0 + np.diag(gram) / 2)

        spread = np.linalg.inv(np.eye(len(gram)) + state.tau * gram)
        projection = w.T @ self.x
        h = state.tau * spread @ projection
        squares = h @ h.T + n_samples * spread
        error = self.squared_norm - 2 * np.vdot(projection, h) + np.vdot(gram, squares)
        tau = Gamma(A0 + self.x.size / 2, B0 + error / 2)

        elbo = self.x.size / 2 * (tau.log_mean - np.log(2 * np.pi)) - tau.mean * error / 2
        elbo += n_samples * _normal_terms(spread) - np.trace(squares) / 2
        elbo += n_features * _normal_terms(spread_of_rows)
        elbo += (n_features * alpha.log_mean - alpha.mean * np.diag(gram)).sum() / 2
        elbo += alpha.terms().sum() + tau.terms()
        return State(h, spread, alpha.mean, tau.mean, w), -elbo

    def memberships(self, state):
        return [state.h]

    def finish(self, state):
        return loop.Estimates(state.w, [state.h], np.array([state.tau**-0.5]))


def _normal_terms(covariance):
    """The entropy of a normal plus the constant of its normal prior."""
    return (np.linalg.slogdet(covariance)[1] + len(covariance)) / 2


@dataclass(frozen=True)
class Gamma:
    """q of one or several precisions."""

    shape: float
    rate: np.ndarray

    @property
    def mean(self):
        return self.shape / self.rate

    @property
    def log_mean(self):
        return psi(self.shape) - np.log(self.rate)

    def terms(self):
        """<ln p - ln q> with the prior Gamma(A0, B0)."""
        prior = (A0 - 1) * self.log_mean - B0 * self.mean + A0 * np.log(B0) - gammaln(A0)
        entropy = self.shape - np.log(self.rate) + gammaln(self.shape)
        return prior + entropy + (1 - self.shape) * psi(self.shape)
