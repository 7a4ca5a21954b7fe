"""Run one fit on some draws of the synthetic data at every sigma3, and keep the scores."""

from bjmd_paper import draws
from bjmd_paper.failures import noted
from bjmd_paper.frame import run_script


def main(snakemake):
    wildcards = snakemake.wildcards
    params = snakemake.params
    first = int(wildcards.first)
    last = int(wildcards.last)
    what = f"{wildcards.fit} on draws {first} to {last} ({wildcards.scale})"
    with noted(what, snakemake.output):
        table = draws.table(draws=range(first, last + 1), seed=params.seed, **params.job)
        table.to_csv(snakemake.output[0], index=False)


run_script(main, snakemake)
