"""The noise level of every real data set by every method that estimates one, beside the paper's."""

from pathlib import Path

import pandas as pd

from bjmd.paper import tables
from bjmd.paper.frame import run_script


def main(snakemake):
    runs = {Path(path).stem: pd.read_csv(path) for path in snakemake.input.scores}
    noise = tables.noise_levels(runs, pd.read_csv(snakemake.input.printed), snakemake.params.rows)
    tables.save(noise.round(4), snakemake.output)


run_script(main, snakemake)
