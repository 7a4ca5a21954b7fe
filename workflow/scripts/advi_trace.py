"""Watch ADVI on some draws of the small synthetic data, long after its ELBO is stable."""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.failures import noted
from bjmd_paper.frame import run_script


def main(snakemake):
    wildcards = snakemake.wildcards
    params = snakemake.params
    first = int(wildcards.first)
    last = int(wildcards.last)
    settings = params.sigma3, params.max_iterations, params.seed
    with noted(f"ADVI without a stopping rule on draws {first} to {last}", snakemake.output):
        traces = [draws.advi_trace(draw, *settings) for draw in range(first, last + 1)]
        pd.concat(traces).to_csv(snakemake.output[0], index=False)


run_script(main, snakemake)
