"""Run one fit before and after the feature test, and try its noise in the test, on some draws of
the small synthetic data with more and more features of pure noise.
"""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.failures import noted
from bjmd_paper.frame import numbers_of, script

fit = snakemake.wildcards.fit
job = dict(snakemake.params.job)
extras = job.pop("extras")
seed = snakemake.params.seed
numbers = numbers_of(snakemake.wildcards)
what = f"{fit} on draws {numbers[0]} to {numbers[-1]} for the feature test"
with script(snakemake), noted(what, snakemake.output):
    draws.warm_up(job["jobs"], seed)
    tables = [
        draws.feature_tables(draw, extra, seed=seed, **job) for draw in numbers for extra in extras
    ]
    passed, auc = map(pd.concat, zip(*tables, strict=True))
    # the job of the test's own fit also has the test with the true noise
    ours = [fit, "truth"] if fit == job["fit"] else [fit]
    passed[passed["noise_from"].isin(ours)].to_csv(snakemake.output.passed, index=False)
    auc[auc["fit"] == fit].to_csv(snakemake.output.auc, index=False)
