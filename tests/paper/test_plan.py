from pathlib import Path

import pytest
import yaml

from bjmd.errors import InputError
from bjmd.fits import registry
from bjmd_paper.plan import Plan

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
    assert {fit["method"] for fit in plan.fits.values()} == set(registry.method_names())


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
    assert plan.job("metabric-489-filtered", "jnmf")["nonnegative"] == "shift"
    assert plan.job("small-4.0", "jnmf")["nonnegative"] == "clip"
    assert plan.job("metabric-489-filtered", "map-bjmd")["nonnegative"] is None


def test_kinds_stand_for_all_data_of_a_kind(config):
    plan = Plan(config | {"real": ["3sources", "metabric-489"]}, SCHEMA)
    on = {fit: [family for family in plan.families() if fit in plan.fits_on(plan.shown(family))] for fit in plan.fits}
    assert on["map-bjmd"] == ["small", "large", "3sources", "metabric-489", "metabric-489-filtered"]
    for everywhere in ("map-catbjmd", "cavi-catbjmd", "map-bjmd-printed", "map-catbjmd-held", "jmd", "jnmf"):
        assert on[everywhere] == on["map-bjmd"]
    assert on["advi-bjmd"] == ["small"]
    config["fits"]["jnmf"]["data"] = ["filtered"]
    assert "jnmf" not in Plan(config | {"real": ["metabric-489"]}, SCHEMA).fits_on("metabric-489")


def test_a_config_can_leave_out_a_fit_of_the_one_below(config):
    plan = Plan(overlaid(config, {"fits": {"jmd": None}}), SCHEMA)
    assert set(config["fits"]) - set(plan.fits) == {"jmd"}
    assert "jmd" not in plan.fits_on("small-4.0")


def test_sweeps_and_families(config):
    plan = Plan(config, SCHEMA)
    assert plan.sweep("small")[1.5] == "small-1.5"
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
    assert [Path(path).stem for path in Plan(config, SCHEMA).chunks("small-4.0", "jnmf")] == ["0-1", "2-3", "4-4"]


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


def test_the_feature_test_needs_its_fit(config):
    config |= {"real": ["metabric-489"], "feature_test": {**config["feature_test"], "fit": "map"}}
    with pytest.raises(InputError, match=r"feature_test\.fit is 'map', which is not an entry of fits"):
        Plan(config, SCHEMA)


@pytest.fixture
def own(config, monkeypatch):
    monkeypatch.chdir(ROOT)
    return overlaid(config, yaml.safe_load((ROOT / "config/own.yaml").read_text()))


def test_own_data_are_the_whole_run(own):
    plan = Plan(own, SCHEMA)
    assert plan.families() == []
    job = {"method": "cavi-bjmd", "options": {}, "n_components": 5, "nonnegative": None}
    assert plan.job("own-example", "own") == job
    assert [Path(path).stem for path in plan.chunks("own-example", "own")] == ["0-4", "5-9", "10-14", "15-19"]
    assert plan.own_files()[-1] == "config/example/labels.tsv"


def test_fewer_restarts_than_the_paper_averages_are_enough_for_own_data(own):
    assert len(Plan({**own, "restarts": 1}, SCHEMA).chunks("own-example", "own")) == 1


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
