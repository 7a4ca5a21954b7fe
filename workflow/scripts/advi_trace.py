"""Watch ADVI on some draws of the small synthetic data, long after its ELBO is stable."""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.frame import run_script


def main(snakemake):
    wildcards = snakemake.wildcards
    params = snakemake.params
    numbers = range(int(wildcards.first), int(wildcards.last) + 1)
    settings = params.sigma3, params.max_iterations, params.seed
    traces = [draws.advi_trace(draw, *settings) for draw in numbers]
    pd.concat(traces).to_csv(snakemake.output[0], index=False)


run_script(main, snakemake)
