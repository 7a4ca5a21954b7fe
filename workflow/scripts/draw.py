"""Fit one draw of the synthetic data at every sigma3, and keep the scores."""

from bjmd_paper import draws
from bjmd_paper.frame import run_script


def main(snakemake):
    wildcards, params = snakemake.wildcards, snakemake.params
    table = draws.table(wildcards.scale, int(wildcards.draw), seed=params.seed, **params.job)
    table.to_csv(snakemake.output[0], index=False)


run_script(main, snakemake)
