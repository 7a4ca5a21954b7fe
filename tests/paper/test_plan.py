from pathlib import Path

import pytest
import yaml

from bjmd.errors import InputError
from bjmd.fits import registry
from bjmd.paper.plan import Plan

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"


@pytest.fixture
def config():
    return yaml.safe_load((ROOT / "config/config.yaml").read_text())


def overlaid(base, top):
    """As Snakemake lays one config over another: mappings are merged, all else is replaced."""
    return {
        **base,
        **{
            k: overlaid(base[k], v) if isinstance(v, dict) and isinstance(base.get(k), dict) else v
            for k, v in top.items()
        },
    }


def test_the_default_config_needs_no_download_and_has_every_method(config):
    plan = Plan(config, SCHEMA)
    assert plan.families() == ["small", "large"]
    assert {plan.method(fit) for fit in config["fits"]} == set(registry.method_names())


def test_the_paper_config_has_all_data_and_twenty_restarts(config):
    paper = overlaid(config, yaml.safe_load((ROOT / "config/paper.yaml").read_text()))
    plan = Plan(paper, SCHEMA)
    assert plan.families()[2:] == [
        "3sources",
        "yale-b",
        "metabric",
        "metabric-489",
        "metabric-filtered",
        "metabric-489-filtered",
    ]
    assert {plan.n_restarts(fit) for fit in paper["fits"]} == {20}
    assert {plan.n_best(fit) for fit in paper["fits"]} == {5}
    assert "advi-bjmd" in plan.fits_on("large-4.0")
    assert plan.n_components("metabric-489-filtered") == 5
    assert plan.nonnegative("metabric-489-filtered", "jnmf") == "shift"
    assert plan.nonnegative("metabric-489-filtered", "map-bjmd") is None


def test_sweeps_and_families(config):
    plan = Plan(config, SCHEMA)
    assert plan.sweep("small")[0] == "small-1.5"
    assert plan.shown("small") == "small-4.0"
    assert (plan.family("small-1.5"), plan.family("yale-b"), plan.family("metabric-489")) == (
        "small",
        "yale-b",
        "metabric-489",
    )
    assert "kmeans" in plan.fits_on("small-4.0")
    assert "kmeans" not in plan.fits_on("small-1.5")
    assert len(plan.datasets()) == 18


def test_chunks(config):
    config["fits"]["jnmf"] |= {"restarts": 5, "chunk": 2}
    assert Plan(config, SCHEMA).chunks("jnmf") == [(0, 1), (2, 3), (4, 4)]


def test_missing_data_are_left_out_on_request(config, tmp_path):
    config |= {
        "real": ["3sources", "metabric-489"],
        "skip_missing": True,
        "cache": str(tmp_path),
        "mirror": str(tmp_path),
    }
    assert Plan(config, SCHEMA).real == []
    (tmp_path / "3sources").mkdir()
    (tmp_path / "3sources/3sources.zip").write_bytes(b"at hand, whatever it is")
    assert Plan(config, SCHEMA).real == ["3sources"]


def test_selection_needs_its_fit(config):
    config |= {"real": ["3sources"], "selection": {**config["selection"], "fit": "map"}}
    with pytest.raises(InputError, match=r"selection\.fit is 'map', which is not an entry of fits"):
        Plan(config, SCHEMA)


@pytest.fixture
def own(config, monkeypatch):
    monkeypatch.chdir(ROOT)
    return overlaid(config, yaml.safe_load((ROOT / "config/own.yaml").read_text()))


def test_own_data_are_the_whole_run(own):
    plan = Plan(own, SCHEMA)
    assert plan.families() == []
    assert (plan.method("own"), plan.options("own"), plan.n_components("own-example")) == ("cavi-bjmd", {}, 5)
    assert plan.chunks("own") == [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert plan.own_files()[-1] == "config/example/labels.tsv"
    assert plan.nonnegative("own-example", "own") is None


def test_fewer_restarts_than_the_paper_averages_are_enough_for_own_data(own):
    assert Plan({**own, "restarts": 1}, SCHEMA).chunks("own") == [(0, 0)]


BAD_OWN = {
    "method": ({"method": "cavi"}, "own: there is no method 'cavi'"),
    "option": ({"options": {"toll": 1}}, "own: method 'cavi-bjmd' has no option 'toll'"),
    "file": ({"sources": ["lab.tsv"]}, "own: there is no file lab.tsv; paths start from the folder"),
    "labels": ({"labels": "classes.tsv"}, "own: there is no file classes.tsv"),
    "key": ({"n_component": 5}, "'n_component' was unexpected"),
    "name": ({"name": "my data"}, "'my data' does not match .* at own.name"),
    "join": ({"join": "left"}, "'left' is not one of .* at own.join"),
}


@pytest.mark.parametrize(("change", "message"), BAD_OWN.values(), ids=BAD_OWN)
def test_a_bad_description_of_own_data_is_refused(own, change, message):
    own["own"] |= change
    with pytest.raises(InputError, match=message):
        Plan(own, SCHEMA)
