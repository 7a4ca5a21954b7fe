"""Keep the features of a real data set whose variance rises above its noise."""

import pandas as pd

from bjmd import plots, selection, storage
from bjmd.workflow.frame import run_script


def main(snakemake):
    params, output = snakemake.params, snakemake.output
    sources = storage.load_sources(snakemake.input.data)
    runs = pd.read_csv(snakemake.input.scores)
    runs = runs[(runs["fit"] == params.fit) & runs["chosen"]]
    noise = runs.groupby("source")["noise"].mean().to_numpy()
    table = selection.select(sources, noise, level=params.level, rule=params.rule)
    storage.save_sources(output.data, selection.filtered(sources, table["kept"]))
    table.to_csv(output.table, index=False)
    limits = selection.threshold(sources, noise, params.level)
    plots.save(plots.selection(table, sources.names, noise, limits), output.svg, output.png)


run_script(main, snakemake)
