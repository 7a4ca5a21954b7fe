import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from bjmd.data.sources import Sources
from bjmd.errors import InputError
from bjmd.files.readers import read_sources
from bjmd.results import storage


@pytest.fixture
def frames(rng):
    """Two tables with every digit that a float has, and a few missing cells in the second."""
    features = [f"g{i}" for i in range(12)]
    one = pd.DataFrame(rng.standard_normal((12, 5)), features, [f"a{j}" for j in range(5)])
    two = pd.DataFrame(rng.standard_normal((12, 4)) * 1e-7, features, [f"b{j}" for j in range(4)])
    two.iloc[3, 1] = two.iloc[0, 3] = np.nan
    return {"one": one, "two": two}


def write_tsv(path, frame):
    frame.to_csv(path, sep="\t", na_rep="NA")


def write_r_table(path, frame):
    """Without a field above the row names, and with quotation marks."""
    lines = frame.to_csv(sep="\t", quoting=2).split("\n")
    path.write_text("\n".join([lines[0].removeprefix('""\t'), *lines[1:]]))


def write_npz(path, frame):
    np.savez(
        path,
        matrix=frame.to_numpy(),
        features=frame.index.to_numpy(str),
        samples=frame.columns.to_numpy(str),
    )


def write_own(path, frame):
    storage.save_sources(
        path, Sources([frame.to_numpy()], feature_names=frame.index, sample_names=[frame.columns])
    )


def write_h5ad(path, frame):
    anndata = pytest.importorskip("anndata")
    names = {"obs": pd.DataFrame(index=frame.columns), "var": pd.DataFrame(index=frame.index)}
    anndata.AnnData(frame.to_numpy().T, **names).write_h5ad(path)


FORMATS = {
    ".csv": lambda path, frame: frame.to_csv(path),
    ".csv.gz": lambda path, frame: frame.to_csv(path),
    ".tsv": write_tsv,
    ".txt": write_r_table,
    ".tsv.gz": write_tsv,
    ".npz": write_npz,
    "-own.npz": write_own,
    ".h5ad": write_h5ad,
}


@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_gives_the_same_sources(ending, frames, tmp_path):
    paths = [tmp_path / f"{name}{ending}" for name in frames]
    for path, frame in zip(paths, frames.values(), strict=True):
        FORMATS[ending](path, frame)
    sources, alignment = read_sources(paths)
    for x, frame, samples in zip(
        sources.matrices, frames.values(), sources.sample_names, strict=True
    ):
        np.testing.assert_array_equal(x, frame.to_numpy())
        assert x.flags.c_contiguous and x.dtype == np.float64
        assert samples == list(frame.columns)
    assert sources.feature_names == list(frames["one"].index)
    assert sources.names == [path.name.removesuffix(".gz").rsplit(".", 1)[0] for path in paths]
    assert sources.n_missing == [0, 2]
    assert alignment == "All 12 features are in every source."


def test_samples_in_rows(frames, tmp_path):
    for name, frame in frames.items():
        frame.T.to_csv(tmp_path / f"{name}.csv")
        np.savez(tmp_path / f"{name}.npz", X=frame.to_numpy().T, features=frame.index.to_numpy(str))
    upright = read_sources([tmp_path / "one.csv", tmp_path / "two.npz"], samples_in_rows=True)[0]
    for x, frame in zip(upright.matrices, frames.values(), strict=True):
        np.testing.assert_array_equal(x, frame.to_numpy())
    assert upright.feature_names == list(frames["one"].index)
    assert upright.sample_names == [
        list(frames["one"].columns),
        [f"two-sample {j + 1}" for j in range(4)],
    ]


def test_every_spelling_of_a_missing_value(tmp_path):
    (tmp_path / "a.csv").write_text("gene,x,y,z,u\nNA,1,,NA,NaN\nNone,2,3,null,N/A\nnull,1,1,1,1\n")
    sources, _ = read_sources(tmp_path / "a.csv")
    nan = np.nan
    np.testing.assert_array_equal(
        sources.matrices[0], [[1, nan, nan, nan], [2, 3, nan, nan], [1, 1, 1, 1]]
    )
    assert sources.feature_names == ["NA", "None", "null"]  # a name is a name


# Sparse files


def test_ten_x_folders(tmp_path, rng):
    counts = scipy.sparse.random_array((6, 4), density=0.5, rng=rng, format="coo")
    for name in ("healthy", "sick"):
        folder = tmp_path / name
        folder.mkdir()
        with gzip.open(folder / "matrix.mtx.gz", "wb") as file:
            scipy.io.mmwrite(file, counts, precision=17)
        for file, lines in {
            "features.tsv.gz": [f"ENSG{i}\tG{i % 4}\tGene Expression" for i in range(6)],
            "barcodes.tsv.gz": [f"{name}-{j}" for j in range(4)],
        }.items():
            (folder / file).write_bytes(gzip.compress("\n".join(lines).encode()))
    sources, _ = read_sources([tmp_path / name / "matrix.mtx.gz" for name in ("healthy", "sick")])
    assert sources.names == ["healthy", "sick"]
    assert sources.feature_names == ["G0", "G1", "G2", "G3", "G0-1", "G1-1"], "as scanpy does"
    assert sources.sample_names[1] == [f"sick-{j}" for j in range(4)]
    assert scipy.sparse.issparse(sources.matrices[0])
    np.testing.assert_array_equal(sources.matrices[1].toarray(), counts.toarray())
    with pytest.raises(InputError, match=r"healthy is a folder; give .*matrix.mtx.gz"):
        read_sources([tmp_path / "healthy"])


def test_scipy_sparse_files_without_names_are_matched_by_place(tmp_path, rng):
    x = scipy.sparse.random_array((6, 4), density=0.5, rng=rng, format="csr")
    for name in "ab":
        scipy.sparse.save_npz(tmp_path / f"{name}.npz", x)
    sources, _ = read_sources([tmp_path / "a.npz", tmp_path / "b.npz"])
    np.testing.assert_array_equal(sources.matrices[1].toarray(), x.toarray())
    assert sources.feature_names[0] == "feature 1"
    scipy.sparse.save_npz(tmp_path / "c.npz", x[:5])
    with pytest.raises(
        InputError,
        match=r"no feature names and different numbers .* \(.*a.npz has 6, .*c.npz has 5\)",
    ):
        read_sources([tmp_path / "a.npz", tmp_path / "c.npz"])


# Several sources in a file


def test_our_own_files_may_hold_several_sources_and_labels(tmp_path, make_sources):
    plain = make_sources()
    labels = [np.arange(n) % 2 == np.arange(2)[:, None] for n in plain.n_samples]
    sources = Sources(plain.matrices, names=["x", "y"], labels=labels, class_names=["odd", "even"])
    storage.save_sources(tmp_path / "both.npz", sources)
    back, _ = read_sources(tmp_path / "both.npz")
    assert (back.names, back.class_names) == (["x", "y"], ["odd", "even"])
    for c in range(2):
        np.testing.assert_array_equal(back.matrices[c], sources.matrices[c])
        np.testing.assert_array_equal(back.labels[c], labels[c])
    pd.DataFrame(sources.matrices[0], sources.feature_names).to_csv(tmp_path / "third.csv")
    three, _ = read_sources([tmp_path / "third.csv", tmp_path / "both.npz"])
    assert three.names == ["third", "both-x", "both-y"]
    assert not three.labels[0].any()
    np.testing.assert_array_equal(three.labels[2], labels[1])


def test_equal_file_names_are_told_apart(tmp_path):
    for folder in ("p", "q"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.csv").write_text(",x\nf,1\n")
    paths = [tmp_path / "p" / "data.csv", tmp_path / "q" / "data.csv"]
    assert read_sources(paths)[0].names == ["p-data", "q-data"]
    (tmp_path / "p" / "data.tsv").write_text("\tx\nf\t1\n")
    assert read_sources([paths[0], tmp_path / "p" / "data.tsv"])[0].names == ["p-data", "p-data_2"]


def test_an_h5ad_file_split_by_a_column(tmp_path, frames):
    write_h5ad(tmp_path / "all.h5ad", frames["one"])
    anndata = pytest.importorskip("anndata")
    data = anndata.read_h5ad(tmp_path / "all.h5ad")
    data.obs["cohort"] = ["p", "q", "p", "q", "q"]
    data.obs["batch"] = ["p", None, "p", "q", "q"]
    data.obs["plate"] = [1, 1, 2, 2, 2]
    data.write_h5ad(tmp_path / "all.h5ad")
    sources, _ = read_sources(tmp_path / "all.h5ad", split_by="cohort")
    assert (sources.names, sources.sample_names) == (["p", "q"], [["a0", "a2"], ["a1", "a3", "a4"]])
    np.testing.assert_array_equal(sources.matrices[1], frames["one"][["a1", "a3", "a4"]].to_numpy())
    with pytest.raises(
        InputError, match=r"all.h5ad has no column 'cohrt' in obs; it has cohort, batch"
    ):
        read_sources(tmp_path / "all.h5ad", split_by="cohrt")
    assert read_sources(tmp_path / "all.h5ad", split_by="plate")[0].names == ["1", "2"]
    with pytest.raises(
        InputError, match=r"no value in the column 'batch' for 1 of its 5 samples, for example 'a1'"
    ):
        read_sources(tmp_path / "all.h5ad", split_by="batch")
    write_tsv(tmp_path / "one.tsv", frames["one"])
    with pytest.raises(InputError, match=r"one.tsv cannot be read with split_by='cohort'; only"):
        read_sources(tmp_path / "one.tsv", split_by="cohort")


def test_every_modality_of_an_h5mu_file_is_a_source(tmp_path, h5mu):
    path, matrices = h5mu
    sources, _ = read_sources(path)
    assert sources.names == ["early", "late"]
    np.testing.assert_array_equal(sources.matrices[0].toarray(), matrices["early"])
    np.testing.assert_array_equal(sources.matrices[1], matrices["late"])


def test_a_package_that_is_not_there(tmp_path, frames, monkeypatch):
    write_h5ad(tmp_path / "a.h5ad", frames["one"])
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(
        InputError, match="needs the package anndata; install it with: pip install anndata"
    ):
        read_sources(tmp_path / "a.h5ad")


# Mistakes in one file


MTX = "%%MatrixMarket matrix coordinate real general\n"
MISTAKES = {
    "text in a cell": (
        "a.csv",
        ",x,y\nf,1,2\ng,3,high\n",
        "holds the text 'high' in row 'g', column 'y'; a cell must",
    ),
    "a decimal comma": (
        "a.tsv",
        "\tx\nf\t1,5\n",
        "a.tsv holds the text '1,5' in row 'f', column 'x'",
    ),
    "a truth value": (
        "a.csv",
        ",x\nf,True\ng,False\n",
        "a.csv holds the text 'True' in row 'f', column 'x'",
    ),
    "a column of text": (
        "a.csv",
        ",about,x\nf,kinase,1\n",
        "a.csv holds the text 'kinase' in row 'f', column 'about'",
    ),
    "no numbers at all": (
        "a.txt",
        "once\tupon\na\ttime\n",
        "a.txt holds the text 'time' in row 'a', column 'upon'",
    ),
    "a long row": (
        "a.csv",
        ",x,y\nf,1,2\ng,3,4,5\n",
        "a.csv has 4 fields in line 3 but 3 in others",
    ),
    "a short row": ("a.csv", ",x,y\nf,1,2\ng,3\n", "a.csv has 2 fields in line 3 but 3 in others"),
    "a long header": (
        "a.csv",
        ",x,y,z\nf,1,2\ng,3,4\n",
        "commas between them, but its first two lines have 4 and 3 fields",
    ),
    "empty": (
        "a.csv",
        "",
        "a.csv must have a line of names, and below it lines of a name and numbers, with commas",
    ),
    "blank lines": ("a.csv", "\n\n", "its first two lines have 0 and 0 fields; check that"),
    "a header only": ("a.csv", ",x,y\n", "its first two lines have 3 and 0 fields; check that"),
    "a wrong separator": (
        "a.tsv",
        ",x,y\nf,1,2\n",
        "tabs between them, but its first two lines have 1 and 1 fields",
    ),
    "semicolons": (
        "a.csv",
        ";x;y\nf;1;2\n",
        "commas between them, but its first two lines have 1 and 1 fields",
    ),
    "an open quotation mark": (
        "a.csv",
        ',x\n"f,1\ng,2\n',
        "is not a table of text in UTF-8 (unexpected end of data)",
    ),
    "a feature twice": (
        "a.csv",
        ",x\nf,1\ng,2\nf,3\n",
        "a.csv has the feature name 'f' 2 times; make",
    ),
    "features twice": (
        "a.csv",
        ",x\nf,1\ng,2\nf,3\nf,1\ng,1\n",
        "'f' 3 times (and repeats 2 names in all); make",
    ),
    "a sample twice": ("a.csv", ",x,x\nf,1,2\n", "a.csv has the sample name 'x' 2 times"),
    "no name": (
        "a.csv",
        ",x,y\nf,1,2\n,3,4\n",
        "a.csv lacks the names of 1 of its 2 features; name every feature",
    ),
    "no header": (
        "a.csv",
        "f,0.5,1.5\ng,1.0,2.0\n",
        "the first row of a.csv holds numbers such as 0.5",
    ),
    "no row names": (
        "a.csv",
        "x,y\n0.5,2\n1.5,4\n",
        "the first column of a.csv holds numbers such as 0.5",
    ),
    "rubbish": ("a.csv", bytes(range(1, 256)) * 9, "a.csv is not a table of text in UTF-8"),
    "a null byte": ("a.tsv", "g\ta\tb\nG1\t12\0003\t4\nG2\t5\t6\n", "holds the text '12\\x003'"),
    "a null byte in the header": ("a.tsv", "g\ta\0\tb\nG1\t12\t4\n", "cannot be printed"),
    "a comment": (
        "a.tsv",
        "# by me\ng\tx\nf\t1\n",
        "a.tsv holds the text 'x' in row 'g', column '# by me'",
    ),
    "trailing tabs": (
        "a.tsv",
        "\tx\ty\t\nf\t1\t2\t\ng\t3\t4\t\n",
        "a.tsv lacks the names of 1 of its 3 samples",
    ),
    "decimal commas": (
        "a.csv",
        ";x;y\nf;1,5;2\n",
        "a.csv holds the text '5;2' in row 'f;1', column ';x;y'",
    ),
    "a blank cell": ("a.csv", ",x,y\nf, ,2\n", "a.csv holds the text ' ' in row 'f', column 'x'"),
    "latin-1": (
        "a.csv",
        ",größe\nf,1\n".encode("latin-1"),
        "a.csv is not a table of text in UTF-8",
    ),
    "rubbish as gzip": (
        "a.tsv.gz",
        b"not gzip",
        "a.tsv.gz is not a table of text in UTF-8 (Not a gzipped file",
    ),
    "half a gzip": (
        "a.tsv.gz",
        gzip.compress(b"\tx\n" + b"f\t1\n" * 99)[:-9],
        "a.tsv.gz is not a table of text in UTF-8",
    ),
    "rubbish as mtx": (
        "a.mtx",
        "rubbish",
        "a.mtx is not a complete Matrix Market file (it must begin with %%MatrixMarket matrix",
    ),
    "a symmetric mtx": (
        "a.mtx",
        "%%MatrixMarket matrix array real symmetric\n1 1\n1\n",
        "it must begin with %%MatrixMarket matrix coordinate real general",
    ),
    "half an mtx": ("a.mtx", f"{MTX}3 3 2\n1 1 1\n", "its header says 2 entries, but it has 1"),
    "an mtx cut off in a number": (
        "a.mtx",
        f"{MTX}3 4 2\n1 1 1.5\n2 2 2.5E",
        "could not convert string '2.5E'",
    ),
    "an mtx cut off in a line": (
        "a.mtx",
        f"{MTX}3 4 2\n1 1 1.5\n2 2",
        "the number of columns changed from 3 to 2 at row 2",
    ),
    "a decimal comma in an mtx": ("a.mtx", f"{MTX}3 4 1\n1 1 1,5\n", "convert string '1,5'"),
    "a null byte in an mtx": ("a.mtx", f"{MTX}3 4 1\n1 1 1\0005\n", "could not convert string"),
    "an mtx with four columns": ("a.mtx", f"{MTX}3 4 1\n1 1 1 5\n", "cannot reshape"),
    "an mtx without a size": ("a.mtx", f"{MTX}3 4\n1 1 1.5\n", "not enough values to unpack"),
    "an mtx with a place outside": ("a.mtx", f"{MTX}3 4 1\n1 5 1.5\n", "exceeds matrix dimension"),
    "an mtx with a place before": ("a.mtx", f"{MTX}3 4 1\n0 1 1.5\n", "negative"),
    "an mtx with half a place": ("a.mtx", f"{MTX}3 4 1\n1.5 1 1\n", "must be whole numbers"),
    "an mtx of a promise": (
        "a.mtx",
        f"{MTX}9 999999999999999 1\n1 1 1\n",
        "a damaged sparse matrix (its size is 9 x",
    ),
    "rubbish as npz": ("a.npz", "rubbish", "a.npz is not an .npz file"),
    "rubbish as h5ad": ("a.h5ad", "rubbish", "a.h5ad is not a file of anndata"),
    "rubbish as h5mu": ("a.h5mu", "rubbish", "a.h5mu is not a file of mudata"),
    "an unknown kind": (
        "a.spss",
        b"PK",
        "a.spss has an unknown format; give a file in one of these formats: .csv, .tsv, .txt",
    ),
    "a spreadsheet": ("a.xlsx", b"PK", "save the sheet of a spreadsheet as .csv"),
    "infinite": (
        "a.csv",
        ",x\nf,inf\n",
        "source 'a' holds 1 infinite entry, at feature 'f', sample 'x'; correct",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_file_gets_its_sentence(mistake, tmp_path, monkeypatch):
    name, content, sentence = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        read_sources([name])
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("paths", "labels", "message"),
    [
        (["nowhere.csv"], None, "nowhere.csv does not exist; check the path"),
        (["."], None, "is a folder; give a file in one of these formats"),
        ([], None, "no source was given"),
        (["a.csv", "b/../a.csv"], None, "a.csv is given 2 times, perhaps by different paths"),
        (["a.csv"], "nowhere.tsv", "nowhere.tsv does not exist; check the path"),
    ],
)
def test_files_that_are_not_there(tmp_path, monkeypatch, paths, labels, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(",x\nf,1\n")
    with pytest.raises(InputError, match=message):
        read_sources(paths, labels=labels)


def test_endings_in_capitals(tmp_path):
    (tmp_path / "A.TSV.GZ").write_bytes(gzip.compress(b"\tx\nf\t1\n"))
    assert read_sources(tmp_path / "A.TSV.GZ")[0].names == ["A"]


@pytest.mark.parametrize("field", ["real", "integer"])
def test_matrix_market_files_are_read_as_scipy_writes_them(tmp_path, rng, field):
    for counts in (rng.poisson(1.0, (6, 5)), np.eye(6, 5, dtype=int)):
        path = tmp_path / "a.mtx"
        scipy.io.mmwrite(path, scipy.sparse.coo_array(counts), field=field, symmetry="general")
        np.testing.assert_array_equal(read_sources(path)[0].matrices[0].toarray(), counts)


DAMAGE = {
    "an index outside": ("indices", [7] * 12),
    "a negative index": ("indices", [-5] * 12),
    "a last pointer below zero": ("indptr", [0, 3, 5, 7, -9]),
    "pointers that fall": ("indptr", [0, 9, -4, 2, 0]),
    "a format that is a number": ("format", 3.0),
    "an impossible size": ("shape", [5, 2**31 - 1]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_sparse_file_is_refused(tmp_path, damage):
    x = scipy.sparse.random_array((5, 4), density=0.6, rng=np.random.default_rng(0), format="csc")
    scipy.sparse.save_npz(tmp_path / "a.npz", x)
    with np.load(tmp_path / "a.npz") as file:
        arrays = dict(file)
    name, value = DAMAGE[damage]
    arrays[name] = np.array(value)
    np.savez(tmp_path / "a.npz", **arrays)
    expected = r"a.npz is (a damaged sparse matrix|not an .npz file of numbers)"
    with pytest.raises(InputError, match=expected):
        read_sources(tmp_path / "a.npz")


def test_a_size_that_no_memory_holds_is_refused(tmp_path):
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, description)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("matrix.npy", header.getvalue() + bytes(80))
    expected = r"a.npz (holds more than fits into memory|is not an .npz file)"
    with pytest.raises(InputError, match=expected):
        read_sources(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"values": np.eye(2)}, "a.npz holds values; it must hold an array 'matrix' or 'X'"),
        (
            {"X": np.eye(2), "features": np.array(["f", None], dtype=object)},
            "a.npz is not an .npz file of numbers and text",
        ),
        (
            {"X": np.ones((2, 3)), "features": ["f", "g", "h"]},
            "a.npz has 2 rows but names for 3; check which way round it is",
        ),
        ({"X": np.ones(3)}, "a.npz holds an array of the size 3; it must hold a matrix"),
        ({"X": np.ones((10**9, 0))}, "a.npz holds an array of the size 1000000000 x 0; it must"),
    ],
)
def test_npz_files_that_cannot_be_used(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_sources(tmp_path / "a.npz")


# Mistakes between files


def test_transposed_files_are_noticed(frames, tmp_path):
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    frames["one"].to_csv(paths[0])
    frames["two"].T.to_csv(paths[1])
    for _ in range(2):
        with pytest.raises(InputError, match=r"no feature in common .* or drop --samples-in-rows"):
            read_sources(paths)
        frames["one"].T.to_csv(paths[0])
    assert read_sources(paths, samples_in_rows=True)[0].n_features == 12


def test_files_with_few_common_names_get_a_warning(frames, tmp_path, caplog):
    frames["one"].to_csv(tmp_path / "one.csv")
    frames["two"].rename(index=lambda name: name if name == "g5" else name.upper()).to_csv(
        tmp_path / "two.csv"
    )
    read_sources([tmp_path / "one.csv", tmp_path / "two.csv"], names=["A", "B"])
    assert f"only 1 of the 12 features of {tmp_path / 'two.csv'} are in another" in caplog.text


def test_files_with_and_without_names(tmp_path, frames):
    frames["one"].to_csv(tmp_path / "one.csv")
    with pytest.raises(
        InputError, match=r"the sources are one, but the number of names is 2; give"
    ):
        read_sources([tmp_path / "one.csv"], names=["a", "b"])
    np.savez(tmp_path / "two.npz", X=frames["two"].to_numpy())
    with pytest.raises(InputError, match=r"two.npz has no feature names"):
        read_sources([tmp_path / "one.csv", tmp_path / "two.npz"])


# Labels


@pytest.fixture
def labelled(frames, tmp_path):
    """Reads the two tables with a label file of the given text."""
    paths = [tmp_path / f"{name}.csv" for name in frames]
    for path, frame in zip(paths, frames.values(), strict=True):
        frame.rename(columns={"b0": "a0"}).to_csv(path)

    def read(text, name="labels.csv"):
        (tmp_path / name).write_text(text)
        return read_sources(paths, labels=tmp_path / name)[0]

    return read


def test_labels_by_sample_and_by_source(labelled, caplog):
    everyone = "".join(f"{sample},x\n" for sample in ("a0", "a1", "a2", "a3", "b1", "b2", "b3"))
    sources = labelled("sample,class\n" + everyone + "a4,y\na4,x\n")
    assert sources.class_names == ["x", "y"]
    np.testing.assert_array_equal(sources.labels[0], [[1, 1, 1, 1, 1], [0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(sources.labels[1], [[1, 1, 1, 1], [0, 0, 0, 0]])
    assert not caplog.text
    without_header = labelled("a0\tx\tone\na0\ty\ttwo\n", "labels.tsv")
    assert [block[:, 0].tolist() for block in without_header.labels] == [
        [True, False],
        [False, True],
    ]


def test_labels_that_do_not_match(labelled, caplog):
    labelled("sample,class\na0,x\nz9,x\n")
    assert "1 of the 2 lines in" in caplog.text and "(for example z9, where the" in caplog.text
    for text, sentence in {
        "sample,class\nz1,x\nz2,y\n": r"all of the 2 lines .* z1, where the data have a0",
        "sample,class,source\na0,x,three\n": r"a0 of source three, where the .* of source one\);",
        "sample,class\na0,x\na1\n": r"labels.csv must have lines with a sample, its class",
        "sample,class\na0,x,one,1\n": r"labels.csv is not a table of text",
        "sample,class\n": r"labels.csv must have lines with a sample, its class .* by commas",
    }.items():
        with pytest.raises(InputError, match=sentence):
            labelled(text)
