"""Methods of other packages, the example in docs/how-to/new-method.md, and what docs/methods.md
says of ours.
"""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry, restarts
from bjmd_paper.datasets import synthetic

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture
def registered(monkeypatch):
    page = (DOCS / "how-to" / "new-method.md").read_text(encoding="utf-8")
    file, lines, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    module = ModuleType(re.match(r"# src/(.*)\.py\n", file)[1].replace("/", "."))
    assert f'"{module.__name__}:METHOD"' in page
    monkeypatch.setattr(registry, "_registered", {})
    exec(file, module.__dict__)
    exec(lines, module.__dict__)
    return "rank"


def test_the_example_finds_the_best_approximation(registered):
    """The squared error of the best approximation of rank K is the sum of the other squared
    singular values.
    """
    sources = synthetic.generate("small", 4.0, 4).sources
    best = restarts.best(restarts.run(registered, sources, 5, n_restarts=3), 1)[0]
    x = np.hstack(sources.matrices)
    np.testing.assert_allclose(
        best.objective, (np.linalg.svd(x, compute_uv=False)[5:] ** 2).sum(), rtol=1e-5
    )
    np.testing.assert_allclose(
        ((x - best.components @ np.hstack(best.memberships)) ** 2).sum(), best.objective, rtol=1e-9
    )
    assert best.converged
    sparse = Sources([scipy.sparse.csr_array(block) for block in sources.matrices])
    np.testing.assert_allclose(
        registry.fit(registered, sparse, 5).objective, best.objective, rtol=1e-5
    )


PACKAGE = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "means-of-others"
version = "1.0"

[project.entry-points."bjmd.methods"]
means = "means_of_others:METHOD"
gone = "means_of_others:NOWHERE"

[tool.setuptools]
py-modules = ["means_of_others"]
""",
    "means_of_others.py": """\
import numpy as np

from bjmd import Decomposition
from bjmd.inference.registry import Method


def fit(sources, n_components, *, seed, shift=0.0):
    (x,) = sources.matrices
    mean = x.mean(axis=1, keepdims=True) + shift
    error = float(((x - mean) ** 2).sum())
    w = np.repeat(mean, n_components, axis=1)
    h = np.full((n_components, x.shape[1]), 1 / n_components)
    return Decomposition(w, [h], None, error, np.array([error]), True, "nothing to iterate")


METHOD = Method("means", "Means", fit, "squared error", concatenate=True)
""",
}
SCRIPT = """
import sys

import numpy as np

import bjmd
from bjmd.cli import main

names = bjmd.method_names()
assert names == sorted(names) and {"means", "gone", "cavi-bjmd"} <= {*names}, names
assert "means_of_others" not in sys.modules and "numba" not in sys.modules
x = np.arange(12.0).reshape(3, 4)
result = bjmd.fit("means", bjmd.Sources([x, x + 1]), 2, shift=1.0)
assert [h.shape for h in result.memberships] == [(2, 4), (2, 4)]
np.testing.assert_allclose(result.objective, 24 * (1 + 1.25 + 0.25))
assert "bjmd.inference.cavi" not in sys.modules
try:
    bjmd.fit("gone", bjmd.Sources([x]), 2)
except ValueError as error:
    assert "method 'gone' cannot be loaded from 'means_of_others:NOWHERE'" in str(error), error
else:
    raise AssertionError
rows = [["", "s1", "s2", "s3", "s4"], *([f"f{i}", *map(str, row)] for i, row in enumerate(x))]
with open("x.tsv", "w") as file:
    file.write("\\n".join("\\t".join(row) for row in rows))
assert main(["fit", "x.tsv", "-k", "2", "--method", "means", "-o", "out"]) in (0, None)
"""


def test_a_method_of_another_package_works_like_ours(tmp_path):
    source = tmp_path / "package"
    source.mkdir()
    for name, text in PACKAGE.items():
        (source / name).write_text(text, encoding="utf-8")
    target = tmp_path / "target"
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [sys.executable, "-m", *install, "--target", str(target), str(source)], check=True
    )
    code = f"import sys; sys.path.insert(0, {str(target)!r})\n{SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "components.tsv").exists()


def test_a_package_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    registry._entries.cache_clear()
    with pytest.raises(InputError, match="the package is not installed; run `pip install"):
        registry.method_names()


def test_an_entry_point_must_name_a_method(monkeypatch):
    entry = registry.EntryPoint("new", "bjmd.errors:count", registry.GROUP)
    monkeypatch.setattr(registry, "_entries", lambda: {"new": entry})
    with pytest.raises(InputError, match="'new' must name a bjmd Method of that name"):
        registry.get("new")


def test_the_page_names_every_method_and_every_option():
    """A method or option that is added to the registry must be added to the page."""
    page = (DOCS / "methods.md").read_text(encoding="utf-8")
    table, *_ = page.split("\n## ")
    for name in registry.method_names():
        assert f"`{name}`" in table, name
    sections = {heading.split("\n")[0]: heading for heading in page.split("\n## ")[1:]}
    for name in ("map-bjmd", "jmd", "kmeans", "jnmf", "semi-nmf", "bnmf"):
        (section,) = (text for heading, text in sections.items() if name in heading.split(" and "))
        for option in registry.get(name).options():
            assert f"`{option}`" in section or f"`{option}=" in section, f"{name}: {option}"
