"""Put the memberships of all fits on one data set beside the true shares."""

from pathlib import Path

import pandas as pd

from bjmd.results import storage
from bjmd_paper import failures, shares
from bjmd_paper.frame import run_script


def main(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    true = pd.read_csv(snakemake.input.truth, index_col="sample")
    results = {fit: [] for fit in snakemake.params.best}
    for path in failures.succeeded(snakemake.input.fits):
        results[Path(path).parent.name] += storage.load_decompositions(path)
    results = {fit: runs for fit, runs in results.items() if runs}
    table = shares.tidy(true, sources, results, snakemake.params.best)
    table.to_csv(snakemake.output[0], index=False, float_format="%.6g")


run_script(main, snakemake)
