"""The real data, from the mirror in BJMD_DATA to a decomposition; skipped where there is none."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from bjmd.analysis import fitting
from bjmd.inference import restarts
from bjmd_paper import cards, shares
from bjmd_paper.datasets import catalogue, fetch
from bjmd_paper.datasets.real import metabric, mixology
from bjmd_paper.metric import auc_per_source, scaled


@pytest.fixture(scope="module")
def data():
    """The mirror with the real data; tests that need it are skipped where there is none."""
    if "BJMD_DATA" not in os.environ:
        pytest.skip("real data: set BJMD_DATA to a folder that holds them")
    return Path(os.environ["BJMD_DATA"]).resolve()


@pytest.fixture(scope="module")
def prepared(data, tmp_path_factory):
    """A function that finds, unpacks and reads a data set, once."""
    cache_folder = tmp_path_factory.mktemp("cache")

    @cache
    def prepare(name):
        folder, files = fetch.files(name, mirror=data, cache=cache_folder)
        assert files["known"].all()
        return catalogue.get(name).read(folder)

    return prepare


def test_three_sources(prepared):
    sources = prepared("3sources")
    assert sources.names == ["BBC", "Guardian", "Reuters"]
    assert sources.n_features == 4750 and sources.n_samples == [352, 302, 294]
    assert all(scipy.sparse.issparse(x) for x in sources.matrices)
    assert [x.nnz for x in sources.matrices] == [48226, 47055, 36744]
    assert [x.sum() for x in sources.matrices] == [74487, 71364, 55258]
    assert sources.class_names == [
        "business",
        "entertainment",
        "health",
        "politics",
        "sport",
        "tech",
    ]
    assert list(cards.class_counts(sources)["all"]) == [302, 156, 102, 140, 231, 134]
    assert sum((labels.sum(axis=0) > 1).sum() for labels in sources.labels) == 115
    assert (cards.comparison("3sources", sources)["difference"] == "").all()


def test_yale_b(prepared):
    sources = prepared("yale-b")
    assert sources.names == ["center", "side"]
    assert sources.n_features == 2016 and sources.n_samples == [567, 677]
    assert len(sources.class_names) == 38
    np.testing.assert_allclose([x.mean() for x in sources.matrices], 1)
    assert all(
        (labels.sum(axis=0) == 1).all() and labels.any(axis=1).all() for labels in sources.labels
    )
    assert (cards.comparison("yale-b", sources)["difference"] == "").all()


def test_metabric_489(prepared):
    sources = prepared("metabric-489")
    assert sources.n_features == 489 and sources.n_samples == [155, 630, 875]
    assert sum(sources.n_samples) == 1660
    table = cards.comparison("metabric-489", sources)
    assert not table["difference"].str.contains("Not explained").any()


def test_metabric_study_on_excerpts_in_the_true_layout(data):
    folder = data / "metabric/cbioportal_layout"
    if not folder.is_dir():
        pytest.skip("real data: the mirror has no excerpts of the METABRIC study")
    recent = metabric.read_patients(folder / "data_clinical_patient.txt")
    older = metabric.read_patients(folder / "older_release/data_clinical_patient.txt")
    assert older.loc[recent.index].equals(recent) and len(older) == len(recent)
    # the table of its README without claudin-low and NC
    counts = recent["group"].value_counts().to_dict()
    assert counts == {"low": 163, "moderate": 650, "high": 898}
    microarray = "data_mrna_illumina_microarray"
    intensities = metabric.read_expression(folder / f"{microarray}.excerpt.txt", recent)
    genes = ["ESR1", "ERBB2", "PGR", "TP53", "PIK3CA", "GATA3", "FOXA1", "MLPH"]
    assert list(intensities.index) == genes
    assert metabric.by_group(intensities, recent).n_samples == [155, 630, 875]
    scores = metabric.read_expression(
        folder / f"{microarray}_zscores_ref_diploid_samples.excerpt.txt", recent
    )
    assert list(scores.columns) == list(intensities.columns)
    # z-scores are an affine function of the intensities, gene by gene
    for gene in set(scores.index) & set(intensities.index):
        assert np.corrcoef(scores.loc[gene], intensities.loc[gene])[0, 1] > 0.999999


def test_mixology(prepared, data):
    """The errors of its README: the default is better than NMF, and the noise is found."""
    sources = prepared("mixology")
    assert sources.names == ["30 pg", "15 pg", "7.5 pg", "3.75 pg"]
    assert sources.n_features == 1000 and sources.n_samples == [97, 96, 106, 41]
    true = mixology.shares(data / "mixology")
    assert list(true.index) == [name for block in sources.sample_names for name in block]
    best = fitting.fit("cavi-bjmd", sources, 3, n_restarts=2, search=False).best
    assert shares.error(best.memberships, true.to_numpy().T) < 0.07
    np.testing.assert_allclose(best.noise, [0.23, 0.30, 0.39, 0.51], rtol=0.06)
    (nmf,) = restarts.run("jnmf", sources, 3, n_restarts=1)
    assert shares.error(scaled(nmf.memberships, nmf.components), true.to_numpy().T) > 0.08


def best_of_map(sources, n_components, **options):
    """The best 5 of 20 runs with the paper's priors at the seed of the config."""
    options |= {"priors": "paper", "tol": 1e-3}
    runs = restarts.run("map-bjmd", sources, n_components, n_restarts=20, seed=4, jobs=2, **options)
    return restarts.best(runs, 5)


@pytest.mark.parametrize(
    ("name", "n_components", "least_auc", "printed_noise"),
    [
        ("3sources", 6, [90.5, 90, 90], [0.3210, 0.3370, 0.2909]),
        ("yale-b", 38, [97.4, 93], [0.1106, 0.1790]),
    ],
)
def test_map_bjmd_has_the_printed_noise(prepared, name, n_components, least_auc, printed_noise):
    """With Z held for five sweeps."""
    sources = prepared(name)
    best = best_of_map(sources, n_components, prior="hierarchical", hold=5)
    auc = np.mean([auc_per_source(run.memberships, sources.labels) for run in best], axis=0)
    assert (100 * auc >= least_auc).all()
    noise = np.mean([run.noise for run in best], axis=0)
    np.testing.assert_allclose(noise, printed_noise, rtol=0.02)


def test_the_printed_update_meets_the_printed_noise_and_the_corrected_one_does_not(prepared):
    off = {}
    for prior in ("printed", "hierarchical"):
        runs = best_of_map(prepared("3sources"), 6, prior=prior)
        noise = np.mean([run.noise for run in runs], axis=0)
        off[prior] = np.abs(noise / [0.3210, 0.3370, 0.2909] - 1)
    assert off["printed"].mean() < 0.0015 and off["printed"].max() < 0.0025
    assert off["hierarchical"].min() > 0.0025
