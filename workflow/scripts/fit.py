"""Run a chunk of the restarts of one fit on one data set."""

from bjmd.inference import restarts
from bjmd.results import storage
from bjmd_paper.frame import run_script
from bjmd_paper.metric import auc_watch
from bjmd_paper.nonnegative import nonnegative


def main(snakemake):
    job = snakemake.params.job
    first = int(snakemake.wildcards.first)
    last = int(snakemake.wildcards.last)
    sources = storage.load_sources(snakemake.input.data)
    if job["nonnegative"] is not None:
        sources = nonnegative(sources, job["nonnegative"])
    options = job["options"]
    seed = snakemake.params.seed
    if (
        "auto" in options.values()
    ):  # chosen with the seed of the config, so that all chunks choose the same
        from bjmd.analysis import automatic  # whose imports take longer than most fits

        options, _ = automatic.resolved(
            job["method"], sources, job["n_components"], options, seed=seed, jobs=snakemake.threads
        )
    results = restarts.run(
        job["method"],
        sources,
        job["n_components"],
        n_restarts=last - first + 1,
        seed=seed + first,
        jobs=snakemake.threads,
        watch=auc_watch(sources.labels) if job["method"].startswith("advi") else None,
        **options,
    )
    storage.save_decompositions(snakemake.output[0], results)


run_script(main, snakemake)
