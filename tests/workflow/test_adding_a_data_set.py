"""The example in docs/data.md, as one more folder in a copy of the package."""

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import ROOT


def test_one_folder_adds_a_data_set(fresh):
    rng = np.random.default_rng(0)
    samples = [
        f"{lab}-{kind}-{j}"
        for lab in ("rome", "oslo")
        for kind in ("ill", "well")
        for j in range(15)
    ]
    table = pd.DataFrame(rng.normal(0.3, 1, (12, 60)), [f"gene {i}" for i in range(12)], samples)
    table.iloc[:6] += 4 * np.array(["-ill-" in name for name in samples])
    (fresh.folder / "mirror/toy").mkdir(parents=True)
    table.to_csv(fresh.folder / "mirror/toy/toy.csv")
    digest = hashlib.sha256((fresh.folder / "mirror/toy/toy.csv").read_bytes()).hexdigest()

    shutil.copytree(
        ROOT / "src", fresh.folder / "src", ignore=shutil.ignore_patterns("__pycache__")
    )
    page = (ROOT / "docs/data.md").read_text()
    examples = re.findall(r"```(?:toml|python)\n# (src/\S+)\n(.*?)```", page, re.DOTALL)
    assert [Path(name).name for name, _ in examples] == ["dataset.toml", "__init__.py"]
    for name, text in examples:
        file = fresh.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("<the sha256 of toy.csv>", digest))

    fits = {
        name: fresh.config["fits"][name] | {"restarts": 1, "best": 1}
        for name in ("map-bjmd", "jnmf")
    }
    synthetic = fresh.config["synthetic"] | {"scales": []}
    fresh.configure(
        fresh.config | {"real": ["toy"], "mirror": "mirror", "synthetic": synthetic, "fits": fits}
    )
    fresh.run(PYTHONPATH=str(fresh.folder / "src"))

    results = fresh.folder / "results"
    assert "| Toy |" in (results / "tables/card-toy.md").read_text()
    assert "| ill | 15 | 15 | 30 |" in (results / "tables/card-toy.md").read_text()
    kept = pd.read_csv(results / "tables/feature-test-toy.csv")["kept"]
    assert list(kept[:6]) == [True] * 6
    performance = pd.read_csv(results / "tables/performance-toy-filtered.csv").set_index(
        ["fit", "source_name"]
    )
    assert (performance.loc["map-bjmd", "auc"] > 95).all() and "jnmf" in performance.index
    page = (results / "report.html").read_text()
    assert "Toy, after the feature test" in page

    # the feature test has its noise from another fit
    fits["jnmf"] |= {"options": {"tol": 1e-3}}
    fresh.configure(fresh.config | {"fits": fits})
    jobs = fresh.jobs(PYTHONPATH=str(fresh.folder / "src"))
    assert jobs["fit"] == 2 and "feature_test" not in jobs
