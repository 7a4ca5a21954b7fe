"""Put the memberships of all fits on one data set beside the true shares."""

from bjmd.results import storage
from bjmd_paper import failures, shares
from bjmd_paper.datasets import catalogue, fetch
from bjmd_paper.frame import script

with script(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    name = snakemake.wildcards.dataset
    folder, _ = fetch.files(name, **dict(snakemake.params.where))
    true = catalogue.get(name).shares(folder)
    results = failures.results(snakemake.input.fits)
    table = shares.tidy(true, sources, results, snakemake.params.best)
    table.to_csv(snakemake.output[0], index=False, float_format="%.6g")
