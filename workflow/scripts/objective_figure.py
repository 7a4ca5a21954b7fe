"""Objective against iteration for the best run of each fit."""

import pandas as pd

from bjmd.paper import figures
from bjmd.paper.frame import run_script
from bjmd.report.style import save


def main(snakemake):
    figure = figures.objective(pd.read_csv(snakemake.input.traces), snakemake.params.fits)
    save(figure, snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
