"""Residuals of a fit, block by block, and the sums over them that `check` asks about.

A fit follows its data, so residuals r_ij = x_ij - E[w_i]'E[h_j] are smaller than the noise.  In a
linear model y = Z b + e with b ~ N(0, V), the residual at the posterior mean is s2 (Z V Z' + s2
I)^-1 y, and for data from the model its covariance is

    s2 I - Z Cov[b | y] Z',   the noise's less that of the fit under the posterior.

With w_i'h_j in the place of Zb, z_ij = r_ij / sqrt(s2 - Var[w_i'h_j]) has variance 1, and a sum of
residuals over the samples of a source has variance N s2 - Var[sum_j w_i'h_j].  Offsets are part of
the fit, s2 is that of the entry (predictive.py), and after a robust fit every residual is replaced
by the normal one that is as improbable.

y_ij = ln(z_ij^2 + SOFT) makes a sum of the factors on the noise, and wild entries hardly move it.
Under the model all y_ij of a source have one distribution, so an analysis of covariance (effects of
features and samples, slope on the signal) tells whose noise differs, by F and t tests that hold for
any shape of the noise.
"""

from dataclasses import replace

import numpy as np
from scipy.special import ndtri, stdtr

from bjmd.data.matrix import side_by_side
from bjmd.data.view import centre
from bjmd.inference import registry
from bjmd.model import Priors
from bjmd.results import predictive
from bjmd.results.posterior import DirichletColumns

# with this number y has no skewness under normal noise, so few samples are enough for the tests
SOFT = 0.05
CUTS = np.array(
    [4.0, 4.5, 5.0, 6.0, 8.0, 12.0]
)  # noise sds from the fit beyond which entries are counted
BLOCK = 2**18  # entries that are looked at at once
MOST_ENTRIES, N_RUNS = (
    2**25,
    20,
)  # entries of a source that are looked at, in so many runs of samples; more say the same

_LOG_SCALES = np.linspace(-8, 8, 321)
_NORMAL = ndtri((np.arange(2000) + 0.5) / 2000)
_MEAN_Y = np.log(np.exp(2 * _LOG_SCALES[:, None]) * _NORMAL**2 + SOFT).mean(axis=1)


def log_scale(y):
    """ln of the factor on standard normal noise with which ln(z^2 + SOFT) is y on average."""
    return np.interp(y, _MEAN_Y, _LOG_SCALES)


def _rise(y):
    """dy / d(log scale), but for scales so small that SOFT hides them."""
    return np.maximum(np.interp(log_scale(y), _LOG_SCALES, np.gradient(_MEAN_Y, _LOG_SCALES)), 0.3)


def thinned(sources, result):
    """The same sources and fit; of a source of more than MOST_ENTRIES, a part of the samples."""
    runs = []
    chosen = []
    for n in sources.n_samples:
        length = max(1, MOST_ENTRIES // sources.n_features // N_RUNS)
        starts = np.linspace(0, n - length, N_RUNS).astype(int) if n > N_RUNS * length else [0]
        runs.append(
            [slice(first, min(first + length, n) if len(starts) > 1 else n) for first in starts]
        )
        chosen.append(np.concatenate([np.arange(n)[run] for run in runs[-1]]))
    if [len(part) for part in chosen] == sources.n_samples:
        return sources, result
    names = [[own[j] for j in part] for own, part in zip(sources.sample_names, chosen, strict=True)]
    each = zip(sources.data, runs, strict=True)
    matrices = [side_by_side([x.part(run) for run in of_source]) for x, of_source in each]
    posterior = result.posterior
    model = result.model
    if posterior is not None:
        factors = zip(posterior.memberships, chosen, strict=True)
        kept = [
            type(f)(**{name: a[:, part] for name, a in f.arrays().items()}) for f, part in factors
        ]
        posterior = replace(posterior, memberships=kept)
    if model.sample_precision is not None:
        by_source = zip(model.sample_precision, chosen, strict=True)
        model = replace(model, sample_precision=[u[part] for u, part in by_source])
    memberships = [h[:, part] for h, part in zip(result.memberships, chosen, strict=True)]
    kept = replace(result, memberships=memberships, posterior=posterior, model=model)
    return sources.replace(
        matrices=matrices, sample_names=names, labels=None, class_names=None
    ), kept


class Survey:
    """Sums over the residuals of one source; a feature without an entry in it counts nowhere."""

    def __init__(self, sources, result, c, covariance, squares):
        self.sources = sources
        self.result = result
        self.c = c
        self.name = sources.names[c]
        self.w = result.components
        self.h = result.memberships[c]
        self.alpha0 = result.model.alpha0[c]
        self.offset, self.offset_variance = predictive.offsets(result, c)
        self.u = predictive.sample_precision(result, c)
        self.precision = 1 / predictive.feature_variance(result, c)
        self.shape = sources.n_features, sources.n_samples[c]
        # of the rows w_i, and E[w_i w_i']
        self.covariance = covariance
        self.squares = squares
        self.size = (
            np.sqrt(np.vdot(self.w.T @ self.w, self.h @ self.h.T) / np.prod(self.shape)) or 1.0
        )
        self._sum_up()
        self._regress()
        self._count_far_ones()

    def blocks(self):
        """Some samples at a time: columns, which entries are there, x (or what is expected), E[WH],
        s2, what the fit has left of s2 in the residuals, and what of Var[w_i'h_j] is neither shared
        nor along the components.
        """
        step = max(1, BLOCK // self.shape[0])
        for first in range(0, self.shape[1], step):
            columns = slice(first, min(first + step, self.shape[1]))
            x = self.sources.data[self.c].columns(columns)
            mean = predictive.mean(self.result, self.c, columns)
            h = self.h[:, columns]
            seen = ~np.isnan(x)
            s2 = np.broadcast_to(predictive.noise_variance(self.result, self.c, columns), x.shape)
            spread = _column_covariance(self.result, self.c, columns)
            left = (
                s2
                - _inner(self.squares, spread)
                - _inner(self.covariance, h[:, None] * h)
                - self.offset_variance
            )
            left = np.maximum(
                left, 0.1 * s2
            )  # not nothing, though a posterior may say so where the model fails
            x = np.where(seen, x, mean)
            if self.result.model.degrees_of_freedom is not None:
                x = mean + _as_normal(
                    x - mean, np.sqrt(left), self.result.model.degrees_of_freedom[self.c]
                )
            yield columns, seen, x, mean, s2, left, _inner(self.covariance, spread)

    def _sum_up(self):
        """Means of y and the signal by feature and sample, and sums by feature."""
        rows = np.zeros((9, self.shape[0]))
        self.columns = np.zeros((3, self.shape[1]))
        weight = np.zeros_like(self.w)
        self.linear = np.empty_like(self.h)
        self.range = [np.inf, -np.inf]
        y_squared = self.x_squared = 0.0
        for columns, seen, x, mean, s2, left, aside in self.blocks():
            y = np.log((x - mean) ** 2 / left + SOFT)
            r = x - mean
            parts = [
                seen * part for part in (1.0, y, self.signal(mean), r, r**2, left, s2, aside, x)
            ]
            rows += [part.sum(axis=1) for part in parts]
            self.columns[:, columns] = [part.sum(axis=0) for part in parts[:3]]
            y_squared = y_squared + np.vdot(parts[1], y)
            self.x_squared = self.x_squared + np.vdot(parts[-1], x)
            weight += seen @ self.h[:, columns].T
            self.linear[:, columns] = self.w.T @ ((x - self.offset) * self.precision)
            self.range = [min(self.range[0], mean.min()), max(self.range[1], mean.max())]
        self.rows, (self.r, self.r_squared, self.left, self.s2, aside, self.x) = rows[:3], rows[3:]
        self.n = rows[0].sum()
        self.counts = np.maximum(rows[0], 1)
        self.gram = np.tensordot(
            np.broadcast_to(self.precision[:, 0], len(self.w)), self.squares, axes=1
        )
        # Var[sum_j w_i'h_j + o_i] without the part that lies along the components
        of_rows = np.einsum("ik,ikl,il->i", weight, self.covariance, weight)
        self.of_sum_aside = of_rows + rows[0] ** 2 * self.offset_variance[:, 0] + aside
        self.means = self.rows[1:].sum(axis=1) / self.n
        for part in (self.rows, self.columns):
            part[1:] = np.where(part[0] > 0, part[1:] / np.maximum(part[0], 1), self.means[:, None])
        self.freedom = [(part[0] > 0).sum() - 1 for part in (self.rows, self.columns)]
        effects = sum(
            (part[0] * (part[1] - self.means[0]) ** 2).sum() for part in (self.rows, self.columns)
        )
        self.unexplained = y_squared - self.n * self.means[0] ** 2 - effects

    def _regress(self):
        """Regress y on the signal within features and samples, and correct their effects by it."""
        yu = uu = total = 0.0
        for columns, seen, x, mean, _, left, *_ in self.blocks():
            values = np.stack([np.log((x - mean) ** 2 / left + SOFT), self.signal(mean)])
            y, u = (
                values
                - self.rows[1:, :, None]
                - self.columns[1:, None, columns]
                + self.means[:, None, None]
            )
            yu = yu + np.vdot(seen * y, u)
            uu = uu + np.vdot(seen * u, u)
            total += np.vdot(seen * (values[1] - self.means[1]), values[1] - self.means[1])
        # where there is hardly a signal but that of features and samples themselves, the slope is
        # anything
        self.signal_squared = uu
        self.slope = yu / uu if uu > 1e-3 * total else 0.0
        self.y_by_feature = self.rows[1].copy()
        self.last_freedom = max(self.n - sum(self.freedom) - 2, 1)
        self.y_variance = max((self.unexplained - self.slope**2 * uu) / self.last_freedom, 1e-12)
        self.rise = _rise(self.means[0])
        self.scales = []
        self.spreads = []
        self.ratios = []
        for part, freedom in zip((self.rows, self.columns), self.freedom, strict=True):
            part[1] -= self.slope * (part[2] - self.means[1])
            self.ratios.append(
                (part[0] * (part[1] - self.means[0]) ** 2).sum() / max(freedom, 1) / self.y_variance
            )
            raw = log_scale(part[1]) - log_scale(self.means[0])
            chance = self.y_variance / np.maximum(part[0], 1) / _rise(part[1]) ** 2
            spread = max(np.mean(raw**2 - chance), 0.0)
            self.scales.append(
                raw * spread / (spread + chance)
            )  # drawn to 0 as far as they are chance
            self.spreads.append(np.sqrt(spread))
        self.sd = np.sqrt(self.s2.sum() / self.n) * np.exp(
            log_scale(self.means[0])
        )  # that most entries have

    def _count_far_ones(self):
        """Count how far out entries are for their feature, sample and signal."""
        self.at = np.concatenate([np.arange(0, 4, 0.1), CUTS])
        self.worst = []
        self.edges = np.linspace(self.range[0], self.range[1], 16)
        self.beyond = np.zeros(len(self.at))
        self.by_signal = np.zeros((2, len(self.edges)))
        for columns, seen, x, mean, _, left, *_ in self.blocks():
            z = np.where(seen, x - mean, 0) / np.sqrt(left)
            u = self.signal(mean) - self.means[1]
            scale = self.scales[0][:, None] + self.scales[1][columns] + self.slope / self.rise * u
            far = np.abs(z) * np.exp(-log_scale(self.means[0]) - scale)
            self.beyond += seen.sum() - np.searchsorted(np.sort(far[seen]), self.at, side="right")
            for place in np.argpartition(far.ravel(), -min(5, far.size))[-5:]:
                i, j = np.unravel_index(place, far.shape)
                self.worst.append((far[i, j], int(i), columns.start + int(j)))
            bins = np.searchsorted(self.edges[1:-1], mean[seen], side="right")
            for part, values in zip(
                self.by_signal, (None, np.log(z[seen] ** 2 + SOFT)), strict=True
            ):
                part += np.bincount(bins, values, minlength=len(self.edges))
        self.worst = sorted(self.worst, reverse=True)[:5]

    def signal(self, mean):
        """The fitted value with its extremes drawn in."""
        return np.arcsinh(mean / self.size)


def _as_normal(residual, scale, nu):
    """The residual of a normal that is as far out as this one of Student's t of the same scale."""
    beyond = np.maximum(stdtr(nu, -np.abs(residual) / scale), 1e-300)
    return -np.sign(residual) * scale * ndtri(beyond)


def priors_of(sources, result):
    """The priors of a fit in the unit of its data, and the origin that they follow, or None."""
    method = registry.get(result.method)
    options = method.options() | result.options
    name = options.get("priors", "paper")
    priors = Priors.of(name, *(options[key] for key in ("alpha0", "lambda_", "a0", "b0")))
    if name == "paper":
        return priors, None
    given = sources.concatenated() if method.concatenate else sources
    unit, origin = centre(given, robust=result.model.degrees_of_freedom is not None)
    in_data = {"lambda_": priors.lambda_ * unit, "b0": priors.b0 * unit**2}
    return replace(priors, **{key: in_data[key] for key in priors.relative}), origin


def row_covariance(sources, result):
    """Cov[w_i], features x K x K; for MAP the inverse of its last ridge problem."""
    if result.posterior is not None:
        return result.posterior.components.covariance()
    precision = sum(h @ h.T / sd**2 for h, sd in zip(result.memberships, result.noise, strict=True))
    priors, origin = priors_of(sources, result)
    w = result.components if origin is None else result.components - origin[:, None]
    root = np.sqrt(priors.lambda_ * np.abs(w))
    scale = root[:, :, None] * root[:, None, :]
    return scale * np.linalg.inv(
        scale * precision + np.eye(len(precision))
    )  # can be inverted where w is 0, too


def _column_covariance(result, c, columns):
    """Cov[h_j] of some samples, K x K x samples; for MAP the inverse curvature on the simplex."""
    h = result.memberships[c][:, columns]
    if result.posterior is not None:
        factor = result.posterior.memberships[c]
        diagonal = np.eye(len(h))[:, :, None]
        if not isinstance(factor, DirichletColumns):
            return diagonal * factor.sd[:, columns] ** 2
        return (diagonal * h - h[:, None] * h) / (factor.parameters[:, columns].sum(axis=0) + 1)
    w = result.components - result.components.mean(
        axis=1, keepdims=True
    )  # along the simplex it is the same
    gram = w.T @ w / result.noise[c] ** 2
    pull = np.diag(np.maximum(result.model.alpha0[c] - 1, 1e-6))
    scale = h.T[:, :, None] * h.T[:, None, :]
    inverse = scale * np.linalg.inv(scale * gram + pull)  # of gram + diag(pull / h^2)
    total = inverse.sum(axis=2)
    return np.moveaxis(
        inverse - total[:, :, None] * total[:, None, :] / total.sum(axis=1)[:, None, None], 0, 2
    )


def _inner(rows, columns):
    """<A_i, B_j> of M x K x K and K x K x N."""
    return rows.reshape(len(rows), -1) @ columns.reshape(-1, columns.shape[2])
