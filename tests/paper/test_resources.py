import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.inference import registry
from bjmd.results import storage
from bjmd_paper import resources
from bjmd_paper.datasets import synthetic
from bjmd_paper.resources import Need, Shape

ROOT = Path(__file__).parents[2]
SHAPES = {
    "small": (Shape(105, 360, 37_800), 5),
    "large": (Shape(1000, 3000, 3_000_000), 10),
    "3sources": (Shape(4750, 948, 132_025), 6),
    "metabric-489": (Shape(489, 1660, 811_740), 5),
    "yale-b": (Shape(2016, 1244, 2_507_904), 38),
    "metabric": (Shape(20_400, 1711, 34_904_400), 5),
}


def test_the_stored_shape_is_that_of_the_data(tmp_path):
    dense = np.ones((7, 4))
    storage.save_sources(tmp_path / "dense.npz", Sources([dense, dense[:, :3]]))
    assert resources.stored_shape(tmp_path / "dense.npz") == Shape(7, 7, 49)
    sparse = scipy.sparse.csc_array(np.eye(7)[:, :5])
    storage.save_sources(tmp_path / "sparse.npz", Sources([sparse, sparse]))
    assert resources.stored_shape(tmp_path / "sparse.npz") == Shape(7, 10, 10)


@pytest.mark.parametrize("scale", synthetic.SCALES)
def test_synthetic_data_have_the_expected_shape(scale, tmp_path):
    path = tmp_path / "data.npz"
    assert resources.shape(
        path, lambda: resources.expected_shape(scale)
    ) == resources.expected_shape(scale)
    storage.save_sources(path, synthetic.generate(scale, 4.0, 0).sources)
    assert resources.shape(
        path, lambda: resources.expected_shape(scale)
    ) == resources.expected_shape(scale)


@pytest.mark.parametrize("name", ["3sources", "metabric-489", "yale-b"])
def test_real_data_are_expected_to_be_at_least_what_they_are(name):
    real = SHAPES[name][0]
    expected = resources.expected_shape(f"{name}-filtered")
    assert (expected.n_features, expected.n_samples) >= (real.n_features, real.n_samples)
    assert real.n_entries <= expected.n_entries <= 4 * real.n_entries


# CPU seconds of one restart, and resident MB, as measured
@pytest.mark.parametrize(
    ("method", "data", "seconds", "mb"),
    [
        ("map-bjmd", "small", 0.02, 341),
        ("map-bjmd", "large", 0.6, 319),
        ("map-bjmd", "yale-b", 12.5, 313),
        ("cavi-bjmd", "yale-b", 18, 347),
        ("cavi-catbjmd", "3sources", 0.6, 303),
        ("cavi-catbjmd", "metabric", 15, 861),
        ("semi-nmf", "large", 1.4, 386),
        ("jnmf", "metabric-489", 1.6, 253),
        ("intnmf", "large", 10.8, 331),
        ("bnmf", "3sources", 3.9, 288),
        ("bnmf", "metabric", 91, 825),
        ("kmeans", "metabric", 1.9, 1310),
    ],
)
def test_a_fit_is_given_what_it_took(method, data, seconds, mb):
    shape, n_components = SHAPES[data]
    need = resources.fit(method, shape, n_components, n_restarts=20, options={})
    # nobody knows the number of sweeps beforehand, so the bound is wide
    assert 20 * seconds < need.seconds < 20 * (12 * seconds + 5 + 0.6 * shape.work(n_components))
    assert 400 + mb < need.mb < 4 * (400 + mb)


@pytest.mark.parametrize(
    ("data", "seconds"),
    [("small", 40), ("large", 780), ("metabric-489", 270), ("3sources", 480), ("yale-b", 2115)],
)
def test_advi_is_given_what_its_iterations_took(data, seconds):
    shape, n_components = SHAPES[data]
    need = resources.fit(
        "advi-bjmd", shape, n_components, n_restarts=1, options={"max_iterations": 60_000}
    )
    assert 0.8 * seconds < need.seconds < 2 * seconds + 60


# CPU seconds of one draw with eight fits at nine sigma3, as measured
@pytest.mark.parametrize(
    ("scale", "n_restarts", "seconds"), [("small", 5, 10), ("small", 10, 21), ("large", 2, 57)]
)
def test_a_draw_is_given_what_it_took(scale, n_restarts, seconds):
    need = resources.draw(scale, 1, levels=range(9), jobs=range(8), n_restarts=n_restarts)
    assert seconds < need.seconds < 3 * seconds + 30


@pytest.mark.parametrize(("extras", "seconds"), [([105, 1000], 12), ([105, 1000, 5000], 51)])
def test_a_draw_of_the_feature_test_is_given_what_it_took(extras, seconds):
    names = [
        name
        for name in registry.method_names()
        if registry.get(name).cost != "gradients" and name != "random"
    ]
    jobs = {name: {"method": name, "options": {}, "n_components": 5} for name in names}
    need = resources.feature_draw(1, extras, jobs, n_restarts=2)
    assert (
        seconds < need.seconds < 10 * seconds + 300
    )  # the constants of a fit are those of larger data
    assert need.mb > resources.feature_draw(1, [105], jobs, n_restarts=2).mb


def test_a_trace_of_advi_is_given_what_it_took():
    assert 75 < resources.advi_trace(1, 100_000).seconds < 300
    assert resources.advi_trace(1, 200_000).seconds > 1.5 * resources.advi_trace(1, 100_000).seconds


@pytest.mark.parametrize("method", registry.method_names())
def test_needs_grow_with_the_data_and_with_the_restarts(method):
    few = resources.fit(method, Shape(100, 50, 5000), 5, 2, {})
    for more in (
        resources.fit(method, Shape(10_000, 50, 500_000), 5, 2, {}),
        resources.fit(method, Shape(100, 5000, 500_000), 5, 2, {}),
        resources.fit(method, Shape(100, 50, 5000), 50, 2, {}),
        resources.fit(method, Shape(100, 50, 5000), 5, 20, {}),
    ):
        assert more.seconds > few.seconds and more.mb > few.mb


def test_every_attempt_is_given_twice_as_much():
    need = Need(seconds=3600, mb=1000)
    assert [need.runtime(attempt) for attempt in (1, 2, 3)] == [180, 360, 720]
    assert [need.mem_mb(attempt) for attempt in (1, 2, 3)] == [1500, 3000, 6000]
    assert Need(seconds=1, mb=1).runtime(1) == 10


def test_long_chunks_have_more_threads_but_advi_has_one():
    (small, k), metabric = SHAPES["small"], resources.expected_shape("metabric")
    assert resources.fit_threads("jnmf", small, k, 20, {}) == 1
    assert resources.fit_threads("jnmf", metabric, 5, 20, {}) == 3
    assert resources.fit_threads("jnmf", metabric, 5, 1, {}) == 1
    assert resources.fit_threads("advi-bjmd", metabric, 5, 20, {}) == 1
    alone, together = (resources.fit("jnmf", metabric, 5, 20, {}, n_threads=n) for n in (1, 2))
    assert together.seconds < 0.6 * alone.seconds


def test_every_rule_runs_beside_snakemake_or_says_what_it_needs():
    text = "\n\n".join(
        path.read_text()
        for path in [ROOT / "workflow/Snakefile", *ROOT.glob("workflow/rules/*.smk")]
    )
    rules = dict(re.findall(r"^rule (\w+):\n((?:    .*\n|\n(?=    ))+)", text, re.MULTILINE))
    assert len(rules) == len(re.findall("^rule ", text, re.MULTILINE))
    local = set(
        re.search(r"^localrules:\n((?:    .*\n)+)", text, re.MULTILINE)[1].replace(",", " ").split()
    )
    assert local == {rule for rule, body in rules.items() if "**on_a_node(" not in body}


def test_own_files_are_not_larger_than_expected(tmp_path):
    numbers = np.random.default_rng(0).integers(0, 9, (50, 30))
    np.savetxt(tmp_path / "a.txt", numbers, fmt="%d")
    shape = resources.shape_of_files([tmp_path / "a.txt", tmp_path / "a.txt"])
    assert shape.n_entries >= 2 * numbers.size
    assert abs(shape.n_features * shape.n_samples - shape.n_entries) <= 2 * shape.n_features
