"""Would the tests notice a mistake?  One small change of the mathematics at a time.

    python benchmarks/mutants.py --number 200 --state mutants.jsonl

A mutant is one operator, comparison, constant or sign changed in a temporary copy of the sources.
It is killed if a test of its module fails or does not end.  The tests run in the order of the time
that they take without a mutant, and those that take more than --slowest seconds not at all, so that
most mutants are killed in a few seconds.  What was run is kept in --state, so a run that was
stopped goes on; the same seed gives the same mutants as long as the sources stay the same.
Survivors are printed; --again runs them once more, for example with --slowest 60.  Judge by hand
what is left: one that changes no result is named in mutants_equivalent.tsv with the reason, the
others need a test.
"""

import argparse
import ast
import csv
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

import numba
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
SMALL = "not large and not hundreds"
"""Which tests: not those that take long because their data are large or many."""
TESTS = {
    "bjmd/model.py": ["test_model.py", "inference/test_map.py", "inference/test_composed.py"],
    "bjmd/numerics/dirichlet.py": ["numerics/test_dirichlet.py"],
    "bjmd/numerics/lanes.py": [
        "numerics/test_lanes.py",
        "numerics/test_polygamma.py",
        "numerics/test_dirichlet.py",
    ],
    "bjmd/numerics/laplace.py": ["paper/baselines/test_laplace.py"],
    "bjmd/numerics/moments.py": [
        "data/test_missing.py",
        "inference/test_composed.py",
        "inference/test_projection.py",
    ],
    "bjmd/numerics/nonnegative.py": [
        "paper/baselines/test_bnmf.py",
        "paper/baselines/test_joint_nmf.py",
    ],
    "bjmd/numerics/responses.py": ["analysis/test_intervals.py"],
    "bjmd/numerics/rows.py": ["inference/test_composed.py", "inference/test_cavi.py"],
    "bjmd/numerics/simplex.py": ["numerics/test_simplex.py"],
    "bjmd/results/posterior.py": ["results/test_posterior.py"],
    "bjmd/results/predictive.py": ["results/test_predictive.py"],
    "bjmd/inference/cavi.py": [
        "inference/test_composed.py",
        "inference/test_cavi.py",
        "inference/test_unit_and_origin.py",
    ],
    "bjmd/inference/loop.py": [
        "inference/test_loop.py",
        "inference/test_map.py",
        "inference/test_cavi.py",
    ],
    "bjmd/inference/map.py": [
        "inference/test_map.py",
        "inference/test_unit_and_origin.py",
        "data/test_missing.py",
    ],
    "bjmd/inference/noise.py": ["inference/test_composed.py", "inference/test_cavi.py"],
    "bjmd/inference/offsets.py": ["inference/test_composed.py", "inference/test_cavi.py"],
    "bjmd/inference/priors.py": ["inference/test_composed.py", "test_model.py"],
    "bjmd/inference/projection.py": [
        "inference/test_projection.py",
        "inference/test_projection_composed.py",
    ],
    "bjmd/analysis/intervals.py": ["analysis/test_intervals.py"],
}
INLINED = ("bjmd/numerics/lanes.py",)
"""Compiled into the functions of other files: all are left to Python if one of these changes."""
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
SWAPPED = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}


def changed(node):
    """Every one-step change of a node, as new nodes."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield replaced(node, op=OPERATORS[type(node.op)]())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield replaced(node, ops=[other()])
    elif isinstance(node, ast.BoolOp):
        yield replaced(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.Constant(
            node.value + 1 if type(node.value) is int or node.value == 0 else 2 * node.value
        )
    elif isinstance(node, ast.Attribute | ast.Name):
        name = getattr(node, "attr", None) or getattr(node, "id", None)
        if name in SWAPPED:
            yield replaced(
                node, **{"attr" if isinstance(node, ast.Attribute) else "id": SWAPPED[name]}
            )


def replaced(node, **fields):
    return type(node)(**{name: getattr(node, name) for name in node._fields} | fields)


def mutants(module):
    """(line, old text, new text, whole new source) of every mutant of a file."""
    source = (SOURCES / module).read_text()
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    tree = ast.parse(source)
    compiled_lines = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            compiled_lines |= {*range(node.lineno, node.end_lineno + 1)}
    waiting = [(tree, "")]
    while waiting:
        node, function = waiting.pop()
        # neither messages nor annotations are mathematics
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.arg | ast.Import | ast.ImportFrom):
            continue
        function = node.name if isinstance(node, ast.FunctionDef) else function
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]
        for new in changed(node):
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(new))
            text = text if isinstance(node, ast.stmt) else f"({text})"
            old = source.encode()[first:last].decode()
            whole = (source.encode()[:first] + text.encode() + source.encode()[last:]).decode()
            place = {"module": module, "line": node.lineno, "at": first, "old": old, "new": text}
            place["function"] = function
            found.append(place | {"source": whole, "compiled": node.lineno in compiled_lines})
    return found


def interpreted(source):
    """The file with its functions left to Python, because compiling takes most of the time."""
    lines = source.splitlines(keepends=True)
    last = max(
        node.end_lineno
        for node in ast.parse(source).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    return "".join(
        [*lines[:last], "\n\ndef compiled(function):\n    return function\n", *lines[last:]]
    )


class Quickest:
    """A plugin of pytest: runs tests by the processor time they took before, and measures it."""

    def __init__(self, known, slowest):
        self.known = known
        self.slowest = slowest
        self.taken = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self.known.get(item.nodeid, 0.0) <= self.slowest]
        items.sort(key=lambda item: self.known.get(item.nodeid, 0.0))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        started = time.process_time()
        yield
        self.taken[item.nodeid] = time.process_time() - started


def begin(mutant, copy, seconds, known, slowest, to_python):
    """Fork a process that runs the tests of a mutant's module; its id and its folder."""
    module = mutant["module"]
    source = mutant["source"]
    folder = Path(tempfile.mkdtemp(prefix="mutant-"))
    process = os.fork()
    if process:
        return process, folder
    os.setsid()
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # of processor time, which does not depend on what else the machine does
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    src = copy / "src"
    if source is not None:
        stale = (
            shutil.ignore_patterns("*.nbi", "*.nbc")
            if module in INLINED and not to_python
            else None
        )
        src = shutil.copytree(copy / "src", folder / "src", ignore=stale)
        (src / module).write_text(
            interpreted(source) if to_python and module not in INLINED else source
        )
        numba.config.DISABLE_JIT = to_python and module in INLINED
    sys.path.insert(0, str(src))
    os.environ["PYTHONPATH"] = str(src)
    os.chdir(copy)
    tests = [f"tests/{name}" for name in (TESTS[module] if module else mutant["tests"])]
    quickest = Quickest(known, slowest)
    words = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        SMALL,
        "-W",
        "ignore::RuntimeWarning",
        *tests,
    ]
    code = pytest.main(words, plugins=[quickest])
    (folder / "taken").write_text(json.dumps(quickest.taken))
    sys.stdout.flush()
    os._exit(int(code))


def outcomes(jobs, copy, n_jobs):
    """Yield (mutant, outcome, failed test, seconds of every test) of every job, as they end.

    A job is a mutant and the keywords of `begin`.
    """
    running = {}
    jobs = iter(jobs)
    while True:
        for mutant, words in itertools.islice(jobs, n_jobs - len(running)):
            process, folder = begin(mutant, copy, **words)
            running[process] = folder, mutant
        if not running:
            return
        process, status = os.wait()
        folder, mutant = running.pop(process)
        lines = (folder / "output").read_text(errors="replace").splitlines()
        taken = json.loads((folder / "taken").read_text()) if (folder / "taken").exists() else {}
        shutil.rmtree(folder)
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        word = (
            "no end"
            if os.WIFSIGNALED(status)
            else "survived"
            if os.WEXITSTATUS(status) == 0
            else "killed"
        )
        yield mutant, word, (failed or lines[-1:] or [""])[0], taken


def run(left, copy, options):
    """Yield (mutant, outcome, failed test).

    What does not end in time is compiled and given five times as much.
    """
    words = {"seconds": 3600, "known": {}, "slowest": 0, "to_python": False}
    tests = sorted({test for module in options.modules for test in TESTS[module]})
    unchanged = {"module": None, "source": None, "tests": tests}
    ((_, outcome, line, known),) = outcomes([(unchanged, words)], copy, 1)
    if outcome != "survived":
        sys.exit(f"the tests fail without any mutant: {line}")
    words = {"known": known, "slowest": options.slowest}
    slow = []
    for mutant, outcome, line, _ in outcomes(
        ((one, words | {"to_python": one["compiled"], "seconds": options.seconds}) for one in left),
        copy,
        options.jobs,
    ):
        if outcome == "no end":  # or only slow, perhaps because it is left to Python
            slow.append(mutant)
        else:
            yield mutant, outcome, line
    words |= {"to_python": False, "seconds": 5 * options.seconds}
    for mutant, outcome, line, _ in outcomes(((one, words) for one in slow), copy, options.jobs):
        yield mutant, outcome, line


def main():
    for name in ("pandas", "scipy.optimize", "scipy.sparse", "scipy.stats", "sklearn.metrics"):
        importlib.import_module(name)  # what the tests import, once for all processes
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", nargs="*", default=[*TESTS])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--seconds", type=int, default=60, help="of processor time, after which a test has no end"
    )
    parser.add_argument(
        "--slowest", type=float, default=2.0, help="of processor time that a test may take"
    )
    parser.add_argument("--state", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument(
        "--again", action="store_true", help="run the survivors in --state once more"
    )
    parser.add_argument(
        "--only-table", action="store_true", help="print what --state has, and run nothing"
    )
    options = parser.parse_args()
    known = {}
    for line in options.state.read_text().splitlines() if options.state.exists() else ():
        one = json.loads(line)
        known[_name(one)] = one  # the last word counts
    if not options.only_table:
        every = [mutant for module in options.modules for mutant in mutants(module)]
        chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
        left = [one for one in chosen if _name(one) not in known]
        if options.again:
            left = [one for one in every if known.get(_name(one), {}).get("outcome") == "survived"]
        print(
            f"{len(every)} mutants are possible, {len(chosen)} chosen, {len(left)} left to run",
            flush=True,
        )
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            copy = Path(folder)
            for name in ("src", "tests"):
                shutil.copytree(ROOT / name, copy / name)
            shutil.copy2(ROOT / "pyproject.toml", copy)
            for mutant, outcome, line in run(left, copy, options):
                kept = {
                    key: value for key, value in mutant.items() if key not in ("source", "compiled")
                }
                known[_name(mutant)] = kept | {"outcome": outcome, "by": line}
                with options.state.open("a") as state:
                    state.write(json.dumps(known[_name(mutant)]) + "\n")
                print(f"{outcome:9}{described(mutant)}", flush=True)
    print(table([*known.values()]))


def _name(mutant):
    return mutant["module"], mutant["at"], mutant["new"]


def described(mutant):
    return f"{mutant['module']}:{mutant['line']}  {mutant['old']} -> {mutant['new']}"


def excuses():
    """Mutants that change no result: (module, function, old, new)."""
    with (Path(__file__).parent / "mutants_equivalent.tsv").open() as file:
        return {tuple(row.values())[:4] for row in csv.DictReader(file, delimiter="\t")}


def table(known):
    """Markdown: mutants by module, and the survivors that no reason excuses."""
    excused = excuses()
    lines = [
        "| module | mutants | no change of a result | killed | survived |",
        "|---|---:|---:|---:|---:|",
    ]
    totals = [0, 0, 0, 0]
    survivors = []
    for module in TESTS:
        of_module = [one for one in known if one["module"] == module]
        survived = [one for one in of_module if one["outcome"] == "survived"]
        keys = ("module", "function", "old", "new")
        bad = [one for one in survived if tuple(one[key] for key in keys) not in excused]
        n_killed = len(of_module) - len(survived)
        counts = [len(of_module), len(survived) - len(bad), n_killed, len(bad)]
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        survivors += bad
        if of_module:
            lines.append(f"| {module} | {' | '.join(map(str, counts))} |")
    lines.append(f"| all | {' | '.join(map(str, totals))} |")
    rate = totals[2] / max(totals[2] + totals[3], 1)
    lines += ["", f"Killed of those that change a result: {rate:.1%}.", ""]
    return "\n".join([*lines, *map(described, survivors)])


if __name__ == "__main__":
    main()
