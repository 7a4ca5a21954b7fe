"""Keep the features of a real data set whose variance rises above its noise."""

import pandas as pd

from bjmd.fits import storage
from bjmd.paper import feature_test, figures
from bjmd.paper.frame import run_script
from bjmd.report.style import save


def main(snakemake):
    params, output = snakemake.params, snakemake.output
    sources = storage.load_sources(snakemake.input.data)
    runs = pd.read_csv(snakemake.input.scores)
    runs = runs[(runs["fit"] == params.fit) & runs["chosen"]]
    noise = runs.groupby("source")["noise"].mean().to_numpy()
    table = feature_test.select(sources, noise, level=params.level, rule=params.rule)
    storage.save_sources(output.data, feature_test.filtered(sources, table["kept"]))
    table.to_csv(output.table, index=False)
    limits = feature_test.threshold(sources, noise, params.level)
    save(figures.selection(table, sources.names, noise, limits), output.svg, output.png)


run_script(main, snakemake)
