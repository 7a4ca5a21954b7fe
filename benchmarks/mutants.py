"""Would the tests notice a mistake?  One small change of the mathematics at a time.

    python benchmarks/mutants.py --number 200 --state mutants.jsonl

A mutant is one operator, comparison, constant or sign changed in a copy of the sources.  It is
killed if a test of its module fails.  Numbers that a module gives a name in capitals, such as
tolerances and limits, stay as they are: another choice is no mistake.  tests/test_fixed_run.py is
not asked, for it notices every changed bit, right or wrong.

What was run is kept in --state, so a run that was stopped goes on; the same seed gives the same
mutants as long as the sources stay the same.  Printed are survivors, and those whose tests did not
end in --seconds, perhaps because the machine was busy.  Judge them by hand: one that changes no
result is named in mutants_equivalent.tsv with the reason, the others need a test.
"""

import argparse
import ast
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from harness import header, row, size

ROOT = Path(__file__).parents[1]
FACTORISATIONS = ("bnmf", "nmf", "semi_nmf", "discussed")
CAVI = ["inference/test_cavi.py", "inference/test_fits.py"]
IN_PYTHON = "numerics/test_in_python.py"
TESTS = {
    "bjmd/model.py": ["test_model.py", "inference/test_map.py", *CAVI],
    "bjmd/data/view.py": [
        "inference/test_unit_and_origin.py",
        "data/test_centre.py",
        "data/test_missing.py",
        "inference/test_map.py",
    ],
    "bjmd/numerics/dirichlet.py": [
        "numerics/test_dirichlet.py",
        IN_PYTHON,
        "analysis/test_intervals.py",
        "inference/test_cavi.py",
    ],
    "bjmd/numerics/lanes.py": ["numerics/test_lanes.py", IN_PYTHON, "numerics/test_dirichlet.py"],
    "bjmd/numerics/laplace.py": [
        "numerics/test_laplace_rows.py",
        IN_PYTHON,
        "paper/baselines/test_laplace.py",
    ],
    "bjmd/numerics/moments.py": [
        IN_PYTHON,
        *CAVI,
        "inference/test_projection.py",
        "inference/test_unit_and_origin.py",
        "data/test_missing.py",
    ],
    "bjmd/numerics/nonnegative.py": [
        IN_PYTHON,
        *(f"paper/baselines/test_{name}.py" for name in FACTORISATIONS),
    ],
    "bjmd/numerics/rows.py": ["numerics/test_lanes.py", IN_PYTHON, *CAVI],
    "bjmd/numerics/simplex.py": ["numerics/test_simplex.py", IN_PYTHON],
    "bjmd/results/posterior.py": ["results/test_posterior.py"],
    "bjmd/results/predictive.py": ["results/test_predictive.py", "inference/test_projection.py"],
    "bjmd/inference/cavi.py": [
        *CAVI,
        "inference/test_unit_and_origin.py",
        "inference/test_projection.py",
    ],
    "bjmd/inference/loop.py": [
        "inference/test_loop.py",
        "inference/test_map.py",
        "inference/test_restarts.py",
        *CAVI,
    ],
    "bjmd/inference/map.py": [
        "inference/test_map.py",
        "inference/test_unit_and_origin.py",
        "data/test_missing.py",
        "inference/test_fits.py",
        "inference/test_projection.py",
    ],
    "bjmd/inference/noise.py": [
        *CAVI,
        "inference/test_unit_and_origin.py",
        "inference/test_projection.py",
    ],
    "bjmd/inference/offsets.py": [*CAVI, "inference/test_map.py"],
    "bjmd/inference/priors.py": CAVI,
    "bjmd/inference/starts.py": ["inference/test_starts.py"],
    "bjmd/inference/projection.py": ["inference/test_projection.py", "test_other_scale.py"],
    "bjmd/analysis/intervals.py": ["analysis/test_intervals.py"],
}
INLINED = "bjmd/numerics/lanes.py"
"""Compiled into the functions of other files, which takes its time.  So the first two tests of its
list are first left to Python.
"""
KEYS = ("module", "function", "where", "old", "new")
"""By which a reason excuses a mutant; where is the line it is on."""
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
NUMBER = ast.Constant | ast.BinOp | ast.operator
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
        is_count = type(node.value) is int or node.value == 0
        yield ast.Constant(node.value + 1 if is_count else 2 * node.value)
    elif isinstance(node, ast.Attribute) and node.attr in SWAPPED:
        yield replaced(node, attr=SWAPPED[node.attr])
    elif isinstance(node, ast.Name) and node.id in SWAPPED:
        yield replaced(node, id=SWAPPED[node.id])


def replaced(node, **fields):
    return type(node)(**{name: getattr(node, name) for name in node._fields} | fields)


def mutants(module):
    """Every mutant of a file: where it is, what changes, and the whole new source."""
    source = (ROOT / "src" / module).read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    waiting = [(ast.parse(source), "")]
    while waiting:
        node, function = waiting.pop()
        # neither messages nor annotations are mathematics
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.arg | ast.Import | ast.ImportFrom):
            continue
        if not function and _is_choice(node):
            continue
        # nor is how much work a part is, by which no result may change
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "threads.parts":
            continue
        if isinstance(node, ast.FunctionDef):
            function = node.name
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]
        for new in changed(node):
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(ast.fix_missing_locations(new))
            text = text if isinstance(node, ast.stmt) else f"({text})"
            yield {
                "module": module,
                "function": function,
                "where": lines[node.lineno - 1].decode().strip(),
                "line": node.lineno,
                "at": first,
                "old": source[first:last].decode(),
                "new": text,
                "source": (source[:first] + text.encode() + source[last:]).decode(),
            }


def _is_choice(node):
    """Whether a statement gives a name in capitals to a number."""
    if not isinstance(node, ast.Assign) or not ast.unparse(node.targets[0]).isupper():
        return False
    return all(isinstance(n, NUMBER) for n in ast.walk(node.value))


def outcome(mutant, seconds):
    """killed, survived or no end."""
    module = mutant["module"]
    tests = TESTS[module]
    is_inlined = module == INLINED
    # what another file has in its cache holds the parts as they were
    left_out = ["__pycache__"] if is_inlined else []
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder)
        for name in ("src", "tests", "config", "docs"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns(*left_out))
        shutil.copy2(ROOT / "pyproject.toml", tree)
        (tree / "src" / module).write_text(mutant["source"])
        try:
            passed = not is_inlined or run_tests(tree, tests[:2], seconds, NUMBA_DISABLE_JIT="1")
            passed = passed and run_tests(tree, tests, seconds)
        except subprocess.TimeoutExpired:
            return "no end"
    return "survived" if passed else "killed"


def run_tests(tree, tests, timeout=None, **variables):
    """Whether all tests of some files pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-W", "ignore::RuntimeWarning"]
    paths = {"PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *(f"tests/{name}" for name in tests)],
        cwd=tree,
        env={**os.environ, **paths, **variables},
        capture_output=True,
        timeout=timeout,
    )
    return not done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=size(200, 2))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", nargs="*", default=[*TESTS])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=300, help="after which tests have no end")
    parser.add_argument("--state", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    lines = options.state.read_text().splitlines() if options.state.exists() else []
    known = {name_of(one): one for one in map(json.loads, lines)}
    every = [mutant for module in options.modules for mutant in mutants(module)]
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    left = [one for one in chosen if name_of(one) not in known]
    print(f"{len(every)} mutants are possible, {len(chosen)} chosen, {len(left)} left to run")
    # this also fills the caches of compiled code, which the copies take over
    if left and not run_tests(
        ROOT, dict.fromkeys(name for one in left for name in TESTS[one["module"]])
    ):
        sys.exit("the tests fail without any mutant")
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(outcome, one, options.seconds): one for one in left}
        for future in as_completed(running):
            mutant = running[future]
            kept = {key: mutant[key] for key in (*KEYS, "line", "at")}
            known[name_of(mutant)] = kept | {"outcome": future.result()}
            with options.state.open("a") as state:
                state.write(json.dumps(known[name_of(mutant)]) + "\n")
    report([*known.values()])


def name_of(mutant):
    return mutant["module"], mutant["at"], mutant["new"]


def report(known):
    """Markdown: mutants by module, and the survivors that no reason excuses."""
    with (Path(__file__).parent / "mutants_equivalent.tsv").open() as file:
        excused = {
            tuple(line[key] for key in KEYS) for line in csv.DictReader(file, delimiter="\t")
        }
    counts = Counter()
    survivors = []
    for one in known:
        word = one["outcome"]
        if word != "killed" and tuple(one[key] for key in KEYS) in excused:
            word = "same"
        counts[one["module"], word] += 1
        counts["all", word] += 1
        if word in ("survived", "no end"):
            survivors.append(f"{one['module']}:{one['line']}  {one['old']} -> {one['new']}")
    header("module", "no change of a result", "killed", "no end", "survived")
    for module in dict.fromkeys([*(one["module"] for one in known), "all"]):
        row(module, *(counts[module, word] for word in ("same", "killed", "no end", "survived")))
    print("", *survivors, sep="\n")


if __name__ == "__main__":
    main()
