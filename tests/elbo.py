"""The ELBO of the closed form with all its options, entry by entry (docs/model.md, 4).

All samples stand side by side: x is M x N, with NaN where an entry is missing, and c holds the
source of every sample.  The data are in their unit and from their origin.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi


class Factors:
    """The factors of a state of `cavi.ClosedForm`; weights of entries are those that the sweep
    from the state `before` to it has used.
    """

    def __init__(self, matrices, fast, before, state):
        self.x = np.hstack(matrices)
        self.seen = ~np.isnan(self.x)
        self.c = np.repeat(np.arange(len(matrices)), [x.shape[1] for x in matrices])
        self.priors = fast.priors
        rows = state.rows
        self.mu = rows.mean.T
        size = self.mu.shape[1]
        self.S = np.linalg.inv(rows.row_precision() + rows.ridge.T[:, :, None] * np.eye(size))
        self.lambda_ = np.ravel(state.laplace.lambda_) * np.ones(size)
        self.g = np.hstack(state.columns).T
        self.alpha = np.array([state.dirichlet.alpha(c) for c in range(len(matrices))])
        self.by_source = fast.priors.learns_alpha == "by-source"
        self.t = Gammas(fast.shapes, state.rates.copy())
        self.phi = precisions([state.feature], [len(self.x)])
        self.u = precisions(state.sample, [x.shape[1] for x in matrices])
        self.a = getattr(state.feature, "a", 0.0)
        self.a_c = np.array([getattr(sample, "a", 0.0) for sample in state.sample])
        shape = len(matrices), len(self.x)
        self.o, self.o_var = (
            np.array([getattr(offset, name) * np.ones(shape[1]) for offset in state.offsets])
            for name in ("mean", "variance")
        )
        self.tau = np.array([getattr(offset, "tau", 0.0) for offset in state.offsets])
        self.nu = np.array([getattr(entries, "nu", 1.0) for entries in state.entries])
        self.weigh(fast, before)

    def weigh(self, fast, before):
        """q(v) at the residuals of the fit before the sweep; v is 1 without robust noise."""
        offsets = np.array([offset.mean * np.ones(len(self.x)) for offset in before.offsets])
        h = np.hstack(before.memberships())
        self.f = before.rows.mean.T @ h + offsets[self.c].T
        self.delta = self.x - self.f
        self.v = Known(np.ones(self.x.shape))
        if before.entries[0].is_learned:
            t = (fast.shapes / before.rates)[self.c] if before.n_sweeps else 1.0
            phi = before.feature.mean * np.ones(len(self.x))
            n_samples = np.bincount(self.c)
            u = [q.mean * np.ones(n) for q, n in zip(before.sample, n_samples, strict=True)]
            nu = np.array([entries.nu for entries in before.entries])[self.c]
            p = np.outer(phi, t * np.concatenate(u))
            self.v = Gammas((nu + 1) / 2, (nu + 1 + p * self.delta**2) / 2)

    @property
    def w_size(self):
        """sqrt(E[w_ik^2]), M x K."""
        return np.sqrt(self.mu**2 + np.diagonal(self.S, axis1=1, axis2=2))

    def errors(self):
        """E[(z - w_i'h_j)^2] + Var[o_ci] + v (1 - v) delta^2 of every entry."""
        s = self.g.sum(axis=1)[:, None, None]
        hh = (outer(self.g) + self.g[:, :, None] * np.eye(len(self.lambda_))) / (s * (s + 1))
        z = self.f + self.v.mean * self.delta - self.o[self.c].T
        m = self.g / self.g.sum(axis=1, keepdims=True)
        error = z**2 - 2 * z * (self.mu @ m.T) + self.o_var[self.c].T
        error += np.einsum("ikl,jkl->ij", outer(self.mu) + self.S, hh)
        return error + self.v.mean * (1 - self.v.mean) * self.delta**2

    def elbo(self):
        """Of any factors, whether or not an update found them."""
        logs = self.t.log[self.c] + self.phi.log[:, None] + self.u.log + self.v.log
        precision = np.outer(self.phi.mean, self.t.mean[self.c] * self.u.mean)
        total = 0.5 * (logs - np.log(2 * np.pi) - precision * self.errors()).sum(where=self.seen)
        total += self.t.elbo(self.priors.a0, self.priors.b0).sum()
        total += self.phi.elbo(self.a, self.a).sum()
        total += self.u.elbo(self.a_c[self.c], self.a_c[self.c]).sum()
        nu = self.nu[self.c]
        total += self.v.elbo(nu / 2, (nu + 1) / 2).sum(where=self.seen)
        total -= (self.w_size / self.lambda_ + np.log(2 * self.lambda_)).sum()
        total += 0.5 * (np.linalg.slogdet(self.S)[1].sum() + self.mu.size * (1 + np.log(2 * np.pi)))
        if self.tau.all():
            tau = self.tau[:, None]
            square = self.o**2 + self.o_var
            total += 0.5 * (1 + np.log(self.o_var / tau) - square / tau).sum()
        if self.by_source:
            total -= self.alpha.sum()
        s = self.g.sum(axis=1)
        alpha = self.alpha[self.c]
        total += ((alpha - self.g) * (psi(self.g) - psi(s)[:, None])).sum()
        total += (gammaln(self.g).sum(axis=1) - gammaln(s)).sum()
        return total + (gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1)).sum()


@dataclass
class Gammas:
    """Independent precisions with q = Gamma(shape, rate)."""

    shape: np.ndarray
    rate: np.ndarray

    @property
    def mean(self):
        return self.shape / self.rate

    @property
    def log(self):
        return psi(self.shape) - np.log(self.rate)

    def elbo(self, a, b):
        """E[ln Gamma(.; a, b)] + the entropy of q."""
        prior = a * np.log(b) - gammaln(a) + (a - 1) * self.log - b * self.mean
        entropy = self.shape - np.log(self.rate) + gammaln(self.shape)
        return prior + entropy + (1 - self.shape) * psi(self.shape)


class Known:
    """Precisions that are known."""

    def __init__(self, mean):
        self.mean = mean
        self.log = np.log(mean)

    def elbo(self, a, b):
        return np.zeros_like(self.mean)


def precisions(factors, counts):
    """The factors of several sources side by side."""
    if not factors[0].is_learned:
        return Known(np.ones(sum(counts)))
    return Gammas(*(np.concatenate([getattr(q, n) for q in factors]) for n in ("shape", "rate")))


def outer(rows):
    return rows[:, :, None] * rows[:, None, :]
