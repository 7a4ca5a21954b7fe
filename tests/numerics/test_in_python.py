"""Compiled loops do not notice what they read or write beyond the end of an array; left to Python
they do, and give the same.
"""

import sys

import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.inference import cavi, projection, registry

FITS = {
    "closed form": ("cavi-bjmd", {"priors": "paper"}),
    "closed form with weights": ("cavi-bjmd", {"noise": "feature+sample+robust"}),
    "MAP": ("map-bjmd", {}),
    "Laplace": ("jmd", {}),
    "joint NMF": ("jnmf", {}),
    "semi-NMF": ("semi-nmf", {}),
    "BNMF": ("bnmf", {"burn_in": 2, "n_draws": 4}),
}


def fitted(name, missing):
    """Fewer samples than lanes, and more features."""
    method, options = FITS[name]
    rng = np.random.default_rng(0)
    matrices = [rng.random((66, 3)) @ rng.random((3, n)) + rng.random((66, n)) for n in (7, 5)]
    if missing:
        matrices = [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in matrices]
    if method != "bnmf":
        options = {**options, "max_sweeps": 3}
    result = registry.fit(method, Sources(matrices), 3, **options)
    arrays = [result.trace, result.components, *result.memberships]
    if result.model is not None:
        arrays.append(projection.project(result, matrices[0], noise=0.3).memberships)
    return arrays


@pytest.mark.parametrize(
    ("name", "missing"),
    [*((name, False) for name in FITS), ("closed form with weights", True), ("MAP", True)],
)
def test_loops_left_to_python_give_the_same(name, missing, monkeypatch):
    monkeypatch.setattr(cavi, "SETTLING_ROUNDS", 1)
    expected = fitted(name, missing)
    for module in [m for key, m in sys.modules.items() if key.startswith("bjmd")]:
        for key, value in list(vars(module).items()):
            if hasattr(value, "py_func"):
                monkeypatch.setattr(module, key, value.py_func)
    for compiled, in_python in zip(expected, fitted(name, missing), strict=True):
        np.testing.assert_allclose(in_python, compiled, rtol=1e-7, atol=1e-9)
