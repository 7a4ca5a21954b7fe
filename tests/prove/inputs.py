"""Damaged and odd inputs for every reader, the options, the configs and the stored results: a
result or one sentence.

A seed of every kind is made once.  A case changes it a little: in its bytes, or, which goes deeper,
in its structure (cells of a table, arrays of an archive, keys of a config) with values that have
made trouble before.
"""

import contextlib
import copy
import functools
import gzip
import io
import json
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse
import yaml

from bjmd import cli
from bjmd.data.sources import Sources
from bjmd.errors import FitError, InputError
from bjmd.files import label_files, outputs, readers
from bjmd.files.tables import Settings
from bjmd.inference import registry
from bjmd.results import storage
from bjmd_paper.plan import Plan, validate

ROOT = Path(__file__).parents[2]
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where files cost least."""
if yaml.__with_libyaml__:  # the same meaning, ten times as quick
    yaml.SafeLoader = yaml.CSafeLoader
    yaml.compose = functools.partial(yaml.compose, Loader=yaml.CSafeLoader)
NASTY = (
    "",
    " ",
    "NA",
    "nan",
    "-inf",
    "1e999",
    "1e-999",
    "-0",
    "0x10",
    "1_000",
    "1,5",
    "1.5.2",
    "٣",
    "\0",
    "12\x003",
    '"',
    "'",
    "=cmd()",
    "\x1b[31m",
    "a\tb",
    "a\nb",
    "#",
    "../../x",
    "9" * 400,
    "é",
    "\ufeff",
    "\u202e",
    "{}",
    "[",
    "%",
    "-1",
    "99999999999",
    "1e12",
    "4294967296",
    "-9223372036854775809",
    "true",
    "null",
    "1e-5",
    ".nan",
)
VALUES = (
    0,
    1,
    -1,
    2**31,
    2**63,
    2**70,
    -5,
    0.0,
    -0.0,
    1e300,
    -1e300,
    1e-300,
    1e22,
    0.5,
    float("nan"),
    float("inf"),
    True,
    None,
    "",
    "x",
    "learned",
    "auto",
    "1e-5",
    [],
    [1],
    [1.0, "x"],
    [[1]],
    {},
    {"a": 1},
    "\n",
    "{}",
    10**9,
)
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
    "command lines": 1,
    "configs": 4,
}
"""Kind -> how many of a hundred cases."""


@functools.cache
def seeds():
    """A good input of every kind, as bytes by name of file."""
    rng = np.random.default_rng(0)
    sources = Sources(
        [rng.standard_normal((5, 4)), rng.poisson(1.0, (5, 3)).astype(float)], names=["one", "two"]
    )
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            ["", *(f"s{j}" for j in range(4))],
            *([f"g{i}", *map(str, sources.matrices[0][i])] for i in range(5)),
        ]
        for file, separator in {"a.tsv": "\t", "a.csv": ",", "a.txt": "\t"}.items():
            (folder / file).write_text("\n".join(separator.join(row) for row in rows) + "\n")
        found["text tables"] = [
            (file, (folder / file).read_bytes()) for file in ("a.tsv", "a.csv", "a.txt")
        ]
        found["zipped text tables"] = [
            (f"{file}.gz", gzip.compress(data)) for file, data in found["text tables"]
        ]
        found["Matrix Market"] = []
        sparse = scipy.sparse.coo_array(sources.matrices[1])
        symmetric = sparse.toarray()[:3] + sparse.toarray()[:3].T
        for file, matrix, options in (
            ("real", sparse, {}),
            ("array", sparse.toarray(), {}),
            ("whole", sparse.astype(int), {"field": "integer"}),
            ("pattern", sparse, {"field": "pattern"}),
            ("symmetric", scipy.sparse.coo_array(symmetric), {"symmetry": "symmetric"}),
        ):
            scipy.io.mmwrite(folder / file, matrix, **options)
            found["Matrix Market"].append((f"{file}.mtx", (folder / f"{file}.mtx").read_bytes()))
        names = {
            "features": np.array([f"g{i}" for i in range(5)]),
            "samples": np.array([f"s{j}" for j in range(4)]),
        }
        np.savez(folder / "b.npz", matrix=sources.matrices[0], **names)
        scipy.sparse.save_npz(folder / "c.npz", sparse.tocsr())
        scipy.sparse.save_npz(folder / "d.npz", sparse.tocsc())
        storage.save_sources(folder / "e.npz", sources)
        mixed = Sources([sources.matrices[0], scipy.sparse.csc_array(sources.matrices[1])])
        storage.save_sources(folder / "f.npz", mixed)
        for kind, files in {
            ".npz of arrays": "b",
            ".npz of SciPy": "cd",
            ".npz of bjmd": "ef",
        }.items():
            found[kind] = [(f"{file}.npz", (folder / f"{file}.npz").read_bytes()) for file in files]
        found["AnnData"] = _anndata(folder)
        found["label files"] = [
            ("l.tsv", b"sample\tclass\ns0\tx\ns1\ty\n"),
            ("l.csv", b"s0,x,one\ns1,y,one\n"),
        ]
        results = [
            registry.fit("cavi-bjmd", sources, 2, seed, max_sweeps=5, noise="feature", offsets=True)
            for seed in (0, 1)
        ]
        outputs.write(folder / "fit", sources, results, settings=Settings(), figures=False)
        keep = ("fit.npz", "names.json", "settings.json", "check.tsv")
        found["stored fits"] = [(file, (folder / "fit" / file).read_bytes()) for file in keep]
    return found


def _anndata(folder):
    try:
        import anndata
    except ImportError:
        return []
    obs = {"batch": ["x", "x", "y"]}
    anndata.AnnData(np.arange(12.0).reshape(3, 4), obs=obs).write_h5ad(folder / "a.h5ad")
    return [("a.h5ad", (folder / "a.h5ad").read_bytes())]


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
        elif kind == "command lines":
            yield from _command(folder, rng)
        elif kind == "stored fits":
            yield from _stored(folder, rng)
        elif seeds()[kind]:
            name, content = _chosen(seeds()[kind], rng)
            path = folder / name
            path.write_bytes(changed(name, content, rng))
            if kind == "label files":
                label_files.read(path, ["one"], [["s0", "s1", "s2"]])
            else:
                sources, _ = readers.read_sources(path, samples_in_rows=bool(rng.random() < 0.2))
                for x in sources.matrices:
                    stored = x.data if scipy.sparse.issparse(x) else x
                    if np.isinf(stored).any():  # NaN is a missing entry
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
        elif rng.random() < 0.3:
            content = _bytes(content, rng)
        elif name.endswith(".npz"):
            content = _archive(content, rng)
        elif name.endswith(".json"):
            content = _json(content, rng)
        elif name.endswith(".h5ad"):
            content = _bytes(content, rng)
        else:
            content = _cells(name, content, rng)
    return content


def _bytes(content, rng):
    data = bytearray(content)
    what = rng.integers(5)
    at = int(rng.integers(len(data) + 1))
    if what == 0:
        return bytes(data[:at])
    if what == 1 and data:
        data[at % len(data)] ^= 1 << int(rng.integers(8))
    elif what == 2:
        data[at:at] = rng.bytes(int(rng.integers(1, 9)))
    elif what == 3:
        del data[at : at + int(rng.integers(1, 40))]
    else:
        other = int(rng.integers(len(data) + 1))
        data[at:at] = data[other : other + int(rng.integers(1, 60))]
    return bytes(data)


def _cells(name, content, rng):
    """A change of a table of text."""
    separator = "," if name.endswith(".csv") else " " if name.endswith(".mtx") else "\t"
    rows = [
        line.split(separator) for line in content.decode("utf-8", "surrogateescape").split("\n")
    ]
    i = int(rng.integers(len(rows)))
    j = int(rng.integers(len(rows[i]) or 1))
    what = rng.integers(8)
    nasty = _chosen(NASTY, rng)
    if what == 0 and rows[i]:
        rows[i][j] = nasty
    elif what == 1:
        rows[i].insert(j, nasty)
    elif what == 2:
        del rows[i][j : j + 1]
    elif what == 3:
        rows.insert(i, list(rows[int(rng.integers(len(rows)))]))
    elif what == 4:
        del rows[i]
    elif what == 5:
        rows = [row[:j] + row[j + 1 :] for row in rows]
    elif what == 6:
        for row in rows:
            row[j : j + 1] = [nasty]
    else:
        separator = _chosen([",", ";", "\t", " ", "|"], rng)
    end = _chosen(["\n", "\n", "\n", "\r\n", "\r"], rng)
    return end.join(separator.join(row) for row in rows).encode("utf-8", "surrogateescape")


def _archive(content, rng):
    """A change of one array of an archive, or of its metadata; an archive too damaged for that as
    it is.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # too damaged to look into
        return content
    if not members:
        return content
    name = _chosen(sorted(members), rng)
    what = rng.integers(6)
    if what == 0:
        del members[name]
    elif what == 1:
        members[name] = _bytes(members[name], rng)
    elif name.endswith(".json"):
        members[name] = _json(members[name], rng)
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


def _array(array, rng):
    array = np.array(array)
    what = rng.integers(9)
    if what == 0 and array.size:
        value = _chosen([-5, 10**6, 7, 0, -1, 2**31 - 1], rng)
        with contextlib.suppress(OverflowError, ValueError):
            array.flat[int(rng.integers(array.size))] = value
    elif what == 1:
        with contextlib.suppress(ValueError, TypeError):
            array = array.astype(
                _chosen([np.int8, np.float32, np.complex128, bool, "U5", "S3", np.uint64], rng)
            )
    elif what == 2:
        array = array.ravel()
    elif what == 3:
        array = array[..., None]
    elif what == 4 and array.ndim:
        array = array[: int(rng.integers(len(array) + 1))]
    elif what == 5:
        array = np.array(_chosen([3, np.nan, "x"], rng))
    elif what == 6 and array.dtype.kind == "f" and array.size:
        array.flat[int(rng.integers(array.size))] = _chosen(
            [np.nan, np.inf, 1e308, -1e308, 5e-324], rng
        )
    elif what == 7:
        array = np.array([None, "x"], dtype=object)
    elif array.ndim:
        array = np.concatenate([array, array])
    return array


def _json(content, rng):
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return _bytes(content, rng)
    return json.dumps(_tree(tree, rng)).encode()


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
    """`bjmd show` and `bjmd transform` of a damaged fit; what cannot be computed leaves nothing
    behind.
    """
    (folder / "fit").mkdir()
    for name, content in seeds()["stored fits"]:
        (folder / "fit" / name).write_bytes(content)
    victim, content = _chosen(seeds()["stored fits"], rng)
    (folder / "fit" / victim).write_bytes(changed(victim, content, rng))
    new = folder / "new.tsv"
    new.write_bytes(seeds()["text tables"][0][1])
    (folder / "out").mkdir()
    target = folder / "out/memberships.tsv"
    command = (
        ["show", folder / "fit"]
        if rng.random() < 0.5
        else ["transform", folder / "fit", new, "-o", target]
    )
    code, said = _run(command)
    yield from _ended(command, code, said)
    left = [path.name for path in (folder / "out").iterdir()]
    if left != ([target.name] if command[0] == "transform" and code == 0 else []):
        yield f"left {left} behind with exit code {code}"


def _command(folder, rng):
    """Command lines of odd words; none may write where it fails."""
    (folder / "a.tsv").write_bytes(seeds()["text tables"][0][1])
    words = [
        "fit",
        folder / "a.tsv",
        "-k",
        "2",
        "-o",
        folder / "out",
        "--restarts",
        "1",
        "--option",
        "max_sweeps=2",
    ]
    words += ["--no-figures"]
    for _ in range(rng.integers(1, 3)):
        nasty = _chosen(
            [*NASTY, "[" * 5000, "alpha0=[1", "tol=1e400", "--force", "--noise", "--join", "-k"],
            rng,
        )
        words[int(rng.integers(1, len(words)))] = nasty
    words = [str(word) for word in words]
    if "\0" in "".join(words):  # no shell can pass it
        return
    with contextlib.chdir(folder):
        code, said = _run(words)
    yield from _ended(words, code, said)
    if code and any((folder / "out").glob("*")):
        yield "left a folder with files behind"
    shutil.rmtree(folder / "out", ignore_errors=True)


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
