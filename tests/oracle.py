"""The closed form with all its options in plain NumPy: the version to read, and to test against.

Read it beside docs/model.md, 3 to 5, and docs/derivation.md, 4.  All samples stand side by side: x
is M x N, with NaN where an entry is missing, and c holds the source of every sample.  The data are
in their unit and from their origin.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln, polygamma, psi


class ClosedForm:
    """The factors of the posterior and what is learned, and a sweep that updates them in turn."""

    def __init__(self, matrices, memberships, priors, noise=(), offsets=False):
        """The start (docs/model.md, 5) at given memberships, K x N_c of every source."""
        self.x = np.hstack(matrices)
        self.seen = ~np.isnan(self.x)
        self.c = np.repeat(np.arange(len(matrices)), [x.shape[1] for x in matrices])
        self.priors = priors
        self.noise = noise
        self.has_offsets = offsets
        self.n_sweeps = 0
        h = np.hstack(memberships).T
        n_samples, size = h.shape
        n_features = len(self.x)
        n_sources = len(matrices)

        self.alpha = np.tile(priors.dirichlet(size), (n_sources, 1))
        self.g = self.alpha[self.c] + 20 * h  # q(h_j) = Dirichlet(g_j)
        self.lambda_ = np.full(size, priors.lambda_)
        self.rho = np.full((n_features, size), 1 / priors.lambda_**2)
        self.mu = np.zeros((n_features, size))  # q(w_i) = N(mu_i, S_i)
        self.S = np.zeros((n_features, size, size))
        self.o = np.zeros((n_sources, n_features))  # q(o_ci) = N(o_ci, y_ci)
        self.y = np.zeros((n_sources, n_features))
        self.tau = np.ones(n_sources)
        n_c = self.by_source(self.seen.sum(axis=0))
        squares = self.by_source(np.nansum(self.x**2, axis=0))
        self.t = Gammas(priors.a0 + n_c / 2, priors.b0 + squares / 2)  # A_c and B_c
        self.phi = Known(np.ones(n_features))
        self.u = Known(np.ones(n_samples))
        self.v = Known(np.ones(self.x.shape))
        self.a = 0.0
        self.a_c = np.zeros(n_sources)
        self.nu = np.full(n_sources, 10.0)
        if "feature" in noise:
            n_i = self.seen.sum(axis=1)
            self.a = 10 * n_i.max() / 18
            self.phi = Gammas(self.a + n_i / 2, self.a + n_i / 2)

    def sweep(self, tol):
        """The order of docs/model.md, 3; columns whose step promises at most `tol` nats stay."""
        learns = self.n_sweeps >= 8
        self.update_entries()
        if "feature" in self.noise and self.n_sweeps:
            self.update_features()
        self.update_components()
        if self.priors.learns_lambda and learns:
            self.update_scales()
        self.update_ridge()
        self.update_memberships(tol)
        if "sample" in self.noise:
            self.update_samples()
        if self.has_offsets:
            self.update_offsets()
        self.update_noise()
        if self.priors.learns_alpha and learns:
            self.update_dirichlet()
        if "robust" in self.noise and self.n_sweeps:
            self.update_degrees_of_freedom()
        self.n_sweeps += 1

    # Expectations.

    @property
    def m(self):
        """E[h_j], N x K."""
        return self.g / self.g.sum(axis=1, keepdims=True)

    @property
    def hh(self):
        """E[h_j h_j'], N x K x K."""
        s = self.g.sum(axis=1)[:, None, None]
        return (outer(self.g) + self.g[:, :, None] * np.eye(len(self.lambda_))) / (s * (s + 1))

    @property
    def log_h(self):
        """E[ln h_j], N x K."""
        return psi(self.g) - psi(self.g.sum(axis=1, keepdims=True))

    @property
    def ww(self):
        """E[w_i w_i'], M x K x K."""
        return outer(self.mu) + self.S

    @property
    def w_size(self):
        """sqrt(E[w_ik^2]), M x K."""
        return np.sqrt(np.diagonal(self.ww, axis1=1, axis2=2))

    @property
    def fit(self):
        """E[w_i'h_j] + o_ci, M x N."""
        return self.mu @ self.m.T + self.o[self.c].T

    @property
    def z(self):
        """f + v r - o_ci; like p and errors, 0 where an entry is missing."""
        return np.where(self.seen, self.f + self.v.mean * self.r - self.o[self.c].T, 0)

    @property
    def p(self):
        """t_c phi_i u_j."""
        return self.seen * np.outer(self.phi.mean, self.t.mean[self.c] * self.u.mean)

    @property
    def errors(self):
        """E[(z_ij - w_i'h_j)^2] + y_ci + v (1 - v) r^2."""
        error = self.z**2 - 2 * self.z * (self.mu @ self.m.T)
        error += np.einsum("ikl,jkl->ij", self.ww, self.hh) + self.y[self.c].T
        error += self.v.mean * (1 - self.v.mean) * self.r**2
        return np.where(self.seen, error, 0)

    def by_source(self, of_samples):
        return np.bincount(self.c, of_samples)

    # Updates.

    def update_entries(self):
        """q(v) at the residuals of the present fit; v is 1 without robust noise."""
        self.f = self.fit
        self.r = self.x - self.f
        if "robust" in self.noise:
            t = self.t.mean[self.c] if self.n_sweeps else 1.0
            p = np.outer(self.phi.mean, t * self.u.mean)
            nu = self.nu[self.c]
            self.v = Gammas((nu + 1) / 2, (nu + 1 + p * self.r**2) / 2)

    def update_features(self):
        e_i = self.errors @ (self.t.mean[self.c] * self.u.mean)
        self.phi, self.a = best_gammas(self.seen.sum(axis=1), e_i)

    def update_components(self):
        P = np.einsum("ij,jkl->ikl", self.p, self.hh)
        self.S = np.linalg.inv(P + self.rho[:, :, None] * np.eye(len(self.lambda_)))
        self.mu = np.einsum("ikl,il->ik", self.S, (self.p * self.z) @ self.m)

    def update_scales(self):
        self.lambda_ = self.w_size.mean(axis=0)

    def update_ridge(self):
        self.rho = 1 / (self.lambda_ * self.w_size)

    def update_memberships(self, tol):
        """A Newton step of every column; the precision is in G_j and b_j."""
        G = np.einsum("ij,ikl->jkl", self.p, self.ww)
        b = (self.p * self.z).T @ self.mu
        columns = zip(self.g, b, G, self.alpha[self.c])
        self.g = np.array([column_step(*column, tol) for column in columns])

    def update_samples(self):
        e_j = self.t.mean[self.c] * (self.phi.mean @ self.errors)
        n_j = self.seen.sum(axis=0)
        self.u = Gammas(np.ones(len(n_j)), np.ones(len(n_j)))
        for c in range(len(self.a_c)):
            mine = self.c == c
            q, self.a_c[c] = best_gammas(n_j[mine], e_j[mine])
            self.u.shape[mine] = q.shape
            self.u.rate[mine] = q.rate

    def update_offsets(self):
        residuals = self.p * (self.z - self.mu @ self.m.T + self.o[self.c].T)
        for c in range(len(self.tau)):
            k = self.p[:, self.c == c].sum(axis=1)
            d = residuals[:, self.c == c].sum(axis=1)
            self.tau[c] = variance_step(d, k, self.tau[c])
            self.y[c] = 1 / (k + 1 / self.tau[c])
            self.o[c] = self.y[c] * d

    def update_noise(self):
        R_c = self.by_source(self.u.mean * (self.phi.mean @ self.errors))
        self.t = Gammas(self.t.shape, self.priors.b0 + R_c / 2)

    def update_dirichlet(self):
        """One concentration of at least 0.5, or alpha^(c) of at least 0.01."""
        ones = np.ones(self.alpha.shape[1])
        if self.priors.learns_alpha == "learned":
            self.alpha[:] = best(lambda a: log_dirichlet(a * ones, self.log_h), 0.5, 1e4)
            return
        for c in range(len(self.alpha)):
            mine = self.log_h[self.c == c]

            def loss(alpha, mine=mine):
                return alpha.sum() - log_dirichlet(alpha, mine)

            bounds = [(0.01, None)] * len(ones)
            self.alpha[c] = minimize(loss, ones, method="Nelder-Mead", bounds=bounds, tol=1e-12).x

    def update_degrees_of_freedom(self):
        for c in range(len(self.nu)):
            mine = self.seen & (self.c == c)

            def value(nu, mine=mine):
                return self.v.elbo(nu / 2, (nu + 1) / 2).sum(where=mine)

            self.nu[c] = best(value, 0.5, 200)

    def elbo(self):
        """docs/model.md, 4, of any factors, whether or not an update found them."""
        total = self.elbo_of_samples()
        total += self.t.elbo(self.priors.a0, self.priors.b0).sum()
        total += self.phi.elbo(self.a, self.a).sum()
        total -= (self.w_size / self.lambda_ + np.log(2 * self.lambda_)).sum()
        total += 0.5 * (np.linalg.slogdet(self.S)[1].sum() + self.mu.size * (1 + np.log(2 * np.pi)))
        if self.has_offsets:
            tau = self.tau[:, None]
            total += 0.5 * (1 + np.log(self.y / tau) - (self.o**2 + self.y) / tau).sum()
        if self.priors.learns_alpha == "by-source":
            total -= self.alpha.sum()
        return total

    def elbo_of_samples(self):
        """What the entries, their columns, u and v add to it."""
        logs = self.t.log[self.c] + self.phi.log[:, None] + self.u.log + self.v.log
        total = 0.5 * (logs - np.log(2 * np.pi)).sum(where=self.seen)
        total -= 0.5 * (self.p * self.errors).sum()
        total += self.u.elbo(self.a_c[self.c], self.a_c[self.c]).sum()
        nu = self.nu[self.c]
        total += self.v.elbo(nu / 2, (nu + 1) / 2).sum(where=self.seen)
        for c, alpha in enumerate(self.alpha):
            total += log_dirichlet(alpha, self.log_h[self.c == c])
        total -= (self.g * self.log_h).sum()
        return total + gammaln(self.g).sum() - gammaln(self.g.sum(axis=1)).sum()


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


def best_gammas(n, e):
    """q of precisions with n entries and errors e each, and the a of their prior."""

    def value(a):
        return (
            a * np.log(a) - gammaln(a) + gammaln(a + n / 2) - (a + n / 2) * np.log(a + e / 2)
        ).sum()

    a = best(value, n.max() / 18, 1e6)
    return Gammas(a + n / 2, a + e / 2), a


def log_dirichlet(alpha, log_h):
    """What the Dirichlet prior of some columns adds to the ELBO, but for terms without alpha."""
    normaliser = gammaln(alpha.sum()) - gammaln(alpha).sum()
    return len(log_h) * normaliser + alpha @ log_h.sum(axis=0)


def best(value, least, most):
    """Where a function of a positive number is largest: the best of a grid, refined."""
    grid = np.geomspace(least, most, 60)
    top = int(np.argmax([value(x) for x in grid]))
    ends = np.log(grid[max(top - 1, 0)]), np.log(grid[min(top + 1, len(grid) - 1)])
    refined = minimize_scalar(
        lambda x: -value(np.exp(x)), bounds=ends, method="bounded", options={"xatol": 1e-12}
    )
    return max(np.exp(refined.x), least, most, key=value)


def variance_step(d, k, tau):
    """docs/derivation.md, 4.12: a Newton step in ln tau, shortened until F does not fall."""

    def F(tau):
        return 0.5 * (d**2 * tau / (1 + k * tau) - np.log1p(k * tau)).sum()

    r = 1 / (1 + k * tau)
    first = 0.5 * tau * (d**2 * r**2 - k * r).sum()
    second = first + 0.5 * tau**2 * (k * r**2 * (k - 2 * d**2 * r)).sum()
    step = np.clip(-first / second if second < 0 else 3 * np.sign(first), -3, 3)
    while abs(step) > 1e-9:
        moved = max(tau * np.exp(step), 1e-12)
        if F(moved) >= F(tau):
            return moved
        step /= 4
    return tau


def outer(rows):
    return rows[:, :, None] * rows[:, None, :]


def column_objective(g, b, G, alpha0):
    """f(g) of docs/derivation.md, 4.4, with t in b and G."""
    s = g.sum()
    L = b @ g / s - (g @ G @ g + np.diag(G) @ g) / (2 * s * (s + 1))
    return L + (alpha0 - g) @ (psi(g) - psi(s)) + gammaln(g).sum() - gammaln(s)


def column_step(g, b, G, alpha0, tol):
    """docs/derivation.md, 4.4 and 4.5: a Newton step in ln g, halved until f does not fall."""
    s = g.sum()
    d = np.diag(G)
    Q = g @ G @ g + d @ g
    e = 1 / (2 * s * (s + 1))
    e1 = -(2 * s + 1) / (2 * s**2 * (s + 1) ** 2)
    e2 = 1 / s**3 - 1 / (s + 1) ** 3
    excess = s - alpha0.sum()
    gradient = b / s - b @ g / s**2 - e * (2 * G @ g + d) - Q * e1
    gradient += polygamma(1, g) * (alpha0 - g) + polygamma(1, s) * excess
    q = e1 * (2 * G @ g + d) + b / s**2
    kappa = Q * e2 - 2 * b @ g / s**3 - polygamma(1, s) - excess * polygamma(2, s)
    bend = 2 * e * G + np.diag(polygamma(1, g) + (g - alpha0) * polygamma(2, g))
    bend += q[:, None] + q + kappa
    matrix = np.outer(g, g) * bend - np.diag(g * gradient)
    if np.linalg.eigvalsh(matrix).min() <= 0:  # then the natural gradient and the data's part
        v = G @ g / s
        fisher = np.diag(polygamma(1, g)) - polygamma(1, s)
        matrix = np.outer(g, g) * (fisher + 2 * e * (G - v[:, None] - v + v @ g / s))
    direction = np.linalg.solve(matrix, g * gradient)
    if 0.5 * (g * gradient) @ direction <= tol:
        return g
    length = 2 / max(2, np.abs(direction).max())
    value = column_objective(g, b, G, alpha0)
    for _ in range(8):
        new = g * np.exp(length * direction)
        if column_objective(new, b, G, alpha0) >= value:
            return new
        length /= 2
    return g


def negative_log_joint(matrices, w, memberships, noise_variances, priors):
    """docs/derivation.md, 2: the objective of MAP, up to terms that no unknown enters."""
    alpha0 = priors.dirichlet(w.shape[1])
    total = np.abs(w).sum() / priors.lambda_
    for x, h, s2 in zip(matrices, memberships, noise_variances, strict=True):
        total += (((x - w @ h) ** 2).sum() / 2 + priors.b0) / s2
        total += (x.size / 2 + priors.a0 + 1) * np.log(s2)
        total -= ((alpha0[:, None] - 1) * np.log(h)).sum()
    return total
