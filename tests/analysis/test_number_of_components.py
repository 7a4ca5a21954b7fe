"""The choice of the number of components: held-out entries, their density, stability, and the K
that comes out.
"""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bjmd import cli, pl
from bjmd.analysis import held_out_entries, number_of_components
from bjmd.analysis.held_out_entries import hide
from bjmd.analysis.number_of_components import select
from bjmd.commands import select as select_command
from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.inference import registry
from bjmd_paper.datasets import synthetic

QUICK = {"n_restarts": 2, "n_repeats": 2, "tol": 1e-5}


@pytest.fixture
def sources(make_sources):
    return make_sources(n_features=30, n_samples=(25, 20))


@pytest.fixture
def seen(monkeypatch):
    """The data of every fit, in order: K, seed, matrices."""
    calls = []
    fit = registry.fit

    def spy(name, sources, n_components, seed=0, **options):
        calls.append((n_components, seed, sources.matrices))
        return fit(name, sources, n_components, seed=seed, **options)

    monkeypatch.setattr(registry, "fit", spy)
    return calls


# ---- Held-out entries


def test_a_share_of_every_source_is_hidden_and_no_sample_or_feature_is_emptied(rng):
    missing = rng.random((6, 400)) < 0.3
    missing[0, 1:] = True  # a feature with one observed entry,
    missing[1:, 0] = True  # of a sample that has no other
    missing[0, 0] = False
    missing[3] = True  # and one that only the second source has
    missing[4, 1:] &= rng.random(399) < 0.5
    x = np.where(missing, np.nan, rng.standard_normal((6, 400)))
    kept = ~np.isnan(x).all(axis=0)
    sources = Sources([x[:, kept], rng.standard_normal((6, 9))])
    with pytest.raises(InputError, match=r"too few observed entries \(9\)"):
        hide(Sources([np.zeros((1, 9))]), 0.2, rng)  # the one entry of every sample must stay
    for seed in range(20):
        hidden = hide(sources, 0.3, np.random.default_rng(seed))
        for x, where, n_observed in zip(sources.matrices, hidden, sources.n_observed, strict=True):
            observed = ~np.isnan(x)
            where = where.toarray()
            assert where.sum() == round(0.3 * n_observed)
            assert not (where & ~observed).any()
            left = observed & ~where
            assert left.any(axis=0).all()
            np.testing.assert_array_equal(left.any(axis=1), observed.any(axis=1))


def test_every_entry_is_hidden_equally_often():
    sources = Sources([np.zeros((8, 12))])
    total = sum(hide(sources, 0.25, np.random.default_rng(seed))[0] * 1.0 for seed in range(4000))
    share = total.toarray() / 4000
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_every_k_is_fitted_to_all_the_data_and_without_the_same_entries(sources, seen):
    select(sources, [2, 3, 4], **QUICK)
    assert len(seen) == 3 * 2 * (1 + 2)
    nothing = [np.zeros(x.shape, dtype=bool) for x in sources.matrices]
    repeats = [hide(sources, 0.1, np.random.default_rng((0, repeat))) for repeat in (0, 1)]
    hidden = [nothing, *([where.toarray() for where in places] for places in repeats)]
    for i, (k, seed, matrices) in enumerate(seen):
        assert (k, seed) == (4 - i % 6 // 2, i % 2)
        for x, where, given in zip(matrices, hidden[i // 6], sources.matrices, strict=True):
            np.testing.assert_array_equal(x, np.where(where, np.nan, given))


# ---- The predictive density


def test_the_standard_error_is_that_of_independent_samples(rng):
    """Samples err together within, so the error of the mean follows from their number, not from
    that of the entries.
    """
    n = 60
    per_sample = 8
    means = []
    errors = []
    for _ in range(2000):
        entries = rng.standard_normal((n, 1)) + 0.5 * rng.standard_normal((n, per_sample))
        mean, error = held_out_entries.difference(entries.sum(axis=1), np.full(n, per_sample))
        means.append(mean)
        errors.append(error)
    np.testing.assert_allclose(np.mean(errors), np.std(means), rtol=0.06)


# ---- The choice


@pytest.fixture(scope="module")
def small():
    sources = synthetic.generate("small", 1.5, 0).sources
    return select(sources, range(4, 7), n_restarts=3, n_repeats=2, jobs=2)


def test_finds_the_components_of_the_small_data(small):
    table = small.table.set_index("k")
    assert small.recommended == table["elbo"].idxmax() == table["heldout"].idxmax() == 5
    assert 5 in small.candidates
    assert table["stability"][5] > 0.99
    assert str(small).startswith("Recommended: 5 components, ")
    assert "ELBO" not in str(small), "it agrees"
    np.testing.assert_allclose(table["difference"], table["heldout"] - table["heldout"][5])
    assert (table["standard_error"] > 0).sum() == 2  # the best is not behind itself


def test_one_component_is_found_where_there_is_one(rng):
    x = rng.laplace(size=(30, 1)) + 0.5 * rng.standard_normal((30, 40))
    selection = select(Sources([x]), [1, 2, 3], **QUICK)
    assert selection.recommended == 1
    assert str(selection).startswith("Recommended: 1 component, ")
    assert "try smaller ones" not in str(selection), "fewer than one there are none"


def test_the_same_bits_whatever_the_number_of_threads(sources):
    one, three = (select(sources, [4, 2, 3], jobs=jobs, **QUICK) for jobs in (1, 3))
    pd.testing.assert_frame_equal(
        one.table.drop(columns="seconds"), three.table.drop(columns="seconds"), check_exact=True
    )
    assert one.table["k"].tolist() == [2, 3, 4]
    assert (one.recommended, one.candidates) == (three.recommended, three.candidates)


def test_map_has_no_elbo_but_can_be_selected(sources, rng):
    holed = Sources([np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in sources.matrices])
    selection = select(holed, [2, 3], method="map-catbjmd", n_restarts=1, n_repeats=1)
    assert selection.table["elbo"].isna().all()
    assert selection.table["stability"].isna().all()
    assert "ELBO" not in str(selection)
    pl.selection(selection)


def selection(k, difference, error, elbo, converged=1.0):
    table = pd.DataFrame({"k": k, "difference": difference, "standard_error": error, "elbo": elbo})
    table["converged"] = converged
    return number_of_components.Selection(table)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            selection([2, 3, 4], [-0.3, 0, -0.02], [0.1, 0, 0.01], [1, 2, 0]),
            "3 components, the number that predicts held-out data best. The second best, 4, is 2.0 "
            "standard errors behind.",
        ),
        (
            selection([2, 3], [-0.3, 0], [0.1, 0], [1, 2]),
            "3 or more components. 3 is the largest number tried and predicts held-out data best, "
            "so try larger ones. The second best, 2, is 3.0 standard errors behind.",
        ),
        (
            selection([2, 3, 4, 5], [-0.3, 0, -0.05, -0.05], [0.1, 0, 0.1, 0.1], [1, 0, 0, 2]),
            "3 components, the number that predicts held-out data best. Also within one standard "
            "error of the best: 4, 5. The ELBO is highest at 5.",
        ),
        (
            selection([2, 3, 4, 5], [-0.3, -0.1, 0, -0.05], [0.1, 0.1, 0, 0.1], [1, 2, 0, 0]),
            "3 components, the smallest number that predicts held-out data as well as the best, 4, "
            "within one standard error. Also within one standard error of the best: 5.",
        ),
        (
            selection([2, 3], [-0.3, 0], [0.4, 0], [np.nan] * 2, converged=0.75),
            "2 components, the smallest number that predicts held-out data as well as the best, 3, "
            "within one standard error. 3 is the largest number tried, so try larger ones. 2 is "
            "the smallest number tried, so try smaller ones. Only 75 % of the fits with 2 "
            "components converged.",
        ),
    ],
)
def test_the_recommendation_in_words(given, said):
    assert str(given) == f"Recommended: {said}"


# ---- Mistakes, and the way in


@pytest.mark.parametrize(
    ("ks", "options", "message"),
    [
        ([], {}, r"ks is \[\]; give at least two different numbers"),
        (5, {}, r"ks is \[5\]; give at least two different numbers"),
        ([3, 3], {}, r"ks is \[3, 3\]; give at least two different numbers"),
        ([0, 1], {}, "an entry of ks is 0; it must be a whole number of at least 1"),
        ([2, 2.5], {}, "an entry of ks is 2.5"),
        ([2, 99], {}, "n_components is 99, more than the data allow"),
        ([2, 3], {"held_out": 0}, "held_out is 0; it must be a share"),
        ([2, 3], {"held_out": 0.5}, "held_out is 0.5; it must be a share"),
        ([2, 3], {"held_out": "10%"}, "held_out is '10%'; it must be a share"),
        ([2, 3], {"held_out": 1e-4}, r"source 'source 1' has too few observed entries \(750\)"),
        ([2, 3], {"n_repeats": 0}, "n_repeats is 0"),
        ([2, 3], {"n_restarts": 0}, "n_restarts is 0"),
        ([2, 3], {"jobs": 0}, "jobs is 0"),
        ([2, 3], {"seed": -1}, "seed is -1"),
        (
            [2, 3],
            {"method": "jmd"},
            "method 'jmd' cannot leave out the entries that select holds out; use one of cavi-",
        ),
        ([2, 3], {"alpah0": 1.2}, "has no option 'alpah0'"),
    ],
)
def test_mistakes_are_named(sources, seen, ks, options, message):
    with pytest.raises(InputError, match=message):
        select(sources, ks, **options)
    with pytest.raises(InputError, match=r"the data are a ndarray; give bjmd\.Sources"):
        select(sources.matrices[0], [2, 3])
    if options != {"held_out": 1e-4}:
        assert not seen, "a mistake must be found before the first fit"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_sources_give_what_the_same_dense_ones_give(sources, dtype):
    cut = [np.where(np.abs(x) > 0.5, x, 0).astype(dtype) for x in sources.matrices]
    dense = Sources(cut)
    sparse = Sources([scipy.sparse.csr_array(x) for x in cut])
    places = [hide(given, 0.1, np.random.default_rng((0, 0))) for given in (dense, sparse)]
    for where, other in zip(*places, strict=True):
        np.testing.assert_array_equal(where.toarray(), other.toarray())
    hidden_zeros = [where.toarray() & (x == 0) for where, x in zip(places[0], cut, strict=True)]
    assert any(zeros.any() for zeros in hidden_zeros)
    tables = [select(given, [2, 3], **QUICK).table for given in (dense, sparse)]
    for column in ("heldout", "difference", "standard_error", "elbo"):
        np.testing.assert_allclose(
            tables[1][column], tables[0][column], rtol=1e-6 if dtype == np.float64 else 1e-3
        )


def test_of_sparse_data_no_more_is_held_out_than_they_store_and_nothing_becomes_dense(
    rng, monkeypatch
):
    monkeypatch.setattr(held_out_entries, "BLOCK", 2**16)
    shape = (500, 12_000)
    x = scipy.sparse.random_array(shape, density=0.005, format="csc", rng=rng, dtype=np.float32)
    tracemalloc.start()
    try:
        (where,) = hide(Sources([x]), 0.1, rng)
        (visible,) = held_out_entries.without(Sources([x]), [where]).matrices
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert where.nnz == x.nnz
    assert abs(np.diff(where.indptr)[:6000].sum() / where.nnz - 0.5) < 0.01, "from everywhere alike"
    assert peak < 0.5 * x.shape[0] * x.shape[1], "a boolean matrix would need 1"
    assert visible.dtype == np.float32
    assert np.isnan(visible.data).sum() == where.nnz
    seen = visible.toarray()
    np.testing.assert_array_equal(np.isnan(seen), where.toarray())
    np.testing.assert_array_equal(seen[~np.isnan(seen)], x.toarray()[~np.isnan(seen)])


def test_the_figure_marks_the_recommended_number(small):
    figure = pl.selection(small)
    titles = [ax.get_title(loc="left").split()[0] for ax in figure.axes]
    assert titles == ["Held-out", "ELBO", "Stability"]
    assert all(list(ax.lines[0].get_xdata()) == [5, 5] for ax in figure.axes)
    assert "5 recommended" in figure.get_suptitle()


# ---- The command


@pytest.fixture
def files(sources, write_tables):
    write_tables(sources.matrices, "a.tsv", "b.tsv")


def test_the_command_has_the_numbers_of_python(files, sources, tmp_path, capsys):
    line = "select a.tsv b.tsv -k 2..4 -o out --restarts 2 --repeats 2"
    line += " --held-out 0.2 --seed 3 --tol 1e-5"
    assert cli.main(line.split()) == 0
    expected = select(sources, [2, 3, 4], held_out=0.2, seed=3, **QUICK)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        select_command.FILES
    )
    written = pd.read_csv("out/selection.tsv", sep="\t")
    pd.testing.assert_frame_equal(
        written.drop(columns="seconds"),
        expected.table.drop(columns="seconds"),
        rtol=1e-6,
        check_dtype=False,
    )
    out, err = capsys.readouterr()
    assert str(expected) in " ".join(out.split())
    assert "select: 6 fits of repeat 2 of 2 are done" in err
    assert cli.main(line.split()) == 2
    assert "folder out holds earlier results; give another folder" in capsys.readouterr().err
    assert cli.main(f"{line} -k 2,3 --force".split()) == 0
    assert pd.read_csv("out/selection.tsv", sep="\t")["k"].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("-k 2-4", "-k is '2-4'; write a range like 2..10, or two or more numbers like 2,4,8"),
        ("-k 4..2", "-k is '4..2'; write a range like 2..10, or two or more numbers"),
        ("-k 0..3", "-k is '0..3'; write a range like 2..10, or two or more numbers"),
        ("-k 2,2", "-k is '2,2'; write a range like 2..10, or two or more numbers"),
        ("-k 2,90", "n_components is 90, more than the data allow"),
        ("--held-out 0.6", "held_out is 0.6; it must be a share of the entries between 0 and 0.5"),
        ("--method kmeans", "method 'kmeans' cannot leave out the entries"),
        ("-o .", "folder . holds 'a.tsv', which bjmd did not write"),
        ("-o a.tsv", "a.tsv is a file"),
    ],
)
def test_mistakes_on_the_command_line_write_nothing(files, tmp_path, capsys, more, message):
    assert cli.main(f"select a.tsv b.tsv -o out {more}".split()) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tsv", "b.tsv"]
