"""Draw a figure of the list of exhibits."""

from bjmd.report.style import save
from bjmd_paper import exhibits
from bjmd_paper.frame import run_script


def main(snakemake):
    figure = exhibits.make(
        snakemake.params.function, dict(snakemake.input.items()), snakemake.params.settings
    )
    save(figure, snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
