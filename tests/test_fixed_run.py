"""A fixed small run of every method gives the arrays that are stored beside it: to the bit on the
kind of machine that recorded them, and to many digits on any other.

A change that is meant to change numbers records them anew, and says why:  python tests/test_fixed_run.py
"""

import json
import platform
from pathlib import Path

import numpy as np
import pytest

from bjmd.data.sources import Sources
from bjmd.inference import projection, registry
from bjmd_paper.datasets import synthetic
from bjmd_paper.nonnegative import nonnegative

STORED = Path(__file__).parent / "fixed" / "run.npz"
RUNS = {name: (name, {}) for name in registry.method_names() if not name.startswith("advi")} | {
    "map-bjmd-plain": ("map-bjmd", {"momentum": False}),
    "map-bjmd-hierarchical": ("map-bjmd", {"prior": "hierarchical"}),
    "map-bjmd-held": ("map-bjmd", {"prior": "hierarchical", "hold": 5}),
    "bnmf-icm": ("bnmf", {"mode": "icm"}),
    "advi-bjmd": ("advi-bjmd", {"max_iterations": 100, "check_every": 50}),
    "map-bjmd-missing": ("map-bjmd", {}),
    "cavi-bjmd-missing": ("cavi-bjmd", {}),
    "map-bjmd-data": ("map-bjmd", {"priors": "data"}),
    "cavi-bjmd-data": ("cavi-bjmd", {"priors": "data"}),
    "cavi-bjmd-learned": (
        "cavi-bjmd",
        {"priors": "data", "alpha0": "learned", "lambda_": "learned"},
    ),
    "cavi-bjmd-weighted": (
        "cavi-bjmd",
        {"priors": "data", "noise": "feature+sample", "offsets": True},
    ),
    "cavi-bjmd-robust-missing": (
        "cavi-bjmd",
        {"priors": "data", "noise": "robust", "offsets": True},
    ),
}


def data(name):
    """The first samples of the paper's small data; less a tenth of the entries where the name asks
    for it.
    """
    whole = synthetic.generate("small", 4.0, seed=4)
    sources = Sources([np.ascontiguousarray(x[::3, :12]) for x in whole.sources.matrices])
    if name.endswith("missing"):
        rng = np.random.default_rng(1)
        return Sources([np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in sources.matrices])
    return nonnegative(sources, "clip") if registry.get(RUNS[name][0]).nonnegative else sources


def arrays(name):
    """Everything that a fit found, by name."""
    method, options = RUNS[name]
    sources = data(name)
    if method.startswith(("cavi", "map")):
        options = (
            {"priors": "paper"} | ({"tol": 1e-5} if method.startswith("map") else {}) | options
        )
    result = registry.fit(method, sources, 3, seed=7, **options)
    found = {"components": result.components, "trace": result.trace, "objective": result.objective}
    found |= {f"memberships {c}": h for c, h in enumerate(result.memberships)}
    if result.noise is not None:
        found["noise"] = result.noise
    if method in ("cavi-bjmd", "cavi-catbjmd", "advi-bjmd"):
        found["sd of components"] = result.posterior.components.plain().sd
        found["sd of noise"] = result.posterior.noise.plain().sd
        found |= {
            f"sd of memberships {c}": m.plain().sd
            for c, m in enumerate(result.posterior.memberships)
        }
    if method in ("cavi-bjmd", "map-bjmd"):
        new = projection.project(result, data("map-bjmd-missing").matrices[0])
        found |= {"new memberships": new.memberships, "new noise": new.noise}
    if options.get("priors") == "data":
        found |= {name: value for name, value in vars(result.model).items() if value is not None}
    return {key: np.asarray(value) for key, value in found.items()}


def machine():
    """What decides the last bits: processor, NumPy's and numba's code for it, compiler of the BLAS."""
    import numba

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    simd = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return json.dumps(
        [
            platform.machine(),
            platform.system(),
            np.__version__,
            numba.__version__,
            blas.get("version"),
            sorted(simd),
        ]
    )


@pytest.mark.parametrize("name", RUNS)
def test_a_fixed_run_gives_the_stored_arrays(name):
    with np.load(STORED) as stored:
        expected = {
            key.partition("/")[2]: stored[key]
            for key in stored.files
            if key.partition("/")[0] == name
        }
        same_machine = str(stored["machine"]) == machine()
    found = arrays(name)
    assert found.keys() == expected.keys()
    for key, value in found.items():
        if same_machine:
            assert np.array_equal(value, expected[key]), key
        else:
            np.testing.assert_allclose(value, expected[key], rtol=1e-3, atol=1e-4, err_msg=key)


if __name__ == "__main__":
    every = {f"{name}/{key}": value for name in RUNS for key, value in arrays(name).items()}
    np.savez_compressed(STORED, machine=machine(), **every)
    print(f"{len(every)} arrays of {len(RUNS)} runs are in {STORED}")
