"""Try the feature test on one draw of the small synthetic data, with more and more features of pure noise."""

import pandas as pd

from bjmd_paper import draws
from bjmd_paper.frame import run_script


def main(snakemake):
    job = dict(snakemake.params.job)
    draw, extras = int(snakemake.wildcards.draw), job.pop("extras")
    found = [draws.feature_tables(draw, extra, seed=snakemake.params.seed, **job) for extra in extras]
    for path, tables in zip((snakemake.output.passed, snakemake.output.auc), zip(*found, strict=True), strict=True):
        pd.concat(tables).to_csv(path, index=False)


run_script(main, snakemake)
