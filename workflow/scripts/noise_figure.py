"""The true noise of each source and the density that each fit estimated."""

import pandas as pd

from bjmd import plots, storage
from bjmd.workflow.frame import run_script


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    (truth,) = storage.load_decompositions(snakemake.input.truth)
    figure = plots.noise(sources, truth, pd.read_csv(snakemake.input.scores), snakemake.params.fits)
    plots.save(figure, snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
