"""Read the true shares of the samples of a real data set."""

from pathlib import Path

from bjmd_paper.datasets import catalogue
from bjmd_paper.datasets.fetch import fetch_and_read
from bjmd_paper.frame import run_script


def main(snakemake):
    name = snakemake.wildcards.real
    where = dict(snakemake.params.items())
    folder = Path(snakemake.output[0]).parent
    true = fetch_and_read(name, folder, read=catalogue.get(name).shares, **where)
    true.to_csv(snakemake.output[0], index_label="sample")


run_script(main, snakemake)
