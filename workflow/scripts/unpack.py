"""Unpack the verified files of a real data set."""

from pathlib import Path

from bjmd.paper.datasets import catalogue, unpack
from bjmd.paper.frame import run_script


def main(snakemake):
    archive = Path(snakemake.input[0]).read_text().strip()
    unpack.extract(archive, catalogue.get(snakemake.wildcards.real), snakemake.output[0])


run_script(main, snakemake)
