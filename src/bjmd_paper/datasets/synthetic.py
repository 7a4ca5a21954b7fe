"""The paper's synthetic data: overlapping blocks as components, Bernoulli memberships."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bjmd.data.sources import Sources
from bjmd.results.decomposition import Decomposition


@dataclass(frozen=True)
class Scale:
    """The constants of one size of the synthetic data, named as in the paper."""

    title: str
    a: float
    n_components: int
    L: int
    coh: int
    samples_per_source: int
    p: float
    printed: dict[str, dict]
    """The paper's numbers, by row of its table."""

    kind = "synthetic"
    nonnegative = "clip"

    @property
    def n_features(self):
        return self.L + (self.n_components - 2) * (self.L - self.coh)


SCALES = {
    name: Scale(**fields)
    for name, fields in tomllib.loads(
        Path(__file__).with_name("synthetic.toml").read_text(encoding="utf-8")
    ).items()
}
"""The paper's two sizes of synthetic data, "small" and "large"."""


@dataclass(frozen=True)
class Synthetic:
    """The data with the truth behind them."""

    sources: Sources
    components: np.ndarray
    memberships: list[np.ndarray]
    noise: np.ndarray

    def truth(self):
        """The truth in the form of a result, as a control that every table can show."""
        return Decomposition(
            components=self.components,
            memberships=self.memberships,
            noise=self.noise,
            objective=np.nan,
            trace=np.empty(0),
            converged=True,
            reason="known",
            method="truth",
        )


def generate(scale, sigma3, seed, *, extra_features=0, height=None):
    """Draw the data of one scale ("small" or "large") with noise sd (1, 2.5, sigma3).

    The patterns in W have the height that the paper prints, or another.  For one seed, memberships
    and standardised noise are the same at every sigma3 and height, so a sweep over sigma3 changes
    only the noise of source 3.  Extra features are pure noise; they are appended and leave the
    others unchanged.
    """
    size = SCALES[scale]
    rng = np.random.default_rng(seed)
    components = _blocks(size, size.a if height is None else height)
    sigmas = np.array([1.0, 2.5, float(sigma3)])
    memberships = [_memberships(size, rng) for _ in sigmas]
    matrices = [
        components @ h + sigma * rng.standard_normal((size.n_features, h.shape[1]))
        for h, sigma in zip(memberships, sigmas, strict=True)
    ]
    if extra_features:
        components = np.vstack([components, np.zeros((extra_features, size.n_components))])
        matrices = [
            np.vstack([x, sigma * rng.standard_normal((extra_features, x.shape[1]))])
            for x, sigma in zip(matrices, sigmas, strict=True)
        ]
    sources = Sources(
        matrices,
        labels=[h > 0 for h in memberships],
        class_names=[f"block {k + 1}" for k in range(size.n_components - 1)] + ["empty"],
    )
    return Synthetic(sources, components, memberships, sigmas)


def _blocks(size, height):
    """W: column k is high on L rows, shifted by L - coh from column to column; the last is zero."""
    components = np.zeros((size.n_features, size.n_components))
    for k in range(size.n_components - 1):
        first = k * (size.L - size.coh)
        components[first : first + size.L, k] = height
    return components


def _memberships(size, rng):
    """H: a sample is in each of the first K-1 components with chance p, or else in the last one.

    Its memberships are equal and sum to 1.
    """
    h = np.zeros((size.n_components, size.samples_per_source))
    h[:-1] = rng.random((size.n_components - 1, size.samples_per_source)) < size.p
    h[-1] = h[:-1].sum(axis=0) == 0
    return h / h.sum(axis=0)
