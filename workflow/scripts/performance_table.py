"""The performance table of one data set beside the paper's, in four formats."""

from pathlib import Path

import pandas as pd

from bjmd.paper import tables
from bjmd.paper.frame import run_script


def main(snakemake):
    scores = pd.read_csv(snakemake.input.scores)
    printed = pd.read_csv(snakemake.input.printed)
    printed = printed[printed["table"] == snakemake.params.table]
    performance = tables.performance(scores, printed, snakemake.params.rows)
    performance.to_csv(snakemake.output.csv, index=False)
    for kind in ("markdown", "latex", "html"):
        Path(snakemake.output[kind]).write_text(tables.render(performance, kind))


run_script(main, snakemake)
