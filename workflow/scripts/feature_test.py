"""Keep the features of a real data set whose variance rises above its noise."""

import pandas as pd

from bjmd.results import storage
from bjmd_paper import feature_test, scores
from bjmd_paper.frame import run_script


def main(snakemake):
    params = snakemake.params
    sources = storage.load_sources(snakemake.input.data)
    noise = scores.mean_noise(pd.read_csv(snakemake.input.scores), params.fit)
    table = feature_test.feature_table(sources, noise, level=params.level, rule=params.rule)
    table.to_csv(snakemake.output.table, index=False)
    storage.save_sources(snakemake.output.data, feature_test.filtered(sources, table["kept"]))


run_script(main, snakemake)
