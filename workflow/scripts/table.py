"""Make a table of the list of exhibits, in all its formats."""

from bjmd_paper import exhibits, tables
from bjmd_paper.frame import run_script


def main(snakemake):
    params = snakemake.params
    table = exhibits.make(params.function, dict(snakemake.input.items()), params.settings)
    tables.write(table, params.title, params.caption, snakemake.output)


run_script(main, snakemake)
