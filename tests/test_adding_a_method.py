"""The example in docs/how-to/new-method.md, run as it stands, and what docs/methods.md says of the
others.
"""

import re
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
    file, line, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    module = ModuleType(re.match(r"# src/(.*)\.py\n", file)[1].replace("/", "."))
    assert f'"{module.__name__}"' in page
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    exec(file, module.__dict__)
    exec(line, module.__dict__)
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


def test_the_example_obeys_the_contract(registered):
    sources = synthetic.generate("small", 4.0, 4).sources
    with pytest.raises(
        InputError, match="method 'rank' has no option 'tolerance'; its options are tol, max_sweeps"
    ):
        registry.fit(registered, sources, 5, tolerance=1e-3)
    stopped = registry.fit(registered, sources, 5, max_sweeps=2)
    x = np.hstack(sources.matrices)
    np.testing.assert_allclose(
        ((x - stopped.components @ np.hstack(stopped.memberships)) ** 2).sum(), stopped.objective
    )
    assert not stopped.converged


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
