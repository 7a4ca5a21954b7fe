"""The summary of all data sets of the run, beside the paper's."""

from bjmd.fits import storage
from bjmd.paper import tables
from bjmd.paper.datasets import cards
from bjmd.paper.frame import run_script


def main(snakemake):
    families = zip(snakemake.params.families, snakemake.input, strict=True)
    tables.save(cards.summary({family: storage.load_sources(path) for family, path in families}), snakemake.output)


run_script(main, snakemake)
