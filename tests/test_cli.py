import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bjmd import __version__, cli, method_names
from bjmd.analysis.associations import associations
from bjmd.analysis.fitting import summarise
from bjmd.data import assembly
from bjmd.data.sources import Sources
from bjmd.errors import FitError
from bjmd.files import outputs
from bjmd.inference import projection, registry, restarts
from bjmd.report import tables
from bjmd.results import storage
from bjmd.results.decomposition import similarities


@pytest.fixture
def files(make_sources, write_tables):
    """a.csv and b.tsv in the current folder, and what they hold; b lacks its first value."""
    matrices = make_sources(n_features=12, n_samples=(30, 20)).matrices
    matrices[1][0, 0] = np.nan
    write_tables(matrices, "a.csv", "b.tsv")
    return matrices


@pytest.fixture
def run(capsys):
    """Runs a command line; gives its exit code, stdout and stderr."""

    def run(line, code=0):
        assert cli.main(line.split()) == code
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return out, err

    return run


FIT = "fit a.csv b.tsv -k 3 -o out --restarts 3 --no-figures"


def table(path):
    return pd.read_csv(path, sep="\t", index_col=0)


def as_counts(path):
    """Writes whole numbers into a file, and returns them."""
    separator = "," if path.endswith("csv") else "\t"
    counts = pd.read_csv(path, sep=separator, index_col=0).abs().mul(9).round()
    counts.to_csv(path, sep=separator)
    return counts


def test_a_fit_has_the_numbers_of_python(files, run):
    out, err = run(
        f"{FIT} --seed 5 --jobs 2 --alpha0 1.2 --lambda 0.5 --tol 1e-5 --option max_sweeps=300 "
        "--plain-restarts"
    )
    options = {"alpha0": 1.2, "lambda_": 0.5, "tol": 1e-5, "max_sweeps": 300}
    sources = Sources(files)
    ours = restarts.best(restarts.run("cavi-bjmd", sources, 3, n_restarts=3, seed=5, **options), 3)
    fit = outputs.load(Path("out"))
    for result, expected in zip(fit.results, ours, strict=True):
        for name in ("components", "noise"):
            np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
        np.testing.assert_array_equal(*(np.hstack(each.memberships) for each in (result, expected)))
        assert (result.seed, result.options) == (expected.seed, options)
    assert (fit.names, fit.sample_names[1][0], fit.feature_names[3]) == (["a", "b"], "b0", "g3")
    assert "--plain-restarts is now called --no-search" in err
    assert "12 features, 50 samples: 30 from a; 20 from b" in err
    assert "All 12 features are in every source." in err
    assert f"{ours[0].noise[0]:.4g}" in out
    assert "begin with out/report.html" in out
    assert not any(path.name.startswith(".") for path in Path().iterdir())


def test_names_labels_join_and_methods_reach_the_fit(files, run):
    Path("labels.csv").write_text("sample,class\na0,x\nb0,y\n")
    Path("c.csv").write_text(",c0,c1,c2\ng1,1,2,3\nnew,4,5,6\ng2,1,1,1\ng3,2,0,1\n")
    _, err = run(
        "fit a.csv b.tsv c.csv -k 2 -o out --restarts 1 --no-figures --method map-bjmd "
        "--join inner --names A,B,C --labels labels.csv"
    )
    fit = outputs.load(Path("out"))
    assert (fit.names, fit.class_names, fit.feature_names) == (
        ["A", "B", "C"],
        ["x", "y"],
        ["g1", "g2", "g3"],
    )
    assert fit.results[0].method == "map-bjmd"
    assert "3 of 13 features are in every source; the others are left out (A lacks 1, " in err


# Scales


def test_scales(files, run):
    run(f"{FIT} --scale rms")
    sources = Sources(files)
    divisors = assembly.scales(sources, "rms")
    expected = restarts.run("cavi-bjmd", assembly.divided(sources, divisors), 3, n_restarts=3)
    np.testing.assert_array_equal(
        outputs.load(Path("out")).results[0].components, restarts.best(expected, 1)[0].components
    )
    assert json.loads(Path("out/settings.json").read_text())["divisors"] == divisors.tolist()


def test_a_hint_at_different_scales(files, run):
    (pd.read_csv("a.csv", index_col=0) * 1000).to_csv("a.csv")
    assert "hint: the entries of source 'a' are" in run(FIT)[1]
    assert "hint" not in run(f"{FIT} --force --scale rms")[1]


def test_counts_get_a_hint_and_are_normalised_on_request(files, run):
    counts = as_counts("a.csv")
    fit = "fit a.csv -k 2 -o out --restarts 1 --no-figures"
    assert "hint: the entries of a.csv are whole numbers; if these are counts" in run(fit)[1]
    assert "hint" not in run(f"{fit} --force --normalize")[1]
    expected = registry.fit("cavi-bjmd", Sources([np.log1p(1e4 * counts / counts.sum())]), 2)
    best = outputs.load(Path("out")).results[0]
    np.testing.assert_allclose(best.components, expected.components, rtol=1e-9)
    assert "scaled to a total of 10,000, and log(1 + x)" in Path("out/summary.md").read_text()


# Data as people have them


def log_intensities(rng):
    """Clean log intensities of three sources, and the same with a bad batch and outliers."""
    components = 8 + 1.5 * rng.laplace(size=(60, 3))
    clean = []
    for n, sd in ((50, 0.3), (40, 0.4), (40, 0.5)):
        memberships = rng.dirichlet(np.full(3, 0.5), n).T
        clean.append(components @ memberships + sd * rng.standard_normal((60, n)))
    raw = [x.copy() for x in clean]
    raw[1] += rng.standard_normal((60, 1))
    for x in raw:
        for _ in range(3):
            x[rng.integers(60), rng.integers(x.shape[1])] *= 100
    return {"clean": clean, "raw": raw}


def test_a_raw_table_gives_what_the_cleaned_one_gives(run, write_tables):
    fits = {}
    for kind, matrices in log_intensities(np.random.default_rng(1)).items():
        paths = [f"{kind}{c}.csv" for c in range(3)]
        write_tables(matrices, *paths)
        files = " ".join(paths)
        options = "-k 3 --restarts 5 --no-figures"
        remedy = "--noise robust" if kind == "raw" else ""
        run(f"fit {files} -o {kind} {options} {remedy}")
        fits[kind] = outputs.load(Path(kind)).results[0]
    alike = similarities([fits["clean"], fits["raw"]])
    assert alike.min() > 0.99
    # without robust noise the same table gives nothing of the kind, and the check says so
    run(f"fit {files} -o plain {options}")
    assert "noise=robust is worth trying" in " ".join(run("check plain")[0].split())
    plain = outputs.load(Path("plain")).results[0]
    assert similarities([fits["clean"], plain]).min() < 0.9
    # a batch that is shifted gets its offsets when new samples are placed, too
    run("transform raw raw1.csv --source raw1 -o back.tsv")
    np.testing.assert_allclose(table("back.tsv"), table("raw/memberships_raw1.tsv"), atol=1e-4)


# New samples


@pytest.mark.parametrize("options", ["", "--scale rms", "--normalize --scale mean"])
def test_training_samples_get_back_their_memberships(files, run, options):
    for path in ("a.csv", "b.tsv") if "normalize" in options else ():
        as_counts(path)
    run(f"{FIT} {options}")
    _, err = run("transform out a.csv --source a -o back.tsv")
    assert "a.csv has 12 of the 12 features of the fit\n" in err and "that of source 'a'" in err
    back = table("back.tsv")
    pd.testing.assert_frame_equal(back, table("out/memberships_a.tsv"), atol=1e-4)
    assert run("transform out a.csv --source a")[0] == Path("back.tsv").read_text()


def test_new_samples_with_other_features(files, run):
    run(FIT)
    frame = pd.DataFrame(files[0][:, :4], [f"g{i}" for i in range(12)], list("pqrs"))
    frame = pd.concat([frame.iloc[::-1].drop("g3"), pd.DataFrame(7.0, ["new"], frame.columns)])
    frame.T.to_csv("new.csv")
    _, err = run("transform out new.csv --samples-in-rows -o new.tsv")
    best = outputs.load(Path("out")).results[0]
    matrix = files[0][:, :4].copy()
    matrix[3] = np.nan
    expected = projection.project(best, matrix)
    np.testing.assert_allclose(table("new.tsv"), expected.memberships.T, rtol=1e-5)
    assert (
        "new.csv has 11 of the 12 features of the fit; the others count as missing; "
        "ignored 1 feature unknown to the fit\n"
    ) in err
    assert f"noise sd {expected.noise:.4g}, estimated" in err
    assert "memberships of 4 samples are in new.tsv" in err


def test_a_new_source_is_divided_by_its_own_scale(files, run):
    run(f"{FIT} --scale rms")
    run("transform out a.csv -o one.tsv")
    (pd.read_csv("a.csv", index_col=0) * 100).to_csv("hundred.csv")
    run("transform out hundred.csv -o two.tsv")
    np.testing.assert_allclose(table("one.tsv"), table("two.tsv"), atol=2e-6)


MISTAKES_AFTER_A_FIT = {
    "check nowhere": "bjmd: nowhere is not a folder with the results of a fit",
    "check means": "bjmd: method 'kmeans' has no noise models to compare; use cavi-bjmd\n",
    "check python": "bjmd: the fit in python was made in Python from data in memory; if they ",
    "check out a.csv": "bjmd: the files hold 1 sources, but the fit has 2 (a, b); give the files",
    "transform out a.csv --source c": "bjmd: the fit has no source 'c'; its sources are a, b\n",
    "transform out nowhere.csv": "bjmd: nowhere.csv does not exist; check the path\n",
    "transform out a.csv -o out": "bjmd: out is a folder; give the name of a .tsv file",
    "transform out a.csv --samples-in-rows": "12 of its samples are, as if transposed",
    "transform means a.csv": "method 'kmeans' has no way to place new samples",
}


def test_a_mistake_after_a_fit_gets_its_sentence(files, run):
    run(FIT)
    run("fit a.csv -k 2 -o means --method kmeans --restarts 1 --no-figures")
    sources = Sources(files)
    outputs.write("python", sources, summarise(sources, [registry.fit("cavi-bjmd", sources, 2)]))
    before = sorted(Path().rglob("*"))
    for line, sentence in MISTAKES_AFTER_A_FIT.items():
        out, err = run(line, code=2)
        assert sentence in err and not out
    assert sorted(Path().rglob("*")) == before


# Check, show and datasets


def test_check_and_show(files, run):
    fitted, _ = run(FIT)
    assert "bjmd check out" in fitted
    top = pd.read_csv("out/ranking.tsv", sep="\t").query("direction == 'up' and rank <= 6")
    for component, features in top.groupby("component")["feature"]:
        assert re.search(rf"^{component} +[\d.]+ % +{', '.join(features)}$", fitted, re.MULTILINE)
    checked, _ = run("check out")
    assert "This was added to out/report.html" in checked and "CHECK OF THE NOISE MODEL" in checked
    assert set(table("out/check.tsv").index) == {"noise=feature", "noise=sample", "noise=robust"}
    out, _ = run("show out")
    assert checked[checked.index("Option") : checked.index("This was")] in out
    best = outputs.load(Path("out")).results[0]
    for words in (
        "50 samples from 2 sources, measured on 12 features",
        "All 12 features are in every source.",
        tables.number(best.noise[1], 4),
        "The share of a component",
    ):
        assert words in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100


def test_the_list_of_data_sets(run):
    out, _ = run("datasets")
    for words in (
        "3sources\n",
        "at most 78 MB",
        "Non-commercial and research purposes only",
        "present  ",
    ):
        assert words in out
    assert "did you mean '3sources'?" in run("datasets 3source", code=2)[1]


# AnnData and MuData


def test_results_go_back_into_h5mu_files(h5mu, run, tmp_path, monkeypatch):
    import mudata

    monkeypatch.chdir(tmp_path)
    run("fit study.h5mu -k 2 -o out --restarts 2 --no-figures")
    best = outputs.load(Path("out")).results[0]
    with warnings.catch_warnings(action="ignore"):  # the modalities share names of features
        back = mudata.read_h5mu("out/study.h5mu")
    for c, name in enumerate(("early", "late")):
        modality = back.mod[name]
        np.testing.assert_array_equal(modality.obsm["X_bjmd"], best.memberships[c].T)
        np.testing.assert_array_equal(modality.varm["bjmd"], best.components)
        assert modality.uns["bjmd"]["noise"] == best.noise[c]


def test_metadata_and_a_consensus_are_on_request(files, run):
    samples = [f"{letter}{j}" for letter, n in (("a", 30), ("b", 20)) for j in range(n)]
    about = pd.DataFrame(
        {"sample": samples, "age": np.arange(50.0), "kind": ["x", "y"] * 25}
    ).set_index("sample")
    about.to_csv("about.tsv", sep="\t")
    fit = "fit a.csv b.tsv -k 2 --no-figures"
    run(f"{fit} -o out --restarts 3 --consensus --metadata about.tsv")
    best = outputs.load(Path("out")).results[0]
    written = pd.read_csv("out/associations.tsv", sep="\t")
    expected = associations(best.memberships, [about[:30], about[30:]])
    pd.testing.assert_frame_equal(written, expected, rtol=1e-5)
    agreed = table("out/consensus.tsv")
    assert list(agreed.index) == ["C1", "C2"] and agreed["share"].isin([1 / 3, 2 / 3, 1]).all()
    for name in ("components", "memberships_a", "memberships_b"):
        ours, theirs = (table(f"out/{prefix}{name}.tsv") for prefix in ("consensus_", ""))
        assert ours.index.equals(theirs.index) and ours.columns.equals(theirs.columns)
    summary = Path("out/summary.md").read_text()
    assert "## Associations" in summary and "## Consensus" in summary
    about.rename(index="not {}".format).to_csv("other.tsv", sep="\t")
    pd.concat([about, about]).to_csv("twice.tsv", sep="\t")
    for wrong, message in {
        "--metadata other.tsv": "none of the samples in other.tsv is in the data",
        "--metadata twice.tsv": "twice.tsv lists a sample more than once",
        "--consensus --restarts 1": "--consensus needs at least two --restarts of a BJMD method",
        "--consensus --method jnmf": "--consensus needs at least two --restarts of a BJMD method",
    }.items():
        assert message in run(f"{fit} -o out2 {wrong}", code=2)[1]


def test_results_go_back_into_a_split_h5ad_file(files, run):
    anndata = pytest.importorskip("anndata")
    x = np.hstack([files[0], files[1][:, 1:]])
    obs = pd.DataFrame({"cohort": ["even", "odd"] * 25}, [f"s{j}" for j in range(50)])[:49]
    var = pd.DataFrame(index=[f"g{i}" for i in range(12)])
    anndata.AnnData(x.T, obs=obs, var=var).write_h5ad("all.h5ad")
    beyond = "--noise feature+sample+robust --offsets --option max_sweeps=50"
    for k in (2, 3):  # the second fit replaces the first
        run(f"fit all.h5ad --split-by cohort -k {k} -o {k} --restarts 1 --no-figures {beyond}")
        Path(f"{k}/all.h5ad").rename("all.h5ad")
    best = outputs.load(Path("3")).results[0]
    assert not Path("2/associations.tsv").exists(), "the cohort is the source"
    back = anndata.read_h5ad("all.h5ad")
    known = best.model
    for c, name in enumerate(("even", "odd")):
        mine = back[back.obs["cohort"] == name]
        np.testing.assert_array_equal(mine.obsm["X_bjmd"], best.memberships[c].T)
        np.testing.assert_array_equal(mine.obs["bjmd_precision"], known.sample_precision[c])
    np.testing.assert_array_equal(back.varm["bjmd_offsets"], known.offsets.T)
    np.testing.assert_array_equal(back.var["bjmd_precision"], known.feature_precision)
    assert list(back.uns["bjmd"]["sources"]) == ["even", "odd"]
    np.testing.assert_array_equal(back.uns["bjmd"]["noise"], best.noise)
    np.testing.assert_array_equal(back.uns["bjmd"]["degrees_of_freedom"], known.degrees_of_freedom)


# Mistakes, and how commands end


MISTAKES = {
    "--method cavi-bjm": "bjmd: there is no method 'cavi-bjm'; did you mean 'cavi-bjmd'?\n",
    "--method kmeans --alpha0 2": "bjmd: method 'kmeans' has no option 'alpha0'; its",
    "--option speed=9": "bjmd: method 'cavi-bjmd' has no option 'speed'; its options are priors",
    "--option speed": "bjmd: --option 'speed' has no value; write KEY=VALUE, for example ",
    "--option max_sweeps=many": "bjmd: max_sweeps is 'many'; it must be a whole number",
    "--noise wild": "bjmd: noise is 'wild'; it must be source, feature, sample or robust",
    "--noise auto": "bjmd: noise='auto' was removed because it made results worse on real data; "
    "leave it out, and let `bjmd check` (in Python model.check) say whether another noise model",
    "--offsets auto": "bjmd: offsets='auto' was removed because it made results worse on real "
    "data; leave it out, or compare a fit with offsets and one without",
    "--offsets maybe": "bjmd: --offsets is 'maybe'; it must be yes or no\n",
    "--alpha0 0": "bjmd: alpha0 is 0",
    "--normalize": "bjmd: a.csv has negative entries, so these are not counts; leave out",
    "--lambda 1e300": "bjmd: lambda_ is 1e+300; it must be between 1e-150 and 1e+150\n",
    "--lambda 1e-300": "bjmd: lambda_ is 1e-300; it must be between 1e-150 and 1e+150\n",
    "--option a0=1e160": "bjmd: a0 is 1e+160; it must be between 1e-150 and 1e+150\n",
    "-k 0": "bjmd: n_components is 0; it must be a whole number of at least 1\n",
    "-k 90": "bjmd: n_components is 90, more than the data allow",
    "--restarts 0": "bjmd: n_restarts is 0; it must be",
    "--jobs 0": "bjmd: jobs is 0; it must be",
    "--seed -1": "bjmd: seed is -1; it must be",
    "--names A": "bjmd: the sources are a, b, but the number of names is 1; give one",
    "--labels nowhere.tsv": "bjmd: nowhere.tsv does not exist; check the path\n",
    "--names A,": "bjmd: a source has an empty name; name every source\n",
    "-o a.csv/out": "bjmd: cannot write to a.csv (",
    "--split-by cohort": "bjmd: a.csv cannot be read with split_by='cohort'",
    "--samples-in-rows": "bjmd: a.csv has no feature in common with the others",
    "nowhere.csv": "bjmd: nowhere.csv does not exist; check the path\n",
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_its_sentence_and_leaves_nothing(mistake, files, run):
    before = sorted(Path().iterdir())
    out, err = run(
        f"{FIT} {mistake}" if mistake.startswith("-") else f"fit {mistake} -k 2 -o out", code=2
    )
    assert MISTAKES[mistake] in err and not out
    assert err.splitlines()[-1].startswith("bjmd: ") and len(err) < 3000
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("command", "prog"),
    [
        (f"{FIT} -k two", "bjmd fit"),
        (f"{FIT} --methd cavi", "bjmd fit"),
        ("fit a.csv", "bjmd fit"),
        ("--methd fit a.csv", "bjmd"),
        ("frobnicate", "bjmd"),
        ("", "bjmd"),
    ],
)
def test_a_mistake_in_the_command_line_is_one_sentence(command, prog, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(command.split())
    out, err = capsys.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"{prog}: ") and err.endswith(f"; see {prog} --help\n")


def test_a_fit_that_breaks_down_or_is_interrupted(files, run, monkeypatch):
    before = sorted(Path().iterdir())
    for error, code, sentence in (
        (FitError("the objective is not finite"), 1, "bjmd: the objective is not finite\n"),
        (
            OSError(28, "No space left on device", "out"),
            1,
            "bjmd: cannot use out (No space left on device); check it\n",
        ),
        (KeyboardInterrupt(), 130, "bjmd: interrupted; nothing was written\n"),
    ):

        def broken(*_, error=error, **__):
            raise error

        for place in ((restarts, "run"), (storage, "save_decompositions")):
            with monkeypatch.context() as patch:
                patch.setattr(*place, broken)
                assert sentence in run(FIT, code=code)[1]
            assert sorted(Path().iterdir()) == before


def command(line, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen([sys.executable, "-m", "bjmd.cli", *line.split()], **pipes, **options)


def test_the_help_names_every_choice(capsys):
    for line in (["--version"], ["--help"], *([name, "--help"] for name in cli.COMMANDS)):
        with pytest.raises(SystemExit) as end:
            cli.main(line)
        assert end.value.code == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= 80
        words = {
            "--version": [f"bjmd {__version__}\n"],
            "--help": cli.COMMANDS,
            "fit": [*method_names(), *assembly.SCALES, "outer", "inner"],
        }
        assert all(word in out for word in words.get(line[0], []))


def test_ctrl_c_does_not_wait_for_the_fits(rng, tmp_path):
    np.savez(tmp_path / "big.npz", matrix=rng.random((1000, 2000)))
    line = "fit big.npz -k 40 -o out --tol 1e-300 --option max_sweeps=1000000 --jobs 1"
    with command(line, cwd=tmp_path) as process:
        while "1,000 features" not in process.stderr.readline():
            pass
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr.read().endswith("bjmd: interrupted; nothing was written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["big.npz"]
