"""The sentences of a report that depend on what a fit found."""

from dataclasses import replace

import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.report import text


@pytest.fixture(scope="module")
def learned():
    """Three components where there are two, with learned scales."""
    rng = np.random.default_rng(3)
    x = rng.laplace(size=(40, 2)) @ rng.dirichlet([0.5, 0.5], 60).T + 0.3 * rng.standard_normal(
        (40, 60)
    )
    sources = Sources([x])
    return sources, registry.fit("cavi-bjmd", sources, 3, seed=0, lambda_="learned")


def words(sources, result):
    return " ".join(p for part in text.sections(sources, [result], (), {}) for p in part.paragraphs)


def with_scales(result, scales):
    return replace(result, model=replace(result.model, component_scales=np.array(scales)))


def test_components_that_vanished_are_named(learned):
    sources, result = learned
    assert "do not need C2:" in words(sources, with_scales(result, [1.0, 1e-6, 1.0]))
    assert "need C" not in words(sources, with_scales(result, [1.0, 0.9, 1.0]))
    none = words(sources, with_scales(result, [1e-9, 1e-6, 1e-7]))
    assert "Warning: all components have vanished" in none and "do not need" not in none


def test_vanishing_is_measured_against_the_noise_not_the_unit(learned):
    _, result = learned
    for unit in (1e-8, 1.0, 1e8):
        there = with_scales(
            replace(result, noise=unit * result.noise), unit * np.array([1.0, 1e-6, 1.0])
        )
        assert there.vanished().tolist() == [1]
    assert not len(replace(result, model=None).vanished())
