import copy
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT


def arrays(folder):
    found = {}
    for path in sorted(folder.glob("results/fits/**/*.npz")):
        with np.load(path) as file:
            found |= {
                (str(path.relative_to(folder)), key): file[key]
                for key in file.files
                if key != "metadata.json"
            }
    return found


def test_every_target_is_there_and_a_second_run_has_nothing_to_do(finished):
    for name in (
        "tables/performance-small.csv",
        "figures/auc-small.svg",
        "figures/noise-small.png",
        "draws/small/map-bjmd/1-1.csv",
        "complete.txt",
    ):
        assert (finished.folder / "results" / name).stat().st_size > 0
    assert "Nothing to be done" in finished.run("--dry-run").stdout


def test_one_core_and_two_give_the_same_bits(finished, fresh):
    fresh.run("results/scores/small-4.0.csv", cores=1)
    one = arrays(fresh.folder)
    two = arrays(finished.folder)
    assert len(one) > 10
    for key, array in one.items():
        np.testing.assert_array_equal(array, two[key], err_msg=str(key))


def test_the_table_has_the_printed_numbers_beside_ours(finished):
    path = finished.folder / "results/tables/performance-small.csv"
    table = pd.read_csv(path).set_index(["fit", "source"])
    np.testing.assert_allclose(table.loc["truth", "auc"], 100)
    assert table.loc[("map-bjmd", 1), "paper_auc"] == 99.67
    assert np.isnan(table.loc[("map-catbjmd", 1), "paper_auc"])
    ours = table.loc[("map-bjmd", 3)]
    assert ours["difference"] == pytest.approx(ours["auc"] - 77.85)


@pytest.fixture
def changed(finished):
    """The finished run with a fit changed, to see what would run again."""
    before = finished.config

    def change(fit, **changes):
        config = copy.deepcopy(before)
        config["fits"][fit] |= changes
        finished.configure(config)
        return finished

    yield change
    finished.configure(before)


def test_changing_one_option_reruns_only_what_depends_on_it(changed):
    jobs = changed("map-catbjmd", options={"priors": "paper", "tol": 1e-3}).jobs()
    assert jobs["fit"] == jobs["draw"] == 2, "two chunks of one fit"
    assert jobs["feature_draw"] == 1, "one chunk"
    assert "synthetic" not in jobs


@pytest.fixture(scope="module")
def copy_of_the_code(tmp_path_factory):
    """A copy of the packages, which a run may use in their place."""
    source = tmp_path_factory.mktemp("code") / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    return source


FIT_AND_WHAT_FOLLOWS = {"fit", "feature_draw", "score", "table", "figure", "report"}


@pytest.mark.parametrize(
    ("file", "fits", "rules"),
    [
        ("bjmd/inference/map.py", 5, FIT_AND_WHAT_FOLLOWS | {"draw", "advi_trace"}),
        ("bjmd_paper/baselines/joint_nmf.py", 1, FIT_AND_WHAT_FOLLOWS),
        ("bjmd_paper/figures.py", 0, {"figure", "report"}),
    ],
)
def test_results_follow_the_code(finished, copy_of_the_code, file, fits, rules):
    """What depends on a changed file runs again, and nothing else; ADVI starts with code of MAP."""
    path = copy_of_the_code / file
    before = path.read_text()
    path.write_text(f"{before}\nCHANGED = 1\n")
    jobs = finished.jobs(PYTHONPATH=str(copy_of_the_code))
    path.write_text(before)
    assert set(jobs) - {"all", "complete", "total"} == rules
    assert jobs.get("fit", 0) == fits


@pytest.mark.parametrize(
    ("file", "tables"),
    [("claims/claims.toml", {"verdicts"}), ("overview.py", {"overview"}), ("cards.py", {"data"})],
)
def test_a_table_follows_the_code_of_its_own_module(finished, copy_of_the_code, file, tables):
    path = copy_of_the_code / "bjmd_paper" / file
    before = path.read_text()
    path.write_text(f"{before}\nCHANGED = 1\n")
    planned = finished.run("--dry-run", PYTHONPATH=str(copy_of_the_code)).stdout
    path.write_text(before)
    assert set(re.findall(r"(?:Table|Figure): ([a-z-]+)\.", planned)) == tables


def test_a_label_does_not_rerun_a_fit(changed):
    jobs = changed("map-bjmd", label="ours").jobs()
    assert not {"fit", "score", "synthetic", "draw"} & set(jobs)


def test_an_exhibit_can_be_made_again_alone_by_its_file_name(finished):
    assert finished.jobs("--force", "results/figures/auc-small.png") == {"figure": 1, "total": 1}
    assert finished.jobs("--force", "results/tables/verdicts.md") == {"table": 1, "total": 1}


def test_only_the_exhibits_that_show_a_changed_file_are_made_again(finished):
    path = finished.folder / "results/draws/small/map-bjmd/1-1.csv"
    before = path.read_text(), path.stat()
    try:
        path.write_text(before[0].replace("99.", "98.", 1))
        planned = finished.run("--dry-run").stdout
        made = set(re.findall(r"(?:Table|Figure): ([a-z-]+)\.", planned))
        assert made == {"verdicts", "auc-small", "draws-small"}, "those that show the draws"
    finally:
        path.write_text(before[0])
        os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))


def test_the_report_is_one_file_that_begins_with_what_was_found(finished):
    html = (finished.folder / "results/report.html").read_text()
    titles = re.findall("<h2>(.*?)</h2>", html)
    assert titles == [
        "What was found",
        "Performance",
        "Noise",
        "The feature test",
        "Convergence",
        "The data",
        "The model",
        "How it was run",
    ]
    assert html.count("<img ") == len(list(finished.folder.glob("results/figures/*.png"))) == 5
    fragments = [
        path.read_text() for path in finished.folder.glob("results/tables/*.fragment.html")
    ]
    assert len(fragments) == 11 and all(fragment in html for fragment in fragments)
    text = " ".join(html.split())
    assert "the known classes of the small synthetic data (noise sd 4 in source 3)." in text
    assert "The objective after each iteration on the small synthetic data." in text
    shown = re.sub("<script.*?</script>", "", html.split("</style>")[1], flags=re.DOTALL)
    assert not re.search(r"\{\w+\}", shown), "every field of a caption is filled in"
    assert not re.search(r'(src|href)="(?!data:|#)', html), "a page that needs nothing else"


def test_snakemakes_own_report_has_every_exhibit(finished):
    finished.run("--report", "report.zip")
    with zipfile.ZipFile(finished.folder / "report.zip") as archive:
        page = "".join(
            archive.read(name).decode(errors="ignore")
            for name in archive.namelist()
            if "data/raw" not in name
        )
    for text in (
        "What was found",
        "AUC against the noise of source 3",
        "The claims that the paper makes in its text",
    ):
        assert text in page, text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"restart": 3},
            "config: Additional properties are not allowed ('restart' was unexpected)",
        ),
        ({"best": 9}, "config: fits.map-bjmd: restarts = 3 is less than best = 9"),
    ],
)
def test_a_bad_config_is_refused_before_anything_runs(fresh, change, message):
    fresh.configure({**fresh.config, **change})
    done = fresh.run(check=False)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (fresh.folder / "results").exists()


def test_an_unknown_fit_and_damaged_data_are_named(fresh):
    target = f"results/fits/{small(fresh)}/zz/0-1.npz"
    done = fresh.run(target, check=False)
    assert done.returncode != 0 and target in done.stderr and "Traceback" not in done.stderr
    (fresh.folder / "results/data").mkdir(parents=True)
    (fresh.folder / f"results/data/{small(fresh)}.npz").write_bytes(b"garbage")
    done = fresh.run(
        f"results/fits/{small(fresh)}/map-bjmd/0-1.npz", "--rerun-triggers", "mtime", check=False
    )
    assert (
        done.returncode != 0 and f"{small(fresh)}.npz is not a complete file of bjmd" in done.stderr
    ), done.stderr


def small(workflow):
    return f"small-{workflow.config['synthetic']['table_sigma3']}"


def test_data_that_are_not_there_stop_only_what_needs_them(fresh):
    fits = {"map-bjmd": fresh.config["fits"]["map-bjmd"]}
    fresh.configure({**fresh.config, "real": ["metabric-489"], "cache": "cache", "fits": fits})
    scores = [f"results/scores/{name}.csv" for name in ("small-4.0", "metabric-489")]
    done = fresh.run("--keep-going", *scores, check=False)
    assert done.returncode != 0
    assert "prepare: metabric-489 cannot be downloaded automatically" in done.stderr
    assert "Traceback" not in done.stderr
    assert [(fresh.folder / path).exists() for path in scores] == [True, False]


def test_a_fit_that_fails_leaves_the_other_rows_and_is_named_everywhere(fresh):
    """The data tell that the length of alpha0 is wrong; so it fails in every job that runs it."""
    good = fresh.config["fits"]["map-bjmd"] | {"restarts": 2}
    bad = good | {"label": "hopeless", "options": {"alpha0": [2, 2]}}
    advi = bad | {"method": "advi-bjmd", "label": "ADVI", "options": {"alpha0": [2, 2]}}
    del advi["draws"]
    fits = {"map-bjmd": good, "hopeless": bad, "advi-bjmd": advi}
    missing = {"real": ["metabric-489"], "cache": "empty", "skip_missing": True}
    traces = fresh.config["advi_traces"] | {"number": 0}
    fresh.configure({**fresh.config, "fits": fits, "advi_traces": traces, **missing})
    done = fresh.run(check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    reason = "the length of alpha0 is 2 but there are to be 5"
    draws = ("draws 0 to 0 (small)", "draws 0 to 1 (conjecture)", "draws 0 to 1 for the")
    for place in ("small-4.0, restarts 0 to 1", *draws):
        assert f"hopeless on {place}" in done.stderr
    log = fresh.folder / "results/logs/fit/small-4.0/hopeless/0-1.log"
    assert reason in log.read_text()

    results = fresh.folder / "results"
    table = pd.read_csv(results / "tables/performance-small.csv")
    assert list(table["fit"].unique()) == ["map-bjmd", "truth"]
    note = f"Failed, and left out: hopeless on small-4.0, restarts 0 to 1: {reason}"
    assert note in (results / "tables/performance-small.md").read_text()
    assert "hopeless on draws 0 to 0" in (results / "tables/draws-small.md").read_text()
    assert set(pd.read_csv(results / "tables/draws-small.csv")["fit"]) == {"map-bjmd"}
    page = (results / "report.html").read_text()
    assert page.count("Failed, and left out of tables and figures: ") == 6
    assert "Left out: metabric-489, because its files were not found." in page
    assert not (results / "complete.txt").exists()

    fresh.configure({**fresh.config, "fits": {"map-bjmd": good}})
    jobs = set(fresh.jobs())
    assert "complete" in jobs and not {"fit", "draw", "feature_draw"} & jobs


def test_the_same_command_continues_after_a_crash(fresh):
    """No unlocking and no other option is needed after everything was killed at once."""
    slow = {
        "method": "advi-bjmd",
        "label": "ADVI",
        "options": {"max_iterations": 10_000_000},
        "restarts": 1,
        "best": 1,
    }
    plain = fresh.config["fits"]["map-bjmd"]
    fresh.configure({**fresh.config, "fits": {"map-bjmd": plain, "slow": slow}})
    command = [sys.executable, "-m", "snakemake", "-s", ROOT / "workflow/Snakefile", "--cores", "2"]
    target = f"results/fits/{small(fresh)}/slow/0-0.npz"
    first = subprocess.Popen(
        [*command, target], cwd=fresh.folder, stderr=subprocess.DEVNULL, start_new_session=True
    )
    log = fresh.folder / target.replace("fits", "logs/fit", 1).replace(".npz", ".log")
    patience = time.monotonic() + 60
    while not log.exists() and time.monotonic() < patience:
        time.sleep(0.1)
    assert log.exists()
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(timeout=60)
    fresh.configure({**fresh.config, "fits": {"map-bjmd": plain}})
    fresh.run(target.replace("slow", "map-bjmd").replace("0-0", "0-1"))


def test_a_run_outlives_the_script_that_started_it(fresh):
    """Whatever the script is called, and though its shell ends while a fit runs."""
    target = f"results/fits/{small(fresh)}/map-bjmd/0-0.npz"
    script = fresh.folder / "run_snakemake.sh"
    script.write_text('nohup "$@" > said.txt 2>&1 &\n')
    command = [sys.executable, "-m", "snakemake", "-s", ROOT / "workflow/Snakefile", "--cores", "1"]
    said = fresh.folder / "said.txt"
    said.touch()  # the shell may end before its child has begun
    subprocess.run(["bash", script, *command, target], cwd=fresh.folder, check=True)
    patience = time.monotonic() + 300
    while "steps (100%) done" not in said.read_text() and time.monotonic() < patience:
        time.sleep(0.2)
    assert (fresh.folder / target).exists(), said.read_text()


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_lives(fresh):
    lock = fresh.folder / ".snakemake/bjmd.lock"
    lock.parent.mkdir()
    with lock.open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        done = fresh.run("results/data/small-4.0.npz", check=False)
    assert done.returncode != 0
    assert f"another Snakemake is using {lock}; wait until it has ended, or stop it" in done.stderr
    fresh.run("results/data/small-4.0.npz")
