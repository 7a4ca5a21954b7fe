"""Objective against iteration for the best run of each fit."""

import pandas as pd

from bjmd import plots
from bjmd.workflow.frame import run_script


def main(snakemake):
    figure = plots.objective(pd.read_csv(snakemake.input.traces), snakemake.params.fits)
    plots.save(figure, snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
