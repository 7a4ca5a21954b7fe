"""Keep the features of a real data set whose variance rises above its noise."""

from bjmd.errors import FitError
from bjmd.results import storage
from bjmd_paper import failures, feature_test, scores
from bjmd_paper.frame import script

params = snakemake.params
with script(snakemake):
    sources = storage.load_sources(snakemake.input.data)
    results = failures.results(snakemake.input.fits)
    if not results:
        raise FitError(f"the feature test needs the noise of {params.fit}, which failed")
    scored = scores.runs_table(sources, results, {params.fit: params.best})
    noise = scores.mean_noise(scored, params.fit)
    table = feature_test.feature_table(sources, noise, level=params.level, rule=params.rule)
    table.to_csv(snakemake.output.table, index=False)
    storage.save_sources(snakemake.output.data, feature_test.filtered(sources, table["kept"]))
