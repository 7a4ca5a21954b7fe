"""Fit some draws of the synthetic data at every sigma3, and keep the scores."""

from bjmd_paper import draws
from bjmd_paper.frame import run_script


def main(snakemake):
    wildcards = snakemake.wildcards
    params = snakemake.params
    numbers = range(int(wildcards.first), int(wildcards.last) + 1)
    table = draws.table(wildcards.scale, numbers, seed=params.seed, **params.job)
    table.to_csv(snakemake.output[0], index=False)


run_script(main, snakemake)
