"""Find the files of a real data set in the mirror, the cache or the network, check them, and read
them as sources.
"""

from pathlib import Path

from bjmd.results import storage
from bjmd_paper.datasets.fetch import fetch_and_read
from bjmd_paper.frame import run_script


def main(snakemake):
    where = dict(snakemake.params.items())
    sources = fetch_and_read(snakemake.wildcards.real, Path(snakemake.output[0]).parent, **where)
    storage.save_sources(snakemake.output[0], sources)


run_script(main, snakemake)
