"""How much wider the marginals of the posterior are than the factors of the closed form
(docs/derivation.md, 4.11).

Independent factors leave out that an error in W can be made up for by one in H.  Linear response
puts that back: the covariance of all unknowns is the inverse of minus the Hessian of the ELBO,
whose blocks are

    A_i = S_i^-1 - diag(rho_i mu_i^2 / E[w_i^2]),     Sigma_j^-1,     B_ij = t_ij (m_j mu_i' - r_ij I)

for a row of W, a column of H, and the two together.  t_ij is the precision of an entry, a_i b_j on
average, and r_ij its residual.  The first part of B has rank K^2; the second is noise, of which
only t_ij r_ij^2 = kappa_c counts.  So

    S~_i = (A_i - sum_j kappa t_ij Sigma_j)^-1,      Sigma~_j = Sigma_j + Sigma_j (sum_i kappa t_ij S~_i) Sigma_j
    Q = sum_i a_i^2 S~_i x mu_i mu_i',   C = sum_j b_j^2 m_j m_j' x Sigma~_j,   both K^2 x K^2
    Cov[w_i] = S~_i + a_i^2 S~_i <mu_i mu_i', (C^-1 - Q)^-1> S~_i,    Cov[h_j] likewise with C and Q exchanged.

The noise loses the degrees of freedom that W and H take up, d_c = t_c (E||X - WH||^2 - ||X -
E[W]E[H]||^2). Offsets, weights and what is learned are held as they are.  Of the data, only unit,
origin and gaps are needed.
"""

import logging
from contextlib import suppress
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from bjmd.data.sources import Sources, missing_entries
from bjmd.data.view import centre
from bjmd.numerics import moments, threads
from bjmd.numerics.lanes import gamma_functions
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import Posterior

LARGEST = (
    0.9  #: the most of its precision that a direction can lose: no variance grows more than tenfold
)
FLATTEST = (
    1e-3  #: the least curvature of a column in ln g, as one that has not settled could have none
)
MOST_COMPONENTS = 25  #: beyond which it would take longer than the fits themselves
BLOCK = 2**20  #: numbers in the largest temporary array over columns


def widened(sources: Sources, result: Decomposition) -> Decomposition:
    """A fit by the closed form with intervals, sds and draws by linear response; any other result
    as it is.
    """
    if result.method != "cavi-bjmd" or result.posterior is None:
        return result
    if result.n_components <= MOST_COMPONENTS:
        with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"), threadpool_limits(1):
            wider = replace(result, posterior=_widened(sources, result, result.posterior))
            if wider.is_finite():
                return wider
    reason = f"there are more than {MOST_COMPONENTS}, or numbers are out of range"
    logging.getLogger(__name__).warning(
        "intervals take components and memberships for independent: %s", reason
    )
    return result


def _widened(sources, result, posterior):
    size = result.n_components
    rows = posterior.components
    phi = result.model.feature_precision
    phi = np.ones(len(rows.mean)) if phi is None else phi
    unit = 1.0
    origin = np.zeros(len(rows.mean))
    if result.options.get("priors", "data") == "data":
        unit, origin = centre(sources, robust="robust" in result.options.get("noise", ""))
    covariance = rows.covariance() / unit**2
    mu = (rows.mean - origin[:, None]) / unit
    root = np.linalg.cholesky(covariance)
    of_rows = (
        phi[:, None, None] * covariance,
        phi[:, None, None] * (mu[:, :, None] * mu[:, None] + covariance),
    )
    each = enumerate(zip(sources.matrices, sources.n_missing, strict=True))
    sources = [Columns(x, n_missing > 0, result, c, unit, *of_rows) for c, (x, n_missing) in each]
    own = np.diagonal(covariance, axis1=1, axis2=2)
    pull = (unit**2 * rows.ridge * mu**2 / (mu**2 + own))[:, :, None] * np.eye(size)
    wider = response(
        root, pull + sum((phi * s.seen_of_rows)[:, None, None] * s.pull for s in sources)
    )
    covariance = wider @ np.swapaxes(wider, 1, 2)
    seen = sum(s.seen_of_rows * len(s.t) for s in sources) / sum(len(s.t) for s in sources)
    around = np.tensordot(phi, covariance, 1), seen.mean()
    square = np.einsum("i,il,iq->ilq", (phi * seen) ** 2, mu, mu)
    q = np.einsum(
        "ikp,ilq->klpq", covariance, square, optimize=True
    )  # k, p are of W, and l, q of H
    c = sum(sum(s.each(s.coupling, *around)) for s in sources)
    of_rows, of_columns = _shared(*(np.reshape(matrix, (size**2, size**2)) for matrix in (c, q)))
    shared = np.einsum("klpq,ilq->ikp", of_rows.reshape(q.shape), square, optimize=True)
    variance = (wider**2).sum(axis=2) + ((covariance @ shared) * covariance).sum(axis=2)
    columns = [
        s.widening(s.each(s.variance, *around, of_columns.reshape(q.shape))) for s in sources
    ]
    noise = posterior.noise
    taken = 0.5 * np.array([s.freedom for s in sources])
    return Posterior(
        replace(rows, widening=np.sqrt(np.maximum(variance / own, 1.0))),
        [replace(f, widening=w) for f, w in zip(posterior.memberships, columns, strict=True)],
        replace(noise, widening=1 / np.sqrt(np.maximum(1 - taken / noise.shape, 1 - LARGEST))),
    )


class Columns:
    """The columns of one source, some at a time: from `first` to `last`."""

    gaps: np.ndarray | None = None

    def __init__(self, x, has_gaps, result, c, unit, covariances, moments_of_rows):
        n_features, n_columns = x.shape
        self.g = result.posterior.memberships[c].parameters
        self.alpha = result.model.alpha0[c]
        nu = result.model.degrees_of_freedom
        scale = (
            1.0 if nu is None else 1 + 1 / nu[c]
        )  # of the noise, which is that of Student's t, in squares
        self.t = (
            scale
            * (unit / np.asarray(result.noise)[c]) ** 2
            * predictive.sample_precision(result, c)
        )
        self.gram = moments_of_rows.sum(axis=0)
        self.seen_of_rows = np.ones(n_features)
        self.seen = np.ones(n_columns)
        if has_gaps:
            gaps = missing_entries(x)
            self.seen_of_rows = 1 - gaps.mean(axis=1)
            self.seen = 1 - gaps.mean(axis=0)
            k, p = np.tril_indices(len(self.g))
            self.gaps = moments.sums_over(
                moments.Places.of(gaps.T), np.ascontiguousarray(moments_of_rows[:, k, p])
            )
        parts = self.each(self.taken, covariances.sum(axis=0))
        self.freedom = sum(freedom for freedom, _ in parts)
        self.kappa = max(0.0, 1 - self.freedom / (n_features * self.seen.sum()))
        self.pull = self.kappa * sum(pull for _, pull in parts)

    def each(self, function, *more):
        size, n_columns = self.g.shape
        starts = range(0, n_columns, max(1, BLOCK // size**2))
        ranges = [(first, min(first + starts.step, n_columns)) for first in starts]
        return threads.each(lambda first, last: function(first, last, *more), ranges)

    def taken(self, first, last, spread):
        """Sums of t_j times the variance of the fit, which is what d_c is made of, and of t_j
        Sigma_j.
        """
        g = self.g[:, first:last].T
        t = self.t[first:last]
        gram = self._gram(first, last)
        s = g.sum(axis=1)
        m = g / s[:, None]
        inside = (
            m * (np.diagonal(gram, axis1=-2, axis2=-1) - (gram @ m[:, :, None])[:, :, 0])
        ).sum(axis=1) / (s + 1)
        outside = self.seen[first:last] * (m * (m @ spread)).sum(axis=1)
        return t @ (inside + outside), np.tensordot(t, self.covariance(first, last), 1)

    def covariance(self, first, last):
        """Sigma_j = (diag m - mm') (-f'')^-1 (diag m - mm'), with f'' in ln g (derivation 4.4),
        which needs no data.
        """
        g = self.g[:, first:last].T
        t = self.t[first:last, None]
        size = len(self.g)
        total = self.alpha.sum()
        if size == 1:
            return np.zeros((len(g), 1, 1))
        s = g.sum(axis=1, keepdims=True)
        gram = self._gram(first, last)
        functions = np.empty((4, size + 1, len(g)))
        gamma_functions(np.ascontiguousarray(np.hstack([g, s]).T), functions)
        (one, one_s), (two, two_s) = ((f[:size].T, f[size][:, None]) for f in functions[2:])
        product = (gram @ g[:, :, None])[:, :, 0]
        diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
        # t L' as f' = 0; 2Gg + d
        slope = one_s * (total - s) - one * (self.alpha - g)
        linear = 2 * product + diagonal
        r = slope / s - t * linear / (2 * s * (s + 1) ** 2)
        quadratic = (g * (product + diagonal)).sum(axis=1, keepdims=True)
        inner = (g * (slope + t * linear / (2 * s * (s + 1)))).sum(axis=1, keepdims=True)  # t u / s
        kappa = (
            t * quadratic * (s**-3 - (s + 1) ** -3) - 2 * inner / s**2 - one_s - (s - total) * two_s
        )
        curvature = (t / (s * (s + 1)))[:, :, None] * gram + (one + (g - self.alpha) * two)[
            :, :, None
        ] * np.eye(size)
        curvature = curvature + r[:, :, None] + r[:, None] + kappa[:, :, None]
        values, vectors = np.linalg.eigh(g[:, :, None] * curvature * g[:, None])
        m = (g / s)[:, :, None]
        root = (
            m
            * (vectors - np.swapaxes(m, 1, 2) @ vectors)
            / np.sqrt(np.maximum(values, FLATTEST))[:, None]
        )
        return root @ np.swapaxes(root, 1, 2)

    def responding(self, first, last, spread, share):
        """Sigma~_j and b_j^2 m_j m_j'."""
        covariance = self.covariance(first, last)
        m = (self.g[:, first:last] / self.g[:, first:last].sum(axis=0)).T
        t = self.t[first:last] * self.seen[first:last]
        covariance = covariance + (self.kappa * t)[:, None, None] * (
            covariance @ spread @ covariance
        )
        return covariance, np.einsum("j,jk,jp->jkp", (t / share) ** 2, m, m)

    def coupling(self, *at):
        covariance, square = self.responding(*at)
        return np.einsum("jlq,jkp->klpq", covariance, square, optimize=True)

    def variance(self, first, last, spread, share, gamma):
        """The trace of Cov[h_j]."""
        covariance, square = self.responding(first, last, spread, share)
        shared = np.einsum("klpq,jkp->jlq", gamma, square, optimize=True)
        return np.trace(covariance, axis1=1, axis2=2) + ((covariance @ shared) * covariance).sum(
            axis=(1, 2)
        )

    def widening(self, variances):
        """The sd of every column over that of its Dirichlet; no column gets wider than its prior."""
        s = self.g.sum(axis=0)
        own = np.maximum((self.g / s * (1 - self.g / s)).sum(axis=0), 1e-300) / (s + 1)
        most = np.maximum(1.0, (s + 1) / (self.alpha.sum() + 1))
        return np.sqrt(np.clip(np.concatenate(variances) / own, 1.0, most))[None]

    def _gram(self, first, last):
        """G_j of every column, or one for all."""
        return (
            self.gram
            if self.gaps is None
            else self.gram - moments.unpack(self.gaps[first:last], len(self.g))
        )


def response(root, pull):
    """A root of (covariance^-1 - pull)^-1, given one of the covariance; one matrix, or many."""
    values, vectors = np.linalg.eigh(np.swapaxes(root, -2, -1) @ pull @ root)
    return root @ vectors / np.sqrt(1 - np.minimum(values, LARGEST))[..., None, :]


def _shared(c, q):
    """(C^-1 - Q)^-1, where C may be singular, and (Q^-1 - C)^-1 = Q + Q (C^-1 - Q)^-1 Q."""
    values, vectors = np.linalg.eigh(c)
    root = response(vectors * np.sqrt(np.maximum(values, 0.0)), q)
    return root @ root.T, q + q @ root @ (q @ root).T
