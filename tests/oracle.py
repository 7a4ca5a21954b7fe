"""The closed form in plain NumPy: the version to read, and to test against.

Read it beside docs/derivation.md, 4: it is the paper's model, without options and missing entries.
Lists have an entry for every source.
"""

import numpy as np
from scipy.special import gammaln, polygamma, psi


class ClosedForm:
    """q(w_i) = N(mu_i, S_i), q(h_j) = Dirichlet(g_j), q(s2_c) = inverse gamma(A_c, B_c)."""

    def __init__(self, matrices, memberships, priors):
        """The start (4.9) at given memberships, K x N_c."""
        size = len(memberships[0])
        self.matrices = matrices
        self.priors = priors
        self.alpha0 = priors.dirichlet(size)
        self.g = [self.alpha0[:, None] + 20 * h for h in memberships]
        self.rho = np.full((len(matrices[0]), size), 1 / priors.lambda_**2)
        self.A = np.array([priors.a0 + x.size / 2 for x in matrices])
        self.B = np.array([priors.b0 + (x**2).sum() / 2 for x in matrices])

    def sweep(self, tol):
        """Columns whose step promises at most `tol` nats stay as they are."""
        self.update_components()
        self.update_ridge()
        self.update_memberships(tol)
        self.update_noise()

    def update_components(self):
        """4.3"""
        t = self.A / self.B
        P = sum(t_c * second_moments(g).sum(axis=0) for t_c, g in zip(t, self.g, strict=True))
        r = sum(t_c * x @ mean(g).T for t_c, x, g in zip(t, self.matrices, self.g, strict=True))
        self.S = np.linalg.inv(P + self.rho[:, :, None] * np.eye(len(P)))
        self.mu = np.einsum("ikl,il->ik", self.S, r)

    def update_ridge(self):
        """4.1"""
        self.rho = 1 / (self.priors.lambda_ * self.w_size())

    def update_memberships(self, tol):
        """4.4 and 4.5; t is put into G and b."""
        for c, x in enumerate(self.matrices):
            t = self.A[c] / self.B[c]
            G = t * self.ww().sum(axis=0)
            b = t * self.mu.T @ x
            steps = [column_step(*column, G, self.alpha0, tol) for column in zip(self.g[c].T, b.T)]
            self.g[c] = np.array(steps).T

    def update_noise(self):
        """4.6"""
        for c, x in enumerate(self.matrices):
            square = np.einsum("ikl,jkl->", self.ww(), second_moments(self.g[c]))
            error = (x**2).sum() - 2 * (x * (self.mu @ mean(self.g[c]))).sum() + square
            self.B[c] = self.priors.b0 + error / 2

    def ww(self):
        """E[w_i w_i'], M x K x K."""
        return self.mu[:, :, None] * self.mu[:, None] + self.S

    def w_size(self):
        """sqrt(E[w_ik^2]), M x K."""
        return np.sqrt(np.diagonal(self.ww(), axis1=1, axis2=2))

    def elbo(self):
        """4.7, after a sweep."""
        A = self.A
        B = self.B
        a0 = self.priors.a0
        b0 = self.priors.b0
        lambda_ = self.priors.lambda_
        total = -(self.w_size() / lambda_ + np.log(2 * lambda_)).sum()
        total += 0.5 * np.linalg.slogdet(self.S)[1].sum() + self.mu.size * (1 + LOG_2PI) / 2
        for g in self.g:
            s = g.sum(axis=0)
            log_h = psi(g) - psi(s)
            total += ((self.alpha0[:, None] - g) * log_h).sum() + (gammaln(g).sum(axis=0)).sum()
            total += len(s) * (gammaln(self.alpha0.sum()) - gammaln(self.alpha0).sum())
            total -= gammaln(s).sum()
        n = 2 * (A - a0)
        log_s2 = np.log(B) - psi(A)
        likelihood = -n * (LOG_2PI + log_s2) / 2 - A / B * (B - b0)
        prior = a0 * np.log(b0) - gammaln(a0) - (a0 + 1) * log_s2 - b0 * A / B
        entropy = A + np.log(B) + gammaln(A) - (1 + A) * psi(A)
        return total + (likelihood + prior + entropy).sum()


LOG_2PI = np.log(2 * np.pi)


def mean(g):
    """E[h_j], K x N."""
    return g / g.sum(axis=0)


def second_moments(g):
    """4.2: E[h_j h_j'], N x K x K."""
    s = g.sum(axis=0)[:, None, None]
    return (g.T[:, :, None] * g.T[:, None] + g.T[:, :, None] * np.eye(len(g))) / (s * (s + 1))


def column_objective(g, b, G, alpha0):
    """f(g) of 4.4, with t in b and G."""
    s = g.sum()
    L = b @ g / s - (g @ G @ g + np.diag(G) @ g) / (2 * s * (s + 1))
    return L + (alpha0 - g) @ (psi(g) - psi(s)) + gammaln(g).sum() - gammaln(s)


def column_step(g, b, G, alpha0, tol):
    """4.4 and 4.5: a Newton step in ln g, halved until f does not fall."""
    s = g.sum()
    d = np.diag(G)
    Q = g @ G @ g + d @ g
    e = 1 / (2 * s * (s + 1))
    e1 = -(2 * s + 1) / (2 * s**2 * (s + 1) ** 2)
    e2 = 1 / s**3 - 1 / (s + 1) ** 3
    excess = s - alpha0.sum()
    gradient = b / s - b @ g / s**2 - e * (2 * G @ g + d) - Q * e1
    gradient += polygamma(1, g) * (alpha0 - g) + polygamma(1, s) * excess
    chi = e1 * (2 * G @ g + d) + b / s**2
    chi_0 = Q * e2 - 2 * b @ g / s**3 - polygamma(1, s) - excess * polygamma(2, s)
    bend = 2 * e * G + np.diag(polygamma(1, g) + (g - alpha0) * polygamma(2, g))
    bend += chi[:, None] + chi + chi_0
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
