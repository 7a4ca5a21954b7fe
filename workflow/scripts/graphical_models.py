"""The two graphical models of the paper."""

from bjmd.paper.frame import run_script
from bjmd.paper.graphical_models import graphical_models
from bjmd.report.style import save


def main(snakemake):
    save(graphical_models(), snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
