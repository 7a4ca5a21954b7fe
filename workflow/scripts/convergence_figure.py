"""How the best ADVI run converged, with the closed form beside it."""

from bjmd import methods, plots, restarts, storage
from bjmd.workflow.frame import run_script


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    runs = [run for path in snakemake.input.advi for run in storage.load_decompositions(path)]
    (advi,) = restarts.best(runs, 1)
    params = snakemake.params
    cavi = methods.fit("cavi-bjmd", sources, params.n_components, seed=params.seed, history=True)
    plots.save(plots.convergence(advi, cavi, sources.names), snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
