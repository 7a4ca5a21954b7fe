"""Damaged and odd inputs for readers, options, configs and stored fits: a result or one sentence.

A seed of every kind is made once.  A case changes it a little: in its bytes, or, which goes deeper,
in its structure (cells of a table, arrays of an archive, keys of a config) with values that are
likely to make trouble.
"""

import contextlib
import copy
import functools
import gzip
import io
import tempfile
import zipfile
from pathlib import Path

import anndata
import h5py
import numpy as np
import scipy.io
import scipy.sparse
import yaml

from bjmd import cli
from bjmd.analysis.fitting import summarise
from bjmd.data.assembly import Settings
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.files import about_samples, outputs, readers
from bjmd.inference import registry
from bjmd.results import storage
from bjmd_paper.plan import Plan, validate

ROOT = Path(__file__).parents[2]
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where files cost least."""
# fmt: off
NASTY = (
    "", " ", "NA", "nan", "-inf", "1e999", "1e-999", "-0", "0x10", "1_000", "1,5", "1.5.2", "٣",
    "\0", "12\x003", '"', "'", "=cmd()", "\x1b[31m", "a\tb", "a\nb", "#", "../../x", "9" * 400,
    "é", "\ufeff", "\u202e", "{}", "[", "%", "-1", "99999999999", "1e12", "4294967296",
    "-9223372036854775809", "true", "null", "1e-5", ".nan",
)
VALUES = (
    0, 1, -1, 2**31, 2**63, 2**70, -5, 0.0, -0.0, 1e300, -1e300, 1e-300, 1e22, 0.5, float("nan"),
    float("inf"), True, None, "", "x", "learned", "auto", "1e-5", [], [1], [1.0, "x"], [[1]], {},
    {"a": 1}, "\n", "{}", 10**9,
)
# fmt: on
KINDS = {
    "text tables": 30,
    "zipped text tables": 4,
    "Matrix Market": 15,
    ".npz of arrays": 10,
    ".npz of SciPy": 8,
    ".npz of bjmd": 8,
    "AnnData": 1,
    "label files": 6,
    "stored fits": 8,
    "options": 5,
    "configs": 4,
}
"""Kind -> how many of a hundred cases."""
EXTREME = [np.nan, np.inf, 1e308, -1e308, 5e-324]
STORED = ("fit.npz", "names.json", "settings.json", "residuals.tsv")


@functools.cache
def seeds():
    """A good input of every kind: pairs of the name of a file and its bytes."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((5, 4))
    counts = rng.poisson(1.0, (5, 3)).astype(float)
    sources = Sources([dense, counts], names=["one", "two"])
    sparse = scipy.sparse.coo_array(counts)
    symmetric = scipy.sparse.coo_array(counts[:3] + counts[:3].T)
    rows = [["", *(f"s{j}" for j in range(4))]]
    rows += [[f"g{i}", *map(str, dense[i])] for i in range(5)]
    names = {"features": np.array([f"g{i}" for i in range(5)])}
    names["samples"] = np.array([f"s{j}" for j in range(4)])
    options = {"max_sweeps": 5, "noise": "feature", "offsets": True}
    fits = [registry.fit("cavi-bjmd", sources, 2, seed, **options) for seed in (0, 1)]
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        for file, separator in {"a.tsv": "\t", "a.csv": ",", "a.txt": "\t"}.items():
            table = "\n".join(separator.join(row) for row in rows) + "\n"
            Path(file).write_text(table)
            Path(f"{file}.gz").write_bytes(gzip.compress(table.encode()))
        scipy.io.mmwrite("real.mtx", sparse)
        scipy.io.mmwrite("array.mtx", counts)
        scipy.io.mmwrite("whole.mtx", sparse.astype(int), field="integer")
        scipy.io.mmwrite("pattern.mtx", sparse, field="pattern")
        scipy.io.mmwrite("symmetric.mtx", symmetric, symmetry="symmetric")
        np.savez("b.npz", matrix=dense, **names)
        scipy.sparse.save_npz("c.npz", sparse.tocsr())
        scipy.sparse.save_npz("d.npz", sparse.tocsc())
        storage.save_sources("e.npz", sources)
        storage.save_sources("f.npz", Sources([dense, scipy.sparse.csc_array(counts)]))
        obs = {"batch": ["x", "y", "x"]}
        for file, x in {"a.h5ad": counts.T, "b.h5ad": scipy.sparse.csr_matrix(counts.T)}.items():
            anndata.AnnData(x, obs=obs).write_h5ad(file)
        Path("l.tsv").write_text("sample\tclass\ns0\tx\ns1\ty\n")
        Path("l.csv").write_text("s0,x,one\ns1,y,one\n")
        outputs.write(
            Path("fit"), sources, summarise(sources, fits), settings=Settings(), figures=False
        )
        files = {
            "text tables": ("a.tsv", "a.csv", "a.txt"),
            "zipped text tables": ("a.tsv.gz", "a.csv.gz", "a.txt.gz"),
            "Matrix Market": ("real.mtx", "array.mtx", "whole.mtx", "pattern.mtx", "symmetric.mtx"),
            ".npz of arrays": ("b.npz",),
            ".npz of SciPy": ("c.npz", "d.npz"),
            ".npz of bjmd": ("e.npz", "f.npz"),
            "AnnData": ("a.h5ad", "b.h5ad"),
            "label files": ("l.tsv", "l.csv"),
            "stored fits": tuple(f"fit/{file}" for file in STORED),
        }
        return {
            kind: [(Path(path).name, Path(path).read_bytes()) for path in paths]
            for kind, paths in files.items()
        }


def check(number):
    """The kind of a case, and what is wrong with how it was received."""
    rng = np.random.default_rng((18, number))
    kind = str(rng.choice(list(KINDS), p=np.array(list(KINDS.values())) / sum(KINDS.values())))
    with tempfile.TemporaryDirectory(prefix="prove-input-", dir=MEMORY) as folder:
        return kind, list(_received(kind, Path(folder), rng))


def _received(kind, folder, rng):
    try:
        if kind == "options":
            _options(rng)
        elif kind == "configs":
            _config(folder, rng)
        elif kind == "stored fits":
            yield from _stored(folder, rng)
        else:
            name, content = _chosen(seeds()[kind], rng)
            path = folder / name
            path.write_bytes(changed(name, content, rng))
            if kind == "label files":
                about_samples.read_labels(path, ["one"], [["s0", "s1", "s2"]])
            else:
                reading = {"samples_in_rows": bool(rng.random() < 0.2)}
                if kind == "AnnData":
                    reading["split_by"] = _chosen([None, "batch"], rng)
                    reading["on_disk"] = _chosen([False, True], rng)
                sources, _ = readers.read_sources(path, **reading)
                for x in sources.data:
                    if np.isinf(x.columns(slice(None))).any():  # NaN is a missing entry
                        yield "an infinite entry was read"
    except (InputError, FitError) as problem:
        if "\n" in str(problem).strip() or len(str(problem)) > 2000:
            yield f"not one sentence: {str(problem)[:200]!r}"


def changed(name, content, rng):
    """One to three changes of a file, of its bytes or of what they mean."""
    for _ in range(rng.integers(1, 4)):
        if name.endswith(".gz"):
            if rng.random() < 0.5:
                content = gzip.compress(changed(name[:-3], gzip.decompress(content), rng))
            if rng.random() < 0.5:
                return _bytes(content, rng)
        elif name.endswith(".json") or rng.random() < 0.3:
            content = _bytes(content, rng)
        elif name.endswith(".h5ad"):
            content = _hdf5(content, rng)
        elif name.endswith(".npz"):
            content = _archive(content, rng)
        else:
            content = _cells(name, content, rng)
    return content


def _bytes(content, rng):
    """A cut, a flipped bit, bytes that are inserted, taken away, or repeated."""
    what = rng.integers(5)
    at = int(rng.integers(len(content) + 1))
    before = content[:at]
    after = content[at:]
    if what == 0:
        return before
    if what == 1 and content:
        at %= len(content)
        flipped = content[at] ^ 1 << int(rng.integers(8))
        return content[:at] + bytes([flipped]) + content[at + 1 :]
    if what == 2:
        return before + rng.bytes(int(rng.integers(1, 9))) + after
    if what == 3:
        return before + after[int(rng.integers(1, 40)) :]
    other = int(rng.integers(len(content) + 1))
    return before + content[other : other + int(rng.integers(1, 60))] + after


def _cells(name, content, rng):
    """A change of a table of text."""
    separator = "," if name.endswith(".csv") else " " if name.endswith(".mtx") else "\t"
    text = content.decode("utf-8", "surrogateescape")
    rows = [line.split(separator) for line in text.split("\n")]
    i = int(rng.integers(len(rows)))
    j = int(rng.integers(len(rows[i]) or 1))
    what = rng.integers(8)
    nasty = _chosen(NASTY, rng)
    if what in (0, 1, 2):  # replace, insert, or delete a cell
        rows[i][j : j + (what != 1)] = [nasty] if what < 2 else []
    elif what == 3:
        rows.insert(i, list(rows[int(rng.integers(len(rows)))]))
    elif what == 4:
        del rows[i]
    elif what in (5, 6):  # delete or replace a column
        for row in rows:
            row[j : j + 1] = [nasty] if what == 6 else []
    else:
        separator = _chosen([",", ";", "\t", " ", "|"], rng)
    end = _chosen(["\n", "\n", "\n", "\r\n", "\r"], rng)
    return end.join(separator.join(row) for row in rows).encode("utf-8", "surrogateescape")


def _archive(content, rng):
    """A change of one array of an archive, or of its metadata."""
    members = {}
    # it may be too damaged to look into
    with contextlib.suppress(Exception), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if not members:
        return content
    name = _chosen(sorted(members), rng)
    what = rng.integers(6)
    if what == 0:
        del members[name]
    elif what == 1 or name.endswith(".json"):
        members[name] = _bytes(members[name], rng)
    else:
        with contextlib.suppress(Exception):
            array = np.lib.format.read_array(io.BytesIO(members[name]), allow_pickle=False)
            file = io.BytesIO()
            np.lib.format.write_array(file, _array(array, rng), allow_pickle=True)
            members[name] = file.getvalue()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def _hdf5(content, rng):
    """A change of one array or attribute of an HDF5 file, or a part less."""
    file = io.BytesIO(content)
    # it may be too damaged to look into
    with contextlib.suppress(Exception), h5py.File(file, "r+") as root:
        names: list[str] = []
        root.visit(names.append)
        name = _chosen(["X", "X/indptr", "X/indices", *names], rng)
        what = rng.integers(6)
        if what == 0:
            del root[name]
        elif what == 1:
            attributes = root[name].attrs
            attributes[_chosen(sorted(attributes), rng)] = _chosen(["x", 3, [10**6, 2], "csc"], rng)
        else:
            array = _array(root[name][...], rng)
            del root[name]
            root[name] = array
    return file.getvalue()


TYPES = [np.int8, np.float32, np.complex128, bool, "U5", "S3", np.uint64]
CHANGES = (
    lambda array, rng: _with_one_of([-5, 10**6, 7, 0, -1, 2**31 - 1], array, rng),
    lambda array, rng: array.astype(_chosen(TYPES, rng)),
    lambda array, rng: array.ravel(),
    lambda array, rng: array[..., None],
    lambda array, rng: array[: int(rng.integers(len(array) + 1))],
    lambda array, rng: np.array(_chosen([3, np.nan, "x"], rng)),
    lambda array, rng: _with_one_of(EXTREME, array, rng),
    lambda array, rng: np.array([None, "x"], dtype=object),
    lambda array, rng: np.concatenate([array, array]),
)


def _array(array, rng):
    with contextlib.suppress(OverflowError, ValueError, TypeError, IndexError):
        return CHANGES[rng.integers(len(CHANGES))](array, rng)
    return array


def _with_one_of(values, array, rng):
    array = np.array(array)
    array.flat[int(rng.integers(array.size))] = _chosen(values, rng)
    return array


def _tree(tree, rng):
    """A copy of nested lists and mappings with one part changed."""
    tree = copy.deepcopy(tree)
    node = tree
    while isinstance(node, dict | list) and node:
        key = _chosen(list(node), rng) if isinstance(node, dict) else int(rng.integers(len(node)))
        if rng.random() < 0.4 or not isinstance(node[key], dict | list) or not node[key]:
            what = rng.integers(4)
            if what == 0:
                del node[key]
            elif what == 1 and isinstance(node, dict):
                node[str(_chosen(NASTY, rng))] = node[key]
            else:
                node[key] = _chosen(VALUES, rng)
            return tree
        node = node[key]
    return _chosen(VALUES, rng)


def _chosen(values, rng):
    return values[int(rng.integers(len(values)))]


@functools.cache
def _small():
    rng = np.random.default_rng(1)
    return Sources([rng.standard_normal((4, 5)), rng.standard_normal((4, 3))])


def _options(rng):
    """A fit of two sweeps with odd values for one or two options."""
    method = _chosen(
        ["map-bjmd", "cavi-bjmd", "map-catbjmd", "cavi-catbjmd", "jmd", "semi-nmf", "kmeans"], rng
    )
    known = list(registry.get(method).options())
    options = {"max_sweeps": 2} if "max_sweeps" in known else {}
    for _ in range(rng.integers(1, 3)):
        name = _chosen([*known, "nothing"], rng)
        options[name] = _chosen(VALUES, rng)
    if options.get("max_sweeps", 2) is not True and isinstance(options.get("max_sweeps"), int):
        options["max_sweeps"] = min(options["max_sweeps"], 50)
    k = _chosen([2, 2, 2, 1, 0, -1, 2.0, "2", None, 10**9], rng)
    seed = _chosen([0, 0, 0, -1, 1.5, "x", 2**70], rng)
    result = registry.fit(method, _small(), k, seed, **options)
    if not result.is_finite():
        raise AssertionError("a result is not finite")


@functools.cache
def _good_config(name):
    return yaml.safe_load((ROOT / name).read_text())


def _config(folder, rng):
    config = _good_config(_chosen(["config/config.yaml", ".test/config/config.yaml"], rng))
    for _ in range(rng.integers(1, 4)):
        config = _tree(config, rng)
    validate(config, ROOT / "workflow/schemas/config.schema.yaml")
    Plan(config).check()


def _stored(folder, rng):
    """`bjmd show` and `bjmd transform` of a damaged fit; a failure leaves no file behind."""
    (folder / "fit").mkdir()
    for name, content in seeds()["stored fits"]:
        (folder / "fit" / name).write_bytes(content)
    victim, content = _chosen(seeds()["stored fits"], rng)
    (folder / "fit" / victim).write_bytes(changed(victim, content, rng))
    new = folder / "new.tsv"
    new.write_bytes(seeds()["text tables"][0][1])
    (folder / "out").mkdir()
    target = folder / "out/memberships.tsv"
    command = ["show", folder / "fit"]
    if rng.random() >= 0.5:
        command = ["transform", folder / "fit", new, "-o", target]
    code, said = _run(command)
    yield from _ended(command, code, said)
    left = [path.name for path in (folder / "out").iterdir()]
    if left != ([target.name] if command[0] == "transform" and code == 0 else []):
        yield f"left {left} behind with exit code {code}"


def _run(words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
    return code, out.getvalue()


def _ended(words, code, said):
    if code not in (0, 1, 2):
        yield f"exit code {code} of {words[0]}"
    if "Traceback" in said or (code and ("bjmd" not in said or len(said) > 5000)):
        yield f"no sentence: {said[-200:]!r}"
