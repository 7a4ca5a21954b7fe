"""The two graphical models of the paper."""

from bjmd import graphs, plots
from bjmd.workflow.frame import run_script


def main(snakemake):
    plots.save(graphs.graphical_models(), snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
