"""Find the files of a real data set, in the mirror, in the cache or on the network, and note where they are."""

from pathlib import Path

from bjmd.paper.datasets.fetch import fetch
from bjmd.paper.frame import run_script


def main(snakemake):
    found = fetch(snakemake.wildcards.real, mirror=snakemake.params.mirror, cache=snakemake.params.cache)
    Path(snakemake.output[0]).write_text(f"{found}\n")


run_script(main, snakemake)
