"""Read the true shares of the samples of a real data set."""

from bjmd_paper.datasets import catalogue, fetch
from bjmd_paper.frame import script

with script(snakemake):
    name = snakemake.wildcards.real
    folder, _ = fetch.files(name, **dict(snakemake.params.where))
    catalogue.get(name).shares(folder).to_csv(snakemake.output[0], index_label="sample")
