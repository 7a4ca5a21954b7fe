from pathlib import Path

import pytest
import yaml

from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd_paper import exhibits
from bjmd_paper.plan import Plan, validate

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"


@pytest.fixture
def config():
    return yaml.safe_load((ROOT / "config/config.yaml").read_text())


def planned(config):
    """The plan of a config that was checked, as the workflow does it."""
    validate(config, SCHEMA)
    plan = Plan(config)
    plan.check()
    return plan


def overridden(base, top):
    """The base with another config on top, as Snakemake merges them."""
    return {
        **base,
        **{
            k: overridden(base[k], v)
            if isinstance(v, dict) and isinstance(base.get(k), dict)
            else v
            for k, v in top.items()
        },
    }


def test_the_default_config_needs_no_download_and_has_every_method(config):
    plan = planned(config)
    assert plan.families() == ["small", "large"]
    assert {fit["method"] for fit in plan.fits.values()} == set(registry.method_names())


def test_the_paper_config_has_all_data_and_twenty_restarts(config):
    paper = overridden(config, yaml.safe_load((ROOT / "config/paper.yaml").read_text()))
    plan = planned(paper)
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


def test_the_config_of_mixtures_has_both_kinds_of_priors_and_the_exhibits_of_shares(config):
    mixtures = overridden(config, yaml.safe_load((ROOT / "config/mixology.yaml").read_text()))
    plan = planned(mixtures)
    assert plan.families() == plan.mixtures() == ["mixology"]
    assert {"default", "cavi-bjmd", "jnmf", "inmf"} <= set(plan.fits_on("mixology"))
    names = [exhibit.name for exhibit in exhibits.of(plan)]
    assert names.count("shares-mixology") == 2 and "noise-by-amount-mixology" in names
    assert "shares-mixology" not in [exhibit.name for exhibit in exhibits.of(planned(config))]


def test_kinds_stand_for_all_data_of_a_kind(config):
    plan = planned(config | {"real": ["3sources", "metabric-489"]})
    on = {
        fit: [family for family in plan.families() if fit in plan.fits_on(plan.shown(family))]
        for fit in plan.fits
    }
    assert on["map-bjmd"] == ["small", "large", "3sources", "metabric-489", "metabric-489-filtered"]
    for everywhere in (
        "map-catbjmd",
        "cavi-catbjmd",
        "map-bjmd-printed",
        "map-catbjmd-held",
        "jmd",
        "glad",
    ):
        assert on[everywhere] == on["map-bjmd"]
    assert on["jnmf"] == ["small", "3sources", "metabric-489", "metabric-489-filtered"]
    assert on["advi-bjmd"] == ["small"]
    config["fits"]["jnmf"]["data"] = ["filtered"]
    assert "jnmf" not in planned(config | {"real": ["metabric-489"]}).fits_on("metabric-489")


def test_a_config_can_leave_out_a_fit_of_the_one_below(config):
    plan = planned(overridden(config, {"fits": {"jmd": None}}))
    assert set(config["fits"]) - set(plan.fits) == {"jmd"}
    assert "jmd" not in plan.fits_on("small-4.0")


@pytest.mark.parametrize("name", ["config", "reference", "paper"])
def test_any_run_can_leave_out_advi(config, name):
    for file in (name, "without-advi"):
        config = overridden(config, yaml.safe_load((ROOT / f"config/{file}.yaml").read_text()))
    plan = planned(config)
    assert not plan.advi_draw_chunks() and not any(
        "advi" in fit["method"] for fit in plan.fits.values()
    )
    assert len(plan.fits) == len(config["fits"]) - 2
    assert not any("advi" in path for exhibit in exhibits.of(plan) for path in exhibit.files())


@pytest.mark.parametrize(
    "name", ["config/config", "config/paper", "config/reference", ".test/config/config"]
)
def test_fits_of_the_papers_model_have_the_papers_priors(config, name):
    """The defaults for people's own data must not change a row of the paper."""
    top = yaml.safe_load((ROOT / f"{name}.yaml").read_text())
    fits = overridden(config, top)["fits"].values()
    ours = [fit for fit in fits if fit["method"].startswith(("map-", "cavi-"))]
    assert len(ours) >= 8
    assert {fit["options"].get("priors") for fit in ours} == {"paper"}


def test_families_and_what_is_shown_of_them(config):
    plan = planned(config)
    assert plan.shown("small") == "small-4.0"
    assert (plan.family("small-1.5"), plan.family("yale-b"), plan.family("metabric-489")) == (
        "small",
        "yale-b",
        "metabric-489",
    )
    assert plan.datasets() == ["small-4.0", "large-4.0"]


PAIRS = (
    {"map-bjmd", "map-bjmd-printed", "cavi-bjmd", "jmd"},
    {"map-catbjmd", "map-catbjmd-printed", "cavi-catbjmd", "glad"},
)


@pytest.mark.parametrize("name", ["config", "reference", "paper"])
@pytest.mark.parametrize("scale", ["small", "large"])
def test_both_of_every_pair_run_on_enough_draws_with_the_same_restarts(config, name, scale):
    top = yaml.safe_load((ROOT / f"config/{name}.yaml").read_text())
    plan = planned(overridden(config, top))
    assert set(plan.fits_on_draws(scale)) >= set.union(*PAIRS)
    assert int(plan.draw_chunks(scale)[-1].split("-")[1]) + 1 >= {"small": 40, "large": 10}[scale]
    job = plan.draw_job(scale)
    assert job["levels"] == [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5]
    assert job["n_restarts"] >= job["n_best"] >= 1
    assert (
        name == "config" or job["n_restarts"] > job["n_best"]
    )  # the quick run may do with one start
    assert job["jobs"]["jmd"]["method"] == "jmd"


def test_draws_that_no_fit_runs_on_are_not_made(config):
    fits = {
        name: {key: value for key, value in fit.items() if key != "draws"}
        for name, fit in config["fits"].items()
    }
    plan = planned(config | {"fits": fits})
    assert not plan.draw_chunks("small") and plan.feature_draw_chunks()
    alone = planned(config | {"synthetic": config["synthetic"] | {"scales": ["large"]}})
    assert not alone.advi_draw_chunks() and not alone.feature_draw_chunks()


def test_the_feature_test_is_tried_with_every_quick_method(config):
    job = planned(config).feature_draw_job()
    assert set(job["jobs"]) == set(config["fits"]) - {"advi-bjmd", "advi-catbjmd", "random"}
    assert {*job["noise_from"], job["fit"]} <= set(job["jobs"])


def test_restarts_of_a_fit_may_differ_by_data(config):
    config["fits"]["jmd"] |= {"data": ["synthetic"], "restarts": 10, "best": 3, "chunk": 5}
    config["fits"]["jmd"]["by_data"] = {"large": {"restarts": 3, "best": 1}}
    plan = planned(config)
    assert [Path(path).stem for path in plan.chunks("small-4.0", "jmd")] == ["0-4", "5-9"]
    assert [Path(path).stem for path in plan.chunks("large-4.0", "jmd")] == ["0-2"]
    assert (plan.n_best("jmd", "small"), plan.n_best("jmd", "large")) == (3, 1)
    (row,) = (row for row in plan.fits_table() if row["fit"] == "jmd")
    assert (row["restarts"], row["chosen"]) == ("10; 3 on large", "3; 1 on large")


def of_cavi(**options):
    return lambda c: c["fits"]["cavi-bjmd"].update(options=options)


BAD_CONFIGS = {
    "unknown key": (lambda c: c.update(restart=3), "'restart' was unexpected.* at the top level"),
    "unknown key of a fit": (
        lambda c: c["fits"]["jmd"].update(tol=1),
        "at fits.jmd; config/README",
    ),
    "unknown method": (
        lambda c: c["fits"]["jmd"].update(method="map"),
        "fits.jmd: there is no method 'map'",
    ),
    "unknown option": (of_cavi(toll=1), "method 'cavi-bjmd' has no option 'toll'"),
    "seed": (lambda c: c.update(seed="one"), "'one' is not of type 'integer' at seed"),
    "best": (lambda c: c.update(best=99), "fits.map-bjmd: restarts = 20 is less than best = 99"),
    "family": (
        lambda c: c["fits"]["jmd"].update(data=["smal"]),
        "there is no data 'smal'; did you mean 'small'",
    ),
    "real": (lambda c: c.update(real=["3source"]), "'3source'; did you mean '3sources'"),
    "a fit named by a number": (
        lambda c: c["fits"].update({3: c["fits"]["jmd"]}),
        "3 is not of type 'string' at fits",
    ),
    "auto": (of_cavi(offsets="auto"), "fits.cavi-bjmd: offsets='auto' was removed"),
    "too many restarts": (
        lambda c: c.update(restarts=10**9),
        "1000000000 is greater than the maximum of 10000",
    ),
    "sigma3 is huge": (
        lambda c: c["synthetic"].update(sigma3=[1e22]),
        r"1e\+22 is greater than the maximum of 1000",
    ),
    "sigma3 is tiny": (
        lambda c: c["synthetic"].update(sigma3=[1e-7]),
        "1e-07 is less than the minimum of 0.01",
    ),
    "nothing": (
        lambda c: c["synthetic"].update(scales=[]),
        "synthetic.scales and real are empty, so there is nothing",
    ),
    "no fit": (
        lambda c: [fit.update(data=[]) for fit in c["fits"].values()],
        "no fit runs on small; add it to the data",
    ),
    "by data": (
        lambda c: c["fits"]["jmd"].update(by_data={"large": {"best": 21}}),
        "fits.jmd: restarts = 20 is less than best = 21",
    ),
    "by what data": (
        lambda c: c["fits"]["jmd"].update(by_data={"lagre": {"best": 1}}),
        "fits.jmd: there is no data 'lagre'; did you",
    ),
    "draws": (
        lambda c: c["draws"]["large"].update(best=9),
        "draws.large: restarts = 1 is less than best = 9",
    ),
    "features": (
        lambda c: c["feature_draws"].update(best=9),
        "feature_draws: restarts = 2 is less than best = 9",
    ),
    "extra": (
        lambda c: c["feature_draws"].update(extra=[0]),
        "0 is less than the minimum of 1 at feature_draws.extra.0",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_a_bad_config_is_refused_with_one_sentence(config, change, message):
    change(config)
    with pytest.raises(InputError, match=message):
        planned(config)


@pytest.mark.parametrize("name", ["a{b}.tsv", "a*.tsv", "a\n.tsv"])
def test_own_files_whose_names_snakemake_would_read_as_patterns_are_refused(own, tmp_path, name):
    own["own"]["sources"] = [str(tmp_path / name)]
    with pytest.raises(InputError, match="has a bracket, a star or a line end in its name"):
        planned(own)


def test_missing_data_are_left_out_on_request(config, tmp_path):
    config |= {
        "real": ["3sources", "metabric-489"],
        "skip_missing": True,
        "cache": str(tmp_path),
        "mirror": str(tmp_path),
    }
    assert planned(config).real == []
    (tmp_path / "3sources").mkdir()
    (tmp_path / "3sources/3sources.zip").write_bytes(b"at hand, whatever it is")
    assert planned(config).real == ["3sources"]


def test_the_feature_test_needs_its_fit(config):
    config |= {"real": ["metabric-489"], "feature_test": {**config["feature_test"], "fit": "map"}}
    with pytest.raises(
        InputError, match=r"feature_test\.fit is 'map', which is not an entry of fits"
    ):
        planned(config)


@pytest.fixture
def own(config, monkeypatch):
    monkeypatch.chdir(ROOT)
    return overridden(config, yaml.safe_load((ROOT / "config/own.yaml").read_text()))


def test_own_data_are_the_whole_run(own):
    plan = planned(own)
    assert plan.families() == []
    job = {"method": "cavi-bjmd", "options": {}, "n_components": 5, "nonnegative": None}
    assert plan.job("own-example", "own") == job
    assert [Path(path).stem for path in plan.chunks("own-example", "own")] == [
        "0-4",
        "5-9",
        "10-14",
        "15-19",
    ]
    assert plan.own_files()[-1] == "config/example/labels.tsv"


def test_fewer_restarts_than_the_paper_averages_are_enough_for_own_data(own):
    assert len(planned({**own, "restarts": 1}).chunks("own-example", "own")) == 1


BAD_OWN = {
    "method": ({"method": "cavi"}, "own: there is no method 'cavi'"),
    "option": ({"options": {"toll": 1}}, "own: method 'cavi-bjmd' has no option 'toll'"),
    "file": ({"sources": ["lab.tsv"]}, "own: there is no file lab.tsv; paths are relative to"),
    "labels": ({"labels": "classes.tsv"}, "own: there is no file classes.tsv"),
    "key": ({"n_component": 5}, "'n_component' was unexpected"),
    "name": ({"name": "my data"}, "'my data' does not match .* at own.name"),
    "brackets in the name": ({"name": "{}"}, "'{}' does not match .* at own.name"),
    "a line end in the name": ({"name": "x\n"}, r"'x\\n' does not match .* at own.name"),
    "join": ({"join": "left"}, "'left' is not one of .* at own.join"),
}


@pytest.mark.parametrize(("change", "message"), BAD_OWN.values(), ids=BAD_OWN)
def test_a_bad_description_of_own_data_is_refused(own, change, message):
    own["own"] |= change
    with pytest.raises(InputError, match=message):
        planned(own)
