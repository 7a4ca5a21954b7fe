"""Watch ADVI on some draws of the small synthetic data, long after its ELBO is stable."""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.failures import noted
from bjmd_paper.frame import numbers_of, script

params = snakemake.params
numbers = numbers_of(snakemake.wildcards)
what = f"ADVI without a stopping rule on draws {numbers[0]} to {numbers[-1]}"
with script(snakemake), noted(what, snakemake.output):
    settings = params.sigma3, params.max_iterations, params.seed
    traces = [draws.advi_trace(draw, *settings) for draw in numbers]
    pd.concat(traces).to_csv(snakemake.output[0], index=False)
