"""Run one fit before and after the feature test, and try its noise in the test, on some draws of
the small synthetic data with more and more features of pure noise.
"""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.failures import noted
from bjmd_paper.frame import run_script


def main(snakemake):
    job = dict(snakemake.params.job)
    fit = snakemake.wildcards.fit
    first = int(snakemake.wildcards.first)
    last = int(snakemake.wildcards.last)
    extras = job.pop("extras")
    seed = snakemake.params.seed
    with noted(f"{fit} on draws {first} to {last} for the feature test", snakemake.output):
        draws.warm_up(job["jobs"], seed)
        found = [
            draws.feature_tables(draw, extra, seed=seed, **job)
            for draw in range(first, last + 1)
            for extra in extras
        ]
        passed, auc = map(pd.concat, zip(*found, strict=True))
        # the job of the test's own fit also has the test with the true noise
        ours = [fit, "truth"] if fit == job["fit"] else [fit]
        passed[passed["noise_from"].isin(ours)].to_csv(snakemake.output.passed, index=False)
        auc[auc["fit"] == fit].to_csv(snakemake.output.auc, index=False)


run_script(main, snakemake)
