"""What does a fit cost before and around the numbers: imports, compiling, figures, jobs?

    python benchmarks/startup.py

Every line is one fresh process (the compiled code goes into a folder of its own), in seconds of
processor time and as a ratio to the first line: what the packages of others take before a fit can
begin.  Snakemake's time for a job is a quarter of the difference between five jobs that do nothing
and one.
"""

import ast
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import QUICK

ROOT = Path(__file__).parent.parent
DATA = [str(ROOT / "config/example" / f"lab-{lab}.tsv") for lab in "abc"]
THEIRS = "import numpy, pandas, scipy.sparse, scipy.special, numba, matplotlib.figure"
RULES = """
rule all:
    input: expand("{number}.txt", number=range(NUMBER))
rule one:
    output: "{number}.txt"
    script: "nothing.py"
"""


def seconds(*command, cache, folder=ROOT):
    """Processor time of a command of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run(
        [sys.executable, *command], capture_output=True, check=True, env=environment, cwd=folder
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imports(script):
    """The import statements at the head of a script."""
    nodes = ast.parse(script.read_text(encoding="utf-8")).body
    lines = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(lines)


def snakemake(n_jobs, cache):
    """Processor time of Snakemake for so many jobs that do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Snakefile").write_text(RULES.replace("NUMBER", str(n_jobs)))
        Path(folder, "nothing.py").write_text("open(snakemake.output[0], 'w').close()\n")
        return seconds("-m", "snakemake", "all", "--cores", "1", cache=cache, folder=folder)


def main():
    with tempfile.TemporaryDirectory() as folder:
        seconds("-c", THEIRS, cache=folder)  # so that the files are in memory
        unit = seconds("-c", THEIRS, cache=folder)

        def line(what, spent):
            print(f"{what:<44}{spent:6.2f} s {spent / unit:6.2f}", flush=True)

        def fit(name, *options):
            words = ["fit", *DATA, "-k", "5", "-o", f"{folder}/{name}", *options]
            return seconds("-m", "bjmd.cli", *words, cache=folder)

        line(f"python -c '{THEIRS[:25]} ...'", unit)
        line("import bjmd", seconds("-c", "import bjmd", cache=folder))
        first = fit("first", "--no-figures")
        without_figures = fit("plain", "--no-figures")
        warm = fit("warm")
        line("compiling, at the first fit", first - without_figures)
        line("a warm bjmd fit", warm)
        line("  of it figures", warm - without_figures)
        scripts = sorted(ROOT.glob("workflow/scripts/*.py"))
        for script in scripts[:1] if QUICK else scripts:
            line(f"imports of {script.name}", seconds("-c", imports(script), cache=folder))
        if not QUICK:
            line(
                "Snakemake's own time for a job", (snakemake(5, folder) - snakemake(1, folder)) / 4
            )


if __name__ == "__main__":
    main()
