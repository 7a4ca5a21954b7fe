"""Turn the files of a real data set into sources."""

from bjmd.fits import storage
from bjmd.paper.datasets import catalogue
from bjmd.paper.frame import run_script


def main(snakemake):
    sources = catalogue.get(snakemake.wildcards.real).sources(snakemake.input[0])
    storage.save_sources(snakemake.output[0], sources)


run_script(main, snakemake)
