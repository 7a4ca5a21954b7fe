"""A fixed small run of every method gives the arrays stored in tests/fixed/run.npz.

On the kind of machine that recorded them all bits are the same.  Other processors round sums
differently, so there the arrays agree to many digits.  The long chain of bnmf amplifies a last bit
until nothing but its distribution stays the same, which test_bnmf.py compares with the exact one:
elsewhere bnmf-start, its first four draws, is compared to many digits.

If a change is meant to change the numbers of some runs, record those again, and say why in the
commit; new runs are recorded in the same way:

    python tests/test_fixed_run.py jmd glad
"""

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bjmd.data.sources import Sources
from bjmd.inference import projection, registry
from bjmd_paper.datasets import synthetic
from bjmd_paper.nonnegative import nonnegative

STORED = Path(__file__).parent / "fixed" / "run.npz"
RUNS = {name: (name, {}) for name in registry.method_names() if not name.startswith("advi")} | {
    "map-bjmd-plain": ("map-bjmd", {"momentum": False}),
    "map-bjmd-hierarchical": ("map-bjmd", {"prior": "hierarchical"}),
    "map-bjmd-held": ("map-bjmd", {"prior": "hierarchical", "hold": 5}),
    "map-bjmd-printed": ("map-bjmd", {"prior": "printed"}),
    "bnmf-start": ("bnmf", {"burn_in": 0, "n_draws": 4}),
    "advi-bjmd": ("advi-bjmd", {"max_iterations": 100, "check_every": 50}),
    "map-bjmd-missing": ("map-bjmd", {}),
    "cavi-bjmd-missing": ("cavi-bjmd", {}),
    "map-bjmd-data": ("map-bjmd", {"priors": "data"}),
    "cavi-bjmd-data": ("cavi-bjmd", {"priors": "data"}),
    "map-bjmd-data-missing": ("map-bjmd", {"priors": "data"}),
    "cavi-bjmd-by-source": (
        "cavi-bjmd",
        {"priors": "data", "alpha0": "by-source", "offsets": False},
    ),
    "cavi-bjmd-weighted": ("cavi-bjmd", {"priors": "data", "noise": "feature+sample"}),
    "cavi-bjmd-robust-missing": ("cavi-bjmd", {"priors": "data", "noise": "robust"}),
}


def data(name):
    """Part of the paper's small data; a tenth of the entries are missing if the name says so."""
    whole = synthetic.generate("small", 4.0, seed=4)
    sources = Sources([np.ascontiguousarray(x[::3, :12]) for x in whole.sources.matrices])
    if name.endswith("missing"):
        rng = np.random.default_rng(1)
        return Sources([np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in sources.matrices])
    return nonnegative(sources, "clip") if registry.get(RUNS[name][0]).nonnegative else sources


def arrays(name):
    """All numbers of a fit, by name."""
    method, options = RUNS[name]
    if method.startswith(("cavi", "map")):
        options = {"priors": "paper"} | options
    if method.startswith("map"):
        options = {"tol": 1e-5} | options
    result = registry.fit(method, data(name), 3, seed=7, **options)
    numbers = {
        "components": result.components,
        "trace": result.trace,
        "objective": result.objective,
    }
    numbers |= {f"memberships {c}": h for c, h in enumerate(result.memberships)}
    if result.noise is not None:
        numbers["noise"] = result.noise
    if method in ("cavi-bjmd", "cavi-catbjmd", "advi-bjmd"):
        numbers["sd of components"] = result.posterior.components.plain().sd
        numbers["sd of noise"] = result.posterior.noise.plain().sd
        for c, memberships in enumerate(result.posterior.memberships):
            numbers[f"sd of memberships {c}"] = memberships.plain().sd
    if method in ("cavi-bjmd", "map-bjmd"):
        new = projection.project(result, data("map-bjmd-missing").matrices[0])
        numbers |= {"new memberships": new.memberships, "new noise": new.noise}
    if options.get("priors") == "data":
        numbers |= {key: value for key, value in vars(result.model).items() if value is not None}
    if "sample_precision" in numbers:
        numbers["sample_precision"] = np.concatenate(numbers["sample_precision"])
    return {key: np.asarray(value) for key, value in numbers.items()}


def machine():
    """What decides the last bits: the libraries, and the instructions that each of them uses."""
    import llvmlite.binding
    import numba
    import scipy.linalg  # noqa: F401 (brings a BLAS of its own)

    features = llvmlite.binding.get_host_cpu_features()
    blas = {
        (lib["version"], lib["architecture"])
        for lib in threadpool_info()
        if lib.get("architecture")
    }
    instructions = {
        "numpy": np.show_config(mode="dicts")["SIMD Extensions"].get("found", []),
        "blas": sorted(blas),
        "numba": [feature for feature in ("fma", "avx2", "avx512f") if features.get(feature)],
        "numba's processor": [
            numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
            numba.config.CPU_FEATURES,
        ],
    }
    compiler = None
    if shutil.which("g++"):
        command = ["g++", "-dumpfullversion"]
        compiler = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    system = [platform.machine(), platform.system(), *platform.libc_ver(), compiler]
    return json.dumps([system, np.__version__, numba.__version__, instructions])


@pytest.mark.parametrize("name", RUNS)
def test_a_fixed_run_gives_the_stored_arrays(name):
    prefix = f"{name}/"
    with np.load(STORED) as stored:
        expected = {
            key.removeprefix(prefix): stored[key] for key in stored.files if key.startswith(prefix)
        }
    recorded_on = str(expected.pop("machine"))
    numbers = arrays(name)
    assert numbers.keys() == expected.keys()
    if recorded_on == machine():
        for key, value in numbers.items():
            assert np.array_equal(value, expected[key]), key
    elif name != "bnmf":
        for key, value in numbers.items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-6, err_msg=key)


if __name__ == "__main__":
    with np.load(STORED) as stored:
        kept = {key: stored[key] for key in stored.files}
    for name in sys.argv[1:]:
        kept = {key: value for key, value in kept.items() if not key.startswith(f"{name}/")}
        kept |= {f"{name}/{key}": value for key, value in arrays(name).items()}
        kept[f"{name}/machine"] = np.array(machine())
    np.savez_compressed(STORED, **kept)
    print(f"{len(sys.argv) - 1} runs were recorded in {STORED}")
