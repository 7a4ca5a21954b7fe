"""Draw one synthetic data set and keep the truth beside it."""

from bjmd.results import storage
from bjmd_paper.datasets import synthetic
from bjmd_paper.frame import script

with script(snakemake):
    wildcards = snakemake.wildcards
    drawn = synthetic.generate(wildcards.scale, float(wildcards.sigma3), snakemake.params.seed)
    storage.save_sources(snakemake.output.data, drawn.sources)
    storage.save_decompositions(snakemake.output.truth, [drawn.truth()])
