"""bjmd.tl and bjmd.pl: what scanpy's users expect of a tool and its pictures."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from matplotlib.figure import Figure

import bjmd
from bjmd import cli
from bjmd.errors import InputError
from bjmd.files import outputs

anndata = pytest.importorskip("anndata")
HOW = {"source_key": "batch", "n_init": 2}


@pytest.fixture
def adata():
    """Two batches, one of them noisy, whose samples are mixed; the first 15 of 20 features vary."""
    rng = np.random.default_rng(0)
    components = 2 * rng.laplace(size=(3, 20))
    memberships = rng.dirichlet(np.full(3, 0.4), 60)
    components[:, 15:] = 1.0
    noisy = rng.random(60) < 0.4
    x = memberships @ components + np.where(noisy, 0.6, 0.2)[:, None] * rng.standard_normal(
        (60, 20)
    )
    obs = {
        "batch": pd.Categorical(np.where(noisy, "late", "early")),
        "kind": memberships.argmax(axis=1).astype(str),
    }
    return anndata.AnnData(
        x,
        obs=pd.DataFrame(obs, index=[f"cell{j}" for j in range(60)]),
        var=pd.DataFrame({"varies": np.arange(20) < 15}, index=[f"gene{i}" for i in range(20)]),
    )


def by_hand(adata, x=None, **options):
    """The same fit by the estimator, and a function that brings memberships into cells' order."""
    x = adata.X if x is None else x
    model = bjmd.BJMD(3, n_init=2, **options).fit(x, sources=adata.obs["batch"])

    def in_order(memberships):
        ordered = np.empty((len(x), 3))
        for name, h in zip(model.source_names_, memberships, strict=True):
            ordered[adata.obs["batch"] == name] = h
        return ordered

    return model, in_order


def test_the_result_is_that_of_the_estimator_in_the_places_where_scanpy_looks(adata):
    before = adata.copy()
    assert bjmd.tl.bjmd(adata, 3, **HOW) is None
    model, in_order = by_hand(before)
    np.testing.assert_array_equal(adata.obsm["X_bjmd"], in_order(model.memberships_))
    np.testing.assert_array_equal(adata.varm["bjmd"], model.components_.T)
    stored = adata.uns["bjmd"]
    assert list(stored["sources"]) == model.source_names_
    assert stored["objective"] == model.objective_
    np.testing.assert_array_equal(stored["noise"], model.noise_)
    np.testing.assert_array_equal(stored["variance_explained"], model.variance_explained_)
    assert stored["params"]["n_components"] == 3 and stored["params"]["source_key"] == "batch"
    assert (adata.obs["bjmd_source"] == adata.obs["batch"]).all()
    np.testing.assert_array_equal(adata.X, before.X)


def test_highly_variable_features_of_a_sparse_layer_under_another_key_in_a_copy(adata):
    adata.layers["other"] = scipy.sparse.csr_matrix(adata.X + 1)
    adata.var["highly_variable"] = adata.var["varies"]
    copy = bjmd.tl.bjmd(adata, 3, layer="other", key_added="mix", copy=True, **HOW)
    assert not adata.obsm and not adata.uns and set(copy.uns) == {"mix"}
    model, in_order = by_hand(adata, adata.X[:, :15] + 1)
    # sparse products round differently
    np.testing.assert_allclose(copy.obsm["mix"], in_order(model.memberships_), atol=1e-6)
    assert np.isnan(copy.varm["mix"][15:]).all() and np.isfinite(copy.varm["mix"][:15]).all()


def test_what_the_starts_agree_on_is_written_beside_the_best(adata, tmp_path):
    bjmd.tl.bjmd(adata, 3, consensus=True, **HOW)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    model, in_order = by_hand(adata, consensus=True)
    table = read.uns["bjmd"]["consensus"]
    np.testing.assert_array_equal(table["share"], model.consensus_.share)
    np.testing.assert_array_equal(table["spread"], model.consensus_.spread)
    assert table["correlation_with_best"].min() > 0.9
    np.testing.assert_array_equal(read.varm["bjmd_consensus"], model.consensus_.components.T)
    expected = in_order(model.consensus_.memberships)
    np.testing.assert_array_equal(read.obsm["bjmd_consensus"], expected)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_backed_object_gives_the_same_and_its_file_survives(adata, sparse, tmp_path):
    adata.X = scipy.sparse.csr_matrix(adata.X) if sparse else adata.X
    adata.var["highly_variable"] = adata.var["varies"]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    bjmd.tl.bjmd(adata, 3, **HOW)
    bjmd.tl.bjmd(backed, 3, **HOW)
    assert backed.isbacked
    # its matrix stays in the file, and sums over blocks round differently
    np.testing.assert_allclose(backed.obsm["X_bjmd"], adata.obsm["X_bjmd"], rtol=1e-10)


@pytest.mark.parametrize(
    "options", [{}, {"inference": "map"}, {"noise": "sample+robust", "offsets": True}], ids=str
)
def test_a_fit_survives_its_file_and_places_samples_again(adata, options, tmp_path):
    bjmd.tl.bjmd(adata, 3, **HOW, **options)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    new = anndata.AnnData(adata.X[::3, ::-1], obs=adata.obs[["batch"]][::3], var=adata.var[::-1])
    bjmd.tl.project(new, read)
    np.testing.assert_allclose(new.obsm["X_bjmd"], adata.obsm["X_bjmd"][::3], atol=1e-4)
    new_noise, noise = (
        pd.Series(data.uns["bjmd"]["noise"], data.uns["bjmd"]["sources"]) for data in (new, adata)
    )
    pd.testing.assert_series_equal(new_noise, noise, check_like=True)


def test_the_noise_of_an_unknown_source_is_estimated_and_lacking_features_are_missing(adata):
    bjmd.tl.bjmd(adata, 3, **HOW)
    early = adata[adata.obs["batch"] == "early", 1:].copy()
    early.obs["batch"] = "later"
    with warnings.catch_warnings(action="ignore"):  # new samples need no names of their own
        early.obs_names = ["cell"] * early.n_obs
        new = bjmd.tl.project(early, adata, copy=True)
    assert new.uns["bjmd"]["noise"] == pytest.approx(0.2, rel=0.1)
    assert np.abs(new.obsm["X_bjmd"] - early.obsm["X_bjmd"]).mean() < 0.03


def test_one_modality_of_a_mudata_object(adata):
    mudata = pytest.importorskip("mudata")
    other = anndata.AnnData(np.ones((60, 2)), obs=pd.DataFrame(index=adata.obs_names))
    other.var_names = ["protein0", "protein1"]
    with mudata.set_options(pull_on_update=False), warnings.catch_warnings(action="ignore"):
        both = mudata.MuData({"rna": adata, "protein": other})
    bjmd.tl.bjmd(both, 3, mod="rna", **HOW)
    model, in_order = by_hand(adata)
    np.testing.assert_array_equal(both["rna"].obsm["X_bjmd"], in_order(model.memberships_))
    assert "X_bjmd" not in both["protein"].obsm
    assert len(bjmd.pl.components(both, mod="rna").axes) == 3
    with pytest.raises(
        InputError, match=r"mod is None, which must name a modality .*; there are rna, protein"
    ):
        bjmd.tl.bjmd(both, 3)


def test_pictures_show_what_the_object_still_has(adata):
    bjmd.tl.bjmd(adata, 3, **HOW)
    part = adata[adata.obs["batch"] == "late"]
    heat, classes, *_ = bjmd.pl.memberships(part, groups="kind").axes
    shown = np.asarray(heat.get_images()[0].get_array())
    np.testing.assert_allclose(
        np.sort(shown, axis=1), np.sort(part.obsm["X_bjmd"].T, axis=1), rtol=1e-12
    )
    assert np.asarray(classes.get_images()[0].get_array()).sum(axis=0).tolist() == [1] * part.n_obs
    others = ("membership_bars", "simplex", "components", "components_by_source")
    for name in (*others, "noise", "variance_explained"):
        assert isinstance(getattr(bjmd.pl, name)(adata), Figure)


def test_offsets_are_shown_of_the_sources_that_are_shifted(adata):
    bjmd.tl.bjmd(adata, 3, **HOW)
    with pytest.raises(InputError, match="practically 0"):
        bjmd.pl.offsets(adata)
    is_late = (adata.obs["batch"] == "late").to_numpy()
    adata.X = adata.X + np.outer(is_late, np.linspace(-1, 1, 20))
    bjmd.tl.bjmd(adata, 3, **HOW)
    titles = [ax.get_title(loc="left") for ax in bjmd.pl.offsets(adata).axes]
    assert titles == ["late"]


def test_the_command_and_the_function_write_the_same(adata, tmp_path, monkeypatch, capsys):
    """The same data are fitted, either result serves tl and pl, and either can be verified."""
    monkeypatch.chdir(tmp_path)
    adata.var["highly_variable"] = adata.var["varies"]
    adata.layers["other"] = adata.X + 1
    adata.obs["type"] = [f"type {j % 9}" for j in range(60)]
    adata.write_h5ad("cells.h5ad")
    options = ["--split-by", "batch", "--layer", "other", "--labels", "type"]
    fit = ["fit", "cells.h5ad", "-k", "3", "--restarts", "2", "-o", "command", "--no-figures"]
    assert cli.main([*fit, *options]) == 0
    written = anndata.read_h5ad("command/cells.h5ad")
    how = {**HOW, "layer": "other", "labels": "type", "report": "python"}
    bjmd.tl.bjmd(adata, 3, **how)
    np.testing.assert_array_equal(written.obsm["X_bjmd"], adata.obsm["X_bjmd"])
    assert set(written.uns["bjmd"]) == set(adata.uns["bjmd"])
    assert "Of 20 features, the 15 highly variable ones were used." in (
        Path("python/summary.md").read_text()
    )
    new = adata[:7].copy()
    bjmd.tl.project(new, written)
    np.testing.assert_allclose(new.obsm["X_bjmd"], adata.obsm["X_bjmd"][:7], atol=1e-4)
    words = [text.get_text() for text in bjmd.pl.simplex(written, "type").legends[0].get_texts()]
    assert words == [f"type {j}" for j in range(9)]
    assert cli.main(["verify", "command"]) == 0
    assert cli.main(["verify", "python", "cells.h5ad"]) == 0
    assert cli.main(["verify", "python"]) == 2
    assert "was made in Python from data in memory; if they are in a" in capsys.readouterr().err
    with pytest.raises(InputError, match="holds earlier results"):
        bjmd.tl.bjmd(adata, 3, **how)
    bjmd.tl.bjmd(adata, 3, overwrite=True, **how)


def test_normalised_counts_are_normalised_again_for_new_samples(adata):
    counts = anndata.AnnData(np.round(np.exp(adata.X)), obs=adata.obs, var=adata.var)
    bjmd.tl.bjmd(counts, 3, normalize=True, **HOW)
    new = counts[:7].copy()
    bjmd.tl.project(new, counts)
    np.testing.assert_allclose(new.obsm["X_bjmd"], counts.obsm["X_bjmd"][:7], atol=1e-4)


def test_features_are_ranked_as_scanpy_shows_them(adata, tmp_path):
    with warnings.catch_warnings(action="ignore"):
        scanpy = pytest.importorskip("scanpy")
    bjmd.tl.bjmd(adata, 3, **HOW)
    bjmd.tl.rank_features(adata)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    table = scanpy.get.rank_genes_groups_df(read, "C2")
    w = pd.DataFrame(adata.varm["bjmd"], index=adata.var_names)
    difference = w[1] - w[[0, 2]].mean(axis=1)
    np.testing.assert_allclose(table["logfoldchanges"], difference[table["names"]], rtol=1e-6)
    assert len(table) == 20 and table["scores"].is_monotonic_decreasing
    assert (table["scores"] * table["logfoldchanges"] >= 0).all()
    assert (table["pvals_adj"] > 0.99 * table["pvals"]).all()
    scanpy.pl.rank_genes_groups(read, n_genes=5, show=False)


def test_the_number_of_components_of_an_object(adata):
    selection = bjmd.tl.select(adata, [2, 3], source_key="batch", n_restarts=2, n_repeats=1)
    assert selection.recommended == 3
    pd.testing.assert_frame_equal(adata.uns["bjmd_select"], selection.table)


def test_the_number_of_components_of_counts(adata):
    counts = anndata.AnnData(np.round(np.exp(adata.X)), obs=adata.obs, var=adata.var)
    how = {"source_key": "batch", "n_restarts": 1, "n_repeats": 1}
    with pytest.warns(UserWarning, match=r"whole numbers; if .* scanpy\.pp\.normalize_total"):
        bjmd.tl.select(counts, [1, 2], **how)
    logs = counts.copy()
    logs.X = np.log1p(1e4 * counts.X / counts.X.sum(axis=1, keepdims=True))
    expected = bjmd.tl.select(logs, [1, 2], **how).table["heldout"]
    with warnings.catch_warnings(action="error"):
        selection = bjmd.tl.select(counts, [1, 2], normalize=True, **how)
    np.testing.assert_allclose(selection.table["heldout"], expected)


MISTAKES = {
    "has negative entries, so these are not counts": lambda x: bjmd.tl.bjmd(x, 3, normalize=True),
    "no column 'type' for labels; it has batch": lambda x: bjmd.tl.bjmd(x, 3, labels="type"),
    "no column 'bach' in obs; it has batch": lambda x: bjmd.tl.bjmd(x, 3, source_key="bach"),
    "has no layer 'counts'; it has none": lambda x: bjmd.tl.bjmd(x, 3, layer="counts"),
    'no column "highly_variable"': lambda x: bjmd.tl.bjmd(x, 3, use_highly_variable=True),
    "uns has no fit under 'bjmd', or .*; call bjmd": lambda x: bjmd.tl.project(x, x),
    "uns has no fit under 'bjmd'": bjmd.pl.noise,
    "is a str, not an AnnData": lambda x: bjmd.tl.bjmd("cells.h5ad", 3),
    "obs has no column 'kid'; it has batch": lambda x: (
        bjmd.tl.bjmd(x, 3, **HOW),
        bjmd.pl.simplex(x, groups="kid"),
    ),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(adata, message):
    with pytest.raises(InputError, match=message):
        MISTAKES[message](adata)


def test_the_five_lines_of_the_readme_lead_to_a_report_and_ranked_genes(
    adata, tmp_path, monkeypatch
):
    """Neighbours in a Python without numba's compiler, which takes long over 60 samples."""
    with warnings.catch_warnings(action="ignore"):  # about scanpy's own future
        pytest.importorskip("scanpy")
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import bjmd, scanpy.*?)```", text, re.DOTALL)
    imports, *lines = filter(None, code.splitlines())
    assert len(lines) == 5
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    adata.write_h5ad("cells.h5ad")
    names = {}
    with warnings.catch_warnings(action="ignore"):
        exec("\n".join([imports, *lines[:-1]]), names)
    names["adata"].write_h5ad("cells.h5ad")
    last = f"{imports}\n{lines[0]}\n{lines[-1]}\nadata.write_h5ad('near.h5ad')"
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", last], env=env, check=True)
    read = anndata.read_h5ad("near.h5ad")
    near = np.asarray(read.obsp["connectivities"].argmax(axis=1)).ravel()
    kind = read.obs["kind"].to_numpy()
    assert np.mean(kind[near] == kind) > 0.6, "neighbours are of the same kind, in either batch"
    np.testing.assert_array_equal(outputs.load("out").results[0].components, read.varm["bjmd"])
    ranking = pd.read_csv("out/ranking.tsv", sep="\t").query("component == 'C1'")
    best = read.uns["rank_genes_groups"]["names"]["C1"][0]
    assert best == ranking["feature"].iloc[0] and Path("out/report.html").exists()
