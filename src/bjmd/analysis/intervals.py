"""How much wider the marginals of the posterior are than the factors of the closed form.

Independent factors leave out that an error in W can be made up for by one in H.  Linear response
puts that back (docs/derivation.md, 4.11): the covariance of all unknowns is the inverse of minus
the Hessian of the ELBO, whose blocks are

    Lambda_i = S_i^-1 - diag(rho_i mu_i^2 / E[w_i^2]),   Sigma_j^-1,
    Lambda_ij = p_ij (m_j mu_i' - delta_ij I)

for a row of W, a column of H, and the two together.  p_ij is the precision of an entry, phi~_i u~_j
on average, and delta_ij its residual.  The first part of Lambda_ij has rank K^2; the second is
noise, of which only p_ij delta_ij^2 = kappa_c counts.  So

    S~_i = (Lambda_i - sum_j kappa p_ij Sigma_j)^-1
    Sigma~_j = Sigma_j + Sigma_j (sum_i kappa p_ij S~_i) Sigma_j
    V_W = sum_i phi~_i^2 S~_i x mu_i mu_i',   V_H = sum_j u~_j^2 m_j m_j' x Sigma~_j,   K^2 x K^2
    Cov[w_i] = S~_i + phi~_i^2 S~_i <mu_i mu_i', (V_H^-1 - V_W)^-1> S~_i

and Cov[h_j] is the last line with V_W and V_H exchanged.  The noise loses the degrees of freedom
that W and H take up, df_c = t_c (E||X - WH||^2 - ||X - E[W]E[H]||^2).  Offsets, weights and learned
priors are held fixed.  Of the data, only unit, origin and gaps are needed.
"""

import logging
from contextlib import suppress
from dataclasses import replace

import numpy as np

from bjmd.data.matrix import cut
from bjmd.data.sources import Sources
from bjmd.data.view import centre
from bjmd.numerics import dirichlet, moments, threads
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition
from bjmd.results.posterior import Posterior

#: the most of its precision that a direction can lose: no variance grows more than tenfold
LARGEST = 0.9
#: the most components; matrices of K^2 x K^2 take too long beyond
MOST_COMPONENTS = 40
#: numbers in the largest temporary array over columns or rows
BLOCK = 2**18
#: columns of a source over which sums are taken; if it has more, an even share of them
MOST_SUMMED = 2**14


def widened(sources: Sources, result: Decomposition) -> Decomposition:
    """A fit by the closed form with wider sds, intervals and draws; any other result as it is."""
    if result.method != "cavi-bjmd" or result.posterior is None:
        return result
    if result.n_components <= MOST_COMPONENTS:
        with (
            suppress(np.linalg.LinAlgError),
            np.errstate(all="ignore"),
            threads.blas_on_one_thread(),
        ):
            wider = replace(result, posterior=_widened(sources, result, result.posterior))
            if wider.is_finite():
                return wider
    logging.getLogger(__name__).warning(
        "intervals treat components and memberships as independent: there are more than %d "
        "components, or numbers are out of range",
        MOST_COMPONENTS,
    )
    return result


def _widened(sources, result, posterior):
    rows = posterior.components
    n_features, size = rows.mean.shape
    phi = result.model.feature_precision
    phi = np.ones(n_features) if phi is None else phi
    unit = 1.0
    origin = np.zeros(n_features)
    if result.options.get("priors", "data") == "data":
        unit, origin = centre(sources, robust="robust" in result.options.get("noise", ""))
    mu = (rows.mean - origin[:, None]) / unit
    covariance = rows.covariance() / unit**2
    weighted = phi[:, None, None] * covariance
    second = phi[:, None, None] * (mu[:, :, None] * mu[:, None] + covariance)
    columns = [Columns(x, result, c, unit, weighted, second) for c, x in enumerate(sources.data)]
    n_samples = [len(source.t) for source in columns]
    observed = np.average([s.observed_of_rows for s in columns], axis=0, weights=n_samples)

    factor_variance = np.diagonal(covariance, axis1=1, axis2=2)
    one = np.eye(size)
    pull = (unit**2 * rows.ridge * mu**2 / (mu**2 + factor_variance))[:, :, None] * one
    pull += sum((phi * s.observed_of_rows)[:, None, None] * s.pull for s in columns)
    responding = np.concatenate(
        threads.each(
            lambda first, last: response(
                np.linalg.cholesky(covariance[first:last]), pull[first:last]
            ),
            _blocks(n_features, one.size),
        )
    )
    square = (phi * observed)[:, None] ** 2 * _packed_outer(mu)
    v_w = _block_matrix(square.T @ moments.pack(responding), size).transpose(1, 0, 3, 2)

    spread = np.tensordot(phi, responding, 1)
    share = observed.mean()
    v_h = _block_matrix(sum(source.coupling(spread, share) for source in columns), size)
    flat = (v.reshape(size**2, size**2) for v in (v_h, v_w))
    of_rows, of_columns = (part.reshape((size,) * 4) for part in _shared(*flat))
    # of_rows[k, l, p, q]: k and p belong to W, l and q to H
    shared = moments.unpack(square @ _folded(of_rows.transpose(1, 0, 3, 2)), size)
    variance = np.diagonal(responding, axis1=1, axis2=2)
    variance = variance + ((responding @ shared) * responding).sum(axis=2)
    freedom = np.array([source.freedom for source in columns])
    remaining = np.maximum(1 - 0.5 * freedom / posterior.noise.shape, 1 - LARGEST)
    gamma = _folded(of_columns)
    return Posterior(
        replace(rows, widening=np.sqrt(np.maximum(variance / factor_variance, 1.0))),
        [
            replace(factor, widening=source.widening(spread, share, gamma))
            for factor, source in zip(posterior.memberships, columns, strict=True)
        ],
        replace(posterior.noise, widening=1 / np.sqrt(remaining)),
    )


class Columns:
    """The columns of H of one source, and what the response needs to know of them."""

    def __init__(self, x, result, c, unit, covariances, second_moments):
        n_features, n_columns = x.shape
        self.g = result.posterior.memberships[c].parameters
        self.alpha = np.ascontiguousarray(result.model.alpha0[c])
        nu = result.model.degrees_of_freedom
        student_t = 1.0 if nu is None else 1 + 1 / nu[c]
        self.t = (
            student_t
            * (unit / np.asarray(result.noise)[c]) ** 2
            * predictive.sample_precision(result, c)
        )
        self.gram = second_moments.sum(axis=0)
        self.gaps = np.empty((0, n_columns))
        self.observed_of_rows = np.ones(n_features)
        self.observed = np.ones(n_columns)
        if x.missing is not None:
            self.observed_of_rows = x.counts_of_rows / n_columns
            self.observed = x.counts_of_columns / n_features
            packed = np.ascontiguousarray(moments.pack(second_moments))
            self.gaps = moments.sums_over(moments.Places.of(x.missing.T), packed).T
        self.step = -(-n_columns // MOST_SUMMED)
        self.times = n_columns / len(range(0, n_columns, self.step))
        self._kept: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        parts = self._each(self._freedom, covariances.sum(axis=0), step=self.step)
        self.freedom = self.times * sum(freedom for freedom, _ in parts)
        self.kappa = max(0.0, 1 - self.freedom / (n_features * self.observed.sum()))
        self.pull = self.kappa * self.times * sum(covariance for _, covariance in parts)

    def covariance(self, columns):
        """Sigma_j = (diag m - mm') (-f'')^-1 (diag m - mm'), and <G_j, Cov[h_j]>."""
        if (columns.start, columns.step) in self._kept:
            return self._kept[columns.start, columns.step]
        g = self.g[:, columns]
        curvature, explained = dirichlet.curvatures(
            g, self.t[columns], self.alpha, self.gram, self.gaps[:, columns]
        )
        both = dirichlet.covariances(curvature, (g / g.sum(axis=0)).T), explained
        if columns.step == self.step:  # for the next sums
            self._kept[columns.start, columns.step] = both
        return both

    def coupling(self, spread, share):
        """The sum of u~_j^2 m_j m_j' x Sigma~_j, packed x packed."""
        return self.times * sum(self._each(self._coupling, spread, share, step=self.step))

    def widening(self, spread, share, gamma):
        """The sd of every column over that of its Dirichlet; none gets wider than its prior."""
        variance = np.concatenate(self._each(self._variance, spread, share, gamma))
        s = self.g.sum(axis=0)
        m = self.g / s
        dirichlet_variance = np.maximum((m * (1 - m)).sum(axis=0), 1e-300) / (s + 1)
        most = np.maximum(1.0, (s + 1) / (self.alpha.sum() + 1))
        return np.sqrt(np.clip(variance / dirichlet_variance, 1.0, most))[None]

    def _each(self, function, *arguments, step=1):
        """The function of every block of columns, of which only every step-th counts."""
        blocks = _blocks(-(-self.g.shape[1] // step), self.gram.size)
        return threads.each(
            lambda first, last: function(slice(first * step, last * step, step), *arguments), blocks
        )

    def _freedom(self, columns, spread):
        """Sums of t_j times the variance of the fit, which make up df_c, and of t_j Sigma_j."""
        covariance, explained = self.covariance(columns)
        g = self.g[:, columns]
        m = g / g.sum(axis=0)
        of_rows = self.observed[columns] * (m * (spread @ m)).sum(axis=0)
        return self.t[columns] @ (explained + of_rows), np.tensordot(self.t[columns], covariance, 1)

    def _responding(self, columns, spread, share):
        """Sigma~_j, and u~_j^2 m_j m_j' packed."""
        covariance, _ = self.covariance(columns)
        t = self.t[columns] * self.observed[columns]
        increase = (self.kappa * t)[:, None, None] * (covariance @ spread @ covariance)
        g = self.g[:, columns]
        square = (t / share)[:, None] ** 2 * _packed_outer((g / g.sum(axis=0)).T)
        return covariance + increase, square

    def _coupling(self, *arguments):
        covariance, square = self._responding(*arguments)
        return square.T @ moments.pack(covariance)

    def _variance(self, columns, spread, share, gamma):
        """The trace of Cov[h_j]."""
        covariance, square = self._responding(columns, spread, share)
        shared = moments.unpack(square @ gamma, len(self.g))
        trace = np.trace(covariance, axis1=1, axis2=2)
        return trace + ((covariance @ shared) * covariance).sum(axis=(1, 2))


def response(root, pull):
    """(C^-1 - pull)^-1 of a covariance C = RR', given its root R; one matrix, or many."""
    across = np.swapaxes(root, -2, -1)
    lost = across @ pull @ root
    unity = np.eye(lost.shape[-1])
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(LARGEST * unity - lost)  # no direction loses more
        return root @ np.linalg.inv(unity - lost) @ across
    values, vectors = np.linalg.eigh(lost)
    root = root @ vectors / np.sqrt(1 - np.minimum(values, LARGEST))[..., None, :]
    return root @ np.swapaxes(root, -2, -1)


def _shared(v_h, v_w):
    """(V_H^-1 - V_W)^-1, where V_H may be singular, and (V_W^-1 - V_H)^-1, which is
    V_W + V_W (V_H^-1 - V_W)^-1 V_W.
    """
    values, vectors = np.linalg.eigh(v_h)
    of_rows = response(vectors * np.sqrt(np.maximum(values, 0.0)), v_w)
    return of_rows, v_w + v_w @ of_rows @ v_w


def _packed_outer(vectors):
    """vv' of every row v, packed."""
    k, p = np.tril_indices(vectors.shape[1])
    return vectors[:, k] * vectors[:, p]


def _block_matrix(pairs, size):
    """sum A x B as an array [k, l, p, q] of A[k, p] B[l, q], from packed A times packed B."""
    first = moments.unpack(pairs.T, size)  # (l, q) packed, k, p
    return moments.unpack(np.moveaxis(first, 0, -1), size).transpose(0, 2, 1, 3)


def _folded(array):
    """The map from a packed symmetric A to <A, array>[l, q] = sum A[k, p] array[k, l, p, q]."""
    k, p = np.tril_indices(len(array))
    both = array.transpose(0, 2, 1, 3)
    folded = np.where(k == p, 0.5, 1.0)[:, None, None] * (both[k, p] + both[p, k])
    return folded[:, k, p]


def _blocks(length, width):
    """Ranges of so many rows or columns that a temporary array over them has BLOCK numbers."""
    return [(part.start, part.stop) for part in cut(length, width, BLOCK)]
