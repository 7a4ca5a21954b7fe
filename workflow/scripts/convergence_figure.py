"""How the best ADVI run converged, with the closed form beside it."""

from bjmd.fits import registry, restarts, storage
from bjmd.paper import figures
from bjmd.paper.frame import run_script
from bjmd.paper.metric import auc_watch
from bjmd.report.style import save


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    runs = [run for path in snakemake.input.advi for run in storage.load_decompositions(path)]
    (advi,) = restarts.best(runs, 1)
    params = snakemake.params
    cavi = registry.fit("cavi-bjmd", sources, params.n_components, seed=params.seed, watch=auc_watch(sources.labels))
    save(figures.convergence(advi, cavi, sources.names), snakemake.output.svg, snakemake.output.png)


run_script(main, snakemake)
