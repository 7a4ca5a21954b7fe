"""The package keeps its shape: who may import whom, and what `import bjmd` costs."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import bjmd

ROOT = Path(bjmd.__file__).parent
MOST_MODULES = 36


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PACKAGES = [ROOT, ROOT.with_name("bjmd_paper")]
MODULES = {
    module_name(path): path for package in PACKAGES for path in sorted(package.rglob("*.py"))
}


@functools.cache
def imports(name):
    """The modules of ours that a module imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports by a relative path; write it in full"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
    return {other for other in found if other.split(".")[0] in ("bjmd", "bjmd_paper")}


ORDER = (
    ("bjmd.numerics",),
    ("bjmd.errors",),
    ("bjmd.data",),
    ("bjmd.model",),
    ("bjmd.results",),
    ("bjmd.inference",),
    ("bjmd.analysis",),
    ("bjmd.files", "bjmd.report"),
    ("bjmd.estimator", "bjmd.tl", "bjmd.pl", "bjmd.commands", "bjmd.cli"),
    ("bjmd_paper",),
)
"""Every package imports only from those before it, and from those beside it."""


def inside(name, package):
    return name == package or name.startswith(f"{package}.")


def rank(name):
    return next(i for i, group in enumerate(ORDER) for package in group if inside(name, package))


def test_the_imports_are_seen():
    """The tests below would pass on nothing at all."""
    assert "bjmd.numerics.lanes" in imports("bjmd.numerics.dirichlet")
    assert "bjmd.analysis.intervals" in imports("bjmd.analysis.fitting")  # inside a function
    assert "bjmd_paper.metric" in imports("bjmd_paper.scores")
    assert len(MODULES) > 60


def test_imports_go_one_way_and_no_two_packages_import_each_other():
    def package(name):
        return ".".join(name.split(".")[:2])

    pairs = {
        (package(name), package(other))
        for name in MODULES
        for other in imports(name)
        if "bjmd" not in (name, other) and package(name) != package(other)
    }
    assert not [pair for pair in pairs if rank(pair[1]) > rank(pair[0]) or pair[::-1] in pairs]


def loaded_after(statement):
    """The modules that a fresh Python holds after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def imports_of_the_workflow():
    """The import statements of all scripts."""
    scripts = (ROOT.parents[1] / "workflow/scripts").glob("*.py")
    nodes = [node for path in scripts for node in ast.parse(path.read_text(encoding="utf-8")).body]
    found = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert len(found) > 20
    return "\n".join(found)


FIT = "bjmd.fit('cavi-bjmd', bjmd.Sources([np.eye(4)]), 2, max_sweeps=2)"
HELP = "from bjmd import cli\ntry: cli.main({})\nexcept SystemExit: pass"
NOT_NEEDED = {
    HELP.format(["--help"]): ["numpy"],
    HELP.format(["fit", "--help"]): ["pandas"],
    "import bjmd": ["numpy", "scipy", "pandas", "sklearn", "numba", "matplotlib"],
    f"import bjmd; import numpy as np; {FIT}": ["matplotlib", "scipy.stats", "pandas"],
    # hundreds of jobs rank restarts, and most jobs of the workflow take a second
    "from bjmd.inference import registry, restarts; from bjmd.results import storage": [
        "numba",
        "pandas",
        "scipy.optimize",
    ],
    imports_of_the_workflow(): [
        "scipy.stats",
        "scipy.optimize",
        "sklearn",
        "pymc",
        "matplotlib.pyplot",
    ],
}


@pytest.mark.parametrize(("statement", "heavy"), NOT_NEEDED.items(), ids=range(len(NOT_NEEDED)))
def test_nothing_imports_more_than_it_needs(statement, heavy):
    """Each of these takes from a tenth of a second to more than the work itself."""
    loaded = loaded_after(statement)
    assert "bjmd" in loaded and not loaded & {*heavy}


def test_a_fit_of_a_file_passes_few_modules_of_ours_and_of_others(tmp_path):
    """Few enough to read in an hour or two; with its report drawn and written."""
    data = ROOT.parents[1] / "config/example/lab-a.tsv"
    out = str(tmp_path / "out")
    fit = ["fit", str(data), "-k", "2", "--restarts", "2", "-o", out]
    loaded = loaded_after(f"from bjmd import cli; cli.main({fit!r})")
    for command in (["show", out], ["transform", out, str(data)]):
        after = loaded_after(f"from bjmd import cli; cli.main({command!r})")
        assert "bjmd.files.outputs" in after and not {"matplotlib", "scipy.stats"} & after
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    modules = sorted(name for name in loaded if inside(name, "bjmd") and name not in packages)
    assert len(modules) <= MOST_MODULES, modules
    assert "matplotlib" in loaded
    assert not {"scipy.stats", "sklearn", "joblib", "matplotlib.pyplot"} & loaded


def test_every_module_says_what_it_is_for():
    for name, path in MODULES.items():
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), name
