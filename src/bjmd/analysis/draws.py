"""Draws from the posterior of a closed-form fit, and what they say about entries of the data."""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.results import predictive
from bjmd.results.decomposition import Decomposition

MOST_SAMPLES = 100
"""Of each source, among whose entries those for ArviZ are chosen."""
N_CHAINS = 4


class PosteriorDraws(NamedTuple):
    """Draws from the posterior; the first axis of every array runs over draws.

    Attributes
    ----------
    components : ndarray of shape (n_draws, n_components, n_features)
    memberships : list of ndarray of shape (n_draws, n_samples, n_components)
        One array per source.
    noise : ndarray of shape (n_draws, n_sources)
        Standard deviations.
    offsets : ndarray of shape (n_draws, n_sources, n_features), or None for a fit without offsets
    """

    components: np.ndarray
    memberships: list[np.ndarray]
    noise: np.ndarray
    offsets: np.ndarray | None = None


def sample(result: Decomposition, n_draws: int, rng: np.random.RandomState) -> PosteriorDraws:
    """Independent draws of everything that has a posterior."""
    if result.method != "cavi-bjmd":
        raise InputError("only a fit with inference='cavi' has a posterior to draw from; use it")
    posterior: Any = result.posterior
    model: Any = result.model
    draws = PosteriorDraws(
        components=np.swapaxes(posterior.components.sample(n_draws, rng), 1, 2),
        memberships=[
            np.swapaxes(factor.sample(n_draws, rng), 1, 2) for factor in posterior.memberships
        ],
        noise=posterior.noise.sample(n_draws, rng),
    )
    if model.offsets is None:
        return draws
    size = (n_draws, *model.offsets.shape)
    return draws._replace(offsets=rng.normal(model.offsets, model.offsets_sd, size))


def to_arviz(
    result: Decomposition,
    coords: dict[str, Any],
    n_draws: int,
    rng: np.random.RandomState,
    data: Sources | None = None,
    n_entries: int = 0,
) -> Any:
    """An arviz.InferenceData of draws, and of so many entries of the data if these are given.

    The draws are dealt out to chains, as ArviZ expects them.
    """
    try:
        import arviz
    except ImportError:
        raise InputError(
            "to_arviz needs the package arviz; install it with: pip install 'arviz<1'"
        ) from None

    draws = sample(result, n_draws, rng)
    joined = draws._asdict() | {"memberships": np.concatenate(draws.memberships, axis=1)}
    groups = {"posterior": {name: x for name, x in joined.items() if x is not None}}
    observed: dict[str, Any] = {}
    if data is not None:
        x, groups["posterior_predictive"], groups["log_likelihood"] = _entries(
            result, draws, data, n_entries, rng
        )
        observed["observed_data"] = {"x": x}
    n_chains = N_CHAINS if n_draws % N_CHAINS == 0 else 1
    dealt: dict[str, Any] = {
        group: {name: x.reshape(n_chains, -1, *x.shape[1:]) for name, x in variables.items()}
        for group, variables in groups.items()
    }
    dims = {
        "components": ["component", "feature"],
        "memberships": ["sample", "component"],
        "noise": ["source"],
        "offsets": ["source", "feature"],
        "x": ["entry"],
    }
    inference_data = arviz.from_dict(**dealt, **observed, coords=coords, dims=dims)
    source_of_sample = np.repeat(coords["source"], [h.shape[1] for h in draws.memberships])
    inference_data.posterior = inference_data.posterior.assign_coords(
        source_of_sample=("sample", source_of_sample)
    )
    return inference_data


def _entries(
    result: Decomposition,
    draws: PosteriorDraws,
    data: Sources,
    n_entries: int,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Observed entries, draws of new ones in their place, and the log-likelihood of both."""
    from scipy import stats

    data.require_in_memory("looking at single entries")
    model: Any = result.model
    nu = model.degrees_of_freedom
    by_source = []
    for c, x in enumerate(data.data):
        part = slice(None, None, ceil(x.shape[1] / MOST_SAMPLES))
        block = x.columns(part)
        places = np.argwhere(~np.isnan(block))
        wanted = max(1, round(n_entries * data.n_observed[c] / sum(data.n_observed)))
        i, j = rng.permutation(places)[:wanted].T
        memberships = draws.memberships[c][:, part][:, j]
        mean = np.einsum("dke,dek->de", draws.components[:, :, i], memberships)
        if draws.offsets is not None:
            mean += draws.offsets[:, c, i]
        relative = predictive.noise_variance(result, c, part) / np.asarray(result.noise)[c] ** 2
        sd = draws.noise[:, [c]] * np.sqrt(np.broadcast_to(relative, block.shape)[i, j])
        density = stats.norm(mean, sd) if nu is None else stats.t(nu[c], mean, sd)
        entries = block[i, j]
        by_source.append((entries, density.rvs(random_state=rng), density.logpdf(entries)))
    x, predicted, likelihood = (
        np.concatenate(part, axis=-1) for part in zip(*by_source, strict=True)
    )
    return x, {"x": predicted}, {"x": likelihood}
