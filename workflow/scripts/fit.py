"""Run a chunk of the restarts of one fit on one data set."""

from bjmd.analysis import fitting
from bjmd.results import storage
from bjmd_paper.failures import noted
from bjmd_paper.frame import numbers_of, script
from bjmd_paper.nonnegative import nonnegative

job = snakemake.params.job
wildcards = snakemake.wildcards
numbers = numbers_of(wildcards)
what = f"{wildcards.fit} on {wildcards.dataset}, restarts {wildcards.first} to {wildcards.last}"
with script(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    with noted(what, snakemake.output):
        sources = nonnegative(sources, job["nonnegative"])
        fits = fitting.fit(
            job["method"],
            sources,
            job["n_components"],
            n_restarts=len(numbers),
            seed=snakemake.params.seed + numbers[0],
            jobs=snakemake.threads,
            search=False,
            **job["options"],
        )
        storage.save_decompositions(snakemake.output[0], fits.results)
