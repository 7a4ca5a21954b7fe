"""The true noise of each source and the density that each fit estimated."""

import pandas as pd

from bjmd.fits import storage
from bjmd.paper import figures
from bjmd.paper.frame import run_script
from bjmd.report.style import save


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    (truth,) = storage.load_decompositions(snakemake.input.truth)
    figure = figures.noise(sources, truth, pd.read_csv(snakemake.input.scores), snakemake.params.fits)
    save(figure, snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
