"""Judge the paper's claims by our numbers."""

from pathlib import Path

import pandas as pd

from bjmd.paper import scores, tables, verdicts
from bjmd.paper.frame import run_script


def main(snakemake):
    shown = {
        family: scores.summary(pd.read_csv(path))
        for family, path in zip(snakemake.params.families, snakemake.input.scores, strict=True)
    }
    sweeps = {Path(path).stem.removeprefix("auc-"): pd.read_csv(path) for path in snakemake.input.sweeps}
    evidence = verdicts.Evidence(shown, sweeps, pd.read_csv(snakemake.input.printed))
    tables.save(verdicts.judge(evidence), snakemake.output)


run_script(main, snakemake)
