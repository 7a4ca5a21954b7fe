"""The paper's VI-BJMD: mean-field ADVI on the model written in PyMC (docs/derivation.md, 6).

ADVI maps every unknown to the real line, approximates the posterior there by independent normals,
and follows noisy gradients of the ELBO.  The ELBO never settles, so the paper stops when the
memberships do:

    max_c ||H_new^(c) - H_old^(c)||_F^2 / ||H_old^(c)||_F^2 < tau,     checked every L iterations.

The likelihood is computed from sufficient statistics.  With all samples side by side, H samples x
components, s2_j the variance of sample j's source and V = diag(1/s2_j), it needs

    sum_c RSS_c / s2_c = sum_c ||X^(c)||^2 / s2_c - 2 <X (VH), W> + <W'W, H'(VH)>

so the graph has two products with the data and no M x N matrix.
"""

import logging
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.data.view import View
from bjmd.errors import FitError, InputError, positive_number, whole_number
from bjmd.inference import loop
from bjmd.inference.map import update_components
from bjmd.inference.registry import Method
from bjmd.inference.starts import random_memberships
from bjmd.model import Priors
from bjmd.results.decomposition import Decomposition, FittedModel
from bjmd.results.posterior import LogNormal, Normal, Posterior

N_DRAWS = 200
"""Draws from q(H) for the means and standard deviations of the memberships."""

_ONE_AT_A_TIME = threading.Lock()
"""PyTensor's settings belong to the whole process, so fits in threads take turns."""


def fit(
    sources: Sources,
    n_components: int,
    *,
    seed: int,
    alpha0: float | Sequence[float] = Priors.alpha0,
    lambda_: float = Priors.lambda_,
    a0: float = Priors.a0,
    b0: float = Priors.b0,
    tol: float = 1e-4,
    check_every: int = 1000,
    max_iterations: int = 150_000,
    watch: loop.Watch | None = None,
) -> Decomposition:
    """Fit by ADVI; `tol` is the paper's tau and `check_every` its L.

    The trace is minus the ELBO, estimated by one draw per iteration and averaged over `check_every`
    iterations; the objective is its last entry.  The history has the relative change of the
    memberships.
    """
    priors = Priors(alpha0, lambda_, a0, b0)
    positive_number("tol", tol, least=0)
    whole_number("check_every", check_every, least=1)
    whole_number("max_iterations", max_iterations, least=1)
    if n_components == 1:
        raise InputError("ADVI needs at least 2 components; use cavi-bjmd for one")

    with (
        _ONE_AT_A_TIME,
        _quiet_pymc() as (pm, pytensor),
        pytensor.config.change_flags(floatX="float32"),
        build_model(sources, n_components, priors) as model,
    ):
        inference = pm.ADVI(random_seed=seed, start=_start(sources, n_components, priors, seed))
        approximation = _Approximation(inference, model, sources)
        trace, history, end = _follow(
            inference, approximation, tol, check_every, max_iterations, watch
        )
        memberships, memberships_sd = approximation.memberships(np.random.default_rng(seed))
        components = Normal(*approximation.moments("W"))
        log_variances = LogNormal(*approximation.moments("s2"))
    columns = [Normal(h, sd) for h, sd in zip(memberships, memberships_sd, strict=True)]
    concentrations = np.array([priors.dirichlet(n_components)] * len(sources))
    return Decomposition(
        components=components.mean,
        memberships=memberships,
        noise=np.exp(0.5 * log_variances.log_mean),
        objective=trace[-1],
        trace=np.array(trace),
        trace_step=check_every,
        history=loop.series(history),
        posterior=Posterior(components, columns, log_variances),
        model=FittedModel(concentrations, np.array([a0, b0])),
        **end,
    )


METHOD = Method(
    "advi-bjmd",
    "VI-BJMD (ADVI)",
    fit,
    objective="minus the ELBO",
    infers_bjmd=True,
    variational=True,
)
POOLED = replace(METHOD, name="advi-catbjmd", label="VI-catBJMD (ADVI)", concatenate=True)


def build_model(sources, n_components, priors):
    """BJMD in PyMC; H has one row per sample, all sources one below the other."""
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt

    kind = pytensor.config.floatX
    # each sample's source, the sources' norms, and their numbers of entries
    source = np.repeat(np.arange(len(sources)), sources.n_samples)
    norms = np.array(sources.squared_norms, dtype=kind)
    n_entries = (sources.n_features * np.array(sources.n_samples)).astype(kind)
    (data,) = sources.concatenated().data
    with pm.Model() as model:
        w = pm.Laplace("W", 0, priors.lambda_, shape=(sources.n_features, n_components))
        h = pm.Dirichlet("H", priors.dirichlet(n_components), shape=(len(source), n_components))
        s2 = pm.InverseGamma("s2", priors.a0, priors.b0, shape=len(sources))
        weighted = h / s2[source][:, None]
        if data.is_sparse:
            from pytensor import sparse

            product = sparse.structured_dot(
                sparse.as_sparse_variable(scipy.sparse.csc_matrix(data.raw.astype(kind))), weighted
            )
        else:
            product = pt.dot(pt.constant(data.raw.astype(kind)), weighted)
        weighted_rss = (
            pt.sum(norms / s2)
            - 2 * pt.sum(product * w)
            + pt.sum(pt.dot(w.T, w) * pt.dot(h.T, weighted))
        )
        pm.Potential(
            "likelihood", -0.5 * weighted_rss - 0.5 * pt.sum(n_entries * pt.log(2 * np.pi * s2))
        )
    return model


def _start(sources, n_components, priors, seed):
    """The start of the other methods, moved halfway to the centre of the simplex, with W and s2.

    PyMC's own start (W = 0, all memberships equal, s2 at the mode of its prior) is a saddle point,
    and ADVI takes tens of thousands of iterations to leave it.
    """
    rng = np.random.default_rng(seed)
    columns = [
        0.5 * random_memberships(n_components, n, rng) + 0.5 / n_components
        for n in sources.n_samples
    ]
    variances = np.array(sources.squared_norms) / (sources.n_features * np.array(sources.n_samples))
    inverse_ridge = np.full((n_components, sources.n_features), priors.lambda_**2)
    views = [View(x) for x in sources.data]
    wt = update_components(views, columns, variances, inverse_ridge)
    return {"W": wt.T, "H": np.hstack(columns).T, "s2": variances}


class _Approximation:
    """The parts of the mean-field approximation on the scale of the model."""

    def __init__(self, inference, model, sources):
        import pytensor

        self._group = inference.approx.groups[0]
        self._sources = sources
        value = model.rvs_to_values[model["H"]]
        self._to_simplex = pytensor.function(
            [value], model.rvs_to_transforms[model["H"]].backward(value)
        )

    def moments(self, name):
        """Mean and sd of an unknown on the real line."""
        _, where, shape, _ = next(
            entry for key, entry in self._group.ordering.items() if key.startswith(name)
        )
        parameters = self._group.params_dict
        mean, rho = (
            parameters[key].get_value()[where].reshape(shape).astype(float) for key in ("mu", "rho")
        )
        return mean, np.logaddexp(0, rho)

    def centre(self):
        """The centre of q(H) on the simplex by source, components x samples; cheap to compute."""
        return self._by_source(self._on_simplex(self.moments("H")[0]))

    def memberships(self, rng):
        """Mean and sd of q(H) by source from N_DRAWS draws; there is no closed form for them."""
        mean, sd = self.moments("H")
        draws = [
            self._on_simplex(mean + sd * rng.standard_normal(mean.shape)) for _ in range(N_DRAWS)
        ]
        moments = np.mean(draws, axis=0), np.std(draws, axis=0, ddof=1)
        return [self._by_source(moment) for moment in moments]

    def _on_simplex(self, unconstrained):
        kind = self._group.params_dict["mu"].dtype
        return self._to_simplex(unconstrained.astype(kind)).astype(float)

    def _by_source(self, rows):
        return [np.ascontiguousarray(block) for block in self._sources.split(rows.T)]


def _follow(inference, approximation, tol, check_every, max_iterations, watch):
    """Iterate until the memberships settle; returns the trace, the history, and how it ended."""
    import pytensor

    # the excluded rewrite folds a scalar into X(VH) and so computes the product twice
    mode = pytensor.compile.get_default_mode().excluding("local_dot22_to_dot22scalar")
    step = inference.objective.step_function(score=True, compile_kwargs={"mode": mode})
    trace: list[float] = []
    history: list[Mapping[str, Any]] = []
    centre = approximation.centre()
    done = 0
    while done < max_iterations:
        asked = min(check_every, max_iterations - done)
        losses = [float(step()) for _ in range(asked)]
        done += asked
        for tell in loop.after_sweep:
            tell()
        previous = centre
        centre = approximation.centre()
        change = _relative_change(previous, centre)
        trace.append(float(np.mean(losses)))
        history.append({"relative_change": change, **(watch(centre) if watch else {})})
        if np.isnan(trace[-1]) or not np.isfinite(change):
            raise FitError(
                f"ADVI diverged within {done} iterations; rescale the data or the priors"
            )
        if change < tol:
            reason = f"memberships changed by less than tol = {tol:g} in iteration {done}"
            return trace, history, {"converged": True, "reason": reason}
    reason = f"stopped at max_iterations = {max_iterations}"
    return trace, history, {"converged": False, "reason": reason}


def _relative_change(previous, current):
    return max(((b - a) ** 2).sum() / (a**2).sum() for a, b in zip(previous, current, strict=True))


@contextmanager
def _quiet_pymc():
    """PyMC and PyTensor without their warnings about compilers and BLAS."""
    # it speaks when something is compiled for the first time
    logging.getLogger("pytensor.tensor.blas").setLevel(logging.ERROR)
    with warnings.catch_warnings(action="ignore"):
        try:
            import pymc
            import pytensor
        except ImportError:
            raise InputError(
                "ADVI needs PyMC; install it with: pip install 'pymc<6'; or use cavi-bjmd"
            ) from None
        yield pymc, pytensor
