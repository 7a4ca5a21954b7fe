"""Run one fit on some draws of the synthetic data at every sigma3, and keep the scores."""

from bjmd_paper import draws
from bjmd_paper.failures import noted
from bjmd_paper.frame import numbers_of, script

params = snakemake.params
wildcards = snakemake.wildcards
what = f"{wildcards.fit} on draws {wildcards.first} to {wildcards.last} ({wildcards.scale})"
with script(snakemake), noted(what, snakemake.output):
    table = draws.table(draws=numbers_of(wildcards), seed=params.seed, **params.job)
    table.to_csv(snakemake.output[0], index=False)
