"""Processor time before and around the numbers: compiling, a whole `bjmd fit`, and a job of the workflow.

    python benchmarks/startup.py

Every line is one fresh process (the compiled code goes into a folder of its own), in seconds of processor time and as a
ratio to `python -c "import numpy, pandas, matplotlib.pyplot"` in the same run.  The parts of `bjmd fit` are measured
inside it; what they leave of its total is the start of Python, reading and the terminal.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = [str(ROOT / "config/example" / f"lab-{lab}.tsv") for lab in "abc"]
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
    (common, "fits", "fits"), (outputs, "check", "check"), (outputs, "_draw", "figures"), (outputs, "write", "writing")
):
    timed(module, name, part)
code = cli.main(sys.argv[1:])
spent["writing"] -= spent["check"] + spent["figures"]
print(json.dumps(spent))
sys.exit(code)
"""
JOB = """
from bjmd.fits import automatic, registry, restarts, storage
from bjmd_paper.frame import run_script
from bjmd_paper.metric import auc_watch
from bjmd_paper.nonnegative import nonnegative
"""


def seconds(*command, cache):
    """Processor time of a command and what it printed last."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, env=environment, cwd=ROOT
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    last = (done.stdout.splitlines() or [""])[-1]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, last


def main():
    with tempfile.TemporaryDirectory() as folder:
        unit, _ = seconds("-c", "import numpy, pandas, matplotlib.pyplot", cache=folder)

        def line(what, spent):
            print(f"{what:<44}{spent:6.1f} s {spent / unit:6.2f}", flush=True)

        line("import numpy, pandas, matplotlib.pyplot", unit)
        fit = ["fit", *DATA, "-k", "5", "-o"]
        first, _ = seconds("-c", PARTS, *fit, f"{folder}/first", cache=folder)
        warm, last = seconds("-c", PARTS, *fit, f"{folder}/warm", cache=folder)
        line("compiling, at the first fit", first - warm)
        line("a warm bjmd fit with 20 restarts and figures", warm)
        for part, spent in json.loads(last).items():
            line(f"  {part}", spent)
        job, _ = seconds("-c", JOB, cache=folder)
        line("the imports of workflow/scripts/fit.py", job)


if __name__ == "__main__":
    main()
