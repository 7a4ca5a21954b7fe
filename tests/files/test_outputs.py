import base64
import html
import json
import re
import shutil
from fnmatch import fnmatch

import numpy as np
import pandas as pd
import pytest

from bjmd.analysis import ranking, variance
from bjmd.analysis.fitting import summarise
from bjmd.analysis.variance import residuals
from bjmd.data.assembly import Settings
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files import outputs
from bjmd.inference import registry, restarts
from bjmd.report import pages, tables


def write(folder, sources, results, **options):
    return outputs.write(folder, sources, summarise(sources, results), **options)


NAMES = ["North & South", "north _ south", "<b>West</b> | *x*"]


@pytest.fixture(scope="module")
def fitted():
    """Three sources with odd names, missing entries and classes, and three restarts on them."""
    rng = np.random.default_rng(1)
    components = 2 * rng.laplace(size=(10, 3))
    memberships = [rng.dirichlet(np.ones(3), n).T for n in (14, 12, 9)]
    matrices = [components @ h + 0.3 * rng.standard_normal((10, h.shape[1])) for h in memberships]
    matrices[1][2, :5] = np.nan
    labels = [h > 0.4 for h in memberships]
    sources = Sources(matrices, names=NAMES, labels=labels, class_names=["a", "b", "c"])
    return sources, restarts.run("cavi-bjmd", sources, 3, n_restarts=3, seed=5)


@pytest.fixture(scope="module")
def folder(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("outputs") / "out"
    write(path, *fitted, settings=Settings(notes=["Features were matched."]))
    return path


def small(make_sources, method="map-bjmd", **options):
    sources = make_sources()
    return sources, restarts.run(method, sources, 2, n_restarts=1, **options)


def test_all_restarts_come_back_best_first_with_all_names(folder, fitted):
    sources, results = fitted
    loaded = outputs.load(folder)
    expected = restarts.best(results, 3)
    assert [run.seed for run in loaded.results] == [run.seed for run in expected]
    for ours, theirs in zip(loaded.results, expected, strict=True):
        np.testing.assert_array_equal(ours.components, theirs.components)
        np.testing.assert_array_equal(ours.posterior.noise.rate, theirs.posterior.noise.rate)
    for names in ("names", "feature_names", "sample_names", "class_names", "n_missing"):
        assert getattr(loaded, names) == getattr(sources, names)
    for ours, theirs in zip(loaded.labels, sources.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_tables_hold_the_best_restart(folder, fitted):
    sources, results = fitted
    (best,) = restarts.best(results, 1)
    paths = [
        "memberships_North_South.tsv",
        "memberships_north___south.tsv",
        "memberships_b_West_b_x.tsv",
    ]
    for path, h, samples in zip(paths, best.memberships, sources.sample_names, strict=True):
        table = pd.read_csv(folder / path, sep="\t", index_col="sample")
        assert list(table.index) == samples
        assert list(table.columns) == ["C1", "C2", "C3"]
        np.testing.assert_allclose(table, h.T, rtol=1e-5)
    runs = pd.read_csv(folder / "restarts.tsv", sep="\t")
    assert list(runs.columns) == ["seed", "objective", "converged", "reason", "seconds"]
    assert list(runs["seed"]) == [run.seed for run in restarts.best(results, 3)]
    shares = variance.explained(sources, best)
    noise = best.posterior.noise
    expected = {
        "components": best.components,
        "components_sd": best.posterior.components.sd,
        "variance_explained": np.column_stack([shares.sum(axis=1), shares]),
        "noise": np.column_stack([best.noise, noise.sd, *noise.interval(0.9)]),
    }
    for name, numbers in expected.items():
        table = pd.read_csv(folder / f"{name}.tsv", sep="\t", index_col=0)
        np.testing.assert_allclose(table, numbers, rtol=1e-5)
    assert list(table.columns) == ["noise", "sd", "low", "high"] and list(table.index) == NAMES


def test_what_goes_beyond_the_paper_is_written_and_told(fitted, tmp_path):
    sources, _ = fitted
    shift = np.linspace(-3, 3, 10)[:, None]
    sources = sources.replace(matrices=[x + c * shift for c, x in enumerate(sources.matrices)])
    options = {
        "noise": "feature+sample+robust",
        "offsets": True,
        "alpha0": "by-source",
        "max_sweeps": 50,
    }
    best = registry.fit("cavi-bjmd", sources, 3, **options)
    write(tmp_path / "out", sources, [best])
    tables = {path.stem: pd.read_csv(path, sep="\t") for path in (tmp_path / "out").glob("*.tsv")}
    model = best.model
    for name, column, expected in (
        ("feature_noise", "relative_sd", model.feature_precision**-0.5),
        ("sample_noise", "relative_sd", np.concatenate(model.sample_precision) ** -0.5),
        ("noise", "degrees_of_freedom", model.degrees_of_freedom),
        ("dirichlet", ["C1", "C2", "C3"], model.alpha0),
    ):
        np.testing.assert_allclose(tables[name][column], expected, rtol=1e-5)
    assert list(tables["sample_noise"]["sample"]) == [
        name for names in sources.sample_names for name in names
    ]
    for column, expected in (("offset", model.offsets), ("sd", model.offsets_sd)):
        written = tables["offsets"].pivot(index="source", columns="feature", values=column)
        written = written.loc[sources.names, sources.feature_names]
        np.testing.assert_allclose(written, expected, rtol=1e-5)
    summary = (tmp_path / "out" / "summary.md").read_text()
    noisiest = sources.feature_names[model.feature_precision.argmin()]
    assert f"The noisiest are {noisiest} (" in summary
    assert re.search(r"\| North & South \| (up|down) \| feature \d+ \(", summary)
    assert "Outliers count less" in summary and "| Degrees of freedom |" in summary


@pytest.fixture
def compared():
    """The table of a check that recommends robust noise."""
    columns = ["option", "moved", "density_gain", "standard_error", "t", "r2", "verdict"]
    rows = [
        ["noise=robust", 0.42, 0.3216, 0.0357, 5.3, 0.04, "worth trying; compare"],
        ["noise=sample", 0.01, -0.001, 0.002, -0.4, 0.03, "no gain"],
    ]
    return pd.DataFrame(rows, columns=columns)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_check_is_added_to_a_folder_and_its_report(folder, compared, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(folder, out)
    before = contents(out)
    n_figures = len(IMAGE.findall((out / "report.html").read_text()))
    for _ in range(2):  # a second check replaces the first
        outputs.add_check(out, compared)
        pd.testing.assert_frame_equal(pd.read_csv(out / "check.tsv", sep="\t"), compared)
        summary = (out / "summary.md").read_text()
        assert summary.count("## Check of the noise model") == 1
        assert "| noise=robust | 0.42 | +0.3216 ± 0.0357 | 5.3 | 0.04 | worth trying;" in summary
        page = (out / "report.html").read_text()
        assert "Check of the noise model" in page and len(IMAGE.findall(page)) == n_figures
    changed = [path.name for path, content in contents(out).items() if before.get(path) != content]
    assert sorted(changed) == ["check.tsv", "names.json", "report.html", "summary.md"]
    outputs.require_free(out, overwrite=True)  # no file of it is foreign


def test_residuals_are_written_and_told(folder, fitted):
    sources, results = fitted
    expected = residuals(sources, restarts.best(results, 1)[0])
    written = pd.read_csv(folder / "residuals.tsv", sep="\t")
    pd.testing.assert_frame_equal(written, expected, rtol=1e-5)
    row = expected.iloc[0]
    assert (
        f"| North & South | {row.features_from:.2f} to {row.features_to:.2f} | "
        f"{row.samples_from:.2f} to {row.samples_to:.2f} | {row.n_far} | {row.largest:.1f} | "
        f"{row.feature}, {row['sample']} |"
    ) in (folder / "summary.md").read_text()
    assert not (folder / "check.tsv").exists()


def test_the_summary_says_what_was_done(folder, fitted):
    sources, results = fitted
    (best,) = restarts.best(results, 1)
    summary = (folder / "summary.md").read_text()
    for words in (
        "35 samples from 3 sources, measured on 10 features, were decomposed into 3 components by",
        "Missing entries are treated as unknown.",
        "Features were matched.",
        r"| \<b>West\</b> \| \*x\* | 9 | 0 |",
        f"| {tables.number(best.noise[0], 4)} |",
        "All 3 restarts converged.",
    ):
        assert words in summary
    for k in range(3):
        first = sources.feature_names[ranking.scores(best)[:, k].argmax()]
        assert re.search(rf"\| C{k + 1} \| [\d.]+ % \| up \| {first} \(", summary)


def test_the_list_of_files_is_complete(folder):
    patterns = [re.sub("<[a-z]+>", "*", name) for name in outputs.FILES]
    written = {path.name + "/" * path.is_dir() for path in folder.iterdir()}
    assert all(any(fnmatch(name, pattern) for pattern in patterns) for name in written)
    unused = [
        pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in written)
    ]
    on_request = ["feature_noise.tsv", "sample_noise.tsv", "dirichlet.tsv"]
    on_request += [f"consensus{what}.tsv" for what in ("", "_components", "_memberships_*")]
    on_request += ["check.tsv"]
    assert unused == [*on_request, "hashes.json", "*.h5ad", "*.h5mu"]
    names = json.loads((folder / "names.json").read_text())
    assert sorted(names["files"]) == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    page = (folder / "report.html").read_text()
    listed = re.findall(r'<td[^>]*><a href="([^"]+)">', page)
    assert sorted(listed) == sorted(written), "only what is there, and all of it"
    assert all(name in outputs.__doc__ for name in outputs.FILES)
    ranked = pd.read_csv(folder / "rankings" / "C2.rnk", sep="\t", header=None)
    assert len(ranked) == 10 and ranked[1].is_monotonic_decreasing


IMAGE = re.compile(r'<img alt="[^"]+" width="\d+" src="data:image/png;base64,([^"]+)">')


def test_the_report_is_one_page_with_the_figures_inside(folder):
    page = (folder / "report.html").read_text()
    for link in re.findall(r' (?:src|href)="([^"]+)"', page):  # nothing is loaded from elsewhere
        assert link.startswith(("data:image/png;base64,", "#")) or (folder / link).exists()
    shown = {base64.b64decode(png) for png in IMAGE.findall(page)}
    assert shown == {path.read_bytes() for path in folder.glob("figures/*.png")}
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (folder / "summary.md").read_text())
    assert len(shown) == len(pictures) == 8
    for picture in pictures:
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (folder / picture).with_suffix(".svg").read_bytes()
    assert html.escape(NAMES[2]) in page and NAMES[2] not in page, "names are text, not markup"


@pytest.mark.parametrize(
    ("method", "options", "words", "absent"),
    [
        ("map-bjmd", {}, ["There was only one restart, and it converged."], ["components_sd.tsv"]),
        (
            "semi-nmf",
            {},
            ["Semi-NMF has no noise model.", "The memberships of Semi-NMF do not sum to 1."],
            ["noise.tsv"],
        ),
        (
            "map-bjmd",
            {"max_sweeps": 2},
            ["the best restart did not converge (stopped at max_sweeps = 2)"],
            [],
        ),
    ],
)
def test_the_summary_says_what_a_fit_lacks(make_sources, tmp_path, method, options, words, absent):
    sources, results = small(make_sources, method, **options)
    write(tmp_path / "out", sources, results)
    summary = (tmp_path / "out/summary.md").read_text()
    assert all(sentence in summary for sentence in words)
    assert not any((tmp_path / "out" / file).exists() for file in absent)
    assert outputs.load(tmp_path / "out").labels is None


def test_restarts_that_disagree_are_named(make_sources, tmp_path):
    sources = make_sources()
    results = [
        *restarts.run("map-bjmd", sources, 2, n_restarts=1),
        *restarts.run("random", sources, 2, n_restarts=1),
    ]
    write(tmp_path / "out", sources, results, figures=False)
    text = (tmp_path / "out/summary.md").read_text()
    assert "No other restart found the same components" in text
    assert "Not found by all of them: C1 (0 of 1), C2 (0 of 1).\n\nInterpret components" in text


def test_source_names_that_look_alike_as_files_get_numbers():
    assert outputs._membership_files(["a/b", "a_b", "A b", "..."]) == [
        "memberships_a_b.tsv",
        "memberships_a_b_2.tsv",
        "memberships_A_b_3.tsv",
        "memberships_source.tsv",
    ]


def test_an_earlier_output_is_replaced_only_on_request_and_only_if_it_is_all_ours(
    make_sources, tmp_path
):
    fit = small(make_sources)
    out = tmp_path / "out"
    out.mkdir()  # empty: free
    write(out, *fit)
    with pytest.raises(InputError, match="holds earlier results"):
        write(out, *fit, figures=False)
    write(out, *fit, figures=False, overwrite=True)
    assert not (out / "figures").exists(), "nothing of the earlier output is left"
    (out / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"holds 'notes\.txt', which bjmd did not write"):
            write(out, *fit, figures=False, overwrite=overwrite)
    with pytest.raises(InputError, match="is a file"):
        write(out / "notes.txt", *fit)
    assert (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no temporary folder is left"


def test_a_failure_on_the_way_leaves_everything_as_it_was(make_sources, tmp_path, monkeypatch):
    fit = small(make_sources)
    out = tmp_path / "out"
    write(out, *fit, figures=False)
    before = (out / "restarts.tsv").read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(pages, "report", fail)
    with pytest.raises(OSError, match="disk full"):
        write(out, *fit, figures=False, overwrite=True)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "new", *fit, figures=False)
    assert (out / "restarts.tsv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("content", [None, "[1, 2]", '{"format": "other"}', "{"])
def test_what_is_no_output_cannot_be_loaded(tmp_path, content):
    if content is not None:
        (tmp_path / "names.json").write_text(content)
    with pytest.raises(InputError, match="is not a folder with the results of a fit"):
        outputs.load(tmp_path)


def test_names_that_a_spreadsheet_would_run_are_quoted(tmp_path, make_sources):
    sources = make_sources()
    formulas = ["=cmd()", "+1", "-x", "@sum", "|x", "\uff1dx", "\uff0bx", "\uff0dx", "\uff20x"]
    features = [*formulas, "g", "x=1", "\uff21"]
    sources = sources.replace(feature_names=features)
    write(tmp_path / "out", sources, [registry.fit("map-bjmd", sources, 3)], figures=False)
    written = pd.read_csv(tmp_path / "out" / "components.tsv", sep="\t", index_col=0)
    assert list(written.index) == [*(f"'{name}" for name in formulas), "g", "x=1", "\uff21"]
    assert outputs.load(tmp_path / "out").feature_names == features
    sources = sources.replace(names=["=cmd()", "b"])  # in the tables of noise and offsets
    fit = registry.fit("cavi-bjmd", sources, 2, offsets=True, max_sweeps=2)
    write(tmp_path / "beyond", sources, [fit], figures=False)
    text = "".join(path.read_text() for path in (tmp_path / "beyond").glob("*.tsv"))
    cells = {cell for line in text.splitlines() for cell in line.split("\t")}
    assert "'=cmd()" in cells and "=cmd()" not in cells


@pytest.mark.parametrize(
    ("file", "good", "bad"),
    [
        ("settings.json", '"notes"', '"nots"'),
        ("settings.json", "}", ""),
        ("names.json", '"feature 1",', ""),
        ("names.json", '"n_missing"', '"missing"'),
        ("names.json", "{", "[" * 200_000),
        ("names.json", '"format_version": 1', '"format_version": 99'),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, make_sources, file, good, bad):
    write(tmp_path / "out", *small(make_sources), figures=False)
    path = tmp_path / "out" / file
    path.write_text(path.read_text().replace(good, bad))
    with pytest.raises(InputError, match=r"out (is not a .*folder|has format version 99)"):
        outputs.load(tmp_path / "out")
