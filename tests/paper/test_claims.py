"""Every claim in a world where it is true and in one where it is false, and what surrounds them."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml

from bjmd.data.sources import Sources
from bjmd.inference import restarts
from bjmd_paper import claims
from bjmd_paper.claims import verdicts
from bjmd_paper.claims.evidence import Evidence
from bjmd_paper.claims.statistics import Effect
from bjmd_paper.claims.verdicts import HOLDS, INCONCLUSIVE, REVERSE, SMALLER, UNTESTABLE
from bjmd_paper.datasets import synthetic

LEVELS = np.arange(1.5, 6, 0.5)
REAL = ("3sources", "yale-b", "metabric", "metabric-489", "metabric-filtered")
ROWS = {
    "jmd": "JMD",
    "glad": "GLAD",
    "kmeans": "K-means",
    "jnmf": "Joint-NMF",
    "semi-nmf": "Semi-NMF",
    "bnmf": "BNMF",
    **dict.fromkeys(("cavi-bjmd", "advi-bjmd"), "VI-BJMD"),
    **dict.fromkeys(("cavi-catbjmd", "advi-catbjmd"), "VI-catBJMD"),
    **dict.fromkeys(("map-bjmd-printed", "map-bjmd-corrected", "map-bjmd"), "MAP-BJMD"),
    **dict.fromkeys(("map-catbjmd-printed", "map-catbjmd-corrected", "map-catbjmd"), "MAP-catBJMD"),
}
POOLED = ("GLAD", "VI-catBJMD", "MAP-catBJMD")
QUALITY = {"VI-BJMD": 20, "MAP-BJMD": 19.5, "JMD": 18, "VI-catBJMD": 5, "GLAD": 5, "MAP-catBJMD": 4}
QUALITY |= {"BNMF": 2, "K-means": 0, "Joint-NMF": 0, "Semi-NMF": 0}
SLOW = {"JMD": 9, "GLAD": 9, "VI-BJMD": 5, "VI-catBJMD": 5, "BNMF": 4}
SLOW |= {"MAP-BJMD": 0, "MAP-catBJMD": 0, "K-means": 1, "Joint-NMF": 1, "Semi-NMF": 1}


def grid(**columns):
    """A row for every combination of some values."""
    index = pd.MultiIndex.from_product(columns.values(), names=columns)
    return index.to_frame(index=False)


@cache
def world(true):
    """The evidence of a world in which all claims are true, or all are false.

    In a false world every difference is turned round and ten times as large, so that things that
    are the same in a true world differ.
    """
    rng = np.random.default_rng(0)
    scale = 1 if true else -10
    runs = dict(list(all_starts(true, scale, rng).groupby("scale")))
    draws = all_draws(true, scale, rng)
    return Evidence(ROWS, 4.0, runs, draws, traces(true, rng), scores_of_selected(scale, rng))


def all_draws(true, scale, rng):
    table = grid(
        scale=["small", "large"], fit=list(ROWS), draw=range(8), sigma3=LEVELS, source=[1, 2, 3]
    )
    row = table["fit"].map(ROWS)
    pooled = row.isin(POOLED)
    level = table["sigma3"]
    quality = row.map(QUALITY) - np.where(pooled, 2, 0.05) * (level - 4)
    quality += 0.5 * ((row == "VI-BJMD") & (table["scale"] == "large"))
    zigzag = np.where((row == "MAP-BJMD") == true, 0.3, 0.0) * np.where(level % 1 == 0, 1, -1)
    luck = rng.normal(0, 3, 8)[table["draw"]] + 0.01 * rng.normal(size=len(table))
    table["auc"] = 70 + scale * (quality - 6 * table["source"]) + zigzag + luck
    table["true_noise"] = np.where(table["source"] == 3, level, 1.5 * table["source"] - 0.5)
    table["noise"] = (1 + 0.01 * scale) * table["true_noise"] + scale * pooled + 1e-4 * luck
    table["objective"] = -1e4 * scale * quality + luck
    table["iterations"] = 20 * np.exp(0.2 * np.sign(scale) * pooled * level + 0.01 * luck)
    table["seconds"] = np.exp(np.sign(scale) * row.map(SLOW) + 0.01 * luck)
    return table


def all_starts(true, scale, rng):
    table = grid(scale=["small", "large", *REAL], fit=list(ROWS), seed=range(6), source=[1, 2, 3])
    table = table[(table["scale"] != "yale-b") | (table["source"] < 3)].copy()
    row = table["fit"].map(ROWS)
    by_vi = row.str.startswith("VI")
    quality = row.map(QUALITY) - 2 * (row == "VI-BJMD")
    quality -= 0.5 * table["fit"].str.startswith("advi")
    quality += 5 * (table["scale"] == "metabric-filtered")
    luck = rng.normal(size=len(table))
    for column in ("auc", "auc_scaled", "matched", "matched_scaled"):
        table[column] = 70 + scale * quality + 0.02 * luck
    table["noise"] = np.exp(0.01 * scale * (table["source"] + by_vi))
    table["seconds"] = np.exp(np.sign(scale) * row.map(SLOW) + 0.01 * luck)
    table["iterations"] = np.where(by_vi == true, 150_000, 5)
    table["converged"] = not true
    table["condition"] = 1e9 if true else 10.0
    table["chosen"] = table["seed"] < 3
    table["source_name"] = table["source"].map({1: "a", 2: "b", 3: "c"})
    return table


def traces(true, rng):
    table = grid(draw=range(4), iteration=range(2000, 400_000, 2000))
    step = table["iteration"]
    luck = rng.normal(size=len(table))
    table["objective"] = 50 * np.exp(-step / (4000 if true else 500)) + 0.2 * luck
    decay = np.minimum(step, 60_000) / 6000 if true else np.minimum(step, 250_000) / 20_000
    table["change"] = np.exp(0.1 * luck - decay)
    rise = -4 * np.exp(-step / 30_000) if true else -step / 10_000
    for c in (1, 2, 3):
        table[f"auc_{c}"] = 90 + rise - 6 * c + 0.001 * rng.normal(size=len(table))
    return table


def scores_of_selected(scale, rng):
    stages = ["before", "after"]
    table = grid(extra=[105], draw=range(6), fit=list(ROWS), stage=stages, source=[1, 2, 3])
    quality = table["fit"].map(ROWS).map(QUALITY) + 5 * (table["stage"] == "after")
    table["auc"] = 70 + scale * quality + table["draw"] + 0.01 * rng.normal(size=len(table))
    return table


IN_BOTH_WORLDS = [
    claim
    for claim in claims.CLAIMS
    if not claim["reason"] and claim["readings"][""]["kind"] != "against print"
]
"""The printed numbers are the same in all worlds; they have a test of their own."""


@pytest.mark.parametrize("claim", IN_BOTH_WORLDS, ids=lambda claim: claim["id"])
def test_every_claim_holds_where_it_is_true_and_is_reversed_where_it_is_false(claim):
    true = claims.outcomes(claim, world(true=True))
    false = claims.outcomes(claim, world(true=False))
    wrong = [one for one in true.values() if one.verdict not in (HOLDS, SMALLER)]
    wrong += [one for one in false.values() if one.verdict != REVERSE]
    assert wrong == [], "a claim about a new fit needs it in ROWS, QUALITY and SLOW"


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim["id"])
def test_without_evidence_no_claim_is_decided(claim):
    for found in claims.outcomes(claim, Evidence(ROWS, 4.0)).values():
        assert found.verdict == UNTESTABLE
        assert found.numbers, "the reason is missing"


def judged(evidence, **entry):
    """The outcomes of a claim that somebody adds."""
    claim = claims.claim({"id": "new", "sentence": "A new one.", **entry}, {"title": ""})
    return claims.outcomes(claim, evidence)


def with_draws(draws, sigma3=4.0):
    return Evidence(ROWS, sigma3, draws=draws)


DRAWS = {"kind": "draws", "data": "small", "pairs": {"": ["jmd", "glad"]}}
DATA = ("3sources", "real")
STARTS = {"kind": "restarts", "data": "3sources", "pairs": {"": ["map-bjmd", "competitors"]}}


@pytest.mark.parametrize("family", ["small", "3sources"])
@pytest.mark.parametrize(
    ("shift", "reached", "compatible", "within"),
    [(0.0, HOLDS, HOLDS, HOLDS), (-9.0, REVERSE, REVERSE, REVERSE), (9.0, HOLDS, REVERSE, REVERSE)],
)
def test_ours_against_the_printed_numbers(family, shift, reached, compatible, within):
    """By one more draw of synthetic data, and by the starts on real data."""
    evidence = world(true=True)
    frame = evidence.draws if family == "small" else evidence.runs[family]
    frame = frame[(frame["fit"] == "map-bjmd") & (frame["scale"] == family)]
    luck = np.random.default_rng(0).normal(size=len(frame))
    printed = np.array([evidence.print_of(family, "map-bjmd", "auc", c) for c in frame["source"]])
    frame = frame.assign(auc=printed + shift + luck)
    found = Evidence(ROWS, 4.0, {family: frame.assign(auc_scaled=frame["auc"])}, frame)
    verdicts_of_tests = {"reached": reached, "compatible": compatible, "within": within}
    entry = {"kind": "against print", "data": family, "fits": ["map-bjmd"], "margin": 5.0}
    for test, verdict in verdicts_of_tests.items():
        assert judged(found, **entry, test=test)[""].verdict == verdict


def test_the_sigma3_of_the_config_decides_what_is_compared():
    draws = world(true=True).draws.query("scale == 'small' and fit in ['jmd', 'glad']").copy()
    draws.loc[(draws["fit"] == "jmd") & (draws["sigma3"] != 4), "auc"] -= 50
    assert judged(with_draws(draws), **DRAWS)[""].verdict == HOLDS
    assert judged(with_draws(draws, 3.0), **DRAWS)[""].verdict == REVERSE
    assert judged(with_draws(draws, 3.3), **DRAWS)[""].verdict == UNTESTABLE
    at_each = judged(with_draws(draws), **DRAWS, sources="mean", sigma3="each")[""]
    assert "the reverse is true in at 1.5, at 2, at 2.5, at 3, at 3.5, at 4.5" in at_each.numbers
    between = {"sources": "mean", "sigma3": "each", "above": 3.5, "below": 4.5}
    assert judged(with_draws(draws), **DRAWS, **between)[""].verdict == HOLDS
    few = judged(with_draws(draws[draws["sigma3"] > 4]), **DRAWS, sigma3="slope")[""]
    assert "a sweep over sigma3 of jmd and glad" in few.numbers


def test_claims_are_judged_on_what_a_run_has_and_say_what_it_lacks():
    draws = world(true=True).draws.query("fit in ['jmd', 'glad']")
    found = judged(with_draws(draws), **{**DRAWS, "pairs": ["JMD", "VI"]})[""]
    assert found.verdict in (HOLDS, SMALLER)
    assert "not made in this run: draws of cavi-bjmd on the small data" in found.numbers
    assert "only on" not in found.ours, "what is missing are fits, not data"
    one = with_draws(draws[draws["draw"] == 0])
    assert "two draws of jmd" in judged(one, **DRAWS)[""].numbers


def test_a_claim_about_several_data_says_on_which_it_was_tested():
    runs = world(true=True).runs
    some = {name: runs[name] for name in ("3sources", "metabric-489")}
    at_maximum = {"kind": "stops at maximum", "fit": "jmd", "share": 0.5, "maximum": 1}
    for entry in (STARTS, at_maximum):
        on = {name: judged(Evidence(ROWS, 4.0, some), **entry | {"data": name}) for name in DATA}
        assert on["3sources"][""].ours.endswith(("print", "cut off"))
        assert on["real"][""].ours.endswith("; only on 3sources, metabric-489")


def test_advi_is_judged_by_its_traces_where_it_has_no_draws():
    evidence = world(true=True)
    draws = evidence.draws[~evidence.draws["fit"].str.startswith("advi")]
    traces = evidence.advi.assign(auc_1=80.0, auc_2=70.0, auc_3=60.0)
    ours = traces[traces["iteration"] == 2000].set_index("draw")
    theirs = draws.query("scale == 'small' and fit == 'jmd' and sigma3 == 4 and source == 1")
    expected = 80.0 - theirs["auc"][theirs["draw"].isin(ours.index)].mean()
    found = judged(
        Evidence(ROWS, 4.0, draws=draws, advi=traces),
        **{**DRAWS, "pairs": {"": ["advi-bjmd", "jmd"]}},
    )
    assert f"source 1 {expected:+.2f} (" in found[""].numbers
    assert list(found) == ["", "closed form (ours)"], "the closed form is another reading"
    (e4,) = (claim for claim in claims.CLAIMS if claim["id"] == "E4")
    pooled = claims.outcomes(e4, with_draws(draws))
    assert pooled[""].verdict == UNTESTABLE
    assert pooled["closed form (ours)"].verdict == HOLDS


def test_competitors_have_the_better_of_two_scores_and_may_be_lacking():
    runs = world(true=True).runs["3sources"].query("fit in ['map-bjmd', 'kmeans', 'bnmf']").copy()
    found = judged(Evidence(ROWS, 4.0, {"3sources": runs}), **STARTS)[""]
    assert found.verdict in (HOLDS, SMALLER)
    assert "(bnmf)" in found.numbers, "the best of those that were made"
    assert found.paper == "+6.54", "over the best printed competitor, BNMF, in the mean"
    assert "not made in this run: jnmf on 3sources, semi-nmf on 3sources" in found.numbers
    runs.loc[runs["fit"] == "kmeans", "auc_scaled"] += 50
    found = judged(Evidence(ROWS, 4.0, {"3sources": runs}), **STARTS)[""]
    assert found.verdict == REVERSE
    assert "(kmeans)" in found.numbers
    worst = {**STARTS, "pairs": {"": [["map-bjmd", "kmeans"], "bnmf"]}}
    runs.loc[runs["fit"] == "kmeans", "auc_scaled"] -= 60
    found = judged(Evidence(ROWS, 4.0, {"3sources": runs}), **worst)[""]
    assert found.verdict == REVERSE
    assert found.paper == "-17.29", "the worst of ours, K-means, below BNMF"


def test_the_estimate_over_starts_is_what_the_tables_show():
    runs = world(true=True).runs["3sources"].query("fit in ['map-bjmd', 'bnmf']").copy()
    runs.loc[runs["fit"] + runs["seed"].astype(str) == "map-bjmd0", ["auc", "auc_scaled"]] -= 30
    runs.loc[runs["seed"] == 0, "seconds"] = 1e9  # the first fit compiles
    evidence = Evidence(ROWS, 4.0, {"3sources": runs})
    found = judged(evidence, **STARTS)[""]
    of_three_chosen = 19.5 - 2 - 30 / 3
    assert float(found.ours.split()[0]) == pytest.approx(of_three_chosen, abs=0.1)
    assert evidence.starts("3sources", "bnmf", "seconds").estimate.max() < 100
    two = Evidence(ROWS, 4.0, {"3sources": runs[runs["seed"] < 2]})
    assert "3 starts of map-bjmd on 3sources" in judged(two, **STARTS)[""].numbers


@pytest.mark.parametrize(
    ("iterations", "verdict"), [(150_000, HOLDS), (60_000, INCONCLUSIVE), (0, REVERSE)]
)
def test_runs_that_were_cut_off_early_decide_nothing_about_the_maximum(iterations, verdict):
    runs = world(true=True).runs["large"].assign(iterations=iterations, converged=iterations == 0)
    entry = {"kind": "stops at maximum", "data": "large", "fit": "jmd", "share": 0.5}
    found = judged(Evidence(ROWS, 4.0, {"large": runs}), **entry, maximum=150_000)
    assert found[""].verdict == verdict


def test_other_readings_are_about_what_changes():
    entry = {**DRAWS, "pairs": ["JMD", "MAP"], "also": [{"label": "MAP alone", "pairs": ["MAP"]}]}
    claim = claims.claim({"id": "new", "sentence": "", **entry}, {"title": ""})
    assert {label: keys["pairs"] for label, keys in claim["readings"].items()} == {
        "": {"JMD": ["jmd", "glad"], "MAP": ["map-bjmd-printed", "map-catbjmd-printed"]},
        "MAP alone": {"MAP": ["map-bjmd-printed", "map-catbjmd-printed"]},
        "MAP with ridge 1/z": {"MAP": ["map-bjmd-corrected", "map-catbjmd-corrected"]},
        "MAP run to convergence (ours)": {"MAP": ["map-bjmd", "map-catbjmd"]},
    }
    entry["as_it_is"] = True
    claim = claims.claim({"id": "new", "sentence": "", **entry}, {"title": ""})
    assert list(claim["readings"]) == ["", "MAP alone"]
    entry = {"kind": "iterations", "data": "small", "fits": ["jmd", "advi-bjmd"]}
    claim = claims.claim({"id": "new", "sentence": "", **entry}, {"title": ""})
    assert claim["readings"]["closed form (ours)"]["fits"] == ["cavi-bjmd"]


def test_claims_name_fits_of_the_config(request):
    def strings(value):
        below = value.values() if isinstance(value, dict) else value
        return [value] if isinstance(value, str) else [s for one in below for s in strings(one)]

    config = yaml.safe_load((request.config.rootpath / "config/config.yaml").read_text())
    named = [
        name
        for claim in claims.CLAIMS
        for keys in claim["readings"].values()
        for key in ("fit", "fits", "pair", "pairs")
        for name in strings(keys.get(key, ()))
    ]
    assert set(named) <= set(config["fits"])


def test_margins_are_those_of_the_papers_tables_which_may_contradict_its_text():
    margins = claims.TEXT["margins"]
    assert margins["about the same"] == pytest.approx(79.16 - 77.85, abs=0.001)
    assert margins["similar"] == pytest.approx(91.98 - 90.56, abs=0.001)
    assert margins["noise"] == pytest.approx(100 * (0.1186 / 0.1106 - 1), abs=0.001)
    assert margins["comparable time"] == pytest.approx(np.log(112.20 / 53.79), abs=0.0001)
    assert margins["a factor of two"] == pytest.approx(np.log(2), abs=0.0001)
    turned = {**DRAWS, "pairs": {"": ["jmd", "map-bjmd"]}}
    for entry, answer in ((DRAWS, "yes"), (turned, "no"), ({**DRAWS, "sigma3": "slope"}, "")):
        assert judged(world(true=True), **entry)[""].paper_tables_agree == answer


@pytest.mark.parametrize(
    ("noise", "verdicts_allowed"),
    [((2.5, 2.5, 2.5), {REVERSE, INCONCLUSIVE}), ((1.0, 2.5, 4.0), {HOLDS})],
)
def test_objectives_gain_by_noise_levels_only_if_they_differ(noise, verdicts_allowed):
    """On real fits: where all sources are equally noisy, two more parameters only cost."""
    gains = []
    for draw in range(3):
        truth = synthetic.generate("small", 4.0, draw)
        rng = np.random.default_rng(draw)
        clean = [truth.components @ memberships for memberships in truth.memberships]
        noisy = [x + sd * rng.standard_normal(x.shape) for x, sd in zip(clean, noise, strict=True)]
        objectives = [
            restarts.best(restarts.run(fit, Sources(noisy), 5, n_restarts=2, priors="paper"), 1)[0]
            for fit in ("cavi-catbjmd", "cavi-bjmd")
        ]
        gains.append(objectives[0].objective - objectives[1].objective)
    assert verdicts.judge([Effect("gain", np.array(gains))]).verdict in verdicts_allowed


def test_the_table_opens_with_the_main_claims_of_the_paper_on_one_screen():
    of_paper = [claim for claim in claims.CLAIMS if not claim["own"]]
    ids = [claim["id"] for claim in claims.CLAIMS]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 60
    assert all(claim["where"] for claim in of_paper)
    rows = {fit: {"label": fit, "paper_row": row} for fit, row in ROWS.items()}
    world_ = world(true=True)
    found = claims.table(world_.runs.values(), [world_.draws], [], [], world_.runs, rows, 4.0)
    counts, main, how_to_read, by_chance, *sections, _, numbers = found.shown
    assert counts.startswith(f"{len(of_paper)} claims of the paper. Holds: ")
    assert len(main.cells) <= 16
    assert set(main.cells["Claim"]) <= {claim["sentence"] for claim in of_paper}
    assert "height of the patterns" in main.cells["Ours"].iloc[0]
    assert set(main.marks["Verdict"]) == {"good", "weak", ""}
    assert "say nothing about other samples" in how_to_read
    first = found.data[found.data["reading"] == ""]
    judged_by_intervals = (first["intervals"] > 0).sum()
    assert by_chance.startswith(f"{judged_by_intervals} of the verdicts")
    assert f"up to {0.05 * judged_by_intervals:.1f} of these" in by_chance
    tables = [part.cells for part in sections if not isinstance(part, str)]
    assert sum(map(len, tables)) == len(ids)
    assert set(tables[-1]["Where"]) == {""}, "our own questions have no place in the paper"
    shown = pd.concat(tables).set_index("No.").loc["E1", "Ours"]
    assert "the same: MAP with ridge 1/z" in shown
    assert list(numbers) == ["No.", "Numbers"]
