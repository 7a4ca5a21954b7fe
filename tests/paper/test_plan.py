import inspect
import re
from pathlib import Path
from pkgutil import resolve_name

import pytest
import yaml

from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd_paper import exhibits
from bjmd_paper.datasets.catalogue import SCALES
from bjmd_paper.plan import Plan, validate

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "workflow/schemas/config.schema.yaml"


def read(*names):
    """The default config with others on top, as Snakemake merges them."""

    def merged(base, top):
        if not (isinstance(base, dict) and isinstance(top, dict)):
            return top
        return {key: merged(base.get(key), top.get(key, base.get(key))) for key in {**base, **top}}

    config = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    for name in names:
        config = merged(config, yaml.safe_load((ROOT / f"{name}.yaml").read_text()))
    return config


@pytest.fixture
def config():
    return read()


def planned(config):
    """The plan of a config that was checked, as the workflow does it."""
    validate(config, SCHEMA)
    plan = Plan(config)
    plan.check()
    return plan


def test_the_default_config_needs_no_download_and_has_every_method(config):
    plan = planned(config)
    assert plan.families() == ["small", "large"]
    assert [plan.shown(family) for family in plan.families()] == ["small-4.0", "large-4.0"]
    assert {fit["method"] for fit in plan.fits.values()} == set(registry.method_names())


def test_the_paper_config_has_all_data_and_twenty_restarts():
    plan = planned(read("config/paper"))
    real = ["3sources", "yale-b", "metabric", "metabric-489"]
    filtered = ["metabric-filtered", "metabric-489-filtered"]
    assert plan.families()[2:] == [*real, *filtered]
    printed = [name for name, fit in plan.fits.items() if "paper_row" in fit]
    numbers = [plan.numbers(fit, "3sources") for fit in printed]
    assert {(n["restarts"], n["best"]) for n in numbers} == {(20, 5)}
    assert "advi-bjmd" in plan.fits_on("large-4.0")
    job = plan.job("metabric-489-filtered", "jnmf")
    assert (job["n_components"], job["nonnegative"]) == (5, "shift")
    assert plan.job("small-4.0", "jnmf")["nonnegative"] == "clip"
    assert plan.job("metabric-489-filtered", "map-bjmd")["nonnegative"] == "as-is"


def test_the_config_of_mixtures_has_both_kinds_of_priors_and_the_exhibits_of_shares(config):
    plan = planned(read("config/mixology"))
    assert plan.families() == ["mixology"]
    assert {"default", "cavi-bjmd", "jnmf", "inmf"} <= set(plan.fits_on("mixology"))
    names = [exhibit.name for exhibit in exhibits.of(plan)]
    assert names.count("shares-mixology") == 2 and "noise-by-amount-mixology" in names
    assert "shares-mixology" not in [exhibit.name for exhibit in exhibits.of(planned(config))]


@pytest.mark.parametrize("name", ["paper", "mixology"])
def test_every_exhibit_has_a_function_that_takes_its_inputs_and_settings(name):
    for exhibit in exhibits.of(planned(read(f"config/{name}"))):
        arguments = inspect.signature(resolve_name(exhibit.function)).parameters
        assert set(arguments) == {*exhibit.inputs, *exhibit.settings}, exhibit.name


def test_kinds_stand_for_all_data_of_a_kind_and_null_leaves_a_fit_out(config):
    config["fits"] |= {"jmd": None, "semi-nmf": config["fits"]["semi-nmf"] | {"data": ["filtered"]}}
    plan = planned(config | {"real": ["3sources", "metabric-489"]})
    everywhere = ["small", "large", "3sources", "metabric-489", "metabric-489-filtered"]
    on = {row["fit"]: row["data"].split(", ") for row in plan.fits_table()}
    assert "jmd" not in on
    assert on["map-bjmd"] == on["map-catbjmd-held"] == on["glad"] == everywhere
    assert on["jnmf"] == ["small", "3sources", "metabric-489", "metabric-489-filtered"]
    assert (on["advi-bjmd"], on["semi-nmf"]) == (["small"], ["metabric-489-filtered"])


@pytest.mark.parametrize("name", ["config", "reference", "paper"])
def test_any_run_can_leave_out_advi(name):
    plan = planned(read(f"config/{name}", "config/without-advi"))
    assert not any("advi" in fit["method"] for fit in plan.fits.values())
    assert not any("advi" in path for exhibit in exhibits.of(plan) for path in exhibit.files())


@pytest.mark.parametrize(
    "name", ["config/config", "config/paper", "config/reference", ".test/config/config"]
)
def test_fits_of_the_papers_model_have_the_papers_priors(name):
    """The defaults for people's own data must not change a row of the paper."""
    fits = read(name)["fits"].values()
    ours = [fit for fit in fits if fit["method"].startswith(("map-", "cavi-"))]
    assert len(ours) >= 8
    assert {fit["options"].get("priors") for fit in ours} == {"paper"}


PAIRS = (
    {"map-bjmd", "map-bjmd-printed", "map-bjmd-corrected", "cavi-bjmd", "jmd"},
    {"map-catbjmd", "map-catbjmd-printed", "map-catbjmd-corrected", "cavi-catbjmd", "glad"},
)


@pytest.mark.parametrize("name", ["config", "reference", "paper"])
@pytest.mark.parametrize(("scale", "n_draws"), [("small", 40), ("large", 10)])
def test_both_of_every_pair_run_on_enough_draws_with_the_same_restarts(name, scale, n_draws):
    plan = planned(read(f"config/{name}"))
    assert set(plan.fits_on_draws(scale)) >= set.union(*PAIRS)
    assert int(plan.draw_chunks(scale, "jmd")[-1].split("-")[1]) + 1 >= n_draws
    job = plan.draw_job(scale, "jmd")
    assert job["levels"] == [1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5]
    # the quick run may do with one start
    assert job["n_restarts"] > job["n_best"] or name == "config"
    few = [fit for fit in plan.fits_on_draws(scale) if plan.draw_chunks(scale, fit) == ["0-1"]]
    assert few == (["advi-catbjmd"] if scale == "small" and name != "config" else [])
    assert all(plan.draw_job(scale, fit)["n_restarts"] == 1 for fit in few)


def test_draws_that_no_fit_runs_on_are_not_made(config):
    for fit in config["fits"].values():
        fit.pop("draws", None)
    plan = planned(config)
    assert not plan.draw_chunks("small") and plan.draw_chunks("feature_draws") == ["0-2"]
    config["synthetic"]["scales"] = ["large"]
    alone = planned(config)
    assert not alone.draw_chunks("advi_traces") and not alone.draw_chunks("feature_draws")


def test_the_conjecture_has_a_fit_for_every_printed_row_and_data_of_its_own(config):
    plan = planned(config)
    fits = plan.fits_on_draws("conjecture")
    job = plan.draw_job("conjecture", fits[0])
    assert (job["scale"], job["levels"], job["height"]) == ("small", [4.0], 1.6)
    rows = {plan.fits[fit]["paper_row"] for fit in fits}
    assert rows == set(SCALES["small"].printed) and len(fits) == len(rows)
    assert not {"jmd-two-sweeps", "glad-four-sweeps"} & set(plan.fits_on("small-4.0"))
    config["synthetic"]["scales"] = ["large"]
    assert not planned(config).draw_chunks("conjecture")


def test_the_feature_test_is_tried_with_every_quick_method(config):
    plan = planned(config)
    others = {"advi-bjmd", "advi-catbjmd", "random", "jmd-two-sweeps", "glad-four-sweeps"}
    assert set(plan.feature_draw_fits()) == set(config["fits"]) - others
    assert plan.feature_noise_fits()[-1] == config["feature_test"]["fit"]
    job = plan.feature_draw_job("jnmf")
    assert set(job["jobs"]) == {"jnmf", job["fit"]} and job["noise_from"] == []
    assert plan.feature_draw_job("cavi-bjmd")["noise_from"] == ["cavi-bjmd"]


def test_restarts_may_differ_by_fit_and_by_data(config):
    config["by_data"] = {"large": {"restarts": 8}}
    config["fits"]["jmd"] |= {"restarts": 10, "best": 3, "chunk": 5}
    plan = planned(config)
    for dataset in ("small-4.0", "large-4.0"):
        assert [Path(path).stem for path in plan.chunks(dataset, "jmd")] == ["0-4", "5-9"]
    assert [Path(path).stem for path in plan.chunks("large-4.0", "glad")] == ["0-7"]
    rows = {row["fit"]: (row["restarts"], row["chosen"]) for row in plan.fits_table()}
    assert rows["jmd"] == ("10", "3")
    assert rows["glad"] == ("20; 8 on large", "5; 5 on large")
    config["fits"]["jmd"]["by_data"] = {"large": {"restarts": 4}}
    assert planned(config).numbers("jmd", "large-4.0") == {"restarts": 4, "best": 3, "chunk": 5}
    assert planned(config).numbers("jmd", "small-4.0")["restarts"] == 10


def test_the_readme_explains_every_key():
    def keys(schema):
        below = schema.get("properties", {})
        inner = [*below.values(), schema.get("additionalProperties")]
        return {*below}.union(*(keys(one) for one in inner if isinstance(one, dict)))

    page = (ROOT / "config/README.md").read_text()
    explained = set(re.findall(r"`(?:\w+\.)?(\w+)`", page))
    assert keys(yaml.safe_load(SCHEMA.read_text())) - explained == set()


def fits(name, **changes):
    return lambda config: config["fits"][name].update(changes)


def within(key, **changes):
    return lambda config: config[key].update(changes)


BAD_CONFIGS = {
    "unknown key": (lambda c: c.update(restart=3), "'restart' was unexpected.* at the top level"),
    "unknown key of a fit": (fits("jmd", tol=1), "at fits.jmd; config/README"),
    "unknown method": (fits("jmd", method="map"), "fits.jmd: there is no method 'map'"),
    "unknown option": (fits("jmd", options={"toll": 1}), "method 'jmd' has no option 'toll'"),
    "auto": (
        fits("cavi-bjmd", options={"offsets": "auto"}),
        "fits.cavi-bjmd: offsets='auto' was removed",
    ),
    "best": (lambda c: c.update(best=99), "fits.map-bjmd: restarts = 20 is less than best = 99"),
    "data": (fits("jmd", data=["smal"]), "there is no data 'smal'; did you mean 'small'"),
    "real": (lambda c: c.update(real=["3source"]), "'3source'; did you mean '3sources'"),
    "a fit named by a number": (
        lambda c: c["fits"].update({3: c["fits"]["jmd"]}),
        "3 is not of type 'string' at fits",
    ),
    "sigma3": (within("synthetic", sigma3=[1e22]), r"1e\+22 is greater than the maximum of 1000"),
    "nothing": (
        within("synthetic", scales=[]),
        "synthetic.scales and real are empty, so there is nothing",
    ),
    "no fit": (
        lambda c: [fit.update(data=[]) for fit in c["fits"].values()],
        "no fit runs on small; add it to the data",
    ),
    "by data": (
        lambda c: c.update(by_data={"large": {"best": 21}}),
        "fits.map-bjmd: restarts = 20 is less than best = 21",
    ),
    "by what data": (
        lambda c: c.update(by_data={"lagre": {"best": 1}}),
        "there is no data 'lagre'; did you mean 'large'",
    ),
    "by what data of a fit": (
        fits("jmd", by_data={"lagre": {"best": 1}}),
        "there is no data 'lagre'; did you mean 'large'",
    ),
    "draws": (
        lambda c: c["draws"]["large"].update(best=9),
        "draws.large: restarts = 1 is less than best = 9",
    ),
    "features": (
        within("feature_draws", best=9),
        "feature_draws: restarts = 2 is less than best = 9",
    ),
    "the fit of the feature test": (
        within("feature_test", fit="map"),
        r"feature_test\.fit is 'map', which is not an entry of fits",
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


def test_data_that_are_missing_or_refused_are_left_out_on_request(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config |= {
        "real": ["3sources", "metabric-489"],
        "skip_missing": True,
        "cache": str(tmp_path),
        "mirror": str(tmp_path),
    }
    (tmp_path / "metabric").mkdir()
    (tmp_path / "metabric/METABRIC_RNA_Mutation.csv").write_text("another release")
    plan = planned(config)
    assert plan.real == []
    assert plan.left_out["3sources"] == "its files were not found"
    assert "METABRIC_RNA_Mutation.csv" in plan.left_out["metabric-489"]
    assert "is not a known version" in plan.left_out["metabric-489"]
    assert planned(config | {"unverified": ["metabric-489"]}).real == ["metabric-489"]


@pytest.fixture
def own(monkeypatch):
    monkeypatch.chdir(ROOT)
    return read("config/own")


def test_own_data_are_the_whole_run(own):
    plan = planned(own)
    assert plan.families() == []
    job = {"method": "cavi-bjmd", "options": {}, "n_components": 5, "nonnegative": "as-is"}
    assert plan.job("own-example", "own") == job
    chunks = [Path(path).stem for path in plan.chunks("own-example", "own")]
    assert chunks == ["0-4", "5-9", "10-14", "15-19"]
    assert plan.own_files()[-1] == "config/example/labels.tsv"
    assert len(planned({**own, "restarts": 1}).chunks("own-example", "own")) == 1


BAD_OWN = {
    "method": ({"method": "cavi"}, "own: there is no method 'cavi'"),
    "option": ({"options": {"toll": 1}}, "own: method 'cavi-bjmd' has no option 'toll'"),
    "file": ({"sources": ["lab.tsv"]}, "own: there is no file lab.tsv; paths are relative to"),
    "labels": ({"labels": "classes.tsv"}, "own: there is no file classes.tsv"),
    "key": ({"n_component": 5}, "'n_component' was unexpected"),
    "a line end in the name": ({"name": "x\n"}, r"'x\\n' does not match .* at own.name"),
    "join": ({"join": "left"}, "'left' is not one of .* at own.join"),
}


@pytest.mark.parametrize(("change", "message"), BAD_OWN.values(), ids=BAD_OWN)
def test_a_bad_description_of_own_data_is_refused(own, change, message):
    own["own"] |= change
    with pytest.raises(InputError, match=message):
        planned(own)
