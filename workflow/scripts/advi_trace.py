"""Watch ADVI on one draw of the small synthetic data, long after its ELBO is stable."""

from bjmd_paper import draws
from bjmd_paper.frame import run_script


def main(snakemake):
    params = snakemake.params
    trace = draws.advi_trace(int(snakemake.wildcards.draw), params.max_iterations, params.seed)
    trace.to_csv(snakemake.output[0], index=False)


run_script(main, snakemake)
