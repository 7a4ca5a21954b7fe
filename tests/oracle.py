"""The paper's model in plain NumPy: the sweep of the closed form and the objectives.

This is the version to read beside docs/derivation.md, section by section; the tests compare the
fast code with it.  `matrices` are the sources X^(c), M x N_c; W has a row per feature.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, polygamma, psi


@dataclass(frozen=True)
class Factors:
    """q(w_i) = N(mu_i, S_i), q(h_j) = Dirichlet(g_j), q(s2_c) = inverse gamma(A_c, B_c)."""

    mu: np.ndarray  # M x K
    S: np.ndarray  # M x K x K
    rho: np.ndarray  # M x K, the ridge that bounds the Laplace prior
    g: list[np.ndarray]  # K x N_c, a column per sample
    A: np.ndarray  # a number per source
    B: np.ndarray


def sweep(matrices, factors, priors, tol):
    """One sweep; columns take a Newton step if it promises more than `tol` nats."""
    factors = update_components(matrices, factors)
    factors = update_ridge(factors, priors)
    factors = update_memberships(matrices, factors, priors, tol)
    return update_noise(matrices, factors, priors)


def second_moments(g):
    """E[h_j h_j'] of every column (4.2), N x K x K."""
    s = g.sum(axis=0)
    return np.array([(np.outer(x, x) + np.diag(x)) / (n * (n + 1)) for x, n in zip(g.T, s)])


def update_components(matrices, q):
    """4.3: S_i = (P + diag rho_i)^-1 and mu_i = S_i sum_c t_c sum_j x_ij E[h_j]."""
    t = q.A / q.B
    P = sum(t_c * second_moments(g).sum(axis=0) for t_c, g in zip(t, q.g))
    r = sum(t_c * x @ (g / g.sum(axis=0)).T for t_c, x, g in zip(t, matrices, q.g))
    S = np.linalg.inv(P + q.rho[:, :, None] * np.eye(len(P)))
    return replace(q, S=S, mu=np.einsum("ikl,il->ik", S, r))


def update_ridge(q, priors):
    """4.1: rho_ik = 1 / (lambda sqrt(E[w_ik^2]))."""
    second = q.mu**2 + np.diagonal(q.S, axis1=1, axis2=2)
    return replace(q, rho=1 / (priors.lambda_ * np.sqrt(second)))


def update_memberships(matrices, q, priors, tol):
    """4.5: a Newton step of every column."""
    G = q.mu.T @ q.mu + q.S.sum(axis=0)
    alpha0 = priors.dirichlet(len(G))
    columns = [
        np.transpose([column_step(g, q.mu.T @ x, G, t, alpha0, tol) for g, x in zip(old.T, data.T)])
        for old, data, t in zip(q.g, matrices, q.A / q.B)
    ]
    return replace(q, g=columns)


def column_objective(g, b, G, t, alpha0):
    """4.4: f(g), the terms of the ELBO that a column enters, less its squared norm."""
    s = g.sum()
    L = b @ g / s - (g @ G @ g + np.diag(G) @ g) / (2 * s * (s + 1))
    return t * L + (alpha0 - g) @ (psi(g) - psi(s)) + gammaln(g).sum() - gammaln(s)


def column_step(g, b, G, t, alpha0, tol):
    """4.4 and 4.5: one Newton step on f in ln g, halved until f does not fall."""
    s = g.sum()
    d = np.diag(G)
    Q = g @ G @ g + d @ g
    e = 1 / (2 * s * (s + 1))
    e1 = -(2 * s + 1) / (2 * s**2 * (s + 1) ** 2)
    e2 = 1 / s**3 - 1 / (s + 1) ** 3
    excess = s - alpha0.sum()
    gradient = t * (b / s - b @ g / s**2 - e * (2 * G @ g + d) - Q * e1)
    gradient += polygamma(1, g) * (alpha0 - g) + polygamma(1, s) * excess
    q = t * (e1 * (2 * G @ g + d) + b / s**2)
    kappa = t * (Q * e2 - 2 * b @ g / s**3) - polygamma(1, s) - excess * polygamma(2, s)
    bend = 2 * t * e * G + np.diag(polygamma(1, g) + (g - alpha0) * polygamma(2, g))
    bend += q[:, None] + q + kappa
    matrix = np.outer(g, g) * bend - np.diag(g * gradient)
    if np.linalg.eigvalsh(matrix).min() <= 0:  # then the natural gradient and the data's part
        v = G @ g / s
        fisher = np.diag(polygamma(1, g)) - polygamma(1, s)
        matrix = np.outer(g, g) * (fisher + 2 * t * e * (G - v[:, None] - v + v @ g / s))
    direction = np.linalg.solve(matrix, g * gradient)
    if 0.5 * (g * gradient) @ direction <= tol:
        return g
    length = 2 / max(2, np.abs(direction).max())
    value = column_objective(g, b, G, t, alpha0)
    for _ in range(8):
        new = g * np.exp(length * direction)
        if column_objective(new, b, G, t, alpha0) >= value:
            return new
        length /= 2
    return g


def expected_error(x, q, g):
    """4.6: E||X - WH||^2 of one source."""
    m = g / g.sum(axis=0)
    G = q.mu.T @ q.mu + q.S.sum(axis=0)
    return (x**2).sum() - 2 * ((q.mu.T @ x) * m).sum() + (G * second_moments(g).sum(axis=0)).sum()


def update_noise(matrices, q, priors):
    """4.6: A_c = a0 + n_c / 2 and B_c = b0 + E||X - WH||^2 / 2."""
    A = np.array([priors.a0 + x.size / 2 for x in matrices])
    errors = [expected_error(x, q, g) for x, g in zip(matrices, q.g)]
    return replace(q, A=A, B=priors.b0 + 0.5 * np.array(errors))


def elbo(matrices, q, priors):
    """4.7, for any factors, with the bound on the Laplace prior at its best rho."""
    second = q.mu**2 + np.diagonal(q.S, axis1=1, axis2=2)
    alpha0 = priors.dirichlet(q.mu.shape[1])
    total = (-np.sqrt(second) / priors.lambda_ - np.log(2 * priors.lambda_)).sum()
    total += 0.5 * (np.linalg.slogdet(q.S)[1].sum() + q.mu.size * (1 + np.log(2 * np.pi)))
    for x, g, A, B in zip(matrices, q.g, q.A, q.B):
        log_s2 = np.log(B) - psi(A)
        log_h = psi(g) - psi(g.sum(axis=0))
        total -= 0.5 * (x.size * (np.log(2 * np.pi) + log_s2) + A / B * expected_error(x, q, g))
        total += x.shape[1] * (gammaln(alpha0.sum()) - gammaln(alpha0).sum())
        total += ((alpha0[:, None] - g) * log_h).sum()
        total += gammaln(g).sum() - gammaln(g.sum(axis=0)).sum()
        total += priors.a0 * np.log(priors.b0) - gammaln(priors.a0)
        total -= (priors.a0 + 1) * log_s2 + priors.b0 * A / B
        total += A + np.log(B) + gammaln(A) - (1 + A) * psi(A)
    return total


def negative_log_joint(matrices, w, memberships, noise_variances, priors):
    """2: the objective of MAP, up to terms that no unknown enters."""
    alpha0 = priors.dirichlet(w.shape[1])
    total = np.abs(w).sum() / priors.lambda_
    for x, h, s2 in zip(matrices, memberships, noise_variances, strict=True):
        total += (((x - w @ h) ** 2).sum() / 2 + priors.b0) / s2
        total += (x.size / 2 + priors.a0 + 1) * np.log(s2)
        total -= ((alpha0[:, None] - 1) * np.log(h)).sum()
    return total
