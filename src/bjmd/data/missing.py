"""Missing entries (NaN) as unknowns of the model (docs/derivation.md, 5).

Let a missing x_ij of a source with noise variance s2 have the factor q(x_ij | s2) = N(v_ij, s2).  It adds

    E[ln N(x_ij; w_i'h_j, s2)] - E[ln N(x_ij; v_ij, s2)] = -E[1/s2] E[(v_ij - w_i'h_j)^2] / 2

to the ELBO: the loss of an entry v_ij that is not counted among the observed ones.  So an algorithm for complete data
stays as it is; it sees v_ij in place of NaN, and counts observed entries only.  The best v_ij is E[w_i]'E[h_j], and
setting it between two sweeps never lowers the ELBO, nor raises the objective of a point estimate.
"""

import numpy as np

from bjmd.data.sources import Sources
from bjmd.numerics.lanes import compiled


class CompletedSources(Sources):
    """Sources with a guess in place of every missing entry; complete sources are taken as they are, without a copy."""

    def __init__(self, sources):
        vars(self).update(vars(sources))
        self._holes = [_holes(x) if n else None for x, n in zip(sources.matrices, sources.n_missing, strict=True)]
        if not any(sources.n_missing):
            return
        self.matrices, self.squared_norms = list(sources.matrices), list(sources.squared_norms)
        self._observed_norms = sources.squared_norms
        guess = _feature_means(sources)
        for c, holes in enumerate(self._holes):
            if holes is not None:
                self.matrices[c] = np.array(sources.matrices[c], order="C")
                self._set(c, guess[None, :], np.ones((1, self.n_samples[c])))

    def fill(self, wt, memberships):
        """Set every missing entry to w_i'h_j, given W' (K x M) and each source's K x N_c memberships."""
        for c, holes in enumerate(self._holes):
            if holes is not None:
                self._set(c, wt, memberships[c])

    def _set(self, c, wt, h):
        rows, columns = self._holes[c]
        added = _fill(np.ascontiguousarray(wt.T), np.ascontiguousarray(h.T), rows, columns, self.matrices[c])
        self.squared_norms[c] = self._observed_norms[c] + added


def _holes(x):
    """Where the missing entries are: rows and columns, row by row."""
    return np.nonzero(np.isnan(x))


def _feature_means(sources):
    """The mean of every feature over all observed entries: the first guess."""
    total, count = np.zeros(sources.n_features), np.zeros(sources.n_features)
    for x, n_missing in zip(sources.matrices, sources.n_missing, strict=True):
        total += np.nansum(x, axis=1) if n_missing else x.sum(axis=1)
        count += (~np.isnan(x)).sum(axis=1) if n_missing else x.shape[1]
    return total / count


@compiled
def _fill(w, h, rows, columns, out):
    """out[i, j] = w_i'h_j at the given places; returns the sum of their squares."""
    total = 0.0
    for place in range(len(rows)):
        i, j = rows[place], columns[place]
        value = 0.0
        for k in range(w.shape[1]):
            value += w[i, k] * h[j, k]
        out[i, j] = value
        total += value * value
    return total
