"""Processor time before and around the numbers: compiling, a whole `bjmd fit`, and the jobs of the
workflow.

    python benchmarks/startup.py

Every line is one fresh process (the compiled code goes into a folder of its own), in seconds of
processor time and as a ratio to the first line, which is what the packages of others take before a
fit can begin.  The empty figures have as many panels as those of the fit, with nothing but ticks,
and are saved as .png and .svg.  The parts of `bjmd fit` are measured inside it; what they leave of
its total is the start and the end of Python, reading and the terminal. Snakemake's time for a job
is a quarter of the difference between five jobs that do nothing and one.
"""

import ast
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = [str(ROOT / "config/example" / f"lab-{lab}.tsv") for lab in "abc"]
THEIRS = "import numpy, pandas, scipy.sparse, scipy.special, numba, matplotlib.figure"
EMPTY = """
import sys, time
from matplotlib.figure import Figure
from bjmd.report.style import save
begun = time.process_time()
for panels in (3, 3, 5, 2, 1, 3, 2, 2):
    figure = Figure(figsize=(7.6, 2.5), layout="constrained")
    figure.subplots(1, panels)
    save(figure, sys.argv[1] + ".svg", sys.argv[1] + ".png")
print(time.process_time() - begun)
"""
PARTS = """
import json, sys, time
clock, spent = time.process_time, {}

def timed(module, name, part):
    function = getattr(module, name)
    def run(*args, **kwargs):
        begun = clock()
        try:
            return function(*args, **kwargs)
        finally:
            spent[part] = spent.get(part, 0) + clock() - begun
    setattr(module, name, run)

from bjmd import cli
from bjmd.commands import common, fit
from bjmd.files import outputs
from bjmd.report import check_figures, figures
spent["imports"] = clock()
for module, name, part in (
    (common, "fits", "fits, and loading the compiled code"), (outputs, "check", "check"), (outputs, "_draw", "figures"),
    (outputs, "write", "writing"),
):
    timed(module, name, part)
code = cli.main(sys.argv[1:])
spent["writing"] -= spent["check"] + spent["figures"]
print(json.dumps(spent))
sys.exit(code)
"""
RULES = """
rule all:
    input: expand("{number}.txt", number=range(NUMBER))
rule one:
    output: "{number}.txt"
    script: "nothing.py"
"""


def seconds(*command, cache, folder=ROOT):
    """Processor time of a command and what it printed last."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=folder,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    last = (done.stdout.splitlines() or [""])[-1]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, last


def imports(script):
    """The import statements at the head of a script."""
    nodes = ast.parse(script.read_text(encoding="utf-8")).body
    return "\n".join(
        ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)
    )


def snakemake(n_jobs, cache):
    """Processor time of Snakemake for so many jobs that do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Snakefile").write_text(RULES.replace("NUMBER", str(n_jobs)), encoding="utf-8")
        Path(folder, "nothing.py").write_text(
            "open(snakemake.output[0], 'w').close()\n", encoding="utf-8"
        )
        return seconds("-m", "snakemake", "all", "--cores", "1", cache=cache, folder=folder)[0]


def main():
    with tempfile.TemporaryDirectory() as folder:
        seconds("-c", THEIRS, cache=folder)  # so that the files are in memory
        unit, _ = seconds("-c", THEIRS, cache=folder)

        def line(what, spent):
            print(f"{what:<44}{spent:6.2f} s {spent / unit:6.2f}", flush=True)

        line(f"python -c '{THEIRS[:25]} ...'", unit)
        line("empty figures", float(seconds("-c", EMPTY, f"{folder}/empty", cache=folder)[1]))
        fit = ["fit", *DATA, "-k", "5", "-o"]
        first, _ = seconds("-c", PARTS, *fit, f"{folder}/first", cache=folder)
        warm, last = seconds("-c", PARTS, *fit, f"{folder}/warm", cache=folder)
        line("compiling, at the first fit", first - warm)
        line("a warm bjmd fit with its figures", warm)
        for part, spent in json.loads(last).items():
            line(f"  {part}", spent)
        for script in sorted(ROOT.glob("workflow/scripts/*.py")):
            line(f"imports of {script.name}", seconds("-c", imports(script), cache=folder)[0])
        line("Snakemake's own time for a job", (snakemake(5, folder) - snakemake(1, folder)) / 4)


if __name__ == "__main__":
    main()
