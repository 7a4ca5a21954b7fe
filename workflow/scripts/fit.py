"""Run a chunk of the restarts of one fit on one data set."""

from bjmd.analysis import fitting
from bjmd.results import storage
from bjmd_paper.failures import noted
from bjmd_paper.frame import run_script
from bjmd_paper.metric import auc_watch
from bjmd_paper.nonnegative import nonnegative


def main(snakemake):
    job = snakemake.params.job
    wildcards = snakemake.wildcards
    first = int(wildcards.first)
    last = int(wildcards.last)
    sources = storage.load_sources(snakemake.input.data)
    what = f"{wildcards.fit} on {wildcards.dataset}, restarts {first} to {last}"
    with noted(what, snakemake.output):
        if job["nonnegative"] is not None:
            sources = nonnegative(sources, job["nonnegative"])
        watch = auc_watch(sources.labels) if job["method"].startswith("advi") else None
        fits = fitting.fit(
            job["method"],
            sources,
            job["n_components"],
            n_restarts=last - first + 1,
            seed=snakemake.params.seed + first,
            jobs=snakemake.threads,
            search=False,
            watch=watch,
            **job["options"],
        )
        storage.save_decompositions(snakemake.output[0], fits.results)


run_script(main, snakemake)
