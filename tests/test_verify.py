"""`bjmd verify` names what has changed since a fit was written, and confirms the rest."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import bjmd
from bjmd import cli
from bjmd.data.assembly import RawSource
from bjmd.files.outputs import hash_of_source
from bjmd.inference import registry
from bjmd.results import storage


@pytest.fixture
def verify(write_tables, capsys, make_sources):
    """A fit of two files in out/, and a function that verifies it: exit code and output."""
    write_tables(make_sources().matrices, "a.csv", "b.csv")
    line = "fit a.csv b.csv -k 2 -o out --restarts 2 --no-figures --scale rms --option tol=1e-4"
    assert cli.main(line.split()) == 0
    capsys.readouterr()

    def verify(*files, folder="out", command="verify"):
        code = cli.main([command, folder, *files])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out + err

    return verify


def test_what_has_not_changed_is_confirmed_to_the_bit(verify):
    code, said = verify()
    assert code == 0
    assert (
        "The data, the settings and all files are unchanged." in said
        and "The fit in out is confirmed." in said
    )
    for what in ("objective", "components", "memberships", "noise", "posterior"):
        assert f"{what}: identical" in said


def test_a_fit_that_was_checked_is_confirmed_and_a_changed_check_is_found(verify):
    before = verify()
    assert verify(command="check")[0] == 0
    assert verify() == before
    path = Path("out/check.tsv")
    path.write_text(path.read_text().replace("no gain", "worth trying; compare"))
    assert "out/check.tsv has changed since it was written." in verify()[1]


def test_normalised_counts_are_confirmed(verify, write_tables, make_sources):
    write_tables([np.round(9 * np.abs(x)) for x in make_sources().matrices], "a.csv", "b.csv")
    line = "fit a.csv b.csv -k 2 -o counts --restarts 1 --normalize"
    assert cli.main(line.split()) == 0
    assert verify(folder="counts")[0] == 0


def test_the_best_run_of_a_search_is_computed_again(verify):
    line = "fit a.csv b.csv -k 2 -o found --restarts 20 --no-figures"
    assert cli.main(line.split()) == 0
    code, said = verify(folder="found")
    assert code == 0 and "components: identical" in said
    table = pd.read_csv("found/restarts.tsv", sep="\t")
    assert len(table) == 8 and "below 1e-08" in table["reason"][0]
    searched = "Instead of 20 full restarts, a search made 8 random starts and continued the best 4"
    assert searched in Path("found/summary.md").read_text()
    assert bjmd.load("found").n_init == 20
    assert cli.main([*line.replace("found", "plain").split(), "--no-search"]) == 0
    assert len(pd.read_csv("plain/restarts.tsv", sep="\t")) == 20


def change_cell():
    frame = pd.read_csv("b.csv", index_col=0)
    frame.loc["g3", "b3"] += 2
    frame.to_csv("b.csv")


def rename_sample():
    Path("a.csv").write_text(Path("a.csv").read_text().replace(",a0,", ",z,"))


def change_fit():
    results = storage.load_decompositions("out/fit.npz")
    results[0].components[0, 0] *= 1.001
    storage.save_decompositions("out/fit.npz", results)


def change_option():
    results = storage.load_decompositions("out/fit.npz")
    results[0].options["tol"] = 1e-5
    storage.save_decompositions("out/fit.npz", results)


def rename_feature():
    path = Path("out/names.json")
    path.write_text(path.read_text().replace('"g0"', '"other"'))


CHANGES = {
    change_cell: [
        "Source 'b' is not what was fitted: b.csv holds other numbers or names.",
        "components: different, by ",
    ],
    rename_sample: ["Source 'a' is not what was fitted", "components: identical"],
    change_fit: [
        "out/fit.npz has changed since it was written.",
        "components: different",
        "memberships: identical",
    ],
    change_option: ["out/fit.npz has changed since it was written."],
    rename_feature: ["out/names.json has changed since", "components: identical"],
    Path("out/noise.tsv").unlink: ["out/noise.tsv is missing.", "components: identical"],
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_has_changed_is_named(verify, change):
    change()
    code, said = verify()
    assert code == 1 and "the fit in out is not confirmed" in said
    for words in CHANGES[change]:
        assert words in said
    assert said.count("is not what was fitted") + said.count("out/") <= 2


def test_moved_files_are_asked_for_and_used(verify):
    Path("a.csv").rename("moved.csv")
    for command in ("check", "verify"):
        sentence = f"bjmd: a.csv was not found; give the data files: bjmd {command} out FILE ...\n"
        assert verify(command=command) == (2, sentence)
        assert verify("moved.csv", "b.csv", command=command)[0] == 0
    assert "the files hold 1 sources, but the fit has 2 (a, b)" in verify("b.csv")[1]
    code, said = verify("b.csv", "moved.csv")  # the order is that of the fit
    assert code == 1 and "memberships: different: the shapes differ" in said


def test_rounding_is_told_from_a_difference(verify, monkeypatch):
    fit = registry.fit

    def elsewhere(*arguments, **options):
        result = fit(*arguments, **options)
        result.components *= 1 + 1e-12
        return result

    monkeypatch.setattr(registry, "fit", elsewhere)
    monkeypatch.setattr(storage, "version", lambda name: "0.0")
    code, said = verify()
    assert code == 0 and "components: equal within rounding, by 1e-12 of the largest entry" in said
    assert "The fit was made with numpy" in said and "this is numpy 0.0" in said


def test_damaged_or_missing_settings_and_hashes_are_refused(verify):
    for file, good, bad in (
        ("settings.json", '"samples_in_rows"', '"samples_in_rowz"'),
        ("hashes.json", '"data": {', '"data": 3, "more": {'),
    ):
        path = Path("out") / file
        path.write_text(path.read_text().replace(good, bad))
        code, said = verify()
        assert code == 2 and said.startswith(f"bjmd: out/{file} is not a complete file of bjmd (")
    path.unlink()
    assert "the fit in out has no hashes, so it cannot be verified" in verify()[1]


def test_the_hash_of_a_table_is_of_its_content(rng):
    x = rng.poisson(1.0, (4, 3))
    features = list("pqrs")
    samples = list("abc")
    expected = hash_of_source(RawSource(x.astype(float), features, samples))
    assert hash_of_source(RawSource(x, features, samples, name="n", path=Path("f"))) == expected
    assert hash_of_source(RawSource(np.asfortranarray(x), features, samples)) == expected
    others = [
        RawSource(x + (x == x.max()), features, samples),
        RawSource(x, features, list("abx")),
        RawSource(x, None, samples),
    ]
    sparse = scipy.sparse.coo_array(x)
    shuffled = scipy.sparse.coo_array(
        (sparse.data[::-1], [place[::-1] for place in sparse.coords]), shape=x.shape
    )
    assert hash_of_source(RawSource(sparse, features, samples)) == hash_of_source(
        RawSource(shuffled, features, samples)
    )
    others += [RawSource(2 * sparse, features, samples), RawSource(sparse, features, samples)]
    assert len({expected, *map(hash_of_source, others)}) == 6
