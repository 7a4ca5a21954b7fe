"""Score every restart of every fit on one data set, and mark the best by objective."""

from pathlib import Path

from bjmd.errors import FitError
from bjmd.results import storage
from bjmd_paper import failures, scores
from bjmd_paper.frame import script

with script(snakemake):
    best = snakemake.params.best
    sources = storage.load_sources(snakemake.input.data)
    results = failures.results(snakemake.input.fits)
    failed = failures.sentences(snakemake.input.fits)
    if not results:
        raise FitError(f"every fit failed: {'; '.join(failed)}")
    runs = scores.runs_table(sources, results, best, integration=True)
    for path in snakemake.input.truth:
        runs = scores.with_truth(runs, sources, *storage.load_decompositions(path))
    runs.to_csv(snakemake.output.runs, index=False)
    scores.traces_table(results, best).to_csv(snakemake.output.traces, index=False)
    Path(snakemake.output.failures).write_text("".join(f"{line}\n" for line in failed))
