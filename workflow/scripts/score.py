"""Score every restart of every fit on one data set, and mark the best by objective."""

from pathlib import Path

from bjmd.results import storage
from bjmd_paper import scores
from bjmd_paper.frame import run_script


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    results = {fit: [] for fit in snakemake.params.best}
    for path in snakemake.input.fits:
        results[Path(path).parent.name] += storage.load_decompositions(path)
    runs = scores.runs_table(sources, results, snakemake.params.best, integration=True)
    for path in snakemake.input.truth:
        runs = scores.with_truth(runs, sources, *storage.load_decompositions(path))
    runs.to_csv(snakemake.output.runs, index=False)
    scores.traces_table(results, snakemake.params.best).to_csv(snakemake.output.traces, index=False)


run_script(main, snakemake)
