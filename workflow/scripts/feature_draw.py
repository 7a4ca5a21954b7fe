"""Try the feature test on some draws of the small synthetic data, with more and more features of
pure noise.
"""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.frame import run_script


def main(snakemake):
    job = dict(snakemake.params.job)
    numbers = range(int(snakemake.wildcards.first), int(snakemake.wildcards.last) + 1)
    extras = job.pop("extras")
    seed = snakemake.params.seed
    draws.warm_up(job["jobs"], seed)
    found = [
        draws.feature_tables(draw, extra, seed=seed, **job) for draw in numbers for extra in extras
    ]
    for path, tables in zip(
        (snakemake.output.passed, snakemake.output.auc), zip(*found, strict=True), strict=True
    ):
        pd.concat(tables).to_csv(path, index=False)


run_script(main, snakemake)
